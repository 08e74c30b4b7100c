package edge

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

const (
	// componentAgentState is what the agent says of a cluster where kube-state-metrics
	// says the rest. The label job of object state is of who tells the objects, so that
	// a cluster without them is not known, whatever the agent says of it.
	componentAgentState = "edge-agent-state"
	// componentKubeStateMetrics is how a cell names servers of it.
	componentKubeStateMetrics = string(v1alpha1.ComponentKubeStateMetrics)
	// objectPrefix begins the names of series that kube-state-metrics has.
	objectPrefix = "kube_"
)

// fromKubeStateMetrics tells whether objects are told by kube-state-metrics.
func (o Options) fromKubeStateMetrics() bool {
	return o.ObjectState == v1alpha1.ObjectStateKubeStateMetrics
}

// saysLess asks the agent for what kube-state-metrics does not know: whether a
// cluster is watched, its certificates, its machines, the addresses of the cell.
func (o Options) saysLess(s source) source {
	if !o.fromKubeStateMetrics() {
		return s
	}
	s.job.JobName, s.component = componentState, componentAgentState
	s.job.Params = map[string][]string{"objects": {"none"}}
	return s
}

// kubeStateMetrics are the servers of it: the meta cluster's, by the label that the
// usual ways to install it give, in one namespace, because control planes that the
// cell hosts may have their own of that label; those of business clusters that run as pods of the
// cell, by our labels, and what the cell names. They are asked without a token, and
// the labels of the target win: a cluster's owner speaks of no other cluster.
func kubeStateMetrics(o Options) []source {
	if !o.fromKubeStateMetrics() {
		return nil
	}
	own := source{component: componentState, job: promcfg.ScrapeConfig{
		JobName: metaJob(componentKubeStateMetrics), TLS: &promcfg.TLS{SkipVerify: true}, Static: o.named(componentKubeStateMetrics, meta),
	}}
	if o.Static == nil {
		own.job.Kubernetes = []promcfg.KubernetesSD{o.APIServer.PodsIn(cmp.Or(o.ObjectsFrom, kubeSystem), "app.kubernetes.io/name=kube-state-metrics,!"+LabelCluster)}
		own.job.Relabel = append(promcfg.PodAddress(kubeStateMetricsPort), promcfg.SetLabel("cluster", MetaCluster))
	}
	hosted := source{component: componentState, job: o.hostedPods(componentKubeStateMetrics, "http", kubeStateMetricsPort)}
	hosted.job.JobName = componentKubeStateMetrics
	hosted.job.TLS = &promcfg.TLS{SkipVerify: true}
	return slices.DeleteFunc([]source{own, hosted}, func(s source) bool { return len(s.job.Static)+len(s.job.Kubernetes) == 0 })
}

const kubeStateMetricsPort = 8080

// rawOf are the names of the series that are kept of a component. Where two tell of
// the state of a cluster, each is believed what is its own.
func (o Options) rawOf(contract rules.Contract, component string) []string {
	if !o.fromKubeStateMetrics() || component != componentState && component != componentAgentState {
		return namesOf(contract, component)
	}
	return slices.DeleteFunc(contract.RawFrom(componentState), func(name string) bool {
		return strings.HasPrefix(name, objectPrefix) != (component == componentState)
	})
}

// checkRead refuses a target that would not be read.
func (o Options) checkRead(what string, t v1alpha1.StaticTarget) error {
	if t.Component != v1alpha1.ComponentKubeStateMetrics || o.fromKubeStateMetrics() {
		return nil
	}
	return fmt.Errorf("%s: kube-state-metrics at %v would not be read, because the agent tells of objects; set objectState to %s, or take the target out",
		what, t.Addresses, v1alpha1.ObjectStateKubeStateMetrics)
}
