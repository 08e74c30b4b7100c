package tree

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/crd"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// wrong is what no render writes into a plan, each with its line. Whoever gives a
// plan by hand, or merged it, is told, because a place that cannot be is none: the cell
// would be placed anew, and unread meanwhile.
func (p Plan) wrong(file string, raw []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(document.Content) == 0 {
		return nil // there is nothing in it
	}
	at := lines{file, document.Content[0]}
	errs := p.wrongVolumes(at)
	for _, problem := range p.wrongGeographies() {
		errs = append(errs, fmt.Errorf("%s: %w", at.at(problem.Path), problem.Err))
	}
	return errors.Join(errs...)
}

func (p Plan) wrongGeographies() []crd.Problem {
	var all []crd.Problem
	seen, readers := map[string]bool{}, map[string][]string{}
	for i, g := range p.Geographies {
		under := fmt.Sprintf("geographies[%d]", i)
		switch {
		case g.Name == "":
			all = append(all, problem(under, "has a geography without a name"))
		case seen[g.Name]:
			all = append(all, problem(under+".name", "has geography %q twice, and one of them would be forgotten with its cells: make one of both", g.Name))
		}
		seen[g.Name] = true
		for j, shard := range g.Shards {
			all = append(all, outside(fmt.Sprintf("%s.shards[%d]", under, j), shard, 0, cascade.MaxShard)...)
		}
		all = append(all, wrongCells(under, g)...)
		all = append(all, thirdReaders(under, g, readers)...)
	}
	return all
}

func wrongCells(under string, g v1alpha1.GeographyStatus) []crd.Problem {
	var all []crd.Problem
	seen := map[string]bool{}
	for i, c := range g.Cells {
		at := fmt.Sprintf("%s.cells[%d]", under, i)
		switch {
		case c.Name == "":
			all = append(all, problem(at, "has a cell without a name"))
		case seen[c.Name]:
			all = append(all, problem(at+".name", "has cell %q twice in geography %q", c.Name, g.Name))
		}
		seen[c.Name] = true
		all = append(all, outside(at+".shard", c.Shard, 0, cascade.MaxShard)...)
		all = append(all, outside(at+".edgeShards", c.EdgeShards, 0, workload.MaxDivision)...)
		if c.MovingTo != nil {
			all = append(all, outside(at+".movingTo", *c.MovingTo, 0, cascade.MaxShard)...)
		}
		if c.EdgeShardsBeside != nil {
			all = append(all, outside(at+".edgeShardsBeside", *c.EdgeShardsBeside, 1, workload.MaxDivision)...)
		}
		if c.Reading != "" && c.Reading != v1alpha1.ReadingBeside {
			all = append(all, problem(at+".reading", "is %q, and is %s or is left out", c.Reading, v1alpha1.ReadingBeside))
		}
		if c.Series < 0 {
			all = append(all, problem(at+".series", "is %d, and no cell has less than none", c.Series))
		}
	}
	return all
}

// thirdReaders are the cells of a geography that two others read already: a cell goes from
// one to another, and what is in no step of that would be read no more.
func thirdReaders(under string, g v1alpha1.GeographyStatus, readers map[string][]string) []crd.Problem {
	var all []crd.Problem
	for i, c := range g.Cells {
		by := readers[c.Name]
		if len(by) > 1 && !slices.Contains(by, g.Name) {
			all = append(all, problem(fmt.Sprintf("%s.cells[%d].name", under, i), "has cell %q in geography %q, and geographies %q read it already: a cell is read in two at most, "+
				"that which it leaves and that which it goes to", c.Name, g.Name, by))
		}
		readers[c.Name] = append(by, g.Name)
	}
	return all
}

func (p Plan) wrongVolumes(at lines) []error {
	var errs []error
	for _, folder := range slices.Sorted(maps.Keys(p.Volumes)) {
		for _, server := range slices.Sorted(maps.Keys(p.Volumes[folder])) {
			if size := p.Volumes[folder][server]; size.Sign() <= 0 {
				errs = append(errs, fmt.Errorf("%s: volumes: %s of %s has one of %s: give the size of the one that it has",
					at.walk("volumes", folder, server), server, folder, size.String()))
			}
		}
	}
	return errs
}

func problem(path, format string, args ...any) crd.Problem {
	return crd.Problem{Path: path, Err: fmt.Errorf(format, args...)}
}

func outside(path string, number, lowest, highest int32) []crd.Problem {
	if lowest <= number && number <= highest {
		return nil
	}
	return []crd.Problem{problem(path, "%s: is %d, and must be from %d to %d", path, number, lowest, highest)}
}
