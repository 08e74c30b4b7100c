// Package cascade renders tier 2: the Prometheus of one geography, which reads
// what the edges of its cells recorded and passes it on, with the age of what it
// heard. It renders only; the operator applies.
package cascade

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// Options describe one cascade server.
type Options struct {
	// Geography that the cascade serves.
	Geography string
	// Replica tells servers of one geography apart. It becomes the external
	// label cascade_replica.
	Replica string
	// Shard is which part of the geography the cascade serves. It becomes the
	// external label cascade_shard.
	Shard int
	// Interval of scraping and of rules: whole seconds, 1 s to 40 s.
	Interval time.Duration
	// APIServer of the hub, which the cascade runs in.
	APIServer promcfg.APIServer
	// Cells are all that should feed the geography, reachable or not, in any order.
	Cells []Cell
	// ClustersPerCell is the most business clusters that one cell hosts; the
	// size limit of a link follows from it. Zero means 500.
	ClustersPerCell uint
	// MaxSeries is how many series the server should hold at most. An alert says
	// when it comes near. Zero means DefaultMaxSeriesPerShard.
	MaxSeries uint
	// Link is how the cascade gets what edges recorded. Receivers are the centrals that
	// it writes to: where the link is pushed all of them, and while one takes the place of
	// another those that take it.
	Link      promcfg.Link
	Receivers []promcfg.Receiver
	// ReplicaLabels are the labels by which existing Prometheus servers tell their
	// replicas apart; they become edge_replica. Nil means
	// promcfg.ForeignReplicaLabels.
	ReplicaLabels []string
	// Contract says what may cross. Nil means the one that is built in.
	Contract *rules.Contract
	// Self names the cascade's own servers, host:port, where there is no API
	// server to discover pods. Empty means discovery.
	Self []string
}

// Cell is one cell of the geography.
type Cell struct {
	Name, Region string
	// Shards are how many parts the cell's edge has, all of which are expected.
	// Zero means one.
	Shards uint
	// Endpoints are the cell's edge servers, host:port, each a target of its
	// own. With none, the cell is expected and does not contribute, unless it
	// writes.
	Endpoints []string
	// External is a cell whose edge is an existing Prometheus. It has no labels of
	// ours, so those of the cell are filled in, and it is read.
	External bool
	// Link is how the cell alone is heard of. Unset means that it is read when it
	// is External, and as the Options say otherwise. An existing Prometheus that
	// writes must bear the labels of the cell itself.
	Link promcfg.LinkKind
	// Interval at which an existing Prometheus evaluates its rules. Zero means
	// that of the Options.
	Interval time.Duration
}

// Render gives the configuration and rules of a cascade. The order of cells and
// endpoints does not matter. It refuses a cell or an endpoint that is there
// twice, and names that cannot be labels, naming the place.
func Render(o Options) (promcfg.Files, error) {
	o.ClustersPerCell = cmp.Or(o.ClustersPerCell, rules.DefaultClustersPerCell)
	o.Cells = sorted(o.Cells)
	if o.ReplicaLabels == nil {
		o.ReplicaLabels = promcfg.ForeignReplicaLabels()
	}
	contract, err := o.Contract.OrBuiltIn()
	if err != nil {
		return nil, err
	}
	if err := errors.Join(o.check(), o.checkLink(contract)); err != nil {
		return nil, fmt.Errorf("cascade of geography %q: %w", o.Geography, err)
	}
	global, err := promcfg.NewGlobal(o.Interval, map[string]string{
		"geography": o.Geography, "cascade_replica": o.Replica, "cascade_shard": strconv.Itoa(o.Shard),
	})
	if err != nil {
		return nil, fmt.Errorf("cascade of geography %q: %w", o.Geography, err)
	}
	files, err := contract.Files(rules.Cascade, o.Interval, constants(o))
	if err != nil {
		return nil, err
	}
	ruleFiles := rules.RuleFiles(rules.Cascade, files)
	read, targets, err := edges(o, contract)
	if err != nil {
		return nil, err
	}
	maps.Copy(files, targets)
	return promcfg.Config{
		Global:        global,
		RuleFiles:     ruleFiles,
		ScrapeConfigs: []promcfg.ScrapeConfig{self(o), read},
		RemoteWrite:   writes(o, contract),
		Storage:       o.storage(),
	}.With(files)
}

func sorted(cells []Cell) []Cell {
	out := slices.Clone(cells)
	for i := range out {
		out[i].Endpoints = slices.Sorted(slices.Values(out[i].Endpoints))
	}
	slices.SortFunc(out, func(a, b Cell) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// constants are what the cascade should hear of, whatever it hears.
func constants(o Options) []rules.Constant {
	out := []rules.Constant{{
		Record: "cascade:series_limit:count", Value: float64(cmp.Or(o.MaxSeries, DefaultMaxSeriesPerShard)),
	}}
	for _, c := range o.Cells {
		for shard := range max(1, c.Shards) {
			out = append(out, rules.Constant{
				Record: "geography:edge_expected:info",
				Labels: map[string]string{
					"geography": o.Geography, "region": c.Region, "cell": c.Name, "edge_shard": strconv.FormatUint(uint64(shard), 10),
				},
				Value: 1,
			})
		}
	}
	return out
}
