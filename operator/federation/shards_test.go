package federation

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
)

func fleetOf(geographies ...v1alpha1.GeographyStatus) *v1alpha1.Federation {
	f := &v1alpha1.Federation{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}, Status: v1alpha1.FederationStatus{Geographies: geographies}}
	f.Spec.Geographies = []v1alpha1.Geography{{Name: "europe"}, {Name: "asia", MaxSeriesPerShard: ptr.To(int32(1000))}}
	return f
}

func cellIn(geography, name string) v1alpha1.Cell {
	return v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.CellSpec{Geography: geography, Region: "r"}}
}

func placed(name string, shard int32) v1alpha1.CellPlacement {
	return v1alpha1.CellPlacement{Name: name, Shard: shard}
}

func onTheMove(name string, shard, to int32) v1alpha1.CellPlacement {
	return v1alpha1.CellPlacement{Name: name, Shard: shard, MovingTo: ptr.To(to)}
}

// A geography that splits: what the status says is where the next plan begins.
func TestAPlanGoesOnWithTheStatus(t *testing.T) {
	cells := []v1alpha1.Cell{cellIn("asia", "a"), cellIn("asia", "b"), cellIn("europe", "c")}
	f := fleetOf()
	heard := Heard{Series: map[string]uint{"a": 400, "b": 300, "c": 300}}
	next := func() Layouts {
		t.Helper()
		layouts, err := Plan(f, cells, heard)
		require.NoError(t, err)
		f.Status.Geographies = Status(f, cells, layouts, heard)
		return layouts
	}
	next()
	require.Equal(t, []v1alpha1.GeographyStatus{
		{
			Name: "asia", Shards: []int32{0}, Message: `cell "a" is new on shard 0, with 400 series; cell "b" is new on shard 0, with 300 series`,
			Cells: []v1alpha1.CellPlacement{{Name: "a", Series: 400, EdgeShards: 1}, {Name: "b", Series: 300, EdgeShards: 1}},
		},
		{Name: "europe", Shards: []int32{0}, Message: `cell "c" is new on shard 0, with 300 series`, Cells: []v1alpha1.CellPlacement{{Name: "c", Series: 300, EdgeShards: 1}}},
	}, f.Status.Geographies)

	heard.Series["b"] = 700
	next()
	asia := f.Status.Geographies[0]
	require.Equal(t, []v1alpha1.CellPlacement{{Name: "a", Series: 400, EdgeShards: 1}, {Name: "b", Series: 700, MovingTo: ptr.To(int32(1)), EdgeShards: 1}}, asia.Cells)
	require.Equal(t, []int32{0, 1}, asia.Shards)
	require.EqualValues(t, 1, asia.Moving)
	require.Equal(t, `cell "b" moves from shard 0 to shard 1: shard 0 has 1100 series, more than 1000`, asia.Message)
	require.True(t, moving(f))

	before := f.DeepCopy()
	next()
	require.Equal(t, before.Status, f.Status, "nobody has said that b is warm")

	heard.Warm = map[string]bool{"b": true}
	layouts := next()
	require.Equal(t, []string{"b"}, layouts["asia"].ReadBy(1))
	require.Equal(t, []string{"a"}, layouts["asia"].ReadBy(0))
	require.False(t, moving(f))
}

// What is not measured any more is as it was; what never was is as declared.
func TestLoads(t *testing.T) {
	f := fleetOf(v1alpha1.GeographyStatus{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "a", Series: 900}, {Name: "b", Series: 90}}})
	cells := []v1alpha1.Cell{cellIn("asia", "a"), cellIn("asia", "b")}
	layouts, err := Plan(f, cells, Heard{})
	require.NoError(t, err)
	require.Equal(t, []int{0}, layouts["asia"].Shards, "an outage splits nothing")

	declared := cellIn("asia", "d")
	declared.Spec.Capacity.Pools = []v1alpha1.CapacityPool{{Name: v1alpha1.PoolClusters, Limit: resource.MustParse("5k")}}
	layouts, err = Plan(f, append(cells, declared), Heard{Series: map[string]uint{"a": 900}})
	require.NoError(t, err)
	require.Len(t, layouts["asia"].Warnings, 1)
	require.Contains(t, layouts["asia"].Warnings[0], `cell "d" alone has `)
	require.Contains(t, layouts.warnings(f)[0], "geography asia: cell")
}

func TestRoundedSeries(t *testing.T) {
	for _, tc := range []struct {
		known, measured uint
		want            int64
	}{
		{0, 0, 0}, {100, 0, 100}, {0, 70, 70}, {100, 100, 100}, {100, 125, 100}, {100, 126, 126}, {100, 75, 100}, {100, 74, 74},
	} {
		require.Equal(t, tc.want, rounded(tc.known, tc.measured), tc)
	}
}

func TestAMessageIsShort(t *testing.T) {
	var changes []cascade.Change
	for range 9 {
		changes = append(changes, cascade.Change{Cell: "a", Why: "is new"})
	}
	require.Equal(t, `cell "a" is new; cell "a" is new; cell "a" is new; cell "a" is new; cell "a" is new; and 4 changes more`, message(changes))
	require.Empty(t, message(nil))
}
