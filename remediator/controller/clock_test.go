package controller

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// A hub whose clock jumps ahead, past the deadline of a repair that runs, and back.
func testClockJumps(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	var ahead atomic.Int64
	o := f.options()
	o.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	c, err := New(o)
	require.NoError(t, err)
	f.lead(c)
	f.serve(c)
	f.fail(sick)
	f.round(c)
	f.answer(sick, api.RepairRunning)
	f.round(c)
	running := f.one()
	require.Equal(t, string(policy.ReasonRepairRunning), running.Status.Reason)

	ahead.Store(int64(2 * time.Hour))
	_, err = c.round(t.Context())
	require.ErrorContains(t, err, "nothing is decided in this round: the clock of this remediator moved by 2h0m")
	require.Equal(t, running.ResourceVersion, f.one().ResourceVersion)
	f.round(c)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
	require.Contains(t, f.one().Status.Message, "its deadline is over by the remediator's clock alone")

	ahead.Store(0)
	_, err = c.round(t.Context())
	require.ErrorContains(t, err, "moved by -1h59m5")
	f.round(c)
	require.Equal(t, string(policy.ReasonRepairRunning), f.one().Status.Reason)
	_, page := get(t, "http://"+c.Addr().String()+"/metrics")
	require.Contains(t, page, "pharos_remediator_clock_jumps_total 2\n")

	f.answer(sick, api.RepairSucceeded)
	f.reboot(sick)
	for _, c := range f.centrals {
		c.set(func(c *central) { delete(c.listed, sick) })
	}
	f.round(c)
	require.Equal(t, api.RemediationSucceeded, f.one().Status.Phase)
}
