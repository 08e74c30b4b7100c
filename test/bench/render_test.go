// Package bench measures what is true of a whole fleet only.
package bench_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/operator/tree"
)

// fleet writes a fleet of 20 regions in 4 geographies, and returns the file of
// its Federation.
func fleet(tb testing.TB, cells int) string {
	tb.Helper()
	var b strings.Builder
	b.WriteString("apiVersion: pharos.dev/v1alpha1\nkind: Federation\nmetadata: {name: fleet}\nspec:\n  geographies: [{name: g0}, {name: g1}, {name: g2}, {name: g3}]\n  edge: {replicas: 2}\n" +
		"  alerting: {dingTalk: [{name: oncall, url: \"https://oapi.dingtalk.com/robot/send\", secretName: oncall}]}\n")
	for i := range cells {
		fmt.Fprintf(&b, `---
apiVersion: pharos.dev/v1alpha1
kind: Cell
metadata: {name: cell-%05[1]d}
spec:
  geography: g%[2]d
  region: region-%02[3]d
  size: Medium
  kubeconfigSecret: cell-%05[1]d
  edge: {endpoints: ["10.%[4]d.%[5]d.1:9090", "10.%[4]d.%[5]d.2:9090"]}
  capacity: {pools: [{name: clusters, limit: 34}, {name: addresses, limit: 4096}]}
`, i, i%4, i%20, i/256, i%256)
	}
	file := filepath.Join(tb.TempDir(), "fleet.yaml")
	require.NoError(tb, os.WriteFile(file, []byte(b.String()), 0o600))
	return file
}

// BenchmarkRender renders whole fleets to files: 300 cells are 10,000 business
// clusters. peak-MB is the most memory that was in use at once.
func BenchmarkRender(b *testing.B) {
	for _, cells := range []int{0, 1, 30, 300} {
		b.Run(fmt.Sprintf("cells=%d", cells), func(b *testing.B) {
			file := fleet(b, cells)
			var peak uint64
			for b.Loop() {
				peak = max(peak, render(b, file))
			}
			b.ReportMetric(float64(peak)/1e6, "peak-MB")
		})
	}
}

// A fleet of the largest size that the design knows is rendered within bounds
// of memory. How long that takes is BenchmarkRender's to say.
func TestRenderOfAWholeFleetIsBounded(t *testing.T) {
	begun := time.Now()
	peak := render(t, fleet(t, 300))
	t.Logf("300 cells in %s, %d MB at most", time.Since(begun), peak/1e6)
	require.Less(t, peak, uint64(500e6))
}

// Ten thousand cells in one hub are rendered, every file of the hub such that
// Kubernetes takes it. Cells do not depend on each other: those of one are enough.
func TestTenThousandCellsAreRendered(t *testing.T) {
	const largest = 1 << 20 // of what an object may hold
	read, err := tree.Read(fleet(t, 10_000), "")
	require.NoError(t, err)
	made, err := tree.New(read, "pharos-system")
	require.NoError(t, err)
	for _, w := range made.Warnings {
		require.Regexp(t, `^geography g\d: there is no plan of an earlier render|has no spec.alerting.heartbeat`, w)
	}
	cascades, cells := made.Servers()
	require.Equal(t, 10_000, cells)
	require.Greater(t, cascades, 4)
	seen, enough := map[string]int{}, errors.New("enough")
	err = made.Each(func(f tree.File) error {
		if strings.HasPrefix(f.Path, "cells/cell-00001/") {
			return enough
		}
		if f.Path != tree.PlanFile { // which is no object
			require.Less(t, len(f.Content), largest, f.Path)
		}
		if seen[f.Path]++; strings.HasPrefix(f.Path, "hub/files/central-a/") {
			seen["expected"] += strings.Count(string(f.Content), "record: fleet:cell_expected:info\n")
		}
		return nil
	})
	require.ErrorIs(t, err, enough)
	require.Equal(t, 10_000, seen["expected"])
	require.Contains(t, seen, "hub/manifests/central-b.topology-0.yaml")
	require.Contains(t, seen, "cells/cell-00000/manifests/edge.yaml")
}

// render renders once and returns the most memory that was in use.
func render(tb testing.TB, file string) uint64 {
	tb.Helper()
	var peak atomic.Uint64
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		var m runtime.MemStats
		for ctx.Err() == nil {
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.Sys-m.HeapReleased))
			time.Sleep(20 * time.Millisecond)
		}
	}()
	read, err := tree.Read(file, "")
	require.NoError(tb, err)
	made, err := tree.New(read, "pharos-system")
	require.NoError(tb, err)
	summary, err := made.Write(tb.Context(), filepath.Join(tb.TempDir(), "out"))
	require.NoError(tb, err)
	require.Equal(tb, summary.Files, summary.Changed)
	cancel()
	<-done
	return peak.Load()
}
