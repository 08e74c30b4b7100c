package controller

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// running is a remediator with all its parts; stop ends it and gives its error.
type running struct {
	url  string
	stop func() error
}

func (f *fleet) run(identity string) running {
	o := f.options()
	o.Identity = identity
	return f.runWith(o)
}

func (f *fleet) runWith(o Options) running {
	c, err := New(o)
	require.NoError(f.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	f.t.Cleanup(func() { require.NoError(f.t, stop()) })
	return running{"http://" + c.Addr().String(), stop}
}

func (f *fleet) holder() string {
	var l coordinationv1.Lease
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: hubNamespace, Name: leaseName}, &l))
	return *l.Spec.HolderIdentity
}

func eventually(t *testing.T, what func(t *assert.CollectT)) {
	t.Helper()
	require.EventuallyWithT(t, what, 20*time.Second, 100*time.Millisecond)
}

func testLeading(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	r := f.run("first")
	eventually(t, func(t *assert.CollectT) {
		status, body := get(t, r.url+"/readyz")
		require.Equal(t, http.StatusOK, status, body)
	})
	_, metrics := get(t, r.url+"/metrics")
	require.Contains(t, metrics, "pharos_remediator_leader 1")
	require.Contains(t, metrics, `pharos_remediator_machines_held{reason="EvidenceConflict"} 0`)
	require.Contains(t, metrics, `pharos_remediator_central_up{central="central-a"} 1`)
	require.Contains(t, metrics, `pharos_remediator_cell_up{cell="asia-1"} 1`)

	f.fail(sick)
	eventually(t, func(t *assert.CollectT) {
		require.NotNil(t, f.machine(sick).Spec.Remediation)
	})
	f.centrals["central-b"].set(func(c *central) { c.down = true })
	eventually(t, func(t *assert.CollectT) {
		status, body := get(t, r.url+"/readyz")
		require.Equal(t, http.StatusServiceUnavailable, status)
		require.Contains(t, body, "central central-b does not answer")
	})
	f.centrals["central-b"].set(func(c *central) { c.down = false })
	eventually(t, func(t *assert.CollectT) {
		status, _ := get(t, r.url+"/readyz")
		require.Equal(t, http.StatusOK, status)
	})
	require.NoError(t, r.stop())
	require.Empty(t, f.holder(), "the Lease is given up on the way out")
}

func testTwo(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	first := f.run("first")
	eventually(t, func(t *assert.CollectT) {
		status, _ := get(t, first.url+"/readyz")
		require.Equal(t, http.StatusOK, status)
	})
	second := f.run("second")
	eventually(t, func(t *assert.CollectT) {
		status, body := get(t, second.url+"/readyz")
		require.Equal(t, http.StatusOK, status, body)
	})
	_, metrics := get(t, second.url+"/metrics")
	require.Contains(t, metrics, "pharos_remediator_leader 0")
	require.Equal(t, "first", f.holder())

	require.NoError(t, first.stop())
	f.fail(sick)
	eventually(t, func(t *assert.CollectT) {
		require.NotNil(t, f.machine(sick).Spec.Remediation)
	})
	require.Equal(t, "second", f.holder())
	// The record is written after the machine.
	eventually(t, func(t *assert.CollectT) { require.Equal(t, api.RemediationActing, f.one().Status.Phase) })
}
