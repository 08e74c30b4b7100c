package controller

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

// Case C31: what was known is kept.
// Case C32: what was decided can be decided again.
// What a remediator saw when it held a machine, and when it let it be rebooted, is in the
// folder, and the same is decided of it.
func testRecord(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.create(freezing("stop"))
	f.fail(sick)
	o := f.options()
	o.Record.Dir = filepath.Join(t.TempDir(), "record")
	c, err := New(o)
	require.NoError(t, err)
	f.lead(c)
	f.serve(c)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.recording.Run(ctx); close(ended) }()
	read := func() (all []snapshot.Snapshot) {
		entries, err := os.ReadDir(o.Record.Dir)
		require.NoError(t, err)
		for _, e := range entries {
			file, err := os.Open(filepath.Join(o.Record.Dir, e.Name()))
			require.NoError(t, err)
			s, err := snapshot.Read(file)
			require.NoError(t, err)
			require.NoError(t, file.Close())
			all = append(all, s)
		}
		return all
	}
	f.round(c)
	f.round(c)
	require.Eventually(t, func() bool { return len(read()) == 1 }, 10*time.Second, 50*time.Millisecond, "twice the same is recorded once")
	require.NoError(t, f.client.Delete(t.Context(), freezing("stop")))
	f.round(c)
	require.Eventually(t, func() bool { return len(read()) == 2 }, 10*time.Second, 50*time.Millisecond)
	end()
	<-ended

	before, after := read()[0].Decide(), read()[1].Decide()
	require.Len(t, before.Decisions, 1)
	require.Equal(t, policy.ReasonFrozen, before.Decisions[0].Reason)
	require.Equal(t, policy.Act, after.Decisions[0].Verdict)
	require.Equal(t, f.one().Name, after.Decisions[0].Name)
	require.Equal(t, f.one().Spec.Gate, after.Decisions[0].Spec.Gate)
	entries, err := os.ReadDir(o.Record.Dir)
	require.NoError(t, err)
	require.Equal(t, entries[1].Name(), f.one().Spec.Snapshot)
}
