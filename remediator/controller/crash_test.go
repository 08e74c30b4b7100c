package controller

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

var errCrash = errors.New("the process died here")

// dying is a remediator whose hub client runs the hooks.
func (f *fleet) dying(hooks interceptor.Funcs) *Controller {
	c := f.start()
	c.hub = interceptor.NewClient(f.client, hooks)
	c.ledger = ledger.New(c.hub, hubNamespace)
	return c
}

// afterRecord runs once, when the policy is re-read after the record was written.
func afterRecord(hook func() error) interceptor.Funcs {
	return interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*api.RemediationPolicy); ok {
			if err := hook(); err != nil {
				return err
			}
		}
		return c.Get(ctx, key, o, opts...)
	}}
}

// Case C24: killed between decision and patch.
func testCrashBeforePatch(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	ctx, die := context.WithCancel(t.Context())
	_, err := f.dying(afterRecord(func() error {
		die()
		return errCrash
	})).round(ctx)
	require.ErrorIs(t, err, errCrash)
	before := f.one()
	require.Empty(t, before.Status.Phase)
	f.untouched()

	f.round(f.start())
	after := f.one()
	require.Equal(t, before.UID, after.UID, "taken up, not written anew")
	require.Equal(t, api.RemediationActing, after.Status.Phase)
	require.Equal(t, before.Name, f.machine(sick).Spec.Remediation.ID)
}

// beforeStatus has the process die when the status of a record is to be written.
func beforeStatus(die func()) interceptor.Funcs {
	return interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		if _, ok := o.(*api.Remediation); ok {
			die()
			return errCrash
		}
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}}
}

// Case C24: killed between patch and status.
func testCrashBeforeStatus(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	ctx, die := context.WithCancel(t.Context())
	_, err := f.dying(beforeStatus(die)).round(ctx)
	require.ErrorIs(t, err, errCrash)
	require.Empty(t, f.one().Status.Phase)
	version := f.machine(sick).ResourceVersion
	require.Equal(t, f.one().Name, f.machine(sick).Spec.Remediation.ID)

	f.round(f.start())
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
	require.NotNil(t, f.one().Status.ActedAt)
	require.Equal(t, version, f.machine(sick).ResourceVersion, "the machine is not patched a second time")
}

// Case C29: the node recovers between record and patch.
func testRecoveryBeforePatch(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	f.round(f.dying(afterRecord(func() error {
		f.reboot(sick)
		return nil
	})))
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonRecovered), f.one().Status.Reason)
	require.Nil(t, f.one().Status.ActedAt)
	f.untouched()
}

// Case C27: a person says hands off between record and patch.
func testPauseBeforePatch(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	f.round(f.dying(afterRecord(func() error {
		f.annotate(f.machine(sick), api.AnnotationPaused, "")
		return nil
	})))
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonPaused), f.one().Status.Reason)
	f.untouched()
}

func testWithdrawnByHand(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	c := f.start()
	f.round(c)
	m := f.machine(sick)
	m.Spec.Remediation = nil
	require.NoError(t, f.client.Update(t.Context(), m))
	f.round(c)
	require.Equal(t, api.RemediationFailed, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonRequestWithdrawn), f.one().Status.Reason)
	f.round(c)
	f.untouched()
}
