package actuate_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/remediator/actuate"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const namespace = "fleet"

var (
	startBefore = time.Now().Add(time.Minute).Truncate(time.Second)
	terms       = actuate.Terms{StartBefore: startBefore, Epoch: 7}
)

type cell struct {
	t *testing.T
	client.Client
}

// machine makes a new Machine and a recorded repair of it.
func (c cell) machine(name string) (*api.Machine, *api.Remediation) {
	m := &api.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: api.MachineSpec{ClusterName: "shop", NodeName: name}}
	require.NoError(c.t, c.Create(c.t.Context(), m))
	return m, &api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "repair-of-" + name}, Spec: api.RemediationSpec{
		Action: api.ActionReboot, Reason: "for a test", Deadline: metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second)),
		Target: api.RemediationTarget{Namespace: namespace, Machine: name, MachineUID: string(m.UID), HardwareID: "hw-" + name},
	}}
}

func (c cell) read(name string) *api.Machine {
	m, err := actuate.Read(c.t.Context(), c, api.RemediationTarget{Namespace: namespace, Machine: name})
	require.NoError(c.t, err)
	return m
}

func withdrawal(m *api.Machine, id string) policy.Withdrawal {
	return policy.Withdrawal{Namespace: m.Namespace, Machine: m.Name, UID: string(m.UID), ID: id}
}

func (c cell) withdraw(w policy.Withdrawal) bool {
	removed, err := actuate.Withdraw(c.t.Context(), c, w)
	require.NoError(c.t, err)
	return removed
}

// Case C26: what has changed, or is another's, is not written over.
func TestActuate(t *testing.T) {
	k, err := client.New(testkit.APIServer(t), client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	c := cell{t, k}
	require.NoError(t, c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))

	t.Run("request and withdrawal", func(t *testing.T) {
		m, rem := c.machine("plain")
		require.NoError(t, actuate.Request(t.Context(), c, m, rem, terms))
		got := c.read("plain")
		require.Equal(t, rem.Name, got.Spec.Remediation.ID)
		require.Equal(t, rem.Spec.Action, got.Spec.Remediation.Action)
		require.True(t, rem.Spec.Deadline.Equal(&got.Spec.Remediation.Deadline))
		require.True(t, got.Spec.Remediation.StartBefore.Time.Equal(startBefore))
		require.Equal(t, "hw-plain", got.Spec.Remediation.HardwareID)

		require.NoError(t, actuate.Request(t.Context(), c, got, rem, terms), "what stands already is left as it is")
		require.Equal(t, got.ResourceVersion, c.read("plain").ResourceVersion)

		require.True(t, c.withdraw(withdrawal(m, rem.Name)))
		after := c.read("plain")
		require.Nil(t, after.Spec.Remediation)
		after.Spec.Remediation = got.Spec.Remediation
		require.Empty(t, cmp.Diff(got.Spec, after.Spec), "nothing else is changed")
		require.False(t, c.withdraw(withdrawal(m, rem.Name)), "again is no error")
	})

	t.Run("answered in between", func(t *testing.T) {
		m, rem := c.machine("answered")
		require.NoError(t, actuate.Request(t.Context(), c, m, rem, terms))
		got := c.read("answered")
		got.Status.Remediation = &api.RemediationResponse{ID: rem.Name, Phase: api.RepairRunning}
		require.NoError(t, c.Status().Update(t.Context(), got))
		unanswered := withdrawal(m, rem.Name)
		unanswered.Then = &policy.Update{}
		require.False(t, c.withdraw(unanswered))
		require.Equal(t, rem.Name, c.read("answered").Spec.Remediation.ID, "what has begun goes on")
		require.True(t, c.withdraw(withdrawal(m, rem.Name)), "unless its repair has ended")
	})

	t.Run("changed in between", func(t *testing.T) {
		m, rem := c.machine("changed")
		now := c.read("changed")
		now.Annotations = map[string]string{api.AnnotationPaused: ""}
		require.NoError(t, c.Update(t.Context(), now))
		require.ErrorIs(t, actuate.Request(t.Context(), c, m, rem, terms), actuate.ErrConflict)
		require.Nil(t, c.read("changed").Spec.Remediation)
		require.ErrorIs(t, actuate.Request(t.Context(), c, c.read("changed"), rem, terms), actuate.ErrForeign)
	})

	t.Run("not ours", func(t *testing.T) {
		m, rem := c.machine("foreign")
		m.Spec.Remediation = &api.RemediationRequest{ID: "by-hand", Action: api.ActionReboot, StartBefore: rem.Spec.Deadline, Deadline: rem.Spec.Deadline}
		require.NoError(t, c.Update(t.Context(), m))
		require.ErrorIs(t, actuate.Request(t.Context(), c, m, rem, terms), actuate.ErrForeign)
		require.False(t, c.withdraw(withdrawal(m, rem.Name)))
		require.Equal(t, "by-hand", c.read("foreign").Spec.Remediation.ID)
	})

	t.Run("another machine under the name", func(t *testing.T) {
		_, rem := c.machine("reborn")
		require.NoError(t, c.Delete(t.Context(), c.read("reborn")))
		require.Nil(t, c.read("reborn"))
		again, _ := c.machine("reborn")
		require.ErrorIs(t, actuate.Request(t.Context(), c, again, rem, terms), actuate.ErrForeign)
	})

	t.Run("on its way out", func(t *testing.T) {
		m, rem := c.machine("leaving")
		m.Finalizers = []string{"pharos.dev/test"}
		require.NoError(t, c.Update(t.Context(), m))
		require.NoError(t, c.Delete(t.Context(), m))
		m = c.read("leaving")
		require.ErrorIs(t, actuate.Request(t.Context(), c, m, rem, terms), actuate.ErrForeign)
		m.Finalizers = nil
		require.NoError(t, c.Update(t.Context(), m))
	})
}
