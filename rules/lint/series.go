package lint

import (
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/pharos-fleet/pharos/rules"
)

// external are the labels that the servers of a tier add to what they send up,
// where a series has none of the name.
func external(t rules.Tier) []string {
	switch t {
	case rules.Edge:
		return []string{"geography", "region", "cell", rules.LabelEdgeReplica, rules.LabelEdgeShard}
	case rules.Cascade:
		return []string{"geography", rules.LabelCascadeReplica, rules.LabelCascadeShard}
	default:
		return nil
	}
}

// tellers are the labels that a series has at a tier because servers of the
// tiers below told it.
func tellers(s rules.Series, at rules.Tier) []string {
	var out []string
	for _, t := range rules.Tiers() {
		if t == at {
			break
		}
		if t == s.From || len(out) > 0 {
			for _, label := range external(t) {
				if slices.Contains(rules.Tellers(), label) {
					out = append(out, label)
				}
			}
		}
	}
	return out
}

// scraped are the labels that Prometheus gives to everything that it scrapes.
func scraped() []string { return []string{"job", "instance"} }

// atTier is what a series of the contract is like at a tier.
func atTier(c rules.Contract, name string, at rules.Tier) (shape, error) {
	if err := c.Readable(name, at); err != nil {
		return shape{}, err
	}
	for _, r := range c.Raw {
		if slices.Contains(r.Kind.Names(r.Name), name) {
			s := vector(withLe(r.Kind, r.Name, name, r.Labels))
			s.open = r.Open
			return s.carrying(scraped()), nil
		}
	}
	i := slices.IndexFunc(c.Series, func(s rules.Series) bool { return slices.Contains(s.Kind.Names(s.Name), name) })
	declared := c.Series[i]
	s := vector(withLe(declared.Kind, declared.Name, name, declared.Labels))
	s.worst = map[string]bool{name: declared.Lesser}
	switch {
	case at != declared.From:
		return s.carrying(slices.Concat(tellers(declared, at), scraped())), nil
	case at == rules.Edge:
		return s.without(external(at)...), nil
	default:
		// What the tier's own servers add is not there yet, unless the rule or the
		// topology says it.
		return s.perhaps(external(at)...), nil
	}
}

// withLe adds the label that the buckets of a histogram have.
func withLe(kind rules.Kind, declared, name string, labels []string) []string {
	if kind == rules.Histogram && name == declared+"_bucket" {
		return append(slices.Clone(labels), model.BucketLabel)
	}
	return labels
}

// selector is what a vector selector gives.
func (i *inference) selector(n *parser.VectorSelector) shape {
	name, ok := nameOf(n)
	if !ok {
		i.wrong(n, "selects series by something else than one name, so nobody can tell which; name one series")
		return unknown()
	}
	s, err := i.lookup(name)
	if err != nil {
		i.wrong(n, "%s", err)
		return unknown()
	}
	for _, m := range n.LabelMatchers {
		if m.Name == model.MetricNameLabel {
			continue
		}
		if !s.has(m.Name) {
			i.wrong(n, "selects by label %q, which %s does not have; it has %s", m.Name, name, s)
			continue
		}
		if m.Type == labels.MatchEqual && m.Value == "" {
			s = s.without(m.Name)
		}
	}
	return s
}

// nameOf is the one name that a selector asks for.
func nameOf(n *parser.VectorSelector) (string, bool) {
	if n.Name != "" {
		return n.Name, true
	}
	for _, m := range n.LabelMatchers {
		if m.Name == model.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value, true
		}
	}
	return "", false
}

func (i *inference) wrong(n parser.Node, format string, args ...any) {
	i.problems = append(i.problems, problem{int(n.PositionRange().Start), fmt.Sprintf(format, args...)})
}
