package controller

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

func freezing(name string) *api.FleetDisruptionBudget {
	return &api.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: api.FleetDisruptionBudgetSpec{
		Level: api.BudgetFleet, Freeze: api.Now, Reason: "storm"}}
}

func (f *fleet) budget(name string) *api.FleetDisruptionBudget {
	var b api.FleetDisruptionBudget
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Name: name}, &b))
	return &b
}

func (f *fleet) scraped(c *Controller) string {
	_, metrics := get(f.t, "http://"+c.Addr().String()+"/metrics")
	return metrics
}

// told waits for an event on an object, and says how often it was told.
func (f *fleet) told(o client.Object, reason policy.Reason) (n int) {
	require.EventuallyWithT(f.t, func(t *assert.CollectT) {
		var list corev1.EventList
		require.NoError(t, f.client.List(f.t.Context(), &list))
		n = 0
		for _, e := range list.Items {
			if e.InvolvedObject.UID == o.GetUID() && e.Reason == string(reason) {
				n += int(e.Count)
			}
		}
		require.Positive(t, n)
	}, 10*time.Second, 50*time.Millisecond)
	return n
}

// Case C27: a freeze.
func testFreeze(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.create(freezing("stop"))
	f.fail(sick)
	c := f.start()
	f.round(c)
	require.Empty(t, f.remediations())
	f.untouched()
	require.Equal(t, sick+" Frozen", f.hold())
	require.Equal(t, "Frozen", meta.FindStatusCondition(f.policy().Status.Conditions, api.ConditionRemediationAllowed).Reason)
	frozen := meta.FindStatusCondition(f.budget("stop").Status.Conditions, api.ConditionRemediationAllowed)
	require.Equal(t, metav1.ConditionFalse, frozen.Status)
	require.Contains(t, frozen.Message, "storm")
	since := f.budget("stop").Status.FrozenSince
	require.NotNil(t, since)
	gauge := fmt.Sprintf("pharos_remediator_frozen_since_timestamp_seconds{budget=\"stop\"} %s", strconv.FormatFloat(float64(since.Unix()), 'g', -1, 64))
	another := f.start()
	f.round(another)
	require.Equal(t, since, f.budget("stop").Status.FrozenSince, "a restart begins no other freeze")
	require.Contains(t, f.scraped(another), gauge)
	require.Equal(t, 1, f.told(f.budget("stop"), policy.ReasonFrozen), "it is told once")

	require.NoError(t, f.client.Delete(t.Context(), freezing("stop")))
	f.lead(c)
	f.round(c)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
	require.NotContains(t, f.scraped(c), "pharos_remediator_frozen_since_timestamp_seconds{")

	f.create(freezing("stop"))
	f.round(c)
	f.untouched()
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase, "a request that was not answered is taken back")
	require.Equal(t, "Frozen", f.one().Status.Reason)
}

// Case C27: a freeze between record and patch.
// The word of a person counts until the very write.
func testFreezeBeforePatch(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	f.round(f.dying(afterRecord(func() error { return f.client.Create(f.t.Context(), freezing("stop")) })))
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	require.Equal(t, "Frozen", f.one().Status.Reason)
	f.untouched()
}

func testBudget(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.create(&api.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "pools"}, Spec: api.FleetDisruptionBudgetSpec{
		Level: api.BudgetPool, MinAvailable: ptr.To(int32(20))}})
	f.fail(sick)
	c := f.start()
	f.round(c)
	require.Equal(t, sick+" BudgetExceeded", f.hold())
	f.untouched()
	status := f.budget("pools").Status
	require.Equal(t, &api.BudgetRecord{Level: api.BudgetPool, Domain: `pool "workers" of cluster shop in cell asia-1`,
		Machines: 20, Unavailable: 1, MaxUnavailable: ptr.To(int32(0))}, status.Tightest)
	require.Equal(t, "BudgetExceeded", meta.FindStatusCondition(status.Conditions, api.ConditionRemediationAllowed).Reason)

	b := f.budget("pools")
	b.Spec.MinAvailable = ptr.To(int32(19))
	require.NoError(t, f.client.Update(t.Context(), b))
	f.round(c)
	rem := f.one()
	require.Equal(t, api.RemediationActing, rem.Status.Phase)
	require.Len(t, rem.Spec.Budgets, 5)
	require.Equal(t, 1, f.told(b, policy.ReasonAllowed), "that a budget holds back nothing any more is told")
	require.Equal(t, "geography asia", rem.Spec.Budgets[3].Domain)
	require.Equal(t, int32(1), f.budget("pools").Status.Tightest.InFlight)

	f.reboot(sick)
	for _, answers := range f.centrals {
		answers.set(func(c *central) { c.listed = nil })
	}
	f.answer(sick, api.RepairSucceeded)
	f.round(c)
	require.Equal(t, api.RemediationSucceeded, f.one().Status.Phase)
	require.NotNil(t, f.one().Status.EndedAt)
	f.round(c)
	require.Equal(t, int32(1), f.budget("pools").Status.Tightest.InFlight, "numbers alone are written every half a minute")
	c.counted["pools"] = time.Time{}
	f.round(c)
	require.Zero(t, f.budget("pools").Status.Tightest.InFlight)
}

// Budgets that cannot be read may say "stop".
func testBudgetsUnread(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	reads := 0
	c := f.dying(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*api.FleetDisruptionBudgetList); ok {
			if reads++; reads != 2 {
				return errCrash
			}
		}
		return c.List(ctx, list, opts...)
	}})
	_, err := c.round(t.Context())
	require.ErrorContains(t, err, "listing disruption budgets")
	require.Empty(t, f.remediations())
	require.Equal(t, sick+" EvidenceMissing", f.hold())
	_, err = c.round(t.Context())
	require.ErrorContains(t, err, "listing disruption budgets", "the last look reads them once more")
	require.Equal(t, api.RemediationPending, f.one().Status.Phase)
	require.Equal(t, string(policy.ReasonRequestFailed), f.one().Status.Reason)
	f.untouched()
}
