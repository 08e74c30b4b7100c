package edge

import (
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

func jobs(o Options, contract rules.Contract) []promcfg.ScrapeConfig {
	all := []promcfg.ScrapeConfig{
		self(o),
		objectState(o),
		agent(o),
		business(o, contract),
	}
	if o.Static == nil {
		all = append(all, metaAPIServer(o, contract))
	}
	return all
}

func self(o Options) promcfg.ScrapeConfig {
	job := promcfg.ScrapeConfig{JobName: "edge"}
	if o.Static != nil {
		job.Static = []promcfg.StaticGroup{{Targets: o.Static.Edges}}
		return job
	}
	job.Kubernetes = []promcfg.KubernetesSD{o.pods("edge")}
	job.Relabel = promcfg.PodAddress(promcfg.Port)
	return job
}

// objectState has no labels of its own to add: what the agent says about
// clusters and nodes is kept as it is.
func objectState(o Options) promcfg.ScrapeConfig {
	job := agent(o)
	job.JobName = "edge-agent"
	job.MetricsPath = "/state/metrics"
	job.HonorLabels = true
	return job
}

func agent(o Options) promcfg.ScrapeConfig {
	job := promcfg.ScrapeConfig{JobName: "edge-agent-self"}
	if o.Static != nil {
		job.Static = []promcfg.StaticGroup{{Targets: o.Static.Agents}}
		return job
	}
	job.Kubernetes = []promcfg.KubernetesSD{o.pods("edge-agent")}
	job.Relabel = promcfg.PodAddress(agentPort)
	return job
}

// business is where the API servers of business clusters are read, through the
// agent, which holds the credentials and gives each target its label cluster.
func business(o Options, contract rules.Contract) promcfg.ScrapeConfig {
	job := promcfg.ScrapeConfig{JobName: "business", MetricRelabel: keepAPIServer(contract)}
	if o.Static == nil {
		job.HTTP = []promcfg.HTTPSD{{URL: o.AgentURL + "/sd/business", RefreshInterval: promcfg.Duration(o.Interval)}}
		return job
	}
	for _, cluster := range slices.Sorted(maps.Keys(o.Static.Business)) {
		job.Static = append(job.Static, promcfg.StaticGroup{
			Targets: []string{o.Static.Business[cluster]},
			Labels:  map[string]string{"cluster": cluster, "component": "kube-apiserver"},
		})
	}
	return job
}

func metaAPIServer(o Options, contract rules.Contract) promcfg.ScrapeConfig {
	return promcfg.ScrapeConfig{
		JobName:       "meta-apiserver",
		Scheme:        "https",
		Authorization: &promcfg.Authorization{CredentialsFile: promcfg.TokenFile},
		TLS:           &promcfg.TLS{CAFile: promcfg.CAFile},
		Static: []promcfg.StaticGroup{{
			Targets: []string{hostPort(o.APIServer.BaseURL())},
			Labels:  map[string]string{"component": "kube-apiserver"},
		}},
		MetricRelabel: keepAPIServer(contract),
	}
}

// keepAPIServer keeps the declared series: an API server exports tens of
// thousands, and an edge reads many of them.
func keepAPIServer(contract rules.Contract) []promcfg.Relabel {
	return []promcfg.Relabel{{
		SourceLabels: []string{"__name__"},
		Regex:        strings.Join(contract.RawFrom("kube-apiserver"), "|"),
		Action:       "keep",
	}}
}

func (o Options) pods(component string) promcfg.KubernetesSD {
	return o.APIServer.Pods(map[string]string{"app.kubernetes.io/component": component})
}

// hostPort is the address of a URL that check has accepted.
func hostPort(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), "443")
}
