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
	// Vouched is the step that a person vouched for last, by its ID.
	Vouched string `json:"vouched,omitempty"`
	// Volumes are those that servers have, by the folder that they are rendered
	// into and their names. No StatefulSet's can be changed.
	Volumes map[string]workload.Volumes `json:"volumes,omitempty"`
	// Own are the files of the team's own rules and contract, as ownrules.Set names them.
	Own []string `json:"own,omitempty"`
}

// Check refuses a fleet without any cell where there were some, because that is
// what forgotten cells look like, and who applies the tree removes their edges.
func (p Plan) Check(f Fleet) error {
	cells := 0
	for _, g := range p.Geographies {
		cells += len(g.Cells)
	}
	if cells == 0 || len(f.Cells) > 0 {
		return nil
	}
	return fmt.Errorf("the fleet has no cell, and the tree has %d, whose edges would all be removed: give the Cells with --cells; to take down every cell of a fleet, remove the tree", cells)
}

// ReadPlan reads the plan that a render wrote.
func ReadPlan(file string) (Plan, error) {
	raw, err := readRegular(os.OpenFile, file)
	if err != nil {
		return Plan{}, fmt.Errorf("reading the plan of the last render: %w", err)
	}
	return parsePlan(file, raw)
}

func parsePlan(file string, raw []byte) (Plan, error) {
	var p Plan
	if err := yaml.UnmarshalStrict(raw, &p); err != nil {
		return Plan{}, fmt.Errorf("%s: is no plan that a render wrote: %w; restore it, or give another with --plan", file, err)
	}
	return p, p.wrong(file, raw)
}

// PlanOf reads the plan in a folder that was rendered into before. It is empty
// where nothing was. One that is gone, or that no render wrote, is trouble: to begin
// anew is a decision, not an accident, and a line that an editor or a merge of two
// branches took out would end a move for which nobody has vouched.
func PlanOf(dir string) (Plan, error) {
	file := filepath.Join(dir, PlanFile)
	before, err := readManifest(dir)
	if err != nil {
		return Plan{}, err
	}
	raw, err := readRegular(os.OpenFile, file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Plan{}, lost(dir, before)
	case err != nil:
		return Plan{}, fmt.Errorf("reading the plan of the last render: %w", err)
	}
	p, err := parsePlan(file, raw)
	if err == nil && len(before[PlanFile]) > 0 && !before.wrote(PlanFile, raw) {
		return Plan{}, fmt.Errorf("%s is not as the last render wrote it: it was edited, or two branches were merged, and a move might end for which nobody has vouched; "+
			"take %s and %s of the branch that is deployed from the repository, and render again", file, PlanFile, ManifestFile)
	}
	return p, err
}

// lost is the trouble of a folder that has cascades, or had a plan, and has none.
func lost(dir string, before manifest) error {
	cascades, err := filepath.Glob(filepath.Join(dir, hubFolder, "files", v1alpha1.ComponentCascade+"-*"))
	if err != nil {
		return fmt.Errorf("looking for cascades without a plan: %w", err)
	}
	if len(before[PlanFile]) == 0 && len(cascades) == 0 {
		return nil
	}
	file := filepath.Join(dir, PlanFile)
	return fmt.Errorf("%s is gone, from a folder with %d cascades: without it cells would change their cascades at once, each unread until the other has it; "+
		"restore it from the repository (git log -1 -- %s names the commit that took it away), give a plan with --plan, or render into a new folder to place every cell anew",
		file, len(cascades), file)
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
func (t *Tree) place(vouched bool) error {
	f := &t.fleet.Federation
	var heard federation.Heard
	if vouched {
		heard = federation.Vouched(f, t.cells)
	}
	heard.Contract = t.contract
	var err error
	if t.layouts, err = federation.Plan(f, t.cells, heard); err != nil {
		return fmt.Errorf("%s: %w", t.fleet.At, err)
	}
	anew := len(f.Status.Geographies) == 0
	// A cascade that reads no cell any more goes a step later: what tells the
	// centrals arrives when it arrives.
	t.layouts.Keep(f.Status.Geographies, vouched)
	// Where edges write, they must know which shards read their cell.
	f.Status.Geographies = federation.Status(f, t.cells, t.layouts, heard)
	if anew {
		t.Warnings = append(t.Warnings, t.placedAnew()...)
	}
	return nil
}

// placedAnew tells of the geographies in which it matters that there was no plan.
func (t *Tree) placedAnew() []string {
	var out []string
	for _, g := range t.fleet.Federation.Spec.Geographies {
		if n := len(t.layouts[g.Name].Shards); n > 1 {
			out = append(out, fmt.Sprintf("geography %s: there is no plan of an earlier render, so that its cells are placed anew, by name, on %d cascades: "+
				"right for a first render; if something is deployed, give the %s of that with --plan, or cells are unread while they change places", g.Name, n, PlanFile))
		}
	}
	return out
}

// keepVolumes leaves every server the volume that it was made with, unless the
// volume itself is asked for, and says what is asked for and not given.
func (t *Tree) keepVolumes(before map[string]workload.Volumes) (warnings []string, err error) {
	f := &t.fleet.Federation
	hub, err := federation.Volumes(f, t.cells, t.layouts, t.contract)
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
