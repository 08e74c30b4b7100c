package federation

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// leaving are, of the cascades that run, those that the layouts have no place for:
// no cell is read there any more, or their geography is gone. Whoever carries a
// layout out keeps them until no central waits for them.
func (l Layouts) leaving(running []shard) []shard {
	return slices.DeleteFunc(slices.Clone(running), func(s shard) bool { return slices.Contains(l[s.geography].Shards, s.number) })
}

// Keep gives the cascades that the status before has, and the layouts have not, a
// place without cells. Those that had no cell before either have been kept once,
// and go when a person vouches that no central waits for them.
func (l Layouts) Keep(before []v1alpha1.GeographyStatus, vouched bool) {
	running, empty := cascadesOf(before)
	for _, s := range l.leaving(running) {
		if vouched && slices.Contains(empty, s) {
			continue
		}
		layout := l[s.geography]
		layout.Shards = append(layout.Shards, s.number)
		slices.Sort(layout.Shards)
		l[s.geography] = layout
	}
}

// Emptied names the cascades that run by a status and read no cell, but for the one
// that a geography without cells has.
func Emptied(f *v1alpha1.Federation) []string {
	_, empty := cascadesOf(f.Status.Geographies)
	var names []string
	for _, s := range empty {
		g := geography(f, s.geography)
		wanted := slices.ContainsFunc(f.Spec.Geographies, func(g v1alpha1.Geography) bool { return g.Name == s.geography })
		if wanted && len(g.Cells) == 0 && s.number == 0 {
			continue
		}
		names = append(names, cascadeName(s))
	}
	return names
}

// cascadesOf are the cascades that a status has, and those of them that read no cell.
func cascadesOf(status []v1alpha1.GeographyStatus) (running, empty []shard) {
	for _, g := range status {
		reads := map[int]bool{}
		for _, c := range previous(g.Cells) {
			reads[c.Shard], reads[c.Next] = true, true
		}
		all := maps.Clone(reads) // what is written by hand may lack the shards
		for _, n := range g.Shards {
			all[int(n)] = true
		}
		for _, n := range slices.Sorted(maps.Keys(all)) {
			running = append(running, shard{g.Name, n})
			if !reads[n] {
				empty = append(empty, shard{g.Name, n})
			}
		}
	}
	return running, empty
}

// cascadeOf is the cascade that a name is of.
func cascadeOf(name string) (shard, bool) {
	rest, is := strings.CutPrefix(name, v1alpha1.ComponentCascade+"-")
	i := strings.LastIndex(rest, "-")
	if !is || i < 0 {
		return shard{}, false
	}
	number, err := strconv.Atoi(rest[i+1:])
	return shard{rest[:i], number}, err == nil
}

// geographies are those that have a layout, in the order of the Federation, and
// after them those that it has no more.
func (l Layouts) geographies(f *v1alpha1.Federation) []string {
	var names []string
	for _, g := range f.Spec.Geographies {
		names = append(names, g.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(l)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
