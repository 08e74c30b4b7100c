package edge

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// What edges have in common is made once, and every edge has what is its own, whichever
// was rendered before it: the same as with a contract of its own, for which nothing is remembered.
func TestEdgesThatAreNotAlikeAreTheirOwn(t *testing.T) {
	contract, err := rules.Load()
	require.NoError(t, err)
	changes := map[string]func(*Options){
		"none":       func(*Options) {},
		"cell":       func(o *Options) { o.Cell, o.Region, o.Geography = "europe-1", "west", "europe" },
		"replica":    func(o *Options) { o.Replica = "b" },
		"shard":      func(o *Options) { o.Shard, o.Shards = 1, 2 },
		"division":   func(o *Options) { o.Shards, o.ShardsBeside = 2, 3 },
		"interval":   func(o *Options) { o.Interval = 10 * time.Second },
		"API server": func(o *Options) { o.APIServer.URL = "https://10.0.0.1" },
		"agent":      func(o *Options) { o.AgentURL = "http://agent:1" },
		"target":     func(o *Options) { o.Targets = []v1alpha1.StaticTarget{{Component: "etcd", Addresses: []string{"a:1"}}} },
		"skip":       func(o *Options) { o.Skip = []v1alpha1.TargetComponent{"etcd"} },
		"unverified": func(o *Options) { o.Unverified = []v1alpha1.TargetComponent{"kubelet"} },
		"objects":    func(o *Options) { o.ObjectState, o.ObjectsFrom = v1alpha1.ObjectStateKubeStateMetrics, "monitoring" },
		"capacity":   func(o *Options) { o.Capacity = map[string]float64{"clusters": 3} },
		"size":       func(o *Options) { o.Size = v1alpha1.CellLarge },
		"static":     func(o *Options) { o.Static = &Static{Edges: []string{"a:1"}, Agents: []string{"b:1"}} },
		"receivers": func(o *Options) {
			o.Link.Kind, o.Receivers = promcfg.Push, []promcfg.Receiver{{Name: "a", URL: "https://a/w"}}
		},
	}
	memory := NewMemory()
	for range 2 {
		for name, change := range changes {
			o := options()
			change(&o)
			o.Memory = memory
			got, err := Render(o)
			require.NoError(t, err, name)
			o.Contract = &contract
			want, err := Render(o)
			require.NoError(t, err, name)
			require.Equal(t, want, got, name)
			got["more"] = nil // which is nobody else's
		}
	}
	require.Equal(t, len(changes)-2, memory.Len(), "another cell, or whom it writes to, makes an edge no other kind")
}
