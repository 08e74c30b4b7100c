package workload

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// Feeding are the cells that belong to the Federation, by name: those of its
// geographies that are not on their way out, whether they can be reached or not.
func Feeding(f *v1alpha1.Federation, cells []v1alpha1.Cell) []v1alpha1.Cell {
	var out []v1alpha1.Cell
	for _, c := range cells {
		if has(f, c.Spec.Geography) && c.DeletionTimestamp.IsZero() {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.Cell) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Homeless are the cells that name no geography of the Federation, by name, but
// for those on their way out. Nobody can read them, and nobody would miss them: after
// a geography has been renamed, a picture without its cells would look whole.
func Homeless(f *v1alpha1.Federation, cells []v1alpha1.Cell) []v1alpha1.Cell {
	out := slices.DeleteFunc(slices.Clone(cells), func(c v1alpha1.Cell) bool {
		return !c.DeletionTimestamp.IsZero() || has(f, c.Spec.Geography)
	})
	slices.SortFunc(out, func(a, b v1alpha1.Cell) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func has(f *v1alpha1.Federation, geography string) bool {
	return slices.ContainsFunc(f.Spec.Geographies, func(g v1alpha1.Geography) bool { return g.Name == geography })
}

// Settle takes out of the cells of a Federation what would keep all of them from
// being read, and says of each cell concerned what is wrong with it. A cell
// whose endpoints cannot be used, because they are none, an older cell has them,
// or what they say comes too late, stays without any: it is expected, and seen to
// be missing. One that cannot even be named is left out. The order given stays.
func Settle(f *v1alpha1.Federation, cells []v1alpha1.Cell) (settled []v1alpha1.Cell, wrong map[string]error) {
	byAge := slices.SortedFunc(slices.Values(cells), func(a, b v1alpha1.Cell) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
	})
	wrong = map[string]error{}
	unnamed := map[string]bool{}
	owners := map[string]string{}
	for _, c := range byAge {
		if err := checkLabels(c); err != nil {
			wrong[c.Name], unnamed[c.Name] = err, true
		} else if err := checkLag(f, c); err != nil {
			wrong[c.Name] = err
		} else if err := take(owners, c); err != nil {
			wrong[c.Name] = err
		}
	}
	for _, c := range cells {
		if wrong[c.Name] != nil {
			c.Status.EdgeEndpoints, c.Spec.Edge.IntervalSeconds = nil, nil // of the copy alone
		}
		if !unnamed[c.Name] {
			settled = append(settled, c)
		}
	}
	return settled, wrong
}

func checkLabels(c v1alpha1.Cell) error {
	if err := promcfg.CheckLabelValue("metadata.name", c.Name); err != nil {
		return err
	}
	return promcfg.CheckLabelValue("spec.region", c.Spec.Region)
}

// checkLag refuses an existing Prometheus that makes samples too rarely for them
// to be fresh at a central, two hops up.
func checkLag(f *v1alpha1.Federation, c v1alpha1.Cell) error {
	made, interval := EdgeInterval(&c), Interval(f)
	if made == 0 {
		return nil
	}
	return promcfg.CheckLag("spec.edge.intervalSeconds", made, interval, promcfg.Timeout(interval), 2)
}

// take gives a cell all of its endpoints, or none. All cascades run in the hub,
// so that an address is one server's whatever the geography.
func take(owners map[string]string, c v1alpha1.Cell) error {
	mine := map[string]string{}
	for _, address := range c.Status.EdgeEndpoints {
		if err := promcfg.CheckAddress("endpoint of the edge", address); err != nil {
			return err
		}
		at := promcfg.Endpoint(address)
		if other, twice := mine[at]; twice {
			return fmt.Errorf("endpoints %s and %s of the edge are one server, which would be taken for two (spec.edge.endpoints)", other, address)
		}
		mine[at] = address
		if owner, taken := owners[at]; taken {
			return fmt.Errorf("endpoint %s of the edge belongs to Cell %q, which is older, already; "+
				"each edge needs an address of its own that the cascades can tell apart, in whatever geography (spec.edge.endpoints)", address, owner)
		}
	}
	for at := range mine {
		owners[at] = c.Name
	}
	return nil
}

// CascadeName names a shard of a geography's cascade, and each of its objects.
func CascadeName(geography string, shard int) string {
	return fmt.Sprintf("%s-%s-%d", v1alpha1.ComponentCascade, geography, shard)
}
