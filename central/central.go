// Package central renders tier 3: one of the Prometheus servers that see the
// whole fleet, alert on it, and are asked by the remediator. It renders only;
// the operator applies.
package central

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// Options describe one central server.
type Options struct {
	// Replica is the name of this central, Replicas the names of all of them.
	// It becomes the external label central_replica.
	Replica  string
	Replicas []string
	// Interval of scraping and of rules: whole seconds, 1 s to 40 s.
	Interval time.Duration
	// APIServer of the hub, which the central runs in.
	APIServer promcfg.APIServer
	// Geographies are the domains of the cascades.
	Geographies []string
	// CascadeShards are the cascades of each geography that are expected. A geography that
	// is not in it has the one called 0.
	CascadeShards map[string][]int
	// Cells are all that the fleet should have, reachable or not, in any order.
	Cells []Cell
	// ClustersPerCell is the most business clusters that one cell hosts; the
	// size limit of a link follows from it. Zero means 500.
	ClustersPerCell uint
	// Link is how the cascades' series come here. Where it is pushed, cascades are
	// only asked whether they answer.
	Link promcfg.Link
	// Reads has cascades read all the same where the link is pushed: not all of them
	// write yet.
	Reads bool
	// LongTerm are stores that everything recorded is written to, in any order.
	LongTerm []LongTerm
	// Alertmanagers is how many there should be in the hub, found by their pods, each
	// of which is sent every alert.
	Alertmanagers uint
	// Existing are Alertmanagers of others that are sent every alert as well, in any
	// order.
	Existing []Alertmanager
	// Robots are those that the relay should tell, in any order.
	Robots []string
	// Contract says what may cross. Nil means the one that is built in.
	Contract *rules.Contract
	// Static names the targets outright, where there is no API server to
	// discover pods. Nil means discovery.
	Static *Static
}

// Cell is one cell of the fleet.
type Cell struct {
	Geography, Region, Name string
	// Shards are how many parts the cell's edge has, all of which are expected.
	// Zero means one.
	Shards uint
	// Replicas are how many servers watch each part, all of which are expected.
	// Zero means that it is not known.
	Replicas uint
}

// Static are the addresses, host:port, that a central uses without discovery.
type Static struct {
	// Cascades are the servers of each geography.
	Cascades map[string][]string
	// Centrals are the servers by replica.
	Centrals map[string]string
	// Alertmanagers are sent every alert, each of them.
	Alertmanagers []string
}

// Render gives the configuration and rules of a central. The order of
// geographies and cells does not matter. It refuses a cell that is there twice
// or is of a geography that there is not, naming it.
func Render(o Options) (promcfg.Files, error) {
	o = o.normalized()
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("central %q: %w", o.Replica, err)
	}
	global, err := promcfg.NewGlobal(o.Interval, map[string]string{"central_replica": o.Replica})
	if err != nil {
		return nil, fmt.Errorf("central %q: %w", o.Replica, err)
	}
	contract, err := o.Contract.OrBuiltIn()
	if err != nil {
		return nil, err
	}
	files, err := contract.Files(rules.Central, o.Interval, constants(o))
	if err != nil {
		return nil, err
	}
	return promcfg.Config{
		Global:        global,
		RuleFiles:     rules.RuleFiles(rules.Central, files),
		Alerting:      alertmanagers(o),
		ScrapeConfigs: scrapes(o, contract),
		RemoteWrite:   stores(o, contract),
		Storage:       o.storage(),
	}.With(files)
}

func (o Options) normalized() Options {
	o.ClustersPerCell = cmp.Or(o.ClustersPerCell, rules.DefaultClustersPerCell)
	o.Replicas = slices.Sorted(slices.Values(o.Replicas))
	o.Geographies = slices.Sorted(slices.Values(o.Geographies))
	o.Cells = slices.SortedFunc(slices.Values(o.Cells), func(a, b Cell) int { return cmp.Compare(a.Name, b.Name) })
	o.Existing = slices.SortedFunc(slices.Values(o.Existing), func(a, b Alertmanager) int { return cmp.Compare(a.Name, b.Name) })
	o.Robots = slices.Sorted(slices.Values(o.Robots))
	return o
}

// constants are what the central should hear of, whatever it hears.
func constants(o Options) []rules.Constant {
	out := []rules.Constant{
		{Record: "fleet:interval:seconds", Value: o.Interval.Seconds()},
		{Record: "fleet:cells_expected:count", Value: float64(len(o.Cells))},
	}
	out = append(out, told(o)...)
	for _, r := range o.Replicas {
		out = append(out, expected("fleet:central_expected:info", map[string]string{"central": r}))
	}
	cells := map[string]float64{}
	for _, c := range o.Cells {
		cells[c.Geography]++
		out = append(out, expected("fleet:cell_expected:info", c.labels()))
		for shard := range max(1, c.Shards) {
			labels := c.labels()
			labels["edge_shard"] = strconv.FormatUint(uint64(shard), 10)
			out = append(out, expected("fleet:edge_expected:info", labels))
			if c.Replicas > 1 { // one alone is missed with its cell
				out = append(out, rules.Constant{Record: "cell:edges_expected:count", Labels: labels, Value: float64(c.Replicas)})
			}
		}
	}
	for _, g := range o.Geographies {
		labels := map[string]string{"geography": g}
		out = append(out, rules.Constant{Record: "geography:cells_expected:count", Labels: labels, Value: cells[g]})
		for _, shard := range o.shards(g) {
			out = append(out, expected("fleet:cascade_expected:info", map[string]string{"geography": g, "cascade_shard": strconv.Itoa(shard)}))
		}
	}
	return out
}

func expected(record string, labels map[string]string) rules.Constant {
	return rules.Constant{Record: record, Labels: labels, Value: 1}
}

func (c Cell) labels() map[string]string {
	return map[string]string{"geography": c.Geography, "region": c.Region, "cell": c.Name}
}

// shards are the cascades of a geography, sorted.
func (o Options) shards(geography string) []int {
	shards, known := o.CascadeShards[geography]
	if !known {
		return []int{0}
	}
	return slices.Sorted(slices.Values(shards))
}
