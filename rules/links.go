package rules

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultClustersPerCell is the most business clusters that one cell hosts,
// where nothing says otherwise.
const DefaultClustersPerCell = 500

// Size is how much feeds one target of a link.
type Size struct {
	// Cells behind the target.
	Cells uint
	// ClustersPerCell is the most business clusters that a cell may host.
	ClustersPerCell uint
	// EdgeReplicas of each shard of an edge each send everything again.
	EdgeReplicas uint
	// EdgeShards of each edge each send what is about the cell, and share its
	// clusters.
	EdgeShards uint
}

// Crossing lists the series that a tier reads from the tier below it, in the
// contract's order.
func (c Contract) Crossing(to Tier) []Series {
	var out []Series
	for _, s := range c.Series {
		if s.From.rank() < to.rank() && s.To.rank() >= to.rank() {
			out = append(out, s)
		}
	}
	return out
}

// Matchers are the match[] parameters of a link into the tier, sorted.
func (c Contract) Matchers(to Tier) []string {
	var out []string
	for _, s := range c.Crossing(to) {
		out = append(out, s.Kind.Names(s.Name)...)
	}
	slices.Sort(out)
	return out
}

// Keep is the expression that the names of all series of a link into the tier
// match, and no other name, as a keep rule of write_relabel_configs wants it:
// anchored at both ends by Prometheus.
func (c Contract) Keep(to Tier) string { return strings.Join(c.Matchers(to), "|") }

// undeclared is the rule that counts what reached a tier from below and is not
// declared, and whether the tier has one. What came from below has the label of
// a place; what a server says of its targets has it as well.
func (c Contract) undeclared(at Tier) (record, expr string, ok bool) {
	place, ok := map[Tier]string{Cascade: "cell", Central: "geography"}[at]
	if !ok {
		return "", "", false
	}
	known := c.Matchers(at)
	for _, s := range c.Series {
		if s.From == at {
			known = append(known, s.Kind.Names(s.Name)...)
		}
	}
	known = append(known, "up", "scrape_.+", "ALERTS", "ALERTS_FOR_STATE")
	return string(at) + ":series_undeclared:count",
		fmt.Sprintf("count({%s!=\"\", __name__!~%q}) or vector(0)", place, strings.Join(known, "|")), true
}

// passed is the rule by which a cascade counts what it has of its cells and hands
// up, as a shard plan counts cells. What its server holds in memory is more: for
// hours what ended, as the cells that went to another shard.
func (c Contract) passed(at Tier) (record, expr string, ok bool) {
	if at != Cascade {
		return "", "", false
	}
	return "cascade:series_passed:count", fmt.Sprintf("count({cell!=\"\", __name__=~%q}) or vector(0)", c.Keep(Central)), true
}

// impossible is the rule by which a cascade counts, for each cell, values that
// cannot be: of natural series those that are below nought, infinite or no
// number. One of them would make a sum what no cell said. It is nought for a cell
// that is expected and tells nothing of the kind.
func (c Contract) impossible(at Tier) (record, expr string, ok bool) {
	var names []string
	for _, s := range c.Crossing(at) {
		if s.Natural {
			names = append(names, s.Name)
		}
	}
	if at != Cascade || len(names) == 0 {
		return "", "", false
	}
	all := fmt.Sprintf("{__name__=~%q}", strings.Join(names, "|"))
	return "cell:values_impossible:count", fmt.Sprintf(
		`count by (geography, region, cell) (%s)
- on (geography, region, cell)
(
  count by (geography, region, cell) (%s >= 0 < Inf)
  or on (geography, region, cell)
  0 * count by (geography, region, cell) (%s)
)`, all, all, all), true
}

// SampleLimit is the most samples that one target of a link into the tier may
// send. Above it Prometheus refuses the whole scrape.
func (c Contract) SampleLimit(to Tier, size Size) uint {
	const meta = 1 // the meta cluster has what a business cluster has
	var ofCluster, ofCell, once uint
	for _, s := range c.Crossing(to) {
		switch s.Max.Per {
		case "cluster":
			ofCluster += s.Max.Series
		case "cell":
			ofCell += s.Max.Series
		default:
			once += s.Max.Series
		}
	}
	perEdge := ofCluster*(size.ClustersPerCell+meta) + ofCell*max(1, size.EdgeShards)
	return perEdge*size.Cells*max(1, size.EdgeReplicas) + once
}

// RawFrom lists the names of the raw series that a Prometheus keeps of a source.
func (c Contract) RawFrom(source string) []string {
	var out []string
	for _, r := range c.Raw {
		if r.Source == source {
			out = append(out, r.Kind.Names(r.Name)...)
		}
	}
	slices.Sort(out)
	return out
}

// Readable refuses a series that a tier does not have, saying where it is.
func (c Contract) Readable(name string, at Tier) error {
	for _, r := range c.Raw {
		switch {
		case !slices.Contains(r.Kind.Names(r.Name), name):
			continue
		case r.Tier != everyTier && r.Tier != at:
			return fmt.Errorf("series %q stays at the %s and cannot be read at the %s", name, r.Tier, at)
		}
		return nil
	}
	for _, s := range c.Series {
		switch {
		case !slices.Contains(s.Kind.Names(s.Name), name):
			continue
		case s.From.rank() > at.rank():
			return fmt.Errorf("series %q is recorded at the %s and cannot be read at the %s", name, s.From, at)
		case s.To.rank() < at.rank():
			return fmt.Errorf("series %q goes no higher than the %s and cannot be read at the %s", name, s.To, at)
		}
		return nil
	}
	return fmt.Errorf("series %q is not declared in contract.yaml", name)
}
