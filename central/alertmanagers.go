package central

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path"
	"strings"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

const alertmanagerPort = 9093

// Alertmanager is one that somebody else runs.
type Alertmanager struct {
	// Name of the Alertmanager, which the label alertmanager of its metrics is.
	Name string
	// URL of its root.
	URL string
	// BearerFile holds the token that is sent, over https only. It is relative to
	// the configuration file.
	BearerFile string
}

// alertmanagers sends every alert to every Alertmanager, never through a
// Service, and takes the replica labels off, so that what both centrals say of
// one thing is one alert.
func alertmanagers(o Options) *promcfg.Alerting {
	out := &promcfg.Alerting{
		AlertRelabelConfigs: []promcfg.Relabel{{Regex: "(edge|cascade|central)_replica", Action: "labeldrop"}},
	}
	timeout := promcfg.Duration(o.Interval)
	switch {
	case o.Static != nil:
		out.Alertmanagers = append(out.Alertmanagers, promcfg.Alertmanager{
			Timeout: timeout, Static: []promcfg.StaticGroup{{Targets: o.Static.Alertmanagers}},
		})
	case o.Alertmanagers > 0:
		out.Alertmanagers = append(out.Alertmanagers, promcfg.Alertmanager{
			Timeout: timeout, Kubernetes: []promcfg.KubernetesSD{o.pods("alertmanager")}, Relabel: promcfg.PodAddress(alertmanagerPort),
		})
	}
	for _, a := range o.Existing {
		at := a.parsed()
		out.Alertmanagers = append(out.Alertmanagers, promcfg.Alertmanager{
			Timeout: timeout, Scheme: at.Scheme, PathPrefix: at.Path, Authorization: a.authorization(),
			Static: []promcfg.StaticGroup{{Targets: []string{hostPort(at)}}},
		})
	}
	return out
}

// tellers scrapes every Alertmanager, and keeps what is declared of them: whoever
// tells people of trouble has troubles, too.
func tellers(o Options, contract rules.Contract) []promcfg.ScrapeConfig {
	var all []promcfg.ScrapeConfig
	switch {
	case o.Static != nil && len(o.Static.Alertmanagers) > 0:
		all = append(all, promcfg.ScrapeConfig{
			JobName: "alertmanager", Static: []promcfg.StaticGroup{{Targets: o.Static.Alertmanagers}},
			Relabel: []promcfg.Relabel{promcfg.CopyLabel("__address__", "alertmanager")},
		})
	case o.Static == nil && o.Alertmanagers > 0:
		all = append(all, promcfg.ScrapeConfig{
			JobName: "alertmanager", Kubernetes: []promcfg.KubernetesSD{o.pods("alertmanager")},
			Relabel: append(promcfg.PodAddress(alertmanagerPort), promcfg.CopyLabel("__meta_kubernetes_pod_name", "alertmanager")),
		})
	}
	for _, a := range o.Existing {
		at := a.parsed()
		all = append(all, promcfg.ScrapeConfig{
			JobName: "alertmanager-" + a.Name, Scheme: at.Scheme, MetricsPath: at.Path + "/metrics", Authorization: a.authorization(),
			Static: []promcfg.StaticGroup{{Targets: []string{hostPort(at)}, Labels: map[string]string{"alertmanager": a.Name}}},
		})
	}
	for i := range all {
		all[i].MetricRelabel = keep(contract, "alertmanager")
	}
	return all
}

// parsed is the URL, which check has found to be one.
func (a Alertmanager) parsed() *url.URL {
	u, err := url.Parse(a.URL)
	if err != nil {
		panic(err)
	}
	u.Path = strings.TrimSuffix(u.Path, "/")
	return u
}

// hostPort is the address of a target, which has a port in any case.
func hostPort(u *url.URL) string {
	usual := map[string]string{"http": "80", "https": "443"}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), usual[u.Scheme]))
}

func (a Alertmanager) authorization() *promcfg.Authorization {
	if a.BearerFile == "" {
		return nil
	}
	return &promcfg.Authorization{CredentialsFile: a.BearerFile}
}

// WrongAlertmanager finds the first of some Alertmanagers that would be sent every
// alert twice, cannot be reached as it is written, or would be sent a token that
// everybody on the way could read. It is -1 when all are well.
func WrongAlertmanager(all []Alertmanager) (int, error) {
	names, addresses := map[string]bool{}, map[string]string{}
	for i, a := range all {
		if err := a.check(); err != nil {
			return i, err
		}
		at := a.address()
		switch first, taken := addresses[at]; {
		case names[a.Name]:
			return i, fmt.Errorf("Alertmanager %q: its name is there twice", a.Name)
		case taken:
			return i, fmt.Errorf("Alertmanager %q: %s is the one called %q already, and would be sent every alert twice: take one of them out", a.Name, a.URL, first)
		}
		names[a.Name], addresses[at] = true, a.Name
	}
	return -1, nil
}

func (o Options) checkAlertmanagers() error {
	if _, err := WrongAlertmanager(o.Existing); err != nil {
		return err
	}
	return checkNames("robot", o.Robots)
}

// address is where the Alertmanager is, however it is spelled. Nothing speaks http
// and https at one port.
func (a Alertmanager) address() string {
	at := a.parsed()
	return promcfg.Endpoint(hostPort(at)) + at.Path
}

func (a Alertmanager) check() error {
	place := fmt.Sprintf("Alertmanager %q", a.Name)
	if err := promcfg.CheckLabelValue(place+": name", a.Name); err != nil {
		return err
	}
	if err := promcfg.CheckURL(place+": URL", a.URL, "http", "https"); err != nil {
		return err
	}
	u := a.parsed()
	switch {
	case u.User != nil || strings.Contains(a.URL, "?"):
		return fmt.Errorf("%s: URL %q has a user or a query, which would be left out: give the address, and credentials as a token", place, u.Redacted())
	case strings.Contains(a.URL, "%") || u.Path != "" && path.Clean(u.Path) != u.Path:
		return fmt.Errorf("%s: URL %q has .., ., an empty step or a percent sign in its path, which a proxy may read otherwise than it is meant: write the path of the Alertmanager itself, plainly", place, a.URL)
	case a.BearerFile != "" && u.Scheme != "https":
		return fmt.Errorf("%s: would send the token in %q over plain http, for everybody to read: say https", place, a.BearerFile)
	}
	return nil
}

// told are what there should be to tell people.
func told(o Options) []rules.Constant {
	ours := o.Alertmanagers
	if o.Static != nil {
		ours = uint(len(o.Static.Alertmanagers))
	}
	out := []rules.Constant{{Record: "central:alertmanagers_expected:count", Value: float64(ours)}}
	for _, robot := range o.Robots {
		out = append(out, expected("central:robot_expected:info", map[string]string{"robot": robot}))
	}
	return out
}
