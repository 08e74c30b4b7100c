package agent

import (
	"github.com/prometheus/client_golang/prometheus"
)

var (
	clustersDesc = prometheus.NewDesc("pharos_edge_agent_clusters",
		"Clusters of the cell: watched are those that the agent tries to watch, up those it does, refused those whose name an older Cluster has.",
		[]string{"state"}, nil)
	errorsDesc = prometheus.NewDesc("pharos_edge_agent_watch_errors_total",
		"Failures of the watch of a business cluster's nodes and of the probes of that watch.", []string{"cluster"}, nil)
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
	up := 0
	for _, cluster := range s.clusters {
		if cluster.up {
			up++
		}
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	members, refused := c.agent.membership()
	gauge(clustersDesc, float64(len(members)), "watched")
	gauge(clustersDesc, float64(up), "up")
	gauge(clustersDesc, float64(refused), "refused")
	gauge(ambiguousDesc, float64(s.ambiguous()))
	now := c.agent.now()
	gauge(cellUpDesc, number(c.agent.cellUp(now)))
	for _, m := range members {
		gauge(ageDesc, m.age(now).Seconds(), m.key.name)
		ch <- prometheus.MustNewConstMetric(errorsDesc, prometheus.CounterValue, float64(m.errors.Load()), m.key.name)
	}
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
