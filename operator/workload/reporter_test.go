package workload

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

// A report is written when something changed, and told when its reason did.
func TestReporter(t *testing.T) {
	key := client.ObjectKey{Name: "asia-1"}
	c := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithStatusSubresource(&v1alpha1.Cell{}).
		WithObjects(&v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Generation: 3}}).Build()
	recorder := events.NewFakeRecorder(8)
	r := NewReporter(Options{Client: c, Recorder: recorder, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)},
		"Cell", v1alpha1.ReasonUnreachable)
	read := func() *v1alpha1.Cell {
		cell := &v1alpha1.Cell{}
		require.NoError(t, c.Get(t.Context(), key, cell))
		return cell
	}
	report := func(problem error, waiting ...string) *v1alpha1.Cell {
		cell := read()
		err := r.Report(t.Context(), Report{Before: cell.DeepCopy(), Object: cell, Conditions: &cell.Status.Conditions, Problem: problem, Waiting: waiting})
		require.NoError(t, err)
		return read()
	}
	require.Equal(t, 5, testutil.CollectAndCount(r.reports), "every reason begins at zero")

	first := report(nil, "edge")
	ready := meta.FindStatusCondition(first.Status.Conditions, v1alpha1.ConditionReady)
	require.Equal(t, v1alpha1.ReasonProgressing, ready.Reason)
	require.Equal(t, int64(3), ready.ObservedGeneration)
	require.Equal(t, "Normal Progressing waiting for edge", <-recorder.Events)
	require.Equal(t, first.ResourceVersion, report(nil, "edge").ResourceVersion, "the same was written twice")

	require.NotEqual(t, first.ResourceVersion, report(nil, "edge-agent").ResourceVersion)
	require.Empty(t, recorder.Events, "the reason did not change")

	report(&Problem{Reason: v1alpha1.ReasonUnreachable, Err: errors.New("the cell's API server did not answer")})
	require.Equal(t, corev1.EventTypeWarning+" Unreachable the cell's API server did not answer", <-recorder.Events)
	require.InEpsilon(t, 3, testutil.ToFloat64(r.reports.WithLabelValues(v1alpha1.ReasonProgressing)), 0)
	require.InEpsilon(t, 1, testutil.ToFloat64(r.reports.WithLabelValues(v1alpha1.ReasonUnreachable)), 0)
}

// A hold is told once, however often it is looked at, and counted until it ends.
func TestHoldsAreToldOnce(t *testing.T) {
	cell := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "asia-1"}}
	c := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithStatusSubresource(cell).WithObjects(cell).Build()
	recorder := events.NewFakeRecorder(8)
	r := NewReporter(Options{Client: c, Recorder: recorder, Registry: prometheus.NewRegistry(), Log: slog.New(slog.DiscardHandler)}, "Cell")
	report := func(problem error, holds ...Hold) string {
		now := &v1alpha1.Cell{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(cell), now))
		require.NoError(t, r.Report(t.Context(), Report{
			Before: now.DeepCopy(), Object: now, Conditions: &now.Status.Conditions, Problem: problem, Holds: holds, Note: "a note",
		}))
		return now.Status.Conditions[0].Message
	}
	require.Equal(t, "every part is ready; edge-0-b waits; a note",
		report(nil, Hold{"edge-0-b", HeldChanged, "edge-0-b waits"}, Hold{"edge-1-b", HeldChanged, ""}))
	require.Equal(t, "Normal Available every part is ready; edge-0-b waits; a note", <-recorder.Events)
	require.Empty(t, recorder.Events, "so goes every change")
	require.InEpsilon(t, 2, testutil.ToFloat64(r.held), 0)
	report(nil, Hold{"edge-0-b", HeldUnready, "edge-0-b waits"})
	require.Equal(t, "Normal ChangeHeld edge-0-b waits", <-recorder.Events)
	report(nil, Hold{"edge-0-b", HeldChanged, "edge-0-b waits"})

	report(nil, Hold{"edge-0-b", HeldUnready, "edge-0-b waits still"})
	require.Empty(t, recorder.Events, "it is the same hold")
	require.InEpsilon(t, 1, testutil.ToFloat64(r.held.WithLabelValues("asia-1", string(HeldUnready))), 0)
	require.Equal(t, 1, testutil.CollectAndCount(r.held), "by the reason that it has now")
	report(Invalidf("spec.x: is bad"))
	require.Equal(t, 1, testutil.CollectAndCount(r.held), "what is held is not known")
	report(nil)
	require.Zero(t, testutil.CollectAndCount(r.held))
	for len(recorder.Events) > 0 {
		<-recorder.Events
	}
	report(nil, Hold{"edge-0-b", HeldUnready, "edge-0-b waits again"})
	require.Equal(t, "Normal ChangeHeld edge-0-b waits again", <-recorder.Events)
	require.NoError(t, r.Gone("asia-1", apierrors.NewNotFound(schema.GroupResource{}, "asia-1")))
	require.Zero(t, testutil.CollectAndCount(r.held), "the Cell is gone")
}

func TestCheckInterval(t *testing.T) {
	f := &v1alpha1.Federation{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}
	require.NoError(t, CheckInterval(f))
	f.Spec.IntervalSeconds = new(int32(60))
	err := CheckInterval(f)
	require.ErrorContains(t, err, "Federation fleet: spec.intervalSeconds: interval 1m0s: must be at most 40s")
	require.Equal(t, v1alpha1.ReasonInvalid, Ready(1, err, nil).Reason)
}
