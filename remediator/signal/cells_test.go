package signal_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// fleet is a hub of many cells, which are one API server behind a gate each.
type fleet struct {
	hub
	gates []*gate
}

func newFleet(t *testing.T, cells int) fleet {
	config := testkit.APIServer(t)
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	f := fleet{hub: hub{t, c, kubeconfig(t, config, nil)}}
	for _, n := range []string{"pharos-system", "fleet"} {
		f.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n}})
	}
	f.create(&api.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "shop"}, Spec: api.ClusterSpec{ObserverKubeconfigSecret: "observer"}})
	for i := range 5 {
		f.machine(fmt.Sprintf("m-%d", i))
	}
	target, err := url.Parse(config.Host)
	require.NoError(t, err)
	for i := range cells {
		g := newGate(t, target.Host)
		f.gates = append(f.gates, g)
		gated := rest.CopyConfig(config)
		gated.Host = "https://" + g.address
		f.cell(cellName(i), kubeconfig(t, gated, nil))
	}
	return f
}

// notWaited is less than what a round waits for a cell, and more than it takes
// otherwise, on a machine that is busy.
const notWaited = 4 * time.Second

func cellName(i int) string { return fmt.Sprintf("cell-%02d", i) }

func (f fleet) machine(name string) {
	f.create(&api.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}, Spec: api.MachineSpec{
		ClusterName: "shop", NodeName: name, Pool: "workers", HardwareID: "hw-" + name}})
}

// round reads the inventories, and says how long that took.
func (f fleet) round(r *signal.Reader) ([]policy.Cell, time.Duration) {
	f.t.Helper()
	start := time.Now()
	cells, err := r.Cells(f.t.Context())
	require.NoError(f.t, err)
	return cells, time.Since(start)
}

// unknown are the numbers of the cells that are not known. All others have as many
// machines as are wanted, or there is an error.
func unknown(cells []policy.Cell, machines int) ([]int, error) {
	var out []int
	var err error
	for i, c := range cells {
		switch {
		case c.Err != "":
			out = append(out, i)
		case len(c.Machines) != machines:
			err = fmt.Errorf("%s has %d machines, not %d", c.Name, len(c.Machines), machines)
		}
	}
	return out, err
}

// awaitUnknown waits until exactly these cells are unknown and all others have so
// many machines. No round takes long meanwhile.
func (f fleet) awaitUnknown(r *signal.Reader, machines int, want ...int) []policy.Cell {
	f.t.Helper()
	var cells []policy.Cell
	testkit.Await(f.t, func() error {
		var took time.Duration
		cells, took = f.round(r)
		require.Less(f.t, took, notWaited, "no cell is waited for")
		got, err := unknown(cells, machines)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("unknown are %v, not %v", got, want)
		}
		return err
	})
	return cells
}

// awaitSilence waits for cells that have just fallen silent to be unknown. They are
// known as they were, for as long as that is current, and then not at all.
func (f fleet) awaitSilence(r *signal.Reader, silent ...int) {
	f.t.Helper()
	began := time.Now()
	for {
		cells, took := f.round(r)
		require.Less(f.t, took, notWaited)
		gone, _ := unknown(cells, 0)
		if !slices.ContainsFunc(silent, func(i int) bool { return !slices.Contains(gone, i) }) {
			return
		}
		require.Less(f.t, time.Since(began), signal.CurrentFor+notWaited, "silence passes for knowledge: %v", gone)
		time.Sleep(100 * time.Millisecond)
	}
}

// A hundred cells, of which some hang, some refuse, some fall silent after their
// watch was opened, and some lose their connections: a round ends in time, those
// cells are unknown and no other, and they are known again when they are back.
func TestHundredCells(t *testing.T) {
	f := newFleet(t, 100)
	alive := goleak.IgnoreCurrent()
	const timeout = 6 * time.Second
	r := f.reader(timeout)
	for i := range 3 {
		f.gates[i].stall(true)
		f.gates[3+i].refuse()
	}
	cells, took := f.round(r)
	require.Less(t, took, 2*timeout, "the first round gives each cell the time of one read")
	require.Len(t, cells, 100)
	dead := []int{0, 1, 2, 3, 4, 5}
	cells = f.awaitUnknown(r, 5, dead...)
	for i := range 3 {
		require.Regexp(t, `^since \d{4}-\S+Z: listing \S+: .*exceeded`, cells[i].Err)
		require.Regexp(t, `^since \d{4}-\S+Z: listing \S+: .*refused`, cells[3+i].Err)
	}

	for i := range 3 {
		f.gates[6+i].stall(true)
		f.gates[9+i].refuse()
	}
	f.machine("m-5")
	f.awaitSilence(r, 6, 7, 8)
	dead = append(dead, 6, 7, 8, 9, 10, 11)
	cells = f.awaitUnknown(r, 6, dead...)
	for i := range 3 {
		require.Regexp(t, `^since \d{4}-\S+Z: watching \S+: `, cells[6+i].Err)
	}

	for _, i := range dead {
		f.gates[i].stall(false)
		if i/3%2 == 1 {
			f.gates[i].open()
		}
	}
	f.awaitUnknown(r, 6)

	require.NoError(t, f.Delete(t.Context(), &api.Cell{ObjectMeta: metav1.ObjectMeta{Name: cellName(99)}}))
	f.round(r)
	kept, _ := r.Kept()
	require.Equal(t, 99, kept)

	r.Close()
	for _, g := range f.gates {
		g.close()
	}
	goleak.VerifyNone(t, alive)
}

// Until the watch has shown our own last write, the cell is not known: the record
// of that write says already what the Machine does not show yet.
func TestOwnWritesAreSeen(t *testing.T) {
	f := newFleet(t, 1)
	r := f.reader(2 * time.Second)
	f.awaitUnknown(r, 5)
	f.gates[0].freeze()

	var cell api.Cell
	require.NoError(t, f.Get(t.Context(), client.ObjectKey{Name: cellName(0)}, &cell))
	c, err := r.Client(t.Context(), &cell)
	require.NoError(t, err)
	var m api.Machine
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: "m-3"}, &m))
	before := m.DeepCopy()
	m.Spec.Remediation = &api.RemediationRequest{ID: "r-1", Action: api.ActionReboot, Reason: "test",
		StartBefore: metav1.NewTime(time.Now()), Deadline: metav1.NewTime(time.Now().Add(time.Hour))}
	require.NoError(t, c.Patch(t.Context(), &m, client.MergeFrom(before)))
	require.ErrorContains(t, r.Known(cellName(0)), "has not shown our own last write yet")
	cells, _ := f.round(r)
	require.NotEmpty(t, cells[0].Err)
	require.Empty(t, cells[0].Machines)

	f.gates[0].stall(false)
	testkit.Await(t, func() error {
		cells, _ = f.round(r)
		_, err := unknown(cells, 5)
		if cells[0].Err != "" {
			err = fmt.Errorf("not known: %s", cells[0].Err)
		}
		return err
	})
	require.Equal(t, "r-1", cells[0].Machines[3].Request.ID)
}

// A cell is watched by the credential that its Secret holds now, and by no other.
func TestCredentialOfACellIsReplaced(t *testing.T) {
	f := newFleet(t, 2)
	r := f.reader(2 * time.Second)
	f.awaitUnknown(r, 5)
	var secret corev1.Secret
	require.NoError(t, f.Get(t.Context(), client.ObjectKey{Namespace: "pharos-system", Name: cellName(0)}, &secret))
	good := secret.Data[kube.SecretKeyKubeconfig]
	for _, bad := range []string{"", "no longer"} {
		secret.Data[kube.SecretKeyKubeconfig] = []byte(bad)
		require.NoError(t, f.Update(t.Context(), &secret))
		cells, _ := f.round(r)
		require.Contains(t, cells[0].Err, "secret pharos-system/cell-00, key kubeconfig: ")
		require.Empty(t, cells[1].Err)
		testkit.Await(t, func() error {
			if n := f.gates[0].connections(); n > 0 {
				return fmt.Errorf("%d connections are open", n)
			}
			return nil
		})
	}
	secret.Data[kube.SecretKeyKubeconfig] = good
	require.NoError(t, f.Update(t.Context(), &secret))
	cells, _ := f.round(r)
	require.Empty(t, cells[0].Err)
	require.Len(t, cells[0].Machines, 5)

	require.NoError(t, f.Delete(t.Context(), &secret))
	cells, _ = f.round(r)
	require.Contains(t, cells[0].Err, `reading the cell's kubeconfig: secrets "cell-00" not found`)
	kept, _ := r.Kept()
	require.Equal(t, 1, kept)
}
