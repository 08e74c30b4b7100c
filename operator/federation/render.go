package federation

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	alertmanager "github.com/prometheus/alertmanager/config"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
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
)

// addresses are where the Services of the hub are reached, host:port.
type addresses struct {
	centrals map[string]string
	notify   string
}

// rendered is the configuration of every part of the hub, each of it valid.
type rendered struct {
	cascades     map[string]promcfg.Files
	centrals     map[string]promcfg.Files
	alertmanager promcfg.Files
	// notify is nil when there is no robot to relay to.
	notify promcfg.Files
}

// render is pure: the same Federation, cells and addresses give the same bytes.
// Either everything is valid or nothing is rendered.
func render(f *v1alpha1.Federation, cells []v1alpha1.Cell, namespace string, at addresses) (rendered, error) {
	r := rendered{cascades: map[string]promcfg.Files{}, centrals: map[string]promcfg.Files{}}
	api := promcfg.APIServer{URL: f.Spec.Network.APIServerURL, Namespace: namespace}
	var err error
	for _, g := range f.Spec.Geographies {
		if r.cascades[g.Name], err = renderCascade(f, g.Name, cells, api); err != nil {
			return rendered{}, err
		}
	}
	for _, replica := range replicas() {
		if r.centrals[replica], err = renderCentral(f, replica, cells, api); err != nil {
			return rendered{}, err
		}
	}
	if r.alertmanager, err = renderAlertmanager(f, at); err != nil {
		return rendered{}, err
	}
	r.notify, err = renderNotify(f.Spec.Alerting.DingTalk)
	return r, err
}

func renderCascade(f *v1alpha1.Federation, geography string, cells []v1alpha1.Cell, api promcfg.APIServer) (promcfg.Files, error) {
	o := cascade.Options{Geography: geography, Replica: "a", Interval: workload.Interval(f), APIServer: api}
	for _, c := range cells {
		if c.Spec.Geography == geography {
			o.Cells = append(o.Cells, cascade.Cell{Name: c.Name, Region: c.Spec.Region, Endpoints: c.Status.EdgeEndpoints})
		}
	}
	files, err := cascade.Render(o)
	return valid(files, err, "cascade-"+geography)
}

func renderCentral(f *v1alpha1.Federation, replica string, cells []v1alpha1.Cell, api promcfg.APIServer) (promcfg.Files, error) {
	o := central.Options{Replica: replica, Replicas: replicas(), Interval: workload.Interval(f), APIServer: api}
	for _, g := range f.Spec.Geographies {
		o.Geographies = append(o.Geographies, g.Name)
	}
	for _, c := range cells {
		o.Cells = append(o.Cells, central.Cell{Name: c.Name, Region: c.Spec.Region, Geography: c.Spec.Geography})
	}
	files, err := central.Render(o)
	return valid(files, err, "central-"+replica)
}

func valid(files promcfg.Files, err error, name string) (promcfg.Files, error) {
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", name, err)
	}
	if err := promcfg.Validate(files); err != nil {
		return nil, fmt.Errorf("checking the rendered %s: %w", name, err)
	}
	return files, nil
}

func renderAlertmanager(f *v1alpha1.Federation, at addresses) (promcfg.Files, error) {
	o := alerting.Options{
		GroupWait:     seconds(f.Spec.Alerting.GroupWaitSeconds, 30),
		GroupInterval: seconds(f.Spec.Alerting.GroupIntervalSeconds, 300),
	}
	if at.notify != "" {
		o.NotifyURL = "http://" + at.notify
	}
	for _, robot := range f.Spec.Alerting.DingTalk {
		o.Robots = append(o.Robots, robot.Name)
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
		// Relative to the file, as every path inside a configuration.
		secret := "../secrets/" + robot.Name
		c.Robots = append(c.Robots, notify.Robot{
			Name: robot.Name, URL: url, AccessTokenFile: secret + "/accessToken", SecretFile: secret + "/secret",
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
