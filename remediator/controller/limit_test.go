package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// What a limited policy did is counted from the records, so another leader knows it.
func testLimit(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	p := f.policy()
	p.Spec.Mode, p.Spec.Limit.PerDay = api.ModeActLimited, ptr.To(int32(1))
	require.NoError(t, f.client.Update(t.Context(), p))
	f.fail(sick)
	c := f.start()
	f.round(c)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
	f.answer(sick, api.RepairRefused)
	f.round(c)
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	f.round(c) // takes the request away

	another := "shop-node-13"
	f.reboot(sick)
	for _, answers := range f.centrals {
		answers.set(func(c *central) { c.listed = map[string]time.Duration{} })
	}
	f.fail(another)
	c = f.start()
	f.round(c)
	require.Len(t, f.remediations(), 1)
	f.untouched()
	require.Equal(t, another+" LimitReached", f.hold())

	p = f.policy()
	p.Spec.Limit.PerDay = ptr.To(int32(2))
	require.NoError(t, f.client.Update(t.Context(), p))
	f.round(c)
	require.Len(t, f.remediations(), 2)
	require.NotNil(t, f.machine(another).Spec.Remediation)
}
