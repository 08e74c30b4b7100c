package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

var (
	clustersDesc = prometheus.NewDesc("pharos_edge_agent_clusters",
		"Clusters of the cell: refused are those whose name an older Cluster has, watched those that the agent tries to watch. Of these, up are those that it does watch; the others are counted by what keeps it from that, or as unknown while nothing certain is known of them.",
		[]string{"state"}, nil)
	errorsDesc = prometheus.NewDesc("pharos_edge_agent_watch_errors_total",
		"Failures to connect to a cluster, its kubeconfig included, of the watches of its nodes and pods, and of the probes of its nodes.", []string{"cluster"}, nil)
	ageDesc = prometheus.NewDesc("pharos_edge_agent_last_sync_age_seconds",
		"Time since the nodes of a cluster were last known to be up to date.", []string{"cluster"}, nil)
	podsKnownDesc = prometheus.NewDesc("pharos_edge_agent_pods_known",
		"Whether the pods of a cluster are listed and watched; 0 where the observer may not, while its nodes are exported all the same.", []string{"cluster"}, nil)
	cellUpDesc = prometheus.NewDesc("pharos_edge_agent_cell_up",
		"Whether the cell's own API server has answered within 30 seconds; otherwise Clusters and Machines are as last seen.", nil, nil)
	ambiguousDesc = prometheus.NewDesc("pharos_edge_agent_ambiguous_machines",
		"Machines whose node another Machine claims, too.", nil, nil)
	scrapesDesc = prometheus.NewDesc("pharos_edge_agent_scrape_failures_total",
		"Scrapes through the proxy that failed, by what was scraped and why.", []string{"cluster", "component", "reason"}, nil)
)

// collector reads the agent when it is scraped, so that a Cluster that is gone
// leaves no series behind.
type collector struct{ agent *Agent }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{clustersDesc, errorsDesc, ageDesc, podsKnownDesc, cellUpDesc, ambiguousDesc, scrapesDesc} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	members, refused := c.agent.membership()
	gauge(clustersDesc, float64(len(members)), "watched")
	gauge(clustersDesc, float64(refused), "refused")
	for state, n := range c.agent.countStates(members) {
		gauge(clustersDesc, float64(n), state)
	}
	gauge(ambiguousDesc, float64(c.agent.ambiguous(members)))
	now := c.agent.now()
	gauge(cellUpDesc, number(c.agent.cellUp(now)))
	for _, m := range append(members, c.agent.meta) {
		gauge(ageDesc, m.age(now).Seconds(), m.key.name)
		gauge(podsKnownDesc, number(m.podsKnown(now)), m.key.name)
		ch <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(m.errors.Load()), m.key.name)
		for kind, n := range m.scrapes.totals() {
			ch <- prometheus.MustNewConstMetric(scrapesDesc, prometheus.CounterValue, float64(n), m.key.name, kind.component, string(kind.reason))
		}
	}
}

// ambiguous counts the machines of watched clusters that name a node and do not
// have it for sure.
func (a *Agent) ambiguous(members []*member) int {
	watched := map[clusterKey]bool{}
	for _, m := range members {
		watched[m.key.clusterKey] = true
	}
	return ambiguous(settle(listOf[*v1alpha1.Machine](a.machines), watched))
}

// countStates counts each member once. One that is not up and has no trouble has
// not been tried yet, or is of a cell that does not answer.
func (a *Agent) countStates(members []*member) map[string]int {
	states := map[string]int{"up": 0, "unknown": 0}
	for _, t := range troubles() {
		states[string(t)] = 0
	}
	now := a.now()
	cellUp := a.cellUp(now)
	for _, m := range members {
		t := m.troubled()
		switch {
		case cellUp && m.isUp(now):
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
	members := make([]*member, 0, len(a.members)+1)
	for _, m := range a.members {
		members = append(members, m)
	}
	return members, len(a.refused)
}
