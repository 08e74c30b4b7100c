package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

func (f *fleet) incidents() []api.Incident {
	var list api.IncidentList
	require.NoError(f.t, f.client.List(f.t.Context(), &list))
	return list.Items
}

func (f *fleet) incident() api.Incident {
	all := f.incidents()
	require.Len(f.t, all, 1)
	return all[0]
}

// failRack lets all five machines of the first rack be dead.
func (f *fleet) failRack() {
	for i := range 5 {
		f.fail(fmt.Sprintf("shop-node-%02d", i))
	}
}

func (f *fleet) recover(name string) {
	f.setNode(name, corev1.ConditionTrue, time.Second, "boot-1")
	f.renew(name, time.Second)
	for _, answers := range f.centrals {
		answers.set(func(c *central) { delete(c.listed, name) })
	}
}

// hurried is a storm's cooldown of a second, and a policy that waits as long.
func (f *fleet) hurried() {
	f.create(&api.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "storms"}, Spec: api.FleetDisruptionBudgetSpec{
		Level: api.BudgetFleet, StormCooldownSeconds: ptr.To(int32(1))}})
	p := f.policy()
	p.Spec.UnhealthySeconds = ptr.To(int32(1))
	require.NoError(f.t, f.client.Update(f.t.Context(), p))
}

// Case C10: one incident for a rack.
// Case C16: whose end nobody is shot at.
// A rack fails and recovers: one incident begins, recovers and closes, whoever leads, and
// what stays down is repaired after that.
func testIncident(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.hurried()
	f.failRack()
	c := f.start()
	f.round(c)
	f.untouched()
	in := f.incident()
	require.Equal(t, api.IncidentSpec{Kind: api.IncidentRack, Value: "rack-1", Zone: "zone-a", Cells: []string{cellName}, MaxUnhealthyPercent: ptr.To(int32(20))}, in.Spec)
	require.Equal(t, api.IncidentOpen, in.Status.Phase)
	require.Equal(t, []int32{5, 5, 0, 15}, []int32{in.Status.Affected, in.Status.Domain, in.Status.ElsewhereAffected, in.Status.Elsewhere})
	require.Equal(t, []string{cellName + "/" + clusterName}, in.Status.Clusters)
	require.Equal(t, "CorrelatedFailure", f.policy().Status.Holds[0].Reason)
	require.Contains(t, f.policy().Status.Holds[0].Message, "suspect rack rack-1 of zone zone-a in cell asia-1: 5 of 5")
	require.Equal(t, 1, f.told(&in, "IncidentOpen"))
	require.Contains(t, f.scraped(c), `pharos_remediator_incidents_open{kind="Rack"} 1`)

	another := f.start()
	f.round(another)
	require.Equal(t, in.ResourceVersion, f.incident().ResourceVersion, "nothing is written while nothing changes")
	for i := range 4 {
		f.recover(fmt.Sprintf("shop-node-%02d", i))
	}
	f.round(another)
	require.Equal(t, api.IncidentRecovering, f.incident().Status.Phase)
	require.Equal(t, "shop-node-04 IncidentOpen", f.hold())
	f.untouched()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		f.round(another)
		require.Equal(t, api.IncidentClosed, f.incident().Status.Phase)
	}, 10*time.Second, 200*time.Millisecond)
	f.untouched()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		f.round(another)
		require.NotEmpty(t, f.remediations(), "what a central tells is two seconds old, and must be from after the recovery")
	}, 10*time.Second, 200*time.Millisecond)
	require.Contains(t, f.scraped(another), `pharos_remediator_incidents_open{kind="Rack"} 0`)
	require.Equal(t, "shop-node-04", f.one().Spec.Target.Machine)
	require.Equal(t, 1, f.told(&in, "IncidentClosed"))
}

// An incident that was written down without its status holds, and is gone on with.
func testIncidentCrash(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.hurried()
	f.failRack()
	c := f.dying(interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
		if _, ok := o.(*api.Incident); ok {
			return errCrash
		}
		return c.SubResource(sub).Patch(ctx, o, p, opts...)
	}})
	_, err := c.round(t.Context())
	require.ErrorIs(t, err, errCrash)
	require.ErrorContains(t, err, "of Rack rack-1")
	require.Empty(t, f.incident().Status.Phase)
	for i := range 4 {
		f.recover(fmt.Sprintf("shop-node-%02d", i))
	}
	next := f.start()
	f.round(next)
	require.Equal(t, api.IncidentRecovering, f.incident().Status.Phase)
	require.Equal(t, "shop-node-04 IncidentOpen", f.hold())
	f.untouched()
}

// Incidents that cannot be read may hold what looks like a single failure.
func testIncidentsUnread(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	c := f.dying(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*api.IncidentList); ok {
			return errCrash
		}
		return c.List(ctx, list, opts...)
	}})
	_, err := c.round(t.Context())
	require.ErrorContains(t, err, "listing incidents")
	require.Empty(t, f.remediations())
	require.Equal(t, sick+" EvidenceMissing", f.hold())
	f.untouched()
}

// What was closed long ago is deleted, and no more than that.
func testIncidentsForgotten(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	for i := range 203 {
		in := &api.Incident{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("incident-rack-%03d", i)}, Spec: api.IncidentSpec{
			Kind: api.IncidentRack, Value: "rack-9", Cells: []string{cellName}, MaxUnhealthyPercent: ptr.To(int32(20))}}
		f.create(in)
		in.Status = api.IncidentStatus{Phase: api.IncidentClosed, Since: ptr.To(metav1.NewTime(time.Now().Add(-time.Duration(i) * time.Hour)))}
		require.NoError(t, f.client.Status().Update(t.Context(), in))
	}
	f.round(f.start())
	all := f.incidents()
	require.Len(t, all, 200)
	require.Equal(t, "incident-rack-199", all[199].Name)
}
