package controller

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// setCheckSecret puts anything into the Secret for node checks.
func (f *fleet) setCheckSecret(data map[string][]byte) {
	var s corev1.Secret
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: cellNamespace, Name: "shop-node-checks"}, &s))
	s.Data = data
	require.NoError(f.t, f.client.Update(f.t.Context(), &s))
}

// deadToken is a kubeconfig that leads to the API server and is let in nowhere.
func deadToken(t *testing.T, config *rest.Config) []byte {
	dead := rest.CopyConfig(config)
	dead.CertData, dead.KeyData = nil, nil
	return kubeconfigOf(t, dead)
}

// A repair is not begun where its check could not be made, whatever the cause, and
// begins as soon as it could.
func testCheckCannotBeMade(t *testing.T, config *rest.Config) {
	for name, tc := range map[string]struct {
		change func(f *fleet)
		says   string
	}{
		"no such Secret": {func(f *fleet) { f.nameCheckSecret("no-such-secret") }, `reading the node checks' kubeconfig: secrets "no-such-secret" not found`},
		"no key": {func(f *fleet) { f.setCheckSecret(map[string][]byte{"config": nil}) },
			"secret fleet/shop-node-checks, key kubeconfig: is empty"},
		"garbage": {func(f *fleet) { f.setCheckSecret(map[string][]byte{kube.SecretKeyKubeconfig: []byte("{}")}) },
			"secret fleet/shop-node-checks, key kubeconfig: reading kubeconfig: it has no current context, or a context without a cluster"},
		"dead token": {func(f *fleet) {
			f.setCheckSecret(map[string][]byte{kube.SecretKeyKubeconfig: deadToken(f.t, f.config)})
		}, "with the kubeconfig of Cluster fleet/shop in cell asia-1 for node checks: listing pods in namespace pharos-node-checks: "},
	} {
		t.Run(name, func(t *testing.T) {
			f := newCheckedFleet(t, config)
			tc.change(f)
			f.fail(sick)
			c := f.start()
			for range 2 {
				f.round(c)
				f.untouched()
				require.Empty(t, f.remediations())
				require.Equal(t, sick+" NodeCheckUnavailable", f.hold())
				require.Contains(t, f.policy().Status.Holds[0].Message, tc.says)
				require.NotContains(t, f.policy().Status.Holds[0].Message, "KUBERNETES_MASTER")
			}
			f.nameCheckSecret("shop-node-checks")
			f.setCheckSecret(map[string][]byte{kube.SecretKeyKubeconfig: kubeconfigOf(t, config)})
			f.round(c)
			require.NotNil(t, f.machine(sick).Spec.Remediation)
			require.Empty(t, f.pods(), "trying leaves no pod behind")
		})
	}
}

// What could be made when the round began is tried once more before the machine is
// touched. The record waits, and the next round does not believe the earlier one.
func testCheckAccessIsLost(t *testing.T, config *rest.Config) {
	f := newCheckedFleet(t, config)
	once := true
	c := f.dying(interceptor.Funcs{Get: func(ctx context.Context, k client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
		if _, ok := o.(*api.RemediationPolicy); ok && once {
			once = false
			f.setCheckSecret(map[string][]byte{kube.SecretKeyKubeconfig: deadToken(t, config)})
		}
		return k.Get(ctx, key, o, opts...)
	}})
	f.fail(sick)
	for range 2 {
		f.round(c)
		require.False(t, once, "the policy is read in the last look, after the round has tried")
		f.untouched()
		f.requirePhase(api.RemediationPending, policy.ReasonNodeCheckUnavailable)
		require.Contains(t, f.one().Status.Message, "not begun: NodeCheckUnavailable: policy nodes asks for a node check")
	}
	require.Equal(t, sick+" NodeCheckUnavailable", f.hold())

	f.setCheckSecret(map[string][]byte{kube.SecretKeyKubeconfig: kubeconfigOf(t, config)})
	f.round(c)
	require.NotNil(t, f.machine(sick).Spec.Remediation)
	require.Len(t, f.remediations(), 1, "the same record is taken up")
}

// The policy that speaks for the machine asks for no check, and another one does.
func testCheckOfAnotherPolicy(t *testing.T, config *rest.Config) {
	f := newCheckedFleet(t, config)
	f.create(policyOf("also"))
	f.fail(sick)
	c := f.start()
	f.round(c)
	require.Equal(t, "also", f.one().Spec.PolicyName)
	require.Equal(t, f.policy().Spec.Verification, f.one().Spec.Verification)
	require.NotNil(t, f.machine(sick).Spec.Remediation)

	require.Len(t, c.access, 1)
	seen := c.access[0].SeenAt
	f.round(c)
	require.Equal(t, seen, c.access[0].SeenAt, "what worked is not tried in every round")
	c.access[0].SeenAt = time.Now().Add(-refresh)
	f.round(c)
	require.True(t, c.access[0].SeenAt.After(seen))
}
