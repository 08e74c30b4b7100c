package federation

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

func TestHomeless(t *testing.T) {
	in := func(geography string, names ...string) (cells []v1alpha1.Cell) {
		for _, name := range names {
			cells = append(cells, v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CellSpec{Geography: geography}})
		}
		return cells
	}
	var many []string
	for i := range 7 {
		many = append(many, fmt.Sprintf("a-%d", i))
	}
	leaving := in("asia", "a-0")
	leaving[0].DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1, 0)))
	read := []v1alpha1.GeographyStatus{{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "a-0"}}}, {Name: "europe"}}
	for _, c := range []struct {
		name   string
		status []v1alpha1.GeographyStatus
		cells  []v1alpha1.Cell
		says   string
		hold   bool
	}{
		{name: "no cells", status: read},
		{name: "at home", status: read, cells: in("europe", "e-0")},
		{name: "on its way out", status: read, cells: leaving},
		{name: "a newcomer", status: read, cells: in("atlantis", "lost"), says: `lacks "atlantis" of Cells ["lost"]; they are neither read nor expected`},
		{name: "one that is read", status: read, cells: append(in("atlantis", "lost"), in("asia", "a-0")...), hold: true,
			says: `["europe"] lacks "asia" of Cells ["a-0"] and "atlantis" of Cells ["lost"]; nothing in the hub is changed`},
		{name: "one that is read names another geography", status: read, cells: in("asai", "a-0"), hold: true, says: `"asai" of Cells ["a-0"]`},
		{name: "which are read is unknown", cells: in("asia", "a-0"), hold: true, says: "nothing in the hub is changed"},
		{name: "many", status: read, cells: in("asia", many...), hold: true, says: `["a-0" "a-1" "a-2" "a-3" "a-4"] and 2 more`},
	} {
		f := &v1alpha1.Federation{Spec: v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "europe"}}}}
		f.Status.Geographies = c.status
		hold, problem := homeless(f, c.cells)
		require.Equal(t, c.hold, hold, c.name)
		if c.says == "" {
			require.NoError(t, problem, c.name)
			continue
		}
		require.ErrorContains(t, problem, c.says, c.name)
	}
}
