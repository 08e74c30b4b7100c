package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/federation"
)

// idLength is how many hexadecimal digits of a digest name a step: enough that no
// two steps of a fleet have one name, and few enough to be read aloud.
const idLength = 12

// underWay are what a plan has begun and not ended, each as a sentence. What it
// says depends on nothing but the step itself, so that a fleet which changes
// elsewhere leaves the step its ID.
func (fleet Fleet) underWay() []string {
	f := &fleet.Federation
	var cells []v1alpha1.Cell
	for _, c := range fleet.Cells {
		cells = append(cells, c.Cell)
	}
	out := federation.Crossings(f, cells)
	for _, g := range f.Status.Geographies {
		for _, c := range g.Cells {
			if c.MovingTo != nil {
				out = append(out, fmt.Sprintf("geography %s: Cell %q is read by cascade shards %d and %d; wait until both centrals have had six heartbeats of the cell with cascade_shard=%q",
					g.Name, c.Name, c.Shard, *c.MovingTo, fmt.Sprint(*c.MovingTo)))
			}
			if c.EdgeShardsBeside != nil {
				out = append(out, fmt.Sprintf("geography %s: the edge of Cell %q is divided in %d and in %d, in two steps; wait until both centrals have had six heartbeats of every part (edge_shard)",
					g.Name, c.Name, c.EdgeShards, *c.EdgeShardsBeside))
			}
		}
	}
	for _, name := range federation.Emptied(f) {
		out = append(out, fmt.Sprintf("%s reads no cell any more; wait until both centrals say that they expect it no longer (fleet:cascade_expected:info)", name))
	}
	return out
}

// step is the ID of the next step of a plan: of all that is under way, after the
// step before. It is empty where nothing is under way. Because the step before is
// in it, no ID comes again when the same cell moves the same way later.
func (t *Tree) step() string {
	now := t.fleet.underWay()
	if len(now) == 0 {
		return ""
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%q after %q", now, t.vouched))
	return hex.EncodeToString(sum[:])[:idLength]
}

// vouch tells whether a render is to take the step that a person vouches for. It is
// taken once: when it was taken already, by a run that was killed or by somebody
// else, the render goes on from there. What was vouched for another plan says
// nothing of this one.
func (t *Tree) vouch(id string) (take bool, err error) {
	next := t.step()
	switch {
	case id == "":
		return false, nil
	case id == t.vouched:
		t.Warnings = append(t.Warnings, fmt.Sprintf("the step %s was taken by an earlier render, and is not taken again", id))
		return false, nil
	case id == next:
		t.vouched = id
		return true, nil
	case next == "":
		return false, fmt.Errorf("--end-moves=%s: nothing is under way in the plan that this render goes on from, so that there is nothing to end; render without it", id)
	}
	return false, fmt.Errorf("--end-moves=%s: is not the step that is under way, which is %s: something moves that was not there when you looked, or others have taken the step; "+
		"render without it, deploy that, look at both centrals for what it warns of, and render with --end-moves=%s", id, next, next)
}

// moves tells of what is under way, for whom it may concern.
func (t *Tree) moves() []string {
	var out []string
	id := t.step()
	for _, what := range t.fleet.underWay() {
		out = append(out, fmt.Sprintf("%s. It goes on when you deploy this render, have waited for that, and render with --end-moves=%s", what, id))
	}
	return out
}
