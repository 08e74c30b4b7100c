// Package edge renders tier 1: the Prometheus of one cell, which scrapes the
// meta cluster and, through the edge agent, the business clusters hosted in it.
// It renders only; the operator applies.
package edge

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/lru"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// Options describe one edge server.
type Options struct {
	// Geography, Region and Cell identify the cell. They become external labels.
	Geography, Region, Cell string
	// Replica tells servers of one cell apart. It becomes the external label edge_replica.
	Replica string
	// Shard is which part of the cell the server watches, of Shards. It becomes
	// the external label edge_shard. Zero Shards means one.
	Shard, Shards uint
	// ShardsBeside is the number of shards of a second division, while one takes
	// the other's place: the server watches what is its own by either, so that no
	// cluster is without one. Zero means that there is none.
	ShardsBeside uint
	// Interval of scraping and of rules: whole seconds, 1 s to 40 s.
	Interval time.Duration
	// APIServer of the meta cluster, which the edge runs in.
	APIServer promcfg.APIServer
	// AgentURL is the base URL of the edge agent's Service. Unset means
	// http://edge-agent.pharos-system.svc:9096.
	AgentURL string
	// Link is how the cascades of the cell get what the edge recorded. Where it is
	// pushed, Receivers are those that the edge writes to: each shard that its
	// cell has.
	Link      promcfg.Link
	Receivers []promcfg.Receiver
	// ClustersPerCell is the most business clusters that the cell hosts; the size
	// of the queues follows from it. Zero means 500.
	ClustersPerCell uint
	// Contract says what may leave the edge. Nil means the one that is built in.
	Contract *rules.Contract
	// Targets are servers that no discovery finds.
	Targets []v1alpha1.StaticTarget
	// Unverified are the components of the meta cluster whose certificates the
	// cluster's authority has not signed: kubelet, kube-controller-manager,
	// kube-scheduler. The edge's token is shown to whoever answers for them.
	Unverified []v1alpha1.TargetComponent
	// Skip are components that are not scraped, because the cell's nodes do not
	// have them or the edge cannot reach them.
	Skip []v1alpha1.TargetComponent
	// ObjectState says who tells of nodes and pods. Unset means Agent.
	ObjectState v1alpha1.ObjectStateSource
	// ObjectsFrom is the namespace of the kube-state-metrics that tells of the cell
	// itself. Unset means kube-system.
	ObjectsFrom string
	// Capacity is how much the cell has of what can run out, by pool. What the
	// cell itself tells, CPU and memory, is not here.
	Capacity map[string]float64
	// Size of the cell. Unset means Medium.
	Size v1alpha1.CellSize
	// Memory, made by NewMemory, spares making anew what other edges have as well. Nil
	// remembers nothing.
	Memory *lru.Cache `json:"-"`
	// Static names the targets outright, where there is no API server to
	// discover pods and no agent to discover business clusters. Nil means discovery.
	Static *Static
}

const agentPort = 9096

// Render gives the configuration and rules of an edge. It refuses Options that
// Prometheus could not work with, naming the field.
func Render(o Options) (promcfg.Files, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	global, err := promcfg.NewGlobal(o.Interval, map[string]string{
		"geography": o.Geography, "region": o.Region, "cell": o.Cell,
		"edge_replica": o.Replica, "edge_shard": strconv.FormatUint(uint64(o.Shard), 10),
	})
	if err != nil {
		return nil, fmt.Errorf("edge of cell %q: %w", o.Cell, err)
	}
	contract, err := o.Contract.OrBuiltIn()
	if err != nil {
		return nil, err
	}
	alike, err := o.alike(contract)
	if err != nil {
		return nil, err
	}
	return promcfg.Config{
		Global:        global,
		RuleFiles:     rules.RuleFiles(rules.Edge, alike.files),
		ScrapeConfigs: alike.jobs,
		RemoteWrite:   writes(o, contract),
	}.With(maps.Clone(alike.files))
}

func (o Options) withDefaults() Options {
	o.AgentURL = strings.TrimSuffix(cmp.Or(o.AgentURL, "http://edge-agent.pharos-system.svc:9096"), "/")
	return o
}

// Topology is what the edge's rules must know and cannot measure: it follows from
// Interval, Size and Capacity.
func (o Options) Topology() []rules.Constant {
	out := []rules.Constant{{Record: "edge:interval:seconds", Value: o.Interval.Seconds()}}
	for _, c := range o.components() {
		out = append(out, rules.Constant{
			Record: "edge:sample_limit:count", Labels: map[string]string{"job": c}, Value: float64(limitsOf(c, o.Size).samples),
		})
	}
	for _, pool := range slices.Sorted(maps.Keys(o.Capacity)) {
		out = append(out, rules.Constant{
			Record: "cell:capacity_limit:value", Labels: map[string]string{"pool": pool}, Value: o.Capacity[pool],
		})
	}
	return out
}
