package federation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// named is how many of the homeless cells of a geography a message has room for.
const named = 5

// homeless is what is wrong with a fleet in which cells name a geography that the
// Federation does not have, or nil. Whether nothing at all may be changed for it is
// hold: where such a cell is read today, because centrals that are told nothing of
// it any more would call what is left complete, and its cascade would go with all
// that it keeps. Where no plan was ever written down, which cells are read is
// unknown, and that holds, too. A newcomer holds up nobody, but is told of as loudly.
func homeless(f *v1alpha1.Federation, cells []v1alpha1.Cell) (hold bool, problem error) {
	lost := workload.Homeless(f, cells)
	if len(lost) == 0 {
		return false, nil
	}
	names := map[string][]string{}
	hold = len(f.Status.Geographies) == 0
	for _, c := range lost {
		names[c.Spec.Geography] = append(names[c.Spec.Geography], c.Name)
		hold = hold || isPlaced(f, c.Name)
	}
	var all, has []string
	for _, geography := range slices.Sorted(maps.Keys(names)) {
		all = append(all, fmt.Sprintf("%q of Cells %s", geography, list(names[geography])))
	}
	for _, g := range f.Spec.Geographies {
		has = append(has, g.Name)
	}
	what := "they are neither read nor expected, and what the centrals call complete is so without them"
	if hold {
		what = "nothing in the hub is changed meanwhile, so that no picture looks whole without them"
	}
	return hold, workload.Invalidf("spec.geographies: %q lacks %s; %s. Give the geography back, correct spec.geography of the Cells, or delete the Cells first",
		has, strings.Join(all, " and "), what)
}

// isPlaced tells whether a cascade reads a cell, by the plan that was written down last.
func isPlaced(f *v1alpha1.Federation, cell string) bool {
	return slices.ContainsFunc(f.Status.Geographies, func(g v1alpha1.GeographyStatus) bool {
		return slices.ContainsFunc(g.Cells, func(c v1alpha1.CellPlacement) bool { return c.Name == cell })
	})
}

// list names the first of the cells, and counts the rest.
func list(cells []string) string {
	if more := len(cells) - named; more > 0 {
		return fmt.Sprintf("%q and %d more", cells[:named], more)
	}
	return fmt.Sprintf("%q", cells)
}
