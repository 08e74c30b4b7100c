package lint

import (
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

// checkGroup refuses options by which a group would no longer keep step with the
// tiers, and labels that say of everything in it where it is.
func (f *ruleFile) checkGroup(g rulefmt.RuleGroup, node *yaml.Node) {
	for _, option := range []struct {
		name, why string
		set       bool
	}{
		{"interval", "every tier evaluates at the interval of the Federation, by which it tells what is old", g.Interval != 0},
		{"query_offset", "what a tier tells would be older than the tiers above take it for", g.QueryOffset != nil && *g.QueryOffset != 0},
		{"limit", "a rule that gives more would give nothing; the contract bounds what it may give", g.Limit != 0},
	} {
		if option.set {
			f.found(f.name, rules.Descend(node, option.name).Line, fmt.Sprintf("group %q sets %s: %s; take it out", g.Name, option.name, option.why))
		}
	}
	f.checkStatic(g.Labels, rules.Descend(node, "labels"))
}

// checkStatic refuses labels of rules that their servers add: what is written
// down is the same in every cell.
func (f *ruleFile) checkStatic(static map[string]string, node *yaml.Node) {
	for _, name := range slices.Sorted(maps.Keys(static)) {
		if slices.Contains(places(), name) || slices.Contains(rules.Tellers(), name) {
			f.found(f.name, rules.Descend(node, name).Line, fmt.Sprintf(
				"sets label %q, which says where or by whom a series was made, and is added by the servers; take it out", name))
		}
	}
}

// places are the labels that say what part of the fleet a series is about.
func places() []string { return []string{"geography", "region", "cell"} }
