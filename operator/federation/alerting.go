package federation

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"

	alertmanager "github.com/prometheus/alertmanager/config"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/central/alerting"
	"github.com/pharos-fleet/pharos/central/notify"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/workload"
)

const (
	notifyFolder = "/etc/notify"
	notifyFile   = "notify.yaml"
	// dingTalk is the provider's address; the relay knows the path.
	dingTalk  = "https://oapi.dingtalk.com"
	robotPath = "/robot/send"
	// heartbeatSecret is the folder in which an Alertmanager has the Secret of the
	// heartbeat.
	heartbeatSecret = "heartbeat"
	// existingPrefix and its name make the folder in which a central has the Secret of
	// an Alertmanager that somebody else runs.
	existingPrefix = "alertmanager-"
)

func (p parts) alertmanager() workload.Part {
	return workload.Part{
		Name: "alertmanager", Component: v1alpha1.ComponentAlertmanager, ServiceAccount: "alertmanager",
		Image: p.images.Alertmanager, Port: workload.AlertmanagerPort,
	}
}

func (p parts) notify() workload.Part {
	return workload.Part{
		Name: "notify", Component: v1alpha1.ComponentNotify, ServiceAccount: "notify",
		Image: p.images.Pharos, Port: workload.NotifyPort,
	}
}

// alertmanagers is how many run in the hub. Two, because one that is lost with its node
// would be missed by nobody but the heartbeat. They find each other by DNS.
func alertmanagers(f *v1alpha1.Federation) int32 {
	unset := int32(2)
	if f.Spec.Network.ServiceAddressing == v1alpha1.ServiceClusterIP {
		unset = 1
	}
	return max(0, ptr.Deref(f.Spec.Alerting.Replicas, unset))
}

// relays tells whether there is a robot to relay to.
func relays(f *v1alpha1.Federation) bool { return len(f.Spec.Alerting.DingTalk) > 0 }

func robots(f *v1alpha1.Federation) []string {
	var names []string
	for _, robot := range f.Spec.Alerting.DingTalk {
		names = append(names, robot.Name)
	}
	return names
}

// existing are the Alertmanagers that somebody else runs.
func existing(f *v1alpha1.Federation) []central.Alertmanager {
	var all []central.Alertmanager
	for _, a := range f.Spec.Alerting.Alertmanagers {
		one := central.Alertmanager{Name: a.Name, URL: a.URL}
		if a.BearerTokenSecret != "" {
			one.BearerFile = workload.SecretFile(existingPrefix+a.Name, "token")
		}
		all = append(all, one)
	}
	return all
}

// Unheard are the ways in which what goes wrong would reach nobody.
func Unheard(f *v1alpha1.Federation) []string {
	var out []string
	told := f.Spec.Alerting
	if len(told.DingTalk) == 0 && len(told.Alertmanagers) == 0 {
		out = append(out, "no spec.alerting.dingTalk: nobody is told of any alert, a critical one neither")
	}
	if told.Heartbeat == nil && alertmanagers(f) > 0 {
		out = append(out, "no spec.alerting.heartbeat: nobody notices when alerts cannot be sent any more, which looks as if all were well")
	}
	return out
}

// checkAlerting refuses what the API does not let pass, of an object that is older than
// its rules, and two Secrets in one folder.
func checkAlerting(f *v1alpha1.Federation) error {
	if alertmanagers(f) == 0 && len(f.Spec.Alerting.Alertmanagers) == 0 {
		return workload.Invalidf("spec.alerting.replicas: is 0, and spec.alerting.alertmanagers names none: nobody would be told of anything")
	}
	if alertmanagers(f) > 1 && f.Spec.Network.ServiceAddressing == v1alpha1.ServiceClusterIP {
		return workload.Invalidf("spec.alerting.replicas: is above 1, and without DNS (spec.network.serviceAddressing) Alertmanagers do not find each other")
	}
	for _, s := range f.Spec.LongTerm {
		for _, a := range f.Spec.Alerting.Alertmanagers {
			if s.Name == existingPrefix+a.Name && s.BearerTokenSecret != "" && a.BearerTokenSecret != "" {
				return workload.Invalidf("spec.longTerm: the name %q is that of the folder for the token of spec.alerting.alertmanagers[%s]: choose another", s.Name, a.Name)
			}
		}
	}
	return nil
}

func (h hub) alertingServices() workload.Objects {
	p, parts := place(h.f, h.namespace), partsOf(h.f)
	var objects workload.Objects
	if alertmanagers(h.f) > 0 {
		objects = append(objects, p.Service(parts.alertmanager(), workload.Alertmanager))
	}
	if alertmanagers(h.f) > 1 {
		objects = append(objects, p.AlertmanagerPeers(parts.alertmanager()))
	}
	if relays(h.f) {
		objects = append(objects, p.Service(parts.notify(), workload.Pharos))
	}
	return objects
}

// alerting are the parts that tell people.
func (h hub) alerting(r rendered) workload.Objects {
	p, parts := place(h.f, h.namespace), partsOf(h.f)
	var objects workload.Objects
	if r.alertmanager != nil {
		secrets := map[string]string{}
		if beat := h.f.Spec.Alerting.Heartbeat; beat != nil {
			secrets[heartbeatSecret] = beat.SecretName
		}
		objects = append(objects, p.AlertmanagerServers(workload.Alertmanagers{
			Part: parts.alertmanager(), Replicas: alertmanagers(h.f), Files: r.alertmanager, Secrets: secrets,
		})...)
	}
	if r.notify != nil {
		objects = append(objects, p.Program(relay(parts, h.f, r))...)
	}
	return objects
}

func relay(parts parts, f *v1alpha1.Federation, r rendered) workload.Program {
	secrets := map[string]string{}
	for _, robot := range f.Spec.Alerting.DingTalk {
		secrets[robot.Name] = robot.SecretName
	}
	return workload.Program{
		Part:       parts.notify(),
		Args:       []string{"--config=" + notifyFolder + "/" + notifyFile, "--spool=/var/lib/notify"},
		NoToken:    true,
		Files:      r.notify,
		ConfigPath: notifyFolder,
		Secrets:    secrets,
		SpoolPath:  "/var/lib/notify",
		SpoolSize:  workload.NotifyVolume,
	}
}

func renderAlertmanager(f *v1alpha1.Federation, at Addresses) (promcfg.Files, error) {
	o := alerting.Options{
		Robots:        robots(f),
		GroupWait:     seconds(f.Spec.Alerting.GroupWaitSeconds, 30),
		GroupInterval: seconds(f.Spec.Alerting.GroupIntervalSeconds, 300),
	}
	if at.Notify != "" {
		o.NotifyURL = "http://" + at.Notify
	}
	if h := f.Spec.Alerting.Heartbeat; h != nil {
		o.Heartbeat = &alerting.Heartbeat{URLFile: path.Join(workload.SecretsPath, heartbeatSecret, "url"), Interval: seconds(h.IntervalSeconds, 60)}
	}
	files, err := alerting.Render(o)
	if err != nil {
		return nil, fmt.Errorf("rendering alertmanager: %w", err)
	}
	if _, err := alertmanager.Load(string(files[alerting.ConfigFile])); err != nil {
		return nil, fmt.Errorf("checking the rendered alertmanager: %w", err)
	}
	return files, nil
}

func renderNotify(robots []v1alpha1.DingTalkRobot) (promcfg.Files, error) {
	if len(robots) == 0 {
		return nil, nil
	}
	var c notify.Config
	for _, robot := range robots {
		url, isEndpoint := strings.CutSuffix(cmp.Or(robot.URL, dingTalk+robotPath), robotPath)
		if !isEndpoint {
			return nil, fmt.Errorf("spec.alerting.dingTalk[%s].url: %q does not end in %s", robot.Name, robot.URL, robotPath)
		}
		c.Robots = append(c.Robots, notify.Robot{
			Name: robot.Name, URL: url, AccessTokenFile: workload.SecretFile(robot.Name, "accessToken"), SecretFile: workload.SecretFile(robot.Name, "secret"),
		})
	}
	data, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("rendering notify: %w", err)
	}
	return promcfg.Files{notifyFile: data}, nil
}

func seconds(s *int32, unset int32) time.Duration {
	return time.Duration(ptr.Deref(s, unset)) * time.Second
}
