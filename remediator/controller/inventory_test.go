package controller

import (
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// caughtUp waits until the remediator's watch has shown what the test has just done
// to Machines and Clusters, unless it cannot watch.
func (f *fleet) caughtUp(c *Controller) {
	f.t.Helper()
	require.Eventually(f.t, func() bool {
		cells, err := c.reader.Cells(f.t.Context())
		if err != nil || len(cells) != 1 || cells[0].Err != "" {
			return true
		}
		var want policy.Cell
		var clusters api.ClusterList
		var machines api.MachineList
		if f.client.List(f.t.Context(), &clusters) != nil || f.client.List(f.t.Context(), &machines) != nil {
			return false
		}
		for _, o := range clusters.Items {
			if signal.Paused(&o) {
				want.PausedClusters = append(want.PausedClusters, o.Name)
			}
			if o.Spec.NodeCheckKubeconfigSecret != "" {
				want.CheckedClusters = append(want.CheckedClusters, o.Name)
			}
		}
		for _, m := range machines.Items {
			want.Machines = append(want.Machines, policy.FromMachine(&m))
		}
		got := policy.Cell{PausedClusters: cells[0].PausedClusters, CheckedClusters: cells[0].CheckedClusters, Machines: cells[0].Machines}
		return cmp.Equal(want, got, cmpopts.EquateEmpty())
	}, time.Minute, 5*time.Millisecond)
}
