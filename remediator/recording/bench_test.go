package recording_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/recording"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

// crowd is a fleet of clusters of ten machines, fifty in a cell, of which every tenth has
// one that failed. Identities are as random as real ones, because that is what a file of
// a snapshot mostly consists of.
func crowd(machines int) snapshot.Snapshot {
	r := rand.New(rand.NewPCG(1, 2))
	s := snapshot.Snapshot{Now: start, Policies: []api.RemediationPolicy{{
		ObjectMeta: metav1.ObjectMeta{Name: "nodes"}, Spec: api.RemediationPolicySpec{Mode: api.ModeAct, MatchAll: api.MatchAllMachines}}}}
	for _, replica := range []string{"a", "b"} {
		s.Centrals = append(s.Centrals, policy.Central{Name: "central-" + replica, Replica: replica})
	}
	for c := range machines / 10 {
		if c%50 == 0 {
			cell := policy.Cell{Name: fmt.Sprintf("asia-%d", c/50), Geography: "asia"}
			s.Cells = append(s.Cells, cell)
			for i := range s.Centrals {
				s.Centrals[i].Heartbeats = append(s.Centrals[i].Heartbeats, policy.CellSample{Cell: cell.Name, At: start})
			}
		}
		addCluster(r, &s, fmt.Sprintf("shop-%d", c), c%10 == 0)
	}
	return s
}

func addCluster(r *rand.Rand, s *snapshot.Snapshot, cluster string, sick bool) {
	cell := &s.Cells[len(s.Cells)-1]
	uuid := func() string {
		return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", r.Uint32(), r.Uint32()>>16, r.Uint32()>>20, r.Uint32()>>16, r.Uint64()>>16)
	}
	live := policy.LiveCluster{Cell: cell.Name, Cluster: cluster, ReadAt: start}
	for i := range 10 {
		m := policy.Machine{Namespace: "fleet", Name: fmt.Sprintf("%s-%02d", cluster, i), UID: uuid(), Cluster: cluster, Pool: "workers", HardwareID: uuid(),
			Zone: "zone-a", Rack: fmt.Sprintf("rack-%d", r.IntN(40)), InUse: true}
		m.Node, m.ProviderID = m.Name, "metal://"+m.HardwareID
		cell.Machines = append(cell.Machines, m)
		live.Leases = append(live.Leases, policy.Lease{Node: m.Node, Renewed: start.Add(-time.Duration(r.IntN(1e10))), Duration: metav1.Duration{Duration: 40 * time.Second}})
	}
	for i := range s.Centrals {
		s.Centrals[i].ClustersUp = append(s.Centrals[i].ClustersUp, policy.ClusterSample{Cell: cell.Name, Cluster: cluster, Up: true, At: start})
	}
	if !sick {
		return
	}
	m := cell.Machines[len(cell.Machines)-1]
	live.Leases[9].Renewed = start.Add(-10 * time.Minute)
	live.Nodes = []policy.LiveNode{{Name: m.Node, Ready: "Unknown", Since: start.Add(-9 * time.Minute), Heartbeat: start.Add(-10 * time.Minute),
		UID: uuid(), BootID: uuid(), ProviderID: m.ProviderID}}
	s.Clusters = append(s.Clusters, live)
	for i := range s.Centrals {
		s.Centrals[i].Unhealthy = append(s.Centrals[i].Unhealthy, policy.NodeSample{
			Cell: cell.Name, Cluster: cluster, Node: m.Node, Zone: m.Zone, Rack: m.Rack, Reason: "Unknown", At: start})
	}
}

func ofSizes(b *testing.B, measure func(b *testing.B, s snapshot.Snapshot)) {
	for _, machines := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("machines=%d", machines), func(b *testing.B) {
			s := crowd(machines)
			b.ReportAllocs()
			measure(b, s)
		})
	}
}

// BenchmarkRecord writes a snapshot to the disk, beside the decisions. Its round waits for
// what BenchmarkOfferTheSame does, and no longer.
func BenchmarkRecord(b *testing.B) {
	ofSizes(b, func(b *testing.B, s snapshot.Snapshot) {
		dir := b.TempDir()
		r, err := recording.New(recording.Options{Dir: dir, MaxBytes: 1, Registry: prometheus.NewRegistry()})
		require.NoError(b, err)
		ended, end := context.WithCancel(b.Context())
		end() // what waits is written, and no more is waited for
		v := snapshot.VerdictOf(s.Decide(), s.Now)
		for b.Loop() {
			s.Now = s.Now.Add(time.Hour)
			r.Offer(s, v)
			r.Run(ended)
		}
		info, err := os.Stat(filepath.Join(dir, s.Now.UTC().Format("20060102T150405.000Z")+recording.Suffix))
		require.NoError(b, err)
		b.ReportMetric(float64(info.Size()), "bytes/file")
	})
}

// BenchmarkOfferTheSame is what a round pays that records nothing, because nothing is
// decided otherwise.
func BenchmarkOfferTheSame(b *testing.B) {
	ofSizes(b, func(b *testing.B, s snapshot.Snapshot) {
		r, err := recording.New(recording.Options{Dir: b.TempDir(), Registry: prometheus.NewRegistry()})
		require.NoError(b, err)
		plan := s.Decide()
		for b.Loop() {
			r.Offer(s, snapshot.VerdictOf(plan, s.Now))
		}
	})
}

// BenchmarkOpen is what replay pays for each snapshot, beside deciding it twice.
func BenchmarkOpen(b *testing.B) {
	ofSizes(b, func(b *testing.B, s snapshot.Snapshot) {
		dir := b.TempDir()
		r, err := recording.New(recording.Options{Dir: dir, Registry: prometheus.NewRegistry()})
		require.NoError(b, err)
		ended, end := context.WithCancel(b.Context())
		end()
		r.Offer(s, snapshot.Verdict{})
		r.Run(ended)
		path, err := recording.Last(dir, s.Now)
		require.NoError(b, err)
		for b.Loop() {
			_, err := recording.Open(path)
			require.NoError(b, err)
		}
	})
}
