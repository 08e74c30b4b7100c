package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

func cellOf(name string, age int, geography string, endpoints ...string) v1alpha1.Cell {
	created := metav1.NewTime(time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC).Add(time.Duration(-age) * time.Hour))
	return v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: created},
		Spec:       v1alpha1.CellSpec{Geography: geography, Region: "r"},
		Status:     v1alpha1.CellStatus{EdgeEndpoints: endpoints},
	}
}

func TestSettle(t *testing.T) {
	const shared = "10.0.0.1:9090"
	unnamed := cellOf("unnamed", 8, "asia", "10.0.0.7:9090")
	unnamed.Spec.Region = "two\nlines"
	given := []v1alpha1.Cell{
		cellOf("a-newcomer", 1, "asia", "10.0.0.5:9090", shared),
		cellOf("asia-1", 5, "asia", shared),
		cellOf("asia-2", 0, "asia", "10.0.0.5:9090"),
		cellOf("asia-3", 9, "asia", "http://10.0.0.2"),
		cellOf("asia-4", 0, "asia", "10.0.0.7:9090"),
		cellOf("asia-5", 0, "asia", "edge.asia-5:9090", "EDGE.asia-5.:09090"),
		cellOf("europe-1", 0, "europe", shared),
		cellOf("europe-2", 0, "europe", "[::ffff:10.0.0.7]:9090"),
		unnamed,
	}
	before := given[0].DeepCopy()
	settled, wrong := Settle(&v1alpha1.Federation{}, given)
	require.Equal(t, *before, given[0], "what was given has not changed")

	endpoints := map[string][]string{}
	for _, c := range settled {
		endpoints[c.Name] = c.Status.EdgeEndpoints
	}
	require.Equal(t, map[string][]string{
		"a-newcomer": nil, // expected, and seen to be missing
		"asia-1":     {shared},
		"asia-2":     {"10.0.0.5:9090"}, // what is refused as a whole takes nothing from others
		"asia-3":     nil,
		"asia-4":     {"10.0.0.7:9090"},
		"asia-5":     nil,
		"europe-1":   nil, // all cascades are in the hub
		"europe-2":   nil,
	}, endpoints)
	require.Len(t, wrong, 6)
	require.ErrorContains(t, wrong["europe-1"], `endpoint 10.0.0.1:9090 of the edge belongs to Cell "asia-1"`)
	require.ErrorContains(t, wrong["europe-2"], `belongs to Cell "asia-4"`)
	require.ErrorContains(t, wrong["asia-5"], `endpoints edge.asia-5:9090 and EDGE.asia-5.:09090 of the edge are one server`)
	require.ErrorContains(t, wrong["a-newcomer"], `endpoint 10.0.0.1:9090 of the edge belongs to Cell "asia-1"`)
	require.ErrorContains(t, wrong["asia-3"], "http://10.0.0.2")
	require.ErrorContains(t, wrong["unnamed"], "spec.region")

	twins := []v1alpha1.Cell{cellOf("b", 1, "asia", shared), cellOf("a", 1, "asia", shared)}
	_, wrong = Settle(&v1alpha1.Federation{}, twins)
	require.ErrorContains(t, wrong["b"], `"a"`, "of two of one age, the name decides, so that every run agrees")
	require.NoError(t, wrong["a"])
}
