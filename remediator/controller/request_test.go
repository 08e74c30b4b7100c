package controller

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Case C27: a request is taken back when a person says hands off.
// A request that nobody has taken up yet is taken back when its reason is gone.
func testUnjustified(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	c := f.start()
	f.round(c)
	f.round(c)
	require.NotNil(t, f.machine(sick).Spec.Remediation, "it stands for as long as it is right")
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)

	f.annotate(f.machine(sick), api.AnnotationPaused, "")
	f.round(c)
	f.untouched()
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonPaused), f.one().Status.Reason)
}

func testNotStarted(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	c := f.start()
	f.round(c)
	m := f.machine(sick)
	m.Spec.Remediation.StartBefore = metav1.NewTime(time.Now().Add(-10 * time.Second))
	require.NoError(t, f.client.Update(t.Context(), m))
	f.round(c)
	f.untouched()
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonNotStarted), f.one().Status.Reason)
	f.round(c)
	require.Equal(t, sick+" Cooldown", f.hold(), "nothing proves that it was not begun, so it is not hurried")
}

func testRefused(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	c := f.start()
	f.round(c)
	f.answer(sick, api.RepairRefused)
	f.round(c)
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonRepairRefused), f.one().Status.Reason)
	f.round(c)
	f.untouched()
}

// A leader that was held up for longer than another needs to take over does not write.
func testSlowLook(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	slow := func(ctx context.Context) error {
		select {
		case <-time.After(2500 * time.Millisecond):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	_, err := f.dying(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		switch o.(type) {
		case *api.RemediationPolicy, *api.Cell:
			if err := slow(ctx); err != nil {
				return err
			}
		}
		return c.Get(ctx, key, o, opts...)
	}}).round(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	f.untouched()
	require.Equal(t, api.RemediationPending, f.one().Status.Phase, "the record waits for the next round")
	require.Equal(t, string(policy.ReasonRequestFailed), f.one().Status.Reason)
	require.Contains(t, f.one().Status.Message, "context deadline exceeded")
}

// Case C17: kubelets fall silent between record and patch.
// What happens to the rest of the cluster between record and patch counts, too.
func testSilenceBeforePatch(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	f.round(f.dying(afterRecord(func() error {
		for _, name := range []string{"shop-node-02", "shop-node-12", "shop-node-17"} {
			f.renew(name, time.Hour)
		}
		return nil
	})))
	f.untouched()
	require.Equal(t, string(policy.ReasonControlPathSuspected), f.one().Status.Reason)
}
