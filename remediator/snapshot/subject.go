package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Subject is of what why is asked.
type Subject struct{ kind, cell, cluster, name string }

// ParseSubject reads machine/NAME, node/CLUSTER/NODE or cluster/NAME. A cell may stand
// before the names, for those that several cells have.
func ParseSubject(text string) (Subject, error) {
	kind, rest, _ := strings.Cut(text, "/")
	names := strings.Split(rest, "/")
	s, least := Subject{kind: kind, name: names[len(names)-1]}, 1
	if kind == kindNode {
		least = 2
	}
	known := kind == kindMachine || kind == kindNode || kind == kindCluster
	if !known || len(names) < least || len(names) > least+1 || slices.Contains(names, "") {
		return s, fmt.Errorf("of what to say why: it is %q, where machine/[CELL/]NAME, node/[CELL/]CLUSTER/NODE or cluster/[CELL/]NAME can be asked for", text)
	}
	if len(names) > least {
		s.cell = names[0]
	}
	if kind == kindNode {
		s.cluster = names[len(names)-2]
	}
	return s, nil
}

// String is how it is asked for.
func (of Subject) String() string {
	return strings.Join(slices.DeleteFunc([]string{of.kind, of.cell, of.cluster, of.name}, func(s string) bool { return s == "" }), "/")
}

func (of Subject) in(cell string) Subject {
	of.cell = cell
	return of
}

const (
	kindMachine = "machine"
	kindNode    = "node"
	kindCluster = "cluster"
)

// place is a machine with the cell that it is in.
type place struct {
	cell policy.Cell
	policy.Machine
}

// is says whether a machine is meant, or part of what is.
func (of Subject) is(m policy.Machine) bool {
	switch of.kind {
	case kindNode:
		return m.Cluster == of.cluster && m.Node == of.name
	case kindCluster:
		return m.Cluster == of.name
	default:
		return m.Name == of.name
	}
}

// find are the machines that are meant, all in one cell.
func (s Snapshot) find(of Subject) ([]place, error) {
	var found []place
	var cells []string
	for _, c := range s.Cells {
		for _, m := range c.Machines {
			if of.is(m) && (of.cell == "" || of.cell == c.Name) {
				found = append(found, place{c, m})
				cells = append(cells, c.Name)
			}
		}
	}
	slices.Sort(cells)
	cells = slices.Compact(cells)
	if len(cells) > 1 {
		return nil, fmt.Errorf("cells %s have a %s of this name each: say which, as in %s", strings.Join(cells, ", "), of.kind, of.in(cells[0]))
	}
	return found, nil
}

// unreadable names the cells whose machines were not known.
func (s Snapshot) unreadable() string {
	var cells []string
	for _, c := range s.Cells {
		if c.Err != "" {
			cells = append(cells, c.Name)
		}
	}
	if len(cells) == 0 {
		return ""
	}
	return ", which has none of cells " + strings.Join(cells, ", ") + ": they could not be read"
}
