package cascade_test

import (
	"testing"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// Discovery finds every cascade of the geography, and each server keeps itself.
func TestACascadeScrapesNoOtherShardAsItself(t *testing.T) {
	type place struct{ shard, replica string }
	pods := map[string]place{
		"10.0.0.1": {"0", "a"}, "10.0.0.2": {"1", "a"}, "10.0.0.3": {"10", "a"}, "10.0.0.4": {"1", "b"}, "10.0.0.5": {},
	}
	for _, tc := range []struct {
		shard   int
		replica string
		want    string
	}{{0, "a", "10.0.0.1:9090"}, {1, "a", "10.0.0.2:9090"}, {10, "a", "10.0.0.3:9090"}, {1, "b", "10.0.0.4:9090"}} {
		o := options()
		o.Shard, o.Replica = tc.shard, tc.replica
		files, err := cascade.Render(o)
		require.NoError(t, err)
		cfg, err := config.Load(string(files[promcfg.ConfigFile]), promslog.NewNopLogger())
		require.NoError(t, err)
		require.Equal(t, "cascade", cfg.ScrapeConfigs[0].JobName)
		var kept []string
		for ip, p := range pods {
			b := labels.NewBuilder(labels.FromStrings(
				"__meta_kubernetes_pod_ip", ip, "__meta_kubernetes_pod_phase", "Running",
				"__meta_kubernetes_pod_label_pharos_dev_shard", p.shard, "__meta_kubernetes_pod_label_pharos_dev_replica", p.replica,
			))
			if relabel.ProcessBuilder(b, cfg.ScrapeConfigs[0].RelabelConfigs...) {
				kept = append(kept, b.Get("__address__"))
			}
		}
		require.Equal(t, []string{tc.want}, kept, "cascade %s of shard %d", tc.replica, tc.shard)
	}
}
