package rules

import (
	"fmt"
	"slices"
)

// Size is how much feeds one target of a link.
type Size struct {
	// Cells behind the target.
	Cells uint
	// ClustersPerCell is the most business clusters that a cell may host.
	ClustersPerCell uint
	// Replicas of each edge, each of which sends everything again.
	EdgeReplicas uint
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
		out = append(out, s.Name)
	}
	slices.Sort(out)
	return out
}

// SampleLimit is the most samples that one target of a link into the tier may
// send. Above it Prometheus refuses the whole scrape.
func (c Contract) SampleLimit(to Tier, size Size) uint {
	var perCell, once uint
	for _, s := range c.Crossing(to) {
		switch s.Max.Per {
		case "cluster":
			perCell += s.Max.Series * size.ClustersPerCell
		case "cell":
			perCell += s.Max.Series
		default:
			once += s.Max.Series
		}
	}
	return perCell*size.Cells*max(1, size.EdgeReplicas) + once
}

// RawFrom lists the names of the raw series that a Prometheus keeps of a source.
func (c Contract) RawFrom(source string) []string {
	var out []string
	for _, r := range c.Raw {
		if r.Source == source {
			out = append(out, r.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Readable refuses a series that a tier does not have, saying where it is.
func (c Contract) Readable(name string, at Tier) error {
	for _, r := range c.Raw {
		if r.Name == name && r.Tier != everyTier && r.Tier != at {
			return fmt.Errorf("series %q stays at the %s and cannot be read at the %s", name, r.Tier, at)
		}
		if r.Name == name {
			return nil
		}
	}
	for _, s := range c.Series {
		switch {
		case s.Name != name:
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
