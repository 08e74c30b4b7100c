package federation

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
)

// expected are the cascades of a geography that the centrals wait for: those that
// a cell has, or has until its move has ended. One that cells only move to is waited
// for once the first has arrived, which is when both centrals have heard it from
// there: until then its pod may not exist. So it is with a geography that cells only go
// to, which another one has in its sums until then. One that no cell is read in has a
// cascade all the same.
func expected(l cascade.Layout) []int {
	var shards []int
	for _, c := range l.Cells {
		if !c.Beside {
			shards = append(shards, c.Shard)
		}
	}
	if len(l.Cells) == 0 {
		return l.Shards[:min(1, len(l.Shards))] // others have been emptied
	}
	slices.Sort(shards)
	return slices.Compact(shards)
}

// expected are the cascades that the centrals wait for by what is rendered.
func (h hub) expected() map[shard]bool {
	all := map[shard]bool{}
	for _, g := range h.layouts.counted(h.f) {
		for _, n := range expected(h.layouts[g]) {
			all[shard{g, n}] = true
		}
	}
	return all
}

// retiring are the cascades that run and read no cell any more, by name. They go
// once no central waits for them: a configuration arrives when it arrives, and a
// server that goes before that is missed like one that died.
func (r *Reconciler) retiring(ctx context.Context, h hub, known map[string]bool) []string {
	const set = "StatefulSet "
	var running []shard
	for _, identity := range slices.Sorted(maps.Keys(known)) {
		if name, isSet := strings.CutPrefix(identity, set); isSet {
			if s, is := cascadeOf(name); is {
				running = append(running, s)
			}
		}
	}
	var names []string
	for _, s := range h.layouts.leaving(running) {
		names = append(names, cascadeName(s))
	}
	if len(names) == 0 {
		return nil
	}
	settled, err := r.ears.expect(ctx, h.f, h.expected())
	if err != nil {
		r.Log.WarnContext(ctx, "asking which cascades the centrals expect, until when those without cells stay",
			slog.Any("cascades", names), slog.Any("error", err))
	}
	if settled {
		return nil
	}
	return names
}

// staying tells a person of the cascades that are still there.
func staying(cascades []string) []string {
	var out []string
	for _, name := range cascades {
		out = append(out, fmt.Sprintf("%s reads no cell any more, and runs until both centrals say that they expect it no longer", name))
	}
	return out
}

// expect says whether both centrals wait for these cascades and no others. What
// one of them does not say is unknown, and so is everything.
func (e *ears) expect(ctx context.Context, f *v1alpha1.Federation, cascades map[shard]bool) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	centrals := e.centrals(f)
	if len(centrals) < len(replicas()) {
		return false, nil
	}
	for _, c := range centrals {
		samples, err := e.ask(ctx, c, "fleet:cascade_expected:info")
		if err != nil {
			return false, err
		}
		has := map[shard]bool{}
		for _, s := range samples {
			number, err := strconv.Atoi(s.Labels["cascade_shard"])
			if err != nil {
				return false, fmt.Errorf("a central expects cascade_shard=%q, which is no number", s.Labels["cascade_shard"])
			}
			has[shard{s.Labels["geography"], number}] = true
		}
		if !maps.Equal(has, cascades) {
			return false, nil
		}
	}
	return true, nil
}
