package edge

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/rules"
)

func TestRenderRefusesTargetsAndSizes(t *testing.T) {
	target := func(component, cluster string, scheme v1alpha1.TargetScheme, addresses ...string) func(*Options) {
		return func(o *Options) {
			o.Targets = append(o.Targets, v1alpha1.StaticTarget{
				Component: v1alpha1.TargetComponent(component), Cluster: cluster, Scheme: scheme, Addresses: addresses,
			})
		}
	}
	for name, tc := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"size":                  {func(o *Options) { o.Size = "Huge" }, []string{`edge of cell "asia-1": size "Huge": must be Small, Medium or Large`}},
		"shard":                 {func(o *Options) { o.Shard, o.Shards = 3, 3 }, []string{"shard 3: the 3 shards are numbered from 0"}},
		"unverified":            {func(o *Options) { o.Unverified = []v1alpha1.TargetComponent{"etcd"} }, []string{`unverified component "etcd": must be one of kubelet`}},
		"capacity":              {func(o *Options) { o.Capacity = map[string]float64{"clusters": 0, "": 5} }, []string{`capacity pool "clusters": limit 0: must be above 0`, "capacity pool: is empty"}},
		"skipped":               {func(o *Options) { o.Skip = []v1alpha1.TargetComponent{"kube-apiserver"} }, []string{`component to skip "kube-apiserver": must be one of etcd`}},
		"component":             {target("prometheus", "", "", "a:1"), []string{`target 0: component "prometheus": is none that an edge knows how to read`}},
		"scheme":                {target("etcd", "", "FTP", "a:1"), []string{`target 0: scheme "FTP": must be HTTP or HTTPS`}},
		"token in the clear":    {target("kube-scheduler", "", "HTTP", "a:1"), []string{"would send the edge's token in the clear"}},
		"API server of another": {target("kube-apiserver", "shop", "", "a:1"), []string{`kube-apiserver of business cluster "shop"`, "the edge agent reads it"}},
		"kubelet of another":    {target("kubelet", "shop", "HTTPS", "a:1"), []string{"a credential that an edge must not have"}},
		"cluster's name":        {target("etcd", "_meta", "", "a:1"), []string{"no business cluster can be called _meta"}},
		"skipped and named": {func(o *Options) { target("etcd", "shop", "", "a:1")(o); o.Skip = []v1alpha1.TargetComponent{"etcd"} }, []string{
			`target 0: etcd is among the components to skip, so that nothing of [a:1] would be scraped`,
		}},
		"two clusters' server": {func(o *Options) {
			target("etcd", "shop", "", "a:1")(o)
			target("etcd", "bank", "", "A.:01")(o)
			target("etcd", "", "", "b:1", "B:1")(o)
		}, []string{
			`target 1: etcd at A.:01 is named already, of cluster "shop" by target 0`, `target 2: etcd at B:1 is named already, of the meta cluster by target 2`,
		}},
		"no addresses": {target("etcd", "", ""), []string{"target 0: has no addresses"}},
		"everything at once": {func(o *Options) {
			target("etcd", "", "", "a:1")(o)
			target("etcd", "", "", "a", "b:0")(o)
			o.Size = "Huge"
		}, []string{`target 1: "a" is not host:port`, `"b:0" has no valid port`, `size "Huge"`}},
	} {
		t.Run(name, func(t *testing.T) {
			o := options()
			tc.change(&o)
			_, err := Render(o)
			for _, want := range tc.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestTargetsThatTheCellNames(t *testing.T) {
	o := options()
	o.Targets = []v1alpha1.StaticTarget{
		{Component: "etcd", Addresses: []string{"10.0.0.1:2379", "[fd00::1]:2381"}},
		{Component: "etcd", Cluster: "shop", Scheme: v1alpha1.SchemeHTTPS, Addresses: []string{"10.0.0.3:2381"}},
		{Component: "node-exporter", Addresses: []string{"10.0.0.1:9100", "[fd00::1]:9100"}},
		{Component: "node-exporter", Cluster: "shop", Addresses: []string{"10.0.0.4:9100"}},
		{Component: "kube-scheduler", Addresses: []string{"10.0.0.1:10259"}},
		{Component: "kubelet", Addresses: []string{"10.0.0.9:10250"}},
		{Component: "cadvisor", Addresses: []string{"10.0.0.9:10250"}}, // the same server in another capacity
	}
	require.Equal(t, []map[string]string{{"cluster": "_meta"}}, groupLabels(o, "etcd", meta))
	require.Equal(t, []map[string]string{{"cluster": "shop", "__scheme__": "https"}}, groupLabels(o, "etcd", business))
	require.Equal(t, []map[string]string{{"cluster": "_meta", "node": "10.0.0.1"}, {"cluster": "_meta", "node": "fd00::1"}},
		groupLabels(o, "node-exporter", meta), "a node that is not Kubernetes' is called by its address")
	require.Equal(t, []map[string]string{{"cluster": "shop", "node": "10.0.0.4", "__scheme__": "http"}}, groupLabels(o, "node-exporter", business))
	require.Empty(t, groupLabels(o, "kube-scheduler", business))

	s := load(t, o)
	for job, found := range map[string]map[string]string{
		"etcd":               {"__address__": "10.0.0.3:2381", "cluster": "shop", "__scheme__": "https"},
		"node-exporter":      {"__address__": "10.0.0.4:9100", "cluster": "shop", "node": "10.0.0.4"},
		"node-exporter-meta": {"__address__": "10.0.0.1:9100", "cluster": "_meta", "node": "10.0.0.1"},
	} {
		got := s.target(t, job, found)
		require.Equal(t, found["__address__"], got.address, job)
		require.Equal(t, found["cluster"], got.labels["cluster"], job)
		require.Equal(t, found["node"], got.labels["node"], job)
	}
}

func groupLabels(o Options, component string, of kind) []map[string]string {
	var out []map[string]string
	for _, group := range o.named(component, of) {
		out = append(out, group.Labels)
	}
	return out
}

// docs/reference/edge.md says where the bytes come from.
func TestSizingGrowsWithTheCell(t *testing.T) {
	before := Sizing{CPU: "0", Memory: "0", Volume: "0"}
	for _, size := range []v1alpha1.CellSize{v1alpha1.CellSmall, v1alpha1.CellMedium, v1alpha1.CellLarge} {
		s := SizingOf(size)
		require.Greater(t, s.Series, before.Series)
		require.Greater(t, s.StateSamples, before.StateSamples)
		for _, pair := range [][2]string{{s.CPU, before.CPU}, {s.Memory, before.Memory}, {s.MemoryLimit, s.Memory}, {s.Volume, before.Volume}} {
			larger, smaller := resource.MustParse(pair[0]), resource.MustParse(pair[1])
			require.Positive(t, larger.Cmp(smaller), "%s: %s is not above %s", size, pair[0], pair[1])
		}
		memory := resource.MustParse(s.Memory)
		require.GreaterOrEqual(t, memory.Value(), int64(s.Series)*bytesASeries, "%s", size)
		before = s
	}
	require.Equal(t, SizingOf(v1alpha1.CellMedium), SizingOf(""))
}

const bytesASeries = 8000

func TestCapacityIsRecordedAsItIsGiven(t *testing.T) {
	o := options()
	o.Capacity = map[string]float64{"clusters": 60, "addresses": 65536}
	files, err := Render(o)
	require.NoError(t, err)
	topology := parseGroups(t, files[rules.TopologyFileName]).Groups[0].Rules
	got := map[string]string{}
	for _, r := range topology {
		if r.Record == "cell:capacity_limit:value" {
			got[r.Labels["pool"]] = r.Expr
		}
	}
	require.Equal(t, map[string]string{"addresses": "vector(65536)", "clusters": "vector(60)"}, got)
}
