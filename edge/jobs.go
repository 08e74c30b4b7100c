package edge

import (
	"regexp"
	"slices"
	"strconv"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// source is what is scraped of one component in one way. Components that are
// reached in two ways have two.
type source struct {
	component string
	job       promcfg.ScrapeConfig
}

// jobs are the scrape configurations of an edge.
func jobs(o Options, contract rules.Contract) []promcfg.ScrapeConfig {
	out := []promcfg.ScrapeConfig{self(o).finish(o, contract, false)}
	for _, s := range sources(o) {
		// What the agent says of each cluster is joined with the cluster's own
		// series, which only its shard has.
		out = append(out, s.finish(o, contract, s.component != componentAgent))
	}
	return out
}

// sources are all but the edge itself, which each server scrapes of itself.
func sources(o Options) []source {
	all := slices.Concat([]source{agent(o)}, fromAgent(o), discovered(o))
	if o.Static != nil {
		all = slices.Concat(staticSources(o), kubeStateMetrics(o), controlPlane(o))
	}
	return o.wanted(all)
}

// discovered are the sources that need the rights of the edge's account.
func discovered(o Options) []source {
	return slices.Concat(kubeStateMetrics(o), metaNodes(o), []source{metaAPIServer(o)}, controlPlane(o))
}

// wanted leaves out the components that the cell does without.
func (o Options) wanted(all []source) []source {
	return slices.DeleteFunc(all, func(s source) bool { return slices.Contains(o.Skip, v1alpha1.TargetComponent(s.component)) })
}

// finish gives a source what all of them have: its label job, the shard that it
// falls to, the contract's choice of series, and bounds.
func (s source) finish(o Options, contract rules.Contract, spread bool) promcfg.ScrapeConfig {
	job := s.job
	if job.JobName == "" {
		job.JobName = s.component
	}
	if job.JobName != s.component {
		job.Relabel = append(job.Relabel, promcfg.SetLabel("job", s.component))
	}
	if spread {
		job.Relabel = append(job.Relabel, onlyThisShard(o)...)
	}
	if s.component == componentState || s.component == componentAgentState {
		job.MetricRelabel = append(job.MetricRelabel, countedOnce(o)...)
	}
	job.MetricRelabel = append(job.MetricRelabel, o.keep(contract, s.component)...)
	l := limitsOf(s.component, o.Size)
	job.SampleLimit, job.BodySizeLimit = l.samples, l.body
	return job
}

// self is the server's view of itself. It is not spread: each shard and each
// replica knows its own targets, rules and size, and nobody else's.
func self(o Options) source {
	s := source{component: componentEdge}
	if o.Static != nil {
		s.job.Static = []promcfg.StaticGroup{{Targets: o.Static.Edges, Labels: map[string]string{"cluster": MetaCluster}}}
		return s
	}
	shard := strconv.FormatUint(uint64(o.Shard), 10)
	if o.Shard == 0 {
		shard += "|" // a pod without the label is of the only shard
	}
	s.job.Kubernetes = []promcfg.KubernetesSD{o.pods("edge")}
	s.job.Relabel = append(promcfg.PodAddress(promcfg.Port),
		promcfg.Relabel{SourceLabels: []string{podLabel(v1alpha1.LabelReplica)}, Regex: regexp.QuoteMeta(o.Replica), Action: "keep"},
		promcfg.Relabel{SourceLabels: []string{podLabel(v1alpha1.LabelShard)}, Regex: shard, Action: "keep"},
		promcfg.SetLabel("cluster", MetaCluster),
	)
	return s
}

// agent is the edge agent's own metrics. Its histogram of requests is native,
// which only protobuf carries.
func agent(o Options) source {
	s := source{component: componentAgent, job: nativeHistograms(promcfg.ScrapeConfig{})}
	if o.Static != nil {
		s.job.Static = []promcfg.StaticGroup{{Targets: o.Static.Agents, Labels: map[string]string{"cluster": MetaCluster}}}
		return s
	}
	s.job.Kubernetes = []promcfg.KubernetesSD{o.pods("edge-agent")}
	s.job.Relabel = append(promcfg.PodAddress(agentPort), promcfg.SetLabel("cluster", MetaCluster))
	return s
}

func nativeHistograms(job promcfg.ScrapeConfig) promcfg.ScrapeConfig {
	yes := true
	job.ScrapeNativeHistograms = &yes
	job.ScrapeProtocols = []string{"PrometheusProto", "OpenMetricsText1.0.0", "PrometheusText0.0.4"}
	return job
}

// fromAgent are the components that the agent finds and fetches, because it
// holds the credentials of business clusters: each target is a path of the
// agent with the labels cluster and node. The target is named after these, so
// that an agent which moves to another address does not begin every series anew.
func fromAgent(o Options) []source {
	var out []source
	for _, component := range []string{componentState, componentAPIServer, componentKubelet, componentCadvisor, componentNodeExporter} {
		s := source{component: component}
		s.job.HTTP = []promcfg.HTTPSD{{URL: o.AgentURL + "/sd/" + component, RefreshInterval: promcfg.Duration(o.Interval)}}
		s.job.Static = o.named(component, business)
		s.job.Relabel = []promcfg.Relabel{promcfg.CopyLabel("cluster", "instance"), promcfg.CopyLabel("node", "instance")}
		s = s.spoken()
		if component == componentState {
			s = o.saysLess(s)
		}
		out = append(out, s)
	}
	return out
}

// spoken keeps, of a source that speaks about others, what it says and when it
// was so.
func (s source) spoken() source {
	switch s.component {
	case componentState:
		// The agent's own labels win: it speaks of clusters and nodes.
		s.job.HonorLabels = true
	case componentCadvisor:
		// It looks every ten seconds or so and says when. A container that is
		// gone must end at once all the same.
		s.job.TrackTimestampsStaleness = true
	}
	return s
}

func (o Options) pods(component string) promcfg.KubernetesSD {
	return o.APIServer.Pods(map[string]string{v1alpha1.LabelComponent: component})
}

// podLabel is how Prometheus names a pod's label while it relabels.
func podLabel(name string) string {
	return "__meta_kubernetes_pod_label_" + sanitized.ReplaceAllString(name, "_")
}

func podAnnotation(name string) string {
	return "__meta_kubernetes_pod_annotation_" + sanitized.ReplaceAllString(name, "_")
}
