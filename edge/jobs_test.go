package edge

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
)

func options() Options {
	return Options{Geography: "asia", Region: "asia-east", Cell: "asia-1", Replica: "a", Interval: 5 * time.Second}
}

// scraped is what Prometheus makes of a discovered target.
type scraped struct {
	address, scheme, path string
	labels                map[string]string
}

// server is a rendered edge as Prometheus has loaded it.
type server struct {
	jobs map[string]*config.ScrapeConfig
}

func load(t testing.TB, o Options) server {
	t.Helper()
	files, err := Render(o)
	require.NoError(t, err)
	cfg, err := config.Load(string(files[promcfg.ConfigFile]), promslog.NewNopLogger())
	require.NoError(t, err)
	s := server{jobs: map[string]*config.ScrapeConfig{}}
	for _, job := range cfg.ScrapeConfigs {
		s.jobs[job.JobName] = job
	}
	return s
}

// target relabels what discovery found, by Prometheus' own code. Nil means dropped.
func (s server) target(t testing.TB, job string, found map[string]string) *scraped {
	t.Helper()
	cfg := s.jobs[job]
	require.NotNil(t, cfg, "no job %s", job)
	b := labels.NewBuilder(labels.FromMap(found))
	for name, value := range map[string]string{"job": cfg.JobName, "__scheme__": cfg.Scheme, "__metrics_path__": cfg.MetricsPath} {
		if b.Get(name) == "" {
			b.Set(name, value)
		}
	}
	if !relabel.ProcessBuilder(b, cfg.RelabelConfigs...) {
		return nil
	}
	out := &scraped{address: b.Get("__address__"), scheme: b.Get("__scheme__"), path: b.Get("__metrics_path__"), labels: map[string]string{}}
	b.Range(func(l labels.Label) {
		if l.Name[0] != '_' {
			out.labels[l.Name] = l.Value
		}
	})
	return out
}

func pod(ip string, more ...string) map[string]string {
	found := map[string]string{"__address__": ip, "__meta_kubernetes_pod_ip": ip, "__meta_kubernetes_pod_phase": "Running"}
	for i := 0; i < len(more); i += 2 {
		found["__meta_kubernetes_pod_"+more[i]] = more[i+1]
	}
	return found
}

func fromSD(path, cluster, node string) map[string]string {
	found := map[string]string{"__address__": "10.0.0.9:9096", "__metrics_path__": path, "cluster": cluster}
	if node != "" {
		found["node"] = node
	}
	return found
}

func TestTargetsOfEveryJob(t *testing.T) {
	s := load(t, options())
	jobs := map[string]bool{}
	for name, tc := range map[string]struct {
		job   string
		found map[string]string
		want  *scraped
	}{
		"itself": {
			"edge", pod("10.0.0.1", "label_pharos_dev_replica", "a"),
			&scraped{"10.0.0.1:9090", "http", "/metrics", map[string]string{"job": "edge", "cluster": "_meta"}},
		},
		"the other of a pair":  {"edge", pod("10.0.0.1", "label_pharos_dev_replica", "b"), nil},
		"another shard":        {"edge", pod("10.0.0.1", "label_pharos_dev_replica", "a", "label_pharos_dev_shard", "1"), nil},
		"its shard, by name":   {"edge", pod("fd00::1", "label_pharos_dev_replica", "a", "label_pharos_dev_shard", "0"), &scraped{"[fd00::1]:9090", "http", "/metrics", map[string]string{"job": "edge", "cluster": "_meta"}}},
		"the agent":            {"edge-agent-self", pod("10.0.0.9"), &scraped{"10.0.0.9:9096", "http", "/metrics", map[string]string{"job": "edge-agent-self", "cluster": "_meta"}}},
		"an agent of before":   {"edge-agent-self", pod("10.0.0.9", "phase", "Failed"), nil},
		"state of a cluster":   {"state", fromSD("/state/fleet/shop/metrics", "shop", ""), &scraped{"10.0.0.9:9096", "http", "/state/fleet/shop/metrics", map[string]string{"job": "state", "cluster": "shop", "instance": "shop"}}},
		"state of the cell":    {"state", fromSD("/state/_meta/metrics", "_meta", ""), &scraped{"10.0.0.9:9096", "http", "/state/_meta/metrics", map[string]string{"job": "state", "cluster": "_meta", "instance": "_meta"}}},
		"a hosted API server":  {"kube-apiserver", fromSD("/p", "shop", ""), &scraped{"10.0.0.9:9096", "http", "/p", map[string]string{"job": "kube-apiserver", "cluster": "shop", "instance": "shop"}}},
		"a hosted kubelet":     {"kubelet", fromSD("/p", "shop", "n1"), &scraped{"10.0.0.9:9096", "http", "/p", map[string]string{"job": "kubelet", "cluster": "shop", "node": "n1", "instance": "n1"}}},
		"a hosted cadvisor":    {"cadvisor", fromSD("/p", "shop", "n1"), &scraped{"10.0.0.9:9096", "http", "/p", map[string]string{"job": "cadvisor", "cluster": "shop", "node": "n1", "instance": "n1"}}},
		"a hosted host":        {"node-exporter", fromSD("/p", "shop", "n1"), &scraped{"10.0.0.9:9096", "http", "/p", map[string]string{"job": "node-exporter", "cluster": "shop", "node": "n1", "instance": "n1"}}},
		"its kubelet":          {"kubelet-meta", node("10.0.1.1:10250"), &scraped{"10.0.1.1:10250", "https", "/metrics", map[string]string{"job": "kubelet", "cluster": "_meta", "node": "m1"}}},
		"a kubelet by IPv6":    {"kubelet-meta", node("[fd00::1]:10250"), &scraped{"[fd00::1]:10250", "https", "/metrics", map[string]string{"job": "kubelet", "cluster": "_meta", "node": "m1"}}},
		"a kubelet elsewhere":  {"kubelet-meta", node("10.0.1.1:16051"), &scraped{"10.0.1.1:16051", "https", "/metrics", map[string]string{"job": "kubelet", "cluster": "_meta", "node": "m1"}}},
		"its cadvisor":         {"cadvisor-meta", node("[fd00::1]:0"), &scraped{"[fd00::1]:10250", "https", "/metrics/cadvisor", map[string]string{"job": "cadvisor", "cluster": "_meta", "node": "m1"}}},
		"its host":             {"node-exporter-meta", pod("10.0.1.1", "node_name", "m1"), &scraped{"10.0.1.1:9100", "http", "/metrics", map[string]string{"job": "node-exporter", "cluster": "_meta", "node": "m1"}}},
		"its API server":       {"kube-apiserver-meta", map[string]string{"__address__": "10.0.1.1:6443", "__meta_kubernetes_endpointslice_port_name": "https"}, &scraped{"10.0.1.1:6443", "https", "/metrics", map[string]string{"job": "kube-apiserver", "cluster": "_meta"}}},
		"its etcd":             {"etcd-meta", pod("10.0.1.1"), &scraped{"10.0.1.1:2381", "http", "/metrics", map[string]string{"job": "etcd", "cluster": "_meta"}}},
		"its controllers":      {"kube-controller-manager-meta", pod("fd00::1"), &scraped{"[fd00::1]:10257", "https", "/metrics", map[string]string{"job": "kube-controller-manager", "cluster": "_meta"}}},
		"its scheduler":        {"kube-scheduler-meta", pod("10.0.1.1", "annotation_pharos_dev_metrics_port", "1", "annotation_pharos_dev_metrics_scheme", "http"), &scraped{"10.0.1.1:10259", "https", "/metrics", map[string]string{"job": "kube-scheduler", "cluster": "_meta"}}},
		"an etcd that ended":   {"etcd-meta", pod("10.0.1.1", "phase", "Succeeded"), nil},
		"a hosted etcd":        {"etcd", pod("10.0.2.1", "label_pharos_dev_cluster", "shop"), &scraped{"10.0.2.1:2381", "http", "/metrics", map[string]string{"job": "etcd", "cluster": "shop"}}},
		"hosted controllers":   {"kube-controller-manager", pod("10.0.2.1", "label_pharos_dev_cluster", "shop", "annotation_pharos_dev_metrics_port", "20257"), &scraped{"10.0.2.1:20257", "https", "/metrics", map[string]string{"job": "kube-controller-manager", "cluster": "shop"}}},
		"a hosted scheduler":   {"kube-scheduler", pod("fd00::2", "label_pharos_dev_cluster", "shop", "annotation_pharos_dev_metrics_port", "80", "annotation_pharos_dev_metrics_scheme", "http"), &scraped{"[fd00::2]:80", "http", "/metrics", map[string]string{"job": "kube-scheduler", "cluster": "shop"}}},
		"a port that is none":  {"kube-scheduler", pod("10.0.2.1", "label_pharos_dev_cluster", "shop", "annotation_pharos_dev_metrics_port", "evil:1"), &scraped{"10.0.2.1:10259", "https", "/metrics", map[string]string{"job": "kube-scheduler", "cluster": "shop"}}},
		"a hosted that failed": {"kube-scheduler", pod("10.0.2.1", "label_pharos_dev_cluster", "shop", "phase", "Failed"), nil},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tc.want, s.target(t, tc.job, tc.found)) })
		jobs[tc.job] = true
	}
	require.ElementsMatch(t, slices.Collect(maps.Keys(s.jobs)), slices.Collect(maps.Keys(jobs)), "a case for each job")
}

func node(address string) map[string]string {
	return map[string]string{"__address__": address, "__meta_kubernetes_node_name": "m1"}
}

// Who gets the edge's token is who proves by a certificate to be of the cluster.
func TestTokenGoesOnlyToVerifiedServersOfTheCell(t *testing.T) {
	withToken := []string{"cadvisor-meta", "kube-apiserver-meta", "kube-controller-manager-meta", "kube-scheduler-meta", "kubelet-meta"}
	o := options()
	for _, unverified := range [][]v1alpha1.TargetComponent{nil, {"kubelet"}, {"kube-controller-manager", "kube-scheduler"}} {
		o.Unverified = unverified
		var got []string
		for name, job := range load(t, o).jobs {
			if job.HTTPClientConfig.Authorization == nil {
				continue
			}
			got = append(got, name)
			require.Equal(t, "https", job.Scheme, name)
			component := name[:len(name)-len("-meta")]
			if component == "cadvisor" {
				component = "kubelet"
			}
			require.Equal(t, slices.Contains(unverified, v1alpha1.TargetComponent(component)), job.HTTPClientConfig.TLSConfig.InsecureSkipVerify, name)
		}
		require.ElementsMatch(t, withToken, got)
	}
}

func TestEveryJobIsBounded(t *testing.T) {
	for _, size := range []v1alpha1.CellSize{"", v1alpha1.CellSmall, v1alpha1.CellMedium, v1alpha1.CellLarge} {
		o := options()
		o.Size = size
		for name, job := range load(t, o).jobs {
			require.NotZero(t, job.SampleLimit, name)
			require.NotZero(t, job.BodySizeLimit, name)
			require.NotEmpty(t, job.MetricRelabelConfigs, name)
		}
	}
}

func TestAPIServersThatTheCellNames(t *testing.T) {
	o := options()
	o.APIServer.URL = "https://api.asia-1.example"
	require.Equal(t, []string{"api.asia-1.example:443"}, staticTargets(t, o, "kube-apiserver-meta"))
	o.Targets = []v1alpha1.StaticTarget{{Component: "kube-apiserver", Addresses: []string{"10.0.0.1:6443", "10.0.0.2:6443"}}}
	require.Equal(t, []string{"10.0.0.1:6443", "10.0.0.2:6443"}, staticTargets(t, o, "kube-apiserver-meta"),
		"what is behind an address, and the same by itself, would count twice")
}

func staticTargets(t *testing.T, o Options, job string) []string {
	t.Helper()
	var out []string
	for _, sd := range load(t, o).jobs[job].ServiceDiscoveryConfigs {
		for _, group := range sd.(discovery.StaticConfig) {
			for _, target := range group.Targets {
				out = append(out, string(target["__address__"]))
			}
		}
	}
	return out
}

func TestComponentsThatTheCellDoesWithout(t *testing.T) {
	o := options()
	all := load(t, o).jobs
	o.Skip = []v1alpha1.TargetComponent{"kubelet", "cadvisor", "node-exporter"}
	some := load(t, o).jobs
	require.Len(t, some, len(all)-6)
	for name := range some {
		require.NotRegexp(t, "kubelet|cadvisor|node-exporter", name)
	}
}
