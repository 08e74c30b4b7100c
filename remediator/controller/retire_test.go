package controller

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/ledger"
)

// intentOf is the spec of a repair of a machine that is gone.
func intentOf(name string, at metav1.Time) api.RemediationSpec {
	return api.RemediationSpec{
		PolicyName: "nodes", Action: api.ActionReboot, Reason: "for a test", Deadline: at,
		Target:   api.RemediationTarget{Cell: cellName, Namespace: cellNamespace, Cluster: clusterName, Machine: "gone", MachineUID: "uid-" + name, Node: "gone", HardwareID: "hw-" + name},
		Evidence: api.Evidence{AgreedAt: at, Signals: []api.SignalRecord{{Source: "node", ObservedAt: at, Says: "NotReady"}}},
		Gate:     api.GateRecord{ClusterMachines: 20, ClusterUnhealthy: 1, RackMachines: 5, RackUnhealthy: 1},
	}
}

// over is a record of a repair that ended so many days ago.
func (f *fleet) over(name string, phase api.RemediationPhase, days int) {
	at := metav1.NewTime(time.Now().AddDate(0, 0, -days))
	rem := &api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: intentOf(name, at)}
	f.create(rem)
	rem.Status = api.RemediationStatus{Phase: phase, Reason: "Verified", Message: "for a test", ActedAt: &at, EndedAt: &at}
	require.NoError(f.t, f.client.Status().Update(f.t.Context(), rem))
}

func (f *fleet) names() []string {
	names := []string{}
	for _, rem := range f.remediations() {
		names = append(names, rem.Name)
	}
	return names
}

// Case C32: records outlive their machines, and go into the audit log.
// What ended long ago goes, into the audit log first, and nothing goes that is needed,
// or that cannot be written there.
func testRetire(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.over("old", api.RemediationSucceeded, 91)
	f.over("failed", api.RemediationFailed, 92)
	f.over("on-a-machine", api.RemediationSucceeded, 93)
	f.over("young", api.RemediationCancelled, 89)
	m := f.machine(sick)
	m.Status.Remediation = &api.RemediationResponse{ID: "on-a-machine", Phase: api.RepairSucceeded, FinishedAt: ptr.To(metav1.Now())}
	require.NoError(t, f.client.Status().Update(t.Context(), m))
	all := []string{"failed", "old", "on-a-machine", "young"}

	o := f.options()
	o.Record.Dir = filepath.Join(t.TempDir(), "record")
	c, err := New(o)
	require.NoError(t, err)
	f.lead(c)
	f.serve(c)
	metrics := func(want ...string) {
		_, page := get(t, "http://"+c.Addr().String()+"/metrics")
		for _, line := range want {
			require.Contains(t, page, line+"\n")
		}
	}
	aside := o.Record.Dir + ".aside"
	require.NoError(t, os.Rename(o.Record.Dir, aside))
	f.round(c)
	f.round(c)
	require.Equal(t, all, f.names(), "without an audit log nothing goes")
	metrics("pharos_remediator_records 4", "pharos_remediator_records_pruned_total 0", "pharos_remediator_records_prune_failures_total 2")

	require.NoError(t, os.Rename(aside, o.Record.Dir))
	forbidden := apierrors.NewForbidden(api.GroupVersion.WithResource("remediations").GroupResource(), "old", errors.New("not yours"))
	c.ledger = ledger.New(interceptor.NewClient(f.client, interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return forbidden }}), hubNamespace)
	f.round(c)
	f.round(c)
	require.Equal(t, all, f.names())
	c.ledger = ledger.New(f.client, hubNamespace)
	f.round(c)
	require.Equal(t, []string{"failed", "on-a-machine", "young"}, f.names())
	metrics("pharos_remediator_records 3", "pharos_remediator_records_pruned_total 1", "pharos_remediator_records_prune_failures_total 4")
	logs, err := filepath.Glob(filepath.Join(o.Record.Dir, "remediations-*.jsonl"))
	require.NoError(t, err)
	require.Len(t, logs, 1)
	raw, err := os.ReadFile(logs[0])
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(raw), "\n"), "it is written once, however often it could not be taken away")
	require.Contains(t, string(raw), `"name":"old"`)

	o.Retain.Age = 24 * time.Hour
	_, err = New(o)
	require.ErrorContains(t, err, "decisions look back 8")
}
