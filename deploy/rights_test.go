package deploy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// The token that the hub's remediator holds can ask for a repair, and change
// nothing else about a Machine.
func TestRemediatorAccessChangesOnlyTheRequest(t *testing.T) {
	config := testkit.APIServer(t)
	admin, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	cell, err := deploy.Cell()
	require.NoError(t, err)
	for _, o := range cell {
		require.NoError(t, admin.Create(t.Context(), o), "%s %s", o.GetKind(), o.GetName())
	}
	require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}}))
	m := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "m-1", Annotations: map[string]string{"pharos.dev/paused": "power"}},
		Spec:       v1alpha1.MachineSpec{ClusterName: "shop", Roles: []string{"worker"}, FailureDomain: v1alpha1.FailureDomain{Rack: "rack-1"}},
	}
	require.NoError(t, admin.Create(t.Context(), m))

	remediator := as(t, config, deploy.RemediatorAccess)
	try := func(as client.Client, change func(*v1alpha1.Machine)) error {
		now := &v1alpha1.Machine{}
		require.NoError(t, admin.Get(t.Context(), client.ObjectKeyFromObject(m), now))
		before := now.DeepCopy()
		change(now)
		return as.Patch(t.Context(), now, client.MergeFrom(before))
	}
	moved := func(m *v1alpha1.Machine) { m.Spec.NodeName = "another" }
	require.Eventually(t, func() bool { return try(remediator, moved) != nil }, 30*time.Second, 200*time.Millisecond,
		"a policy takes a moment to be obeyed")
	require.NoError(t, try(admin, func(m *v1alpha1.Machine) { m.Spec.NodeName = "" }), "others may")

	for name, change := range map[string]func(*v1alpha1.Machine){
		"node":           moved,
		"cluster":        func(m *v1alpha1.Machine) { m.Spec.ClusterName = "bank" },
		"roles":          func(m *v1alpha1.Machine) { m.Spec.Roles = nil },
		"rack":           func(m *v1alpha1.Machine) { m.Spec.FailureDomain.Rack = "rack-2" },
		"pause":          func(m *v1alpha1.Machine) { m.Annotations = nil },
		"other pause":    func(m *v1alpha1.Machine) { m.Annotations["pharos.dev/paused"] = "" },
		"new label":      func(m *v1alpha1.Machine) { m.Labels = map[string]string{"a": "b"} },
		"with a request": func(m *v1alpha1.Machine) { ask(m); moved(m) },
		"use":            func(m *v1alpha1.Machine) { m.Spec.State = v1alpha1.MachineInUse },
		"standby":        func(m *v1alpha1.Machine) { m.Spec.State = v1alpha1.MachineStandby },
		"pause by claim": func(m *v1alpha1.Machine) {
			m.Annotations = map[string]string{v1alpha1.AnnotationClaimedBy: "rem-1"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := try(remediator, change)
			require.True(t, apierrors.IsInvalid(err), "%v", err)
			require.ErrorContains(t, err, "remediator-access may")
		})
	}
	require.NoError(t, try(remediator, ask))
	require.NoError(t, try(remediator, func(m *v1alpha1.Machine) { m.Spec.Remediation.Reason = "again" }))
	require.NoError(t, try(remediator, func(m *v1alpha1.Machine) { m.Spec.Remediation = nil }))
	takesAPlace(t, try, admin, remediator)
	var machines v1alpha1.MachineList
	require.NoError(t, remediator.List(t.Context(), &machines))
	for _, list := range []client.ObjectList{&machines, &v1alpha1.ClusterList{}} {
		watch, err := remediator.Watch(t.Context(), list)
		require.NoError(t, err, "its inventory is kept by watches")
		watch.Stop()
	}
	require.True(t, apierrors.IsForbidden(remediator.Delete(t.Context(), m)))
}

// takesAPlace goes through what is written when a spare replaces a machine.
func takesAPlace(t *testing.T, try func(client.Client, func(*v1alpha1.Machine)) error, admin, remediator client.Client) {
	claim := func(m *v1alpha1.Machine) { m.Annotations[v1alpha1.AnnotationClaimedBy] = "rem-1" }
	free := func(m *v1alpha1.Machine) { delete(m.Annotations, v1alpha1.AnnotationClaimedBy) }
	use := func(m *v1alpha1.Machine) { m.Spec.State = v1alpha1.MachineInUse }
	quarantine := func(m *v1alpha1.Machine) {
		m.Spec.State, m.Annotations[v1alpha1.AnnotationQuarantined] = v1alpha1.MachineStandby, "rem-1"
	}
	require.NoError(t, try(admin, func(m *v1alpha1.Machine) { m.Spec.State = v1alpha1.MachineStandby }))
	require.NoError(t, try(remediator, claim))
	require.ErrorContains(t, try(remediator, use), "only when it ends a claim", "the claim stands")
	require.NoError(t, try(remediator, func(m *v1alpha1.Machine) { free(m); use(m) }))
	require.NoError(t, try(remediator, quarantine))
	require.ErrorContains(t, try(remediator, func(m *v1alpha1.Machine) { delete(m.Annotations, v1alpha1.AnnotationQuarantined) }), "change no other annotation", "people end a quarantine")
	require.ErrorContains(t, try(remediator, func(m *v1alpha1.Machine) { m.Annotations[v1alpha1.AnnotationQuarantined] = "rem-2" }), "change no other annotation")
	require.NoError(t, try(admin, func(m *v1alpha1.Machine) { delete(m.Annotations, v1alpha1.AnnotationQuarantined) }))
	require.NoError(t, try(remediator, claim))
	require.NoError(t, try(remediator, free), "a spare that is given back")
	require.NoError(t, try(admin, use))
}

// as is a client with the rights of an account beside Pharos.
func as(t *testing.T, config *rest.Config, account string) client.WithWatch {
	t.Helper()
	config = rest.CopyConfig(config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + deploy.Namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	return c
}

func ask(m *v1alpha1.Machine) {
	soon := metav1.NewTime(time.Now().Add(time.Minute))
	m.Spec.Remediation = &v1alpha1.RemediationRequest{ID: "r-1", Action: v1alpha1.ActionReboot, StartBefore: soon, Deadline: soon}
}
