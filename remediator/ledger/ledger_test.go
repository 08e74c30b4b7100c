package ledger_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func spec(machine string) api.RemediationSpec {
	return api.RemediationSpec{
		PolicyName: "nodes", Action: api.ActionReboot, Reason: "for a test", Deadline: metav1.NewTime(now.Add(time.Hour)),
		Target: api.RemediationTarget{Cell: "asia-1", Namespace: "fleet", Cluster: "shop", Machine: machine, MachineUID: "uid-" + machine, Node: machine},
		Evidence: api.Evidence{AgreedAt: metav1.NewTime(now), Signals: []api.SignalRecord{
			{Source: "central-a", ObservedAt: metav1.NewTime(now), Says: "lists it"}}},
		Gate: api.GateRecord{ClusterMachines: 20, ClusterUnhealthy: 1, RackMachines: 5, RackUnhealthy: 1},
	}
}

func TestLedger(t *testing.T) {
	hub, err := client.NewWithWatch(testkit.APIServer(t), client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	l := ledger.New(hub, "default")
	update := func(t *testing.T, u policy.Update, at time.Time) (*api.Remediation, bool) {
		t.Helper()
		rem, change, err := l.Update(t.Context(), u, at)
		require.NoError(t, err)
		return rem, change.Phase
	}

	t.Run("places in budgets", func(t *testing.T) { testReservations(t, hub) })

	t.Run("records that are taken away", func(t *testing.T) { testRetire(t, hub) })

	t.Run("the same intent is written once", func(t *testing.T) {
		first, err := l.Record(t.Context(), "once", spec("m-1"))
		require.NoError(t, err)
		later := spec("m-1")
		later.Evidence.AgreedAt = metav1.NewTime(now.Add(time.Minute))
		second, err := l.Record(t.Context(), "once", later)
		require.NoError(t, err)
		require.Equal(t, first.UID, second.UID)
		require.True(t, second.Spec.Evidence.AgreedAt.Time.Equal(now), "the record stands as it was written")
	})

	t.Run("another intent under the name", func(t *testing.T) {
		_, err := l.Record(t.Context(), "taken", spec("m-1"))
		require.NoError(t, err)
		_, err = l.Record(t.Context(), "taken", spec("m-2"))
		require.ErrorIs(t, err, ledger.ErrForeign)
	})

	t.Run("life", func(t *testing.T) {
		_, err := l.Record(t.Context(), "life", spec("m-1"))
		require.NoError(t, err)
		acting := policy.Update{Name: "life", Phase: api.RemediationActing, Acted: true, Reason: policy.ReasonRequested, Message: "asked",
			Confirmation: spec("m-1").Evidence.Signals}
		rem, moved := update(t, acting, now)
		require.True(t, moved)
		require.True(t, rem.Status.ActedAt.Time.Equal(now))
		require.Len(t, rem.Status.Confirmation, 1)

		version := rem.ResourceVersion
		rem, moved = update(t, acting, now.Add(time.Minute))
		require.False(t, moved)
		require.Equal(t, version, rem.ResourceVersion, "what changes nothing is not written")

		rem, moved = update(t, policy.Update{Name: "life", Phase: api.RemediationSucceeded, Acted: true, Reason: policy.ReasonVerified, Message: "well",
			RepairedAt: now.Add(2 * time.Minute), Verification: spec("m-1").Evidence.Signals}, now.Add(3*time.Minute))
		require.True(t, moved)
		require.True(t, rem.Status.ActedAt.Time.Equal(now), "the first time is kept")
		require.Len(t, rem.Status.Confirmation, 1, "and so is what confirmed it")
		require.True(t, rem.Status.RepairedAt.Time.Equal(now.Add(2*time.Minute)))
		require.True(t, rem.Status.VerifiedAt.Time.Equal(now.Add(3*time.Minute)))
		require.True(t, meta.IsStatusConditionTrue(rem.Status.Conditions, api.ConditionReady))

		_, _, err = l.Update(t.Context(), acting, now)
		require.ErrorIs(t, err, ledger.ErrEnded, "an ended record never changes")
		_, err = l.Record(t.Context(), "life", spec("m-1"))
		require.ErrorIs(t, err, ledger.ErrEnded, "nor is it acted on again")
	})

	t.Run("unset is Pending", func(t *testing.T) {
		_, err := l.Record(t.Context(), "waits", spec("m-1"))
		require.NoError(t, err)
		waits := policy.Update{Name: "waits", Phase: api.RemediationPending, Reason: policy.ReasonRequestFailed, Message: "not begun"}
		_, change, err := l.Update(t.Context(), waits, now)
		require.NoError(t, err)
		require.Equal(t, ledger.Change{Reason: true}, change, "it is counted once, when it is written down")
	})

	t.Run("node check", func(t *testing.T) {
		asking := spec("m-1")
		asking.Verification.NodeCheck = &api.NodeCheckPod{Image: "check:1", Command: []string{"/check"}}
		rem, err := l.Record(t.Context(), "checked", asking)
		require.NoError(t, err)
		require.Equal(t, asking.Verification, rem.Spec.Verification)
		u := policy.Update{Name: "checked", Phase: api.RemediationVerifying, Reason: policy.ReasonAwaitingNodeCheck, Message: "asked for", NodeCheck: &api.NodeCheckRecord{
			Attempt: 1, Pod: "check-checked-1", NodeUID: "n", BootID: "b", Result: api.NodeCheckPending, RequestedAt: metav1.NewTime(now),
		}}
		rem, change, err := l.Update(t.Context(), u, now)
		require.NoError(t, err)
		require.True(t, change.Check)
		version := rem.ResourceVersion

		rem, change, err = l.Update(t.Context(), u, now)
		require.NoError(t, err)
		require.Equal(t, ledger.Change{}, change)
		require.Equal(t, version, rem.ResourceVersion)

		u.NodeCheck = u.NodeCheck.DeepCopy()
		u.NodeCheck.PodUID = "p"
		_, change, err = l.Update(t.Context(), u, now)
		require.NoError(t, err)
		require.False(t, change.Check, "the result is the same")
		u.NodeCheck.Result = api.NodeCheckFail
		u.Phase, u.Reason = api.RemediationFailed, policy.ReasonNodeCheckFailed
		rem, change, err = l.Update(t.Context(), u, now)
		require.NoError(t, err)
		require.Equal(t, ledger.Change{Phase: true, Reason: true, Check: true}, change)

		unrelated := policy.Update{Name: "checked", Phase: api.RemediationVerifying}
		_, _, err = l.Update(t.Context(), unrelated, now)
		require.ErrorIs(t, err, ledger.ErrEnded)
		require.Equal(t, api.NodeCheckFail, rem.Status.NodeCheck.Result)
	})

	t.Run("decided on what it was before", func(t *testing.T) {
		_, err := l.Record(t.Context(), "overtaken", spec("m-1"))
		require.NoError(t, err)
		update(t, policy.Update{Name: "overtaken", From: api.RemediationPending, Phase: api.RemediationActing, Acted: true, Reason: policy.ReasonRequested, Message: "asked"}, now)
		_, _, err = l.Update(t.Context(), policy.Update{Name: "overtaken", From: api.RemediationPending, Phase: api.RemediationCancelled, Reason: policy.ReasonPaused}, now)
		require.ErrorIs(t, err, ledger.ErrChanged)
		rem, err := l.Record(t.Context(), "overtaken", spec("m-1"))
		require.NoError(t, err)
		require.Equal(t, api.RemediationActing, rem.Status.Phase)
	})

	t.Run("no record", func(t *testing.T) {
		_, _, err := l.Update(t.Context(), policy.Update{Name: "absent"}, now)
		require.ErrorContains(t, err, "reading remediation absent")
	})

	t.Run("list", func(t *testing.T) {
		all, err := l.List(t.Context())
		require.NoError(t, err)
		require.Len(t, all, 6)

		part := interceptor.NewClient(hub, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			return c.List(ctx, list, append(opts, client.Limit(2))...)
		}})
		_, err = ledger.New(part, "default").List(t.Context())
		require.ErrorContains(t, err, "only a part of them")
	})
}
