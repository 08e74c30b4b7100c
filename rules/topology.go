package rules

import (
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"
)

const (
	topologyStem = "topology"
	// fleetTopology holds, where the topology is divided, what is of no cell. The
	// file called topology is then none of the server's, so that every group of
	// it ends as a whole.
	fleetTopology = topologyStem + "-fleet" + FileSuffix
)

// topology renders the constants, and what counts series that should not be, as one rule
// file; and where the cells are too many for one, as several.
func (c Contract) topology(t Tier, constants []Constant) (map[string][]byte, error) {
	ofCell := func(c Constant) bool { return c.cell() != "" }
	cells := slices.DeleteFunc(slices.Clone(constants), func(c Constant) bool { return !ofCell(c) })
	pieces := Divide(topologyStem, FileSuffix, cells, Constant.cell, Constant.size)
	fleet := TopologyFileName
	if len(pieces) == 1 {
		pieces = map[string][]Constant{fleet: constants}
	} else {
		fleet = fleetTopology
		pieces[fleet] = slices.DeleteFunc(slices.Clone(constants), ofCell)
	}
	out := map[string][]byte{}
	for name, some := range pieces {
		group := topologyGroup(some)
		group.Name = strings.TrimSuffix(name, FileSuffix)
		for _, counted := range []func(Tier) (record, expr string, ok bool){c.undeclared, c.passed, c.impossible} {
			if record, expr, ok := counted(t); ok && name == fleet {
				group.Rules = append(group.Rules, rulefmt.Rule{Record: record, Expr: expr})
			}
		}
		var err error
		if out[name], err = marshal(&rulefmt.RuleGroups{Groups: []rulefmt.RuleGroup{group}}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// cell is the cell that a constant speaks of, if it is one.
func (c Constant) cell() string { return c.Labels["cell"] }

// size is about how many bytes a constant takes in a file.
func (c Constant) size() int {
	const frame, perLabel = 60, 14
	n := frame + len(c.Record)
	for name, value := range c.Labels {
		n += perLabel + len(name) + len(value)
		for _, b := range []byte(value) {
			if b == '"' || b == '\\' || b >= 0x80 { // may be written as an escape
				n += 2
			}
		}
	}
	return n
}

// RuleFiles are the rule files among those of a server of a tier, in the order
// in which it loads them: what is expected comes before what judges by it, and a
// team's own after both.
func RuleFiles(t Tier, files map[string][]byte) []string {
	subjects := FileNames(t)[1:]
	var out, own []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch {
		case !strings.HasSuffix(name, FileSuffix) || slices.Contains(subjects, name):
		case isOwn(name):
			own = append(own, name)
		default:
			out = append(out, name)
		}
	}
	return slices.Concat(out, subjects, own)
}
