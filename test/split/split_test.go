// Package split_test lets a geography outgrow its cascade and shrink again, with
// everything real: the operator against a real API server, Kubernetes' own
// controllers, the pods of cascades and centrals as stock Prometheus servers
// with what the operator rendered mounted, and edges with a load.
package split_test

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/operator/workload"
)

const (
	// limit is the least that the API allows, raised what the cells together fit in.
	limit  = 1000
	raised = 4000
	// enough is how long the whole may take, of which a machine at rest takes two
	// minutes: a little less than go test allows, which ends without a word of why.
	enough = 9 * time.Minute
)

// fleet is everything that runs.
type fleet struct {
	*hub
	cells    []*cell
	centrals []*promtest.Server
	begun    time.Time
	// whole is since when both centrals have known everything that there is,
	// merging since when shards merge.
	whole, merging time.Time
}

// eventually polls until check passes, as long as there is time. The cells follow what
// the Federation says meanwhile, so that they miss no step that it takes.
func (f *fleet) eventually(t *testing.T, check func() error) time.Duration {
	t.Helper()
	return testkit.AwaitWithin(t, time.Until(f.begun.Add(enough)), func() error {
		f.plan(t)
		return check()
	})
}

func TestASplitAndAMergeUnderLoad(t *testing.T) {
	f := startFleet(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"load grows, and cells begin to move", f.loadGrows},
		{"no move ends before both centrals have heard the cell", f.aHungCentralHoldsTheMove},
		{"an operator that restarts goes on with it", f.theMoveEnds},
		{"an edge has gone over to two servers meanwhile", f.anEdgeIsDivided},
		{"no alert came of that, not even a pending one", f.theSplitWasQuiet},
		{"the limit is raised, and a central restarts while shards merge", f.shardsMerge},
		{"the emptied shard goes with all that it had", f.theEmptiedShardGoes},
		{"no alert came of that either", f.theMergeWasQuiet},
		{"at every evaluation every cell counted once", f.everyCellCountedOnce},
	} {
		require.True(t, t.Run(step.name, step.run), "the steps after it would not mean anything")
	}
}

func startFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{begun: time.Now(), hub: newHub(t)}
	f.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec: v1alpha1.FederationSpec{
			Geographies:     []v1alpha1.Geography{{Name: asia, MaxSeriesPerShard: ptr.To[int32](limit)}},
			IntervalSeconds: ptr.To[int32](1),
			Network:         v1alpha1.Network{APIServerURL: f.Config.Host},
		},
	})
	for i, nodes := range []int{4, 5, 7} {
		c := newCell(t, i+1, nodes, 4)
		c.record(t, f.hub)
		f.cells = append(f.cells, c)
	}
	f.startOperator(t)
	f.centrals = []*promtest.Server{f.server(t, "central-a"), f.server(t, "central-b")}
	f.server(t, "cascade-asia-0")
	f.bothCountAll(t)
	return f
}

// all is how many nodes there are.
func (f *fleet) all() int {
	n := 0
	for _, c := range f.cells {
		n += c.all()
	}
	return n
}

// bothCountAll waits until both centrals have counted every node.
func (f *fleet) bothCountAll(t *testing.T) {
	t.Helper()
	took := f.eventually(t, func() error {
		var errs []error
		for _, c := range f.centrals {
			errs = append(errs, c.Gives("fleet:nodes:count", float64(f.all())), c.Gives("fleet:completeness:ratio", 1))
		}
		return errors.Join(errs...)
	})
	t.Logf("both centrals count %d nodes after %s", f.all(), took.Round(100*time.Millisecond))
}

// plan is the shard plan as the Federation's status tells it. The cells have
// followed it.
func (f *fleet) plan(t *testing.T) v1alpha1.GeographyStatus {
	t.Helper()
	for _, c := range f.cells {
		c.follow(t, f.hub)
	}
	all := f.federation(t).Status.Geographies
	require.Len(t, all, 1)
	return all[0]
}

// waitForPlan waits until the plan is as it is to be.
func (f *fleet) waitForPlan(t *testing.T, what string, is func(v1alpha1.GeographyStatus) bool) {
	t.Helper()
	took := f.eventually(t, func() error {
		if p := f.plan(t); !is(p) {
			return fmt.Errorf("waiting for %s: the plan is %+v; %s", what, p, f.says(t))
		}
		return nil
	})
	t.Logf("%s after %s: %s", what, took.Round(100*time.Millisecond), f.plan(t).Message)
}

// says is what the Federation's conditions tell a person.
func (f *fleet) says(t *testing.T) string {
	t.Helper()
	var all []string
	for _, c := range f.federation(t).Status.Conditions {
		all = append(all, fmt.Sprintf("%s is %s: %s", c.Type, c.Status, c.Message))
	}
	return strings.Join(all, "; ")
}

func (f *fleet) loadGrows(t *testing.T) {
	require.Equal(t, []int32{0}, f.plan(t).Shards, "what there is fits")
	for _, c := range f.cells {
		c.grow(t, 16)
	}
	f.bothCountAll(t)
	f.whole = time.Now()
	f.waitForPlan(t, "a split", func(p v1alpha1.GeographyStatus) bool { return p.Moving > 0 })
	f.signal(t, "central-b-0", syscall.SIGSTOP)
	f.cells[0].askFor(t, f.hub, 2)
}

// aHungCentralHoldsTheMove lets one central hear the moving cells from their new
// shard for long enough, and the other not at all.
func (f *fleet) aHungCentralHoldsTheMove(t *testing.T) {
	f.server(t, "cascade-asia-1")
	heard := fmt.Sprintf(`min(count_over_time(cell:heartbeat:timestamp_seconds{cascade_shard="1"}[9s])) >= bool %d`, 6)
	beside := workload.Division{Shards: 1, Beside: 2}
	f.eventually(t, func() error {
		if f.cells[0].divided != beside {
			return fmt.Errorf("the edge of the cell that asked for two servers is still divided as %+v", f.cells[0].divided)
		}
		return f.centrals[0].Gives(heard, 1)
	})
	moving := f.plan(t).Moving
	require.Positive(t, moving)
	f.watchedDuringAMove(t, f.centrals[0], f.whole)
	time.Sleep(3 * interval) // more than the operator takes to look again
	require.Equal(t, moving, f.plan(t).Moving, "one central has not heard the cells from where they go")
	require.Equal(t, beside, f.cells[0].divided, "nor clusters from the new server of their edge")
	require.Contains(t, f.Text(t, "cascade-asia-0"), f.moved(t)[0], "and the old shard still reads them")
}

// moved are the cells that a second shard reads.
func (f *fleet) moved(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, c := range f.plan(t).Cells {
		if c.MovingTo != nil {
			names = append(names, c.Name)
		}
	}
	return names
}

func (f *fleet) theMoveEnds(t *testing.T) {
	before := f.plan(t)
	f.endOperator()
	f.signal(t, "central-b-0", syscall.SIGCONT)
	f.startOperator(t)
	f.waitForPlan(t, "the end of the moves", func(p v1alpha1.GeographyStatus) bool { return p.Moving == 0 })
	after := f.plan(t)
	require.Equal(t, []int32{0, 1}, after.Shards)
	for i, c := range before.Cells {
		require.Equal(t, ptr.Deref(c.MovingTo, c.Shard), after.Cells[i].Shard, "cell %s is where it was on its way to", c.Name)
	}
	f.readByOneShardEach(t)
}

// anEdgeIsDivided waits until each server of an edge watches its own and nothing
// else. That it was one server once is seen in nothing but who tells.
func (f *fleet) anEdgeIsDivided(t *testing.T) {
	f.waitForDivision(t, 2)
	for _, c := range f.centrals {
		f.eventually(t, func() error {
			return errors.Join(
				c.Gives(`count(fleet:edge_expected:info{cell="asia-1"})`, 2),
				c.Gives(`max(count by (cluster) (count by (cluster, edge_shard) (cluster:nodes:count{cell="asia-1"})))`, 1),
				c.Gives(`count(count by (edge_shard) (cluster:nodes:count{cell="asia-1"}))`, 2),
			)
		})
	}
}

// waitForDivision waits until the first cell has come to rest with so many
// servers, by every step that there is.
func (f *fleet) waitForDivision(t *testing.T, shards uint) {
	t.Helper()
	before := 3 - shards
	f.waitForPlan(t, fmt.Sprintf("an edge of %d servers", shards), func(v1alpha1.GeographyStatus) bool {
		return f.cells[0].divided == workload.Division{Shards: shards}
	})
	require.Equal(t, []workload.Division{{Shards: before, Beside: shards}, {Shards: shards, Beside: before}, {Shards: shards}}, f.cells[0].steps)
	f.cells[0].steps = nil
}

// readByOneShardEach waits until the centrals have every cell from one shard only.
func (f *fleet) readByOneShardEach(t *testing.T) {
	t.Helper()
	f.eventually(t, func() error {
		var errs []error
		for _, c := range f.centrals {
			errs = append(errs, c.Gives("max(count by (cell) (count by (cell, cascade_shard) (cell:heartbeat:timestamp_seconds)))", 1))
		}
		return errors.Join(errs...)
	})
}

func (f *fleet) shardsMerge(t *testing.T) {
	f.merging = time.Now()
	changed := f.federation(t)
	changed.Spec.Geographies[0].MaxSeriesPerShard = ptr.To[int32](raised)
	require.NoError(t, f.Admin.Update(t.Context(), changed))
	f.waitForPlan(t, "a merge", func(p v1alpha1.GeographyStatus) bool { return p.Moving > 0 })
	f.cells[0].askFor(t, f.hub, 1)
	f.signal(t, "central-a-0", syscall.SIGSTOP) // which holds the merge
	f.watchedDuringAMove(t, f.centrals[1], f.merging)
	f.signal(t, "central-a-0", syscall.SIGKILL)
	f.waitForPlan(t, "the end of the merge", func(p v1alpha1.GeographyStatus) bool { return p.Moving == 0 })
	require.Len(t, f.plan(t).Shards, 1)
	f.readByOneShardEach(t)
	f.waitForDivision(t, 1)
}

func (f *fleet) theEmptiedShardGoes(t *testing.T) {
	gone := "cascade-asia-1"
	if f.plan(t).Shards[0] == 1 {
		gone = "cascade-asia-0"
	}
	f.eventually(t, func() error {
		for _, o := range []client.Object{&appsv1.StatefulSet{}, &corev1.ConfigMap{}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}} {
			name := gone
			switch o.(type) {
			case *corev1.Pod:
				name += "-0"
			case *corev1.PersistentVolumeClaim:
				name = "data-" + name + "-0"
			}
			err := f.Admin.Get(t.Context(), client.ObjectKey{Namespace: deploy.Namespace, Name: name}, o)
			if client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Errorf("%T %s is still there: %w", o, name, err)
			}
		}
		return nil
	})
	f.bothCountAll(t)
	for _, c := range f.centrals {
		f.eventually(t, func() error { return c.Gives("count(fleet:cascade_expected:info)", 1) })
	}
}

func (f *fleet) everyCellCountedOnce(t *testing.T) {
	for _, c := range f.centrals {
		f.requireOnce(t, c)
		f.requireTwiceRead(t, c)
	}
}

// requireTwiceRead says that it was no accident: there were moments at which a
// sum that does not take the maximum over cascades first would have been wrong.
func (f *fleet) requireTwiceRead(t *testing.T, central *promtest.Server) {
	t.Helper()
	most := central.Vector(t, fmt.Sprintf("max_over_time(sum(cluster:nodes:count)[%ds:1s])", int(time.Since(f.whole).Seconds())))
	require.Greater(t, float64(most[0].Value), float64(f.all()), "%s: cells were read by two shards", central.Address)
}
