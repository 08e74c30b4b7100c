package agent

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	clustersDesc = prometheus.NewDesc("pharos_edge_agent_clusters",
		"Clusters of the cell: refused are those whose name an older Cluster has, watched those that the agent tries to watch. Of these, up are those that it does watch; the others are counted by what keeps it from that, or as unknown while nothing certain is known of them.",
		[]string{"state"}, nil)
	errorsDesc = prometheus.NewDesc("pharos_edge_agent_watch_errors_total",
		"Failures to connect to a business cluster, its kubeconfig included, and of the watch of its nodes and the probes of that watch.", []string{"cluster"}, nil)
	ageDesc = prometheus.NewDesc("pharos_edge_agent_last_sync_age_seconds",
		"Time since the nodes of a business cluster were last known to be up to date.", []string{"cluster"}, nil)
	cellUpDesc = prometheus.NewDesc("pharos_edge_agent_cell_up",
		"Whether the cell's own API server has answered within 30 seconds; otherwise Clusters and Machines are as last seen.", nil, nil)
	ambiguousDesc = prometheus.NewDesc("pharos_edge_agent_ambiguous_machines",
		"Machines whose node another Machine claims, too.", nil, nil)
)

// collector reads the agent when it is scraped, so that a Cluster that is gone
// leaves no series behind.
type collector struct{ agent *Agent }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{clustersDesc, errorsDesc, ageDesc, cellUpDesc, ambiguousDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.agent.state()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	members, refused := c.agent.membership()
	gauge(clustersDesc, float64(len(members)), "watched")
	gauge(clustersDesc, float64(refused), "refused")
	for state, n := range countStates(members, s.clusters) {
		gauge(clustersDesc, float64(n), state)
	}
	gauge(ambiguousDesc, float64(s.ambiguous()))
	now := c.agent.now()
	gauge(cellUpDesc, number(c.agent.cellUp(now)))
	for _, m := range members {
		gauge(ageDesc, m.age(now).Seconds(), m.key.name)
		ch <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(m.errors.Load()), m.key.name)
	}
}

// countStates counts each member once. One that is not up and has no trouble has
// not been tried yet, or is of a cell that does not answer.
func countStates(members []*member, clusters []clusterState) map[string]int {
	up := map[clusterKey]bool{}
	for _, c := range clusters {
		up[clusterKey{c.spec.Namespace, c.spec.Name}] = c.up
	}
	states := map[string]int{"up": 0, "unknown": 0}
	for _, t := range troubles() {
		states[string(t)] = 0
	}
	for _, m := range members {
		t := m.troubled()
		switch {
		case up[m.key.clusterKey]:
			states["up"]++
		case t != "":
			states[string(t)]++
		default:
			states["unknown"]++
		}
	}
	return states
}

// membership returns the members and how many Clusters are refused.
func (a *Agent) membership() ([]*member, int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	members := make([]*member, 0, len(a.members))
	for _, m := range a.members {
		members = append(members, m)
	}
	return members, len(a.refused)
}
