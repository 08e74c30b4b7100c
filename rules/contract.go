package rules

import (
	"fmt"
	"slices"
)

// Tier is one of the three tiers of the federation.
type Tier string

// The tiers, from the bottom to the top.
const (
	Edge    Tier = "edge"
	Cascade Tier = "cascade"
	Central Tier = "central"
)

// Tiers are the tiers, from the bottom to the top.
func Tiers() []Tier { return []Tier{Edge, Cascade, Central} }

func (t Tier) rank() int { return slices.Index(Tiers(), t) }

// Labels that say who told a series, not what it is about. Every server of a
// tier adds its own to what leaves it, and every reader aggregates them away.
const (
	LabelEdgeReplica    = "edge_replica"
	LabelEdgeShard      = "edge_shard"
	LabelCascadeReplica = "cascade_replica"
	LabelCascadeShard   = "cascade_shard"
	LabelCentralReplica = "central_replica"
)

// Tellers are the labels that say who told a series.
func Tellers() []string {
	return []string{LabelEdgeReplica, LabelEdgeShard, LabelCascadeReplica, LabelCascadeShard, LabelCentralReplica}
}

// MaxPerCluster is the most series that a central may hold of one business
// cluster, exceptions apart: it is what the size of a central follows from.
const MaxPerCluster = 60

// Contract declares every series that rules record and every raw series that
// they may read.
type Contract struct {
	Series []Series `yaml:"series"`
	Raw    []Raw    `yaml:"raw"`
	// own are the rule files of WithOwn.
	own map[Tier]map[string][]byte
}

// Kind is what the values of a series are.
type Kind string

// The kinds of series.
const (
	Gauge     Kind = "gauge"
	Counter   Kind = "counter"
	Info      Kind = "info"      // always 1; the labels say it
	Histogram Kind = "histogram" // classic: the name is that of _bucket, _sum and _count
	Native    Kind = "native"    // native histogram: one series
)

// Names are the names of the series that one declared name stands for.
func (k Kind) Names(declared string) []string {
	if k != Histogram {
		return []string{declared}
	}
	return []string{declared + "_bucket", declared + "_count", declared + "_sum"}
}

// Series is one recorded series.
type Series struct {
	Name string `yaml:"name"`
	Kind Kind   `yaml:"kind"`
	Unit string `yaml:"unit"`
	Help string `yaml:"help"`
	// Labels are all that the series has above the tier that records it, save
	// those of Tellers that are not among them, which are there beside them and
	// mean nothing, and save le.
	Labels []string `yaml:"labels"`
	// From is the tier that records it, To the highest tier it reaches.
	From Tier `yaml:"from"`
	To   Tier `yaml:"to"`
	Max  Max  `yaml:"max"`
	// Exception is a series that is there only where something is wrong.
	Exception bool `yaml:"exception,omitempty"`
	// Natural is a series whose values are finite numbers from nought on, because
	// centrals sum them up.
	Natural bool `yaml:"natural,omitempty"`
	// Lesser is a series of which less is worse: where servers that watch the same
	// tell different values, the least of them counts, and not the greatest.
	Lesser bool `yaml:"lesser,omitempty"`
	// Rendered is a series that no rule records: it comes from the topology.
	Rendered bool `yaml:"rendered,omitempty"`
}

// Max is the most series of one name at one source.
type Max struct {
	// Per is cluster, cell, geography or fleet.
	Per    string `yaml:"per"`
	Series uint   `yaml:"series"`
}

// Raw is one scraped series that rules may read.
type Raw struct {
	Name string `yaml:"name"`
	// Kind says that the name stands for the series of a histogram. It may be unset.
	Kind Kind `yaml:"kind,omitempty"`
	// Tier that scrapes it: edge, cascade, central, or every.
	Tier   Tier     `yaml:"tier"`
	Source string   `yaml:"source"`
	Help   string   `yaml:"help"`
	Labels []string `yaml:"labels"`
	// Open is a series that has more labels than the declared ones, which depend
	// on what it is about.
	Open bool `yaml:"open,omitempty"`
}

// everyTier is the tier of raw series that each Prometheus has by itself.
const everyTier Tier = "every"

// ContractFile is the name of the contract among the files that are built in.
const ContractFile = "contract.yaml"

// ContractSource is the contract that is built in, as it is written.
func ContractSource() ([]byte, error) {
	raw, err := files.ReadFile(ContractFile)
	if err != nil {
		return nil, fmt.Errorf("reading the contract: %w", err)
	}
	return raw, nil
}

// Load gives the contract that is built in.
func Load() (Contract, error) {
	c, err := builtIn()
	// The lists are the caller's own, to add to.
	return Contract{Series: slices.Clone(c.Series), Raw: slices.Clone(c.Raw)}, err
}
