package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/cell"
	"github.com/pharos-fleet/pharos/operator/federation"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// PlanFile is what a render hands to the next one, at the top of the tree: which
// cascade reads which cell. An operator keeps the same in the status of the
// Federation. A render that began anew would let cells change their cascades with
// no moment at which both read them.
const PlanFile = "plan.yaml"

const planHeader = `# Rendered by Pharos, and read by the next render, which goes on from here: keep
# it in the repository with the rest. Edits are refused by the next render.
`

// Plan is what the last render decided and the next one keeps to.
type Plan struct {
	// Geographies say where each cell is read, as in the status of a Federation.
	Geographies []v1alpha1.GeographyStatus `json:"geographies,omitempty"`
	// Volumes are those that servers have, by the folder that they are rendered
	// into and their names. No StatefulSet's can be changed.
	Volumes map[string]workload.Volumes `json:"volumes,omitempty"`
}

// ReadPlan reads the plan that a render wrote.
func ReadPlan(file string) (Plan, error) {
	raw, err := readRegular(os.OpenFile, file)
	if err != nil {
		return Plan{}, fmt.Errorf("reading the plan of the last render: %w", err)
	}
	var p Plan
	if err := yaml.UnmarshalStrict(raw, &p); err != nil {
		return Plan{}, fmt.Errorf("%s: is no plan that a render wrote: %w; restore it, or give another with --plan", file, err)
	}
	return p, nil
}

// PlanOf reads the plan in a folder that was rendered into before. It is empty
// where nothing was, or before there were plans. One that was written and is
// gone is trouble: to begin anew is a decision, not an accident.
func PlanOf(dir string) (Plan, error) {
	p, err := ReadPlan(filepath.Join(dir, PlanFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	before, err := readManifest(dir)
	if err != nil {
		return Plan{}, err
	}
	if _, written := before[PlanFile]; written {
		return Plan{}, fmt.Errorf("%s was rendered and is gone: without it cells would change their cascades at once, each unread until the other has it; "+
			"restore it from the repository, give a plan with --plan, or render into a new folder to place every cell anew", filepath.Join(dir, PlanFile))
	}
	return Plan{}, nil
}

// file is the plan as it is written: the same bytes for the same plan.
func (p Plan) file() (File, error) {
	raw, err := yaml.Marshal(p)
	if err != nil {
		return File{}, fmt.Errorf("writing down the plan: %w", err)
	}
	return File{PlanFile, append(bytes.Clone([]byte(planHeader)), raw...)}, nil
}

// place decides where each cell is read, from where it was. Moves that are under
// way end when a person says that they may: nobody here can ask a central.
func (t *Tree) place(endMoves bool) error {
	f := &t.fleet.Federation
	var heard federation.Heard
	if endMoves {
		heard = federation.Vouched(f, t.cells)
	}
	var err error
	if t.layouts, err = federation.Plan(f, t.cells, heard); err != nil {
		return fmt.Errorf("%s: %w", t.fleet.At, err)
	}
	// Where edges write, they must know which shards read their cell.
	f.Status.Geographies = federation.Status(f, t.cells, t.layouts, heard)
	return nil
}

// keepVolumes leaves every server the volume that it was made with, unless the
// volume itself is asked for, and says what is asked for and not given.
func (t *Tree) keepVolumes(before map[string]workload.Volumes) (warnings []string, err error) {
	f := &t.fleet.Federation
	hub, err := federation.Volumes(f, t.cells, t.layouts)
	if err != nil {
		return nil, err
	}
	t.volumes = map[string]workload.Volumes{hubFolder: hub}
	set := map[string]bool{}
	for i := range t.cells {
		c := &t.cells[i]
		if asked := cell.Volumes(c, f); len(asked) > 0 {
			t.volumes[cellFolder(c.Name)] = asked
		}
		set[cellFolder(c.Name)] = c.Spec.Edge.Resources.Volume != nil
	}
	for _, folder := range slices.Sorted(maps.Keys(t.volumes)) {
		for _, server := range slices.Sorted(maps.Keys(t.volumes[folder])) {
			asked := t.volumes[folder][server]
			has, known := before[folder][server]
			if !known || set[folder] || folder == hubFolder && federation.SetsVolume(f, server) {
				continue
			}
			t.volumes[folder][server] = has
			if has.Cmp(asked) < 0 {
				warnings = append(warnings, fmt.Sprintf("%s: %s keeps its volume of %s, and what fits into it, where %s is needed: docs/reference/hub.md says how to grow it",
					folder, server, has.String(), asked.String()))
			}
		}
	}
	return warnings, nil
}

// moves tells of the cells that two servers watch, for whom it may concern.
func (t *Tree) moves() []string {
	var out []string
	for _, g := range t.fleet.Federation.Status.Geographies {
		for _, c := range g.Cells {
			if c.MovingTo != nil {
				out = append(out, fmt.Sprintf("geography %s: Cell %q is read by cascade shards %d and %d until a render with --end-moves: "+
					"deploy this one first, and wait until both centrals have had six heartbeats of the cell with cascade_shard=%q", g.Name, c.Name, c.Shard, *c.MovingTo, fmt.Sprint(*c.MovingTo)))
			}
			if c.EdgeShardsBeside != nil {
				out = append(out, fmt.Sprintf("geography %s: the edge of Cell %q is divided in %d and in %d until renders with --end-moves, one for each step: "+
					"deploy this one first, and wait until both centrals have had six heartbeats of every part (edge_shard)", g.Name, c.Name, c.EdgeShards, *c.EdgeShardsBeside))
			}
		}
	}
	return out
}
