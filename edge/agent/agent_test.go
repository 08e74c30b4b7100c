package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/common/expfmt"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

func TestNotReadyBeforeTheCellAnswers(t *testing.T) {
	s := startAgent(t, restConfig("http://"+loopback+":1"))
	for _, path := range []string{"/readyz", "/state/_meta/metrics", "/state/fleet/shop/metrics", "/sd/state", "/sd/kubelet"} {
		resp, body := s.get(path, nil)
		require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode, path)
		require.Contains(t, body, "not listed yet")
	}
	resp, _ := s.get("/healthz", nil)
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// TestAgent follows one cell with a business cluster through its life.
func TestAgent(t *testing.T) {
	// client-go keeps no handle for the goroutines of its shared transports.
	before := goleak.IgnoreCurrent()
	t.Run("life", func(t *testing.T) {
		s, shop := newSite(t), startBusiness(t)
		shop.createNode("n1")
		shop.setReady("n1", corev1.ConditionTrue)
		for _, step := range []struct {
			name string
			run  func(*testing.T, *site, *businessServer)
		}{
			{"no kubeconfig, then a bad one, then a good one", connects},
			{"machines", exportsMachines},
			{"nodes are followed", followsNodes},
			{"pods are followed", followsPods},
			{"the cell itself", exportsTheCell},
			{"discovery", discovers},
			{"proxy", proxies},
			{"nodes' own metrics", scrapesNodes},
			{"a real Prometheus", servesPrometheus},
			{"one name in two namespaces", refusesTheSecond},
			{"an older observer", doesWithoutPods},
			{"rotated kubeconfig", rotates},
			{"frozen API server", noticesAFreeze},
			{"dead API server", noticesADeath},
			{"kubeconfig taken away", obeysRemoval},
			{"Cluster deleted", forgets},
		} {
			if !t.Run(step.name, func(t *testing.T) {
				was, wasShop := s.t, shop.t
				s.t, shop.t = t, t
				defer func() { s.t, shop.t = was, wasShop }()
				step.run(t, s, shop)
			}) {
				return
			}
		}
	})
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, before)
}

func connects(t *testing.T, s *site, shop *businessServer) {
	s.within(5*time.Second, "ready", func() bool { r, _ := s.get("/readyz", nil); return r.StatusCode == http.StatusOK })
	s.create(clusterNamed("fleet", "shop"))
	s.within(5*time.Second, "known", s.has(`pharos_cluster_up{cluster="shop"} 0`))
	s.within(5*time.Second, "told", func() bool { return s.log.Count("Secret fleet/shop-observer does not exist") == 1 })
	s.observe("shop", []byte("nonsense: ["))
	time.Sleep(4 * time.Second) // some attempts with the bad one
	require.Equal(t, 1, s.log.Count("level=ERROR"), "one trouble is told once")
	require.Empty(t, s.series("kube_node"))

	s.observe("shop", kubeconfig(shop.url, "first-token"))
	s.within(20*time.Second, "up", s.has(`pharos_cluster_up{cluster="shop"} 1`))
	require.Equal(t, []string{`pharos_cluster_info{cluster="shop",size="Small",version="v1.37.2",profile="standard"} 1`}, s.series("pharos_cluster_info"))
	require.Equal(t, []string{`kube_node_labels{cluster="shop",node="n1",label_topology_kubernetes_io_zone="zone-a",label_topology_pharos_dev_rack="rack-1",label_pharos_dev_pool="workers"} 1`}, s.series("kube_node_labels"))
	require.Len(t, s.series("kube_node_info"), 1)
	require.Contains(t, s.series("kube_node_status_condition"), `kube_node_status_condition{cluster="shop",node="n1",condition="Ready",status="true"} 1`)
	s.within(5*time.Second, "certificate seen", s.has(`pharos_cluster_certificate_expiry_timestamp_seconds{cluster="shop"} `))
}

func exportsMachines(t *testing.T, s *site, _ *businessServer) {
	spare := machineNamed("shop", "m2", "")
	spare.Spec.State = v1alpha1.MachineStandby
	s.create(machineNamed("shop", "m1", "n1"))
	s.create(spare)
	s.within(5*time.Second, "machines", func() bool { return len(s.series("pharos_machine_info")) == 2 })
	require.Empty(t, cmp.Diff([]string{
		`pharos_machine_info{cluster="shop",machine="m1",node="n1",pool="workers",zone="zone-a",rack="rack-1"} 1`,
		`pharos_machine_info{cluster="shop",machine="m2",node="",pool="workers",zone="zone-a",rack="rack-1"} 1`,
	}, s.series("pharos_machine_info")))
	require.Contains(t, s.series("pharos_machine_state"), `pharos_machine_state{cluster="shop",machine="m2",state="Standby"} 1`)
}

func followsNodes(_ *testing.T, s *site, shop *businessServer) {
	shop.setReady("n1", corev1.ConditionUnknown)
	s.within(2*time.Second, "unknown", s.has(`kube_node_status_condition{cluster="shop",node="n1",condition="Ready",status="unknown"} 1`))
	shop.createNode("n2")
	s.within(2*time.Second, "a new node", s.has(`kube_node_info{cluster="shop",node="n2"`))
	require.NoError(s.t, shop.admin.CoreV1().Nodes().Delete(s.t.Context(), "n2", metav1.DeleteOptions{}))
	s.within(2*time.Second, "a node that is gone", func() bool { return len(s.series("kube_node_info")) == 1 })
	shop.setReady("n1", corev1.ConditionTrue)
}

func discovers(t *testing.T, s *site, _ *businessServer) {
	at := func(path string, labels ...string) target {
		out := target{Targets: []string{s.address}, Labels: map[string]string{"__metrics_path__": path}}
		for i := 0; i < len(labels); i += 2 {
			out.Labels[labels[i]] = labels[i+1]
		}
		return out
	}
	for component, want := range map[string][]target{
		"state":          {at("/state/fleet/shop/metrics", "cluster", "shop"), at("/state/_meta/metrics", "cluster", "_meta")},
		"kube-apiserver": {at("/proxy/fleet/shop/apiserver/metrics", "cluster", "shop")},
		"kubelet":        {at("/proxy/fleet/shop/nodes/n1/kubelet/metrics", "cluster", "shop", "node", "n1")},
		"cadvisor":       {at("/proxy/fleet/shop/nodes/n1/cadvisor/metrics", "cluster", "shop", "node", "n1")},
		"node-exporter":  {at("/proxy/fleet/shop/nodes/n1/node-exporter/metrics", "cluster", "shop", "node", "n1")},
	} {
		resp, body := s.get("/sd/"+component, nil)
		require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
		var got []target
		require.NoError(t, json.Unmarshal([]byte(body), &got))
		require.Empty(t, cmp.Diff(want, got), component)
	}
	resp, _ := s.get("/sd/etcd", nil)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
}

func proxies(t *testing.T, s *site, _ *businessServer) {
	const path = "/proxy/fleet/shop/apiserver/metrics"
	resp, body := s.get(path, nil)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Contains(t, body, "apiserver_request_total")

	proto := expfmt.NewFormat(expfmt.TypeProtoDelim)
	resp, body = s.get(path, http.Header{"Accept": {string(proto)}})
	require.Equal(t, proto.FormatType(), expfmt.ResponseFormat(resp.Header).FormatType())
	require.NotEmpty(t, body)

	resp, body = s.get(path, http.Header{"Accept-Encoding": {"gzip"}})
	require.Equal(t, "gzip", resp.Header.Get("Content-Encoding"))
	require.True(t, strings.HasPrefix(body, "\x1f\x8b"))

	resp, _ = s.get("/proxy/fleet/unheard-of/apiserver/metrics", nil)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	for _, other := range []string{"/proxy/fleet/shop/apiserver/api/v1/nodes", "/proxy/fleet/shop/apiserver/metrics/../api"} {
		resp, _ = s.get(other, nil)
		require.Equal(t, http.StatusNotFound, resp.StatusCode, other)
	}
	post, err := http.Post(s.url+path, "text/plain", nil)
	require.NoError(t, err)
	require.NoError(t, post.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, post.StatusCode)
}

// servesPrometheus lets a stock Prometheus find and scrape all that the agent offers.
func servesPrometheus(t *testing.T, s *site, shop *businessServer) {
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(config, []byte(strings.ReplaceAll(`
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- job_name: state
  honor_labels: true
  http_sd_configs: [{url: "http://AGENT/sd/state", refresh_interval: 1s}]
- job_name: kube-apiserver
  scrape_native_histograms: true
  http_sd_configs: [{url: "http://AGENT/sd/kube-apiserver", refresh_interval: 1s}]
- job_name: edge-agent-self
  scrape_native_histograms: true
  always_scrape_classic_histograms: true
  static_configs: [{targets: ["AGENT"]}]
`, "AGENT", s.address)), 0o600))
	address := fmt.Sprintf("%s:%d", loopback, freePort(t))
	stopAtEnd(t, shop.spawn("prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address))
	sees := func(query string) func() bool {
		return func() bool {
			resp, err := http.Get("http://" + address + "/api/v1/query?query=" + url.QueryEscape(query))
			if err != nil {
				return false
			}
			body, err := io.ReadAll(resp.Body)
			return err == nil && resp.Body.Close() == nil && strings.Contains(string(body), `"result":[{`)
		}
	}
	s.within(20*time.Second, "node state", sees(`kube_node_status_condition{cluster="shop",node="n1",condition="Ready",status="true"} == 1`))
	s.within(20*time.Second, "API server", sees(`up{job="kube-apiserver",cluster="shop"} == 1`))
	require.True(t, sees(`apiserver_request_total{cluster="shop"}`)())
	require.True(t, sees(`kube_node_info * on (cluster, node) group_left (machine) pharos_machine_info`)())
	require.True(t, sees(`kube_pod_status_phase{cluster="shop",pod="web-1",phase="Running"}`)())
	s.within(20*time.Second, "the cell itself", sees(`pharos_cell_addresses_used{cluster="_meta"}`))
	s.within(20*time.Second, "a native histogram", sees(`histogram_count(pharos_edge_agent_request_duration_seconds{handler="state",code="200"}) > 0`))
	require.True(t, sees(`pharos_edge_agent_request_duration_seconds_bucket{handler="state",code="200",le="+Inf"} > 0`)())
}

func refusesTheSecond(t *testing.T, s *site, _ *businessServer) {
	time.Sleep(time.Second) // ages are known to the second
	second := clusterNamed("other", "shop")
	s.create(second)
	s.create(&v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "m1"}, Spec: v1alpha1.MachineSpec{ClusterName: "shop", NodeName: "n1"}})
	s.within(5*time.Second, "refused", func() bool { return s.log.Count("Cluster refused") == 1 })
	require.Len(t, s.series("pharos_cluster_info"), 1)
	require.Len(t, s.series("pharos_machine_info"), 2)
	resp, _ := s.get("/proxy/other/shop/apiserver/metrics", nil)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	_, body := s.get("/metrics", nil)
	require.Contains(t, body, `pharos_edge_agent_clusters{state="refused"} 1`)
	require.Contains(t, body, `pharos_edge_agent_clusters{state="up"} 1`)
	require.Contains(t, body, `pharos_edge_agent_last_sync_age_seconds{cluster="shop"}`)
	require.NoError(t, s.cell.Delete(t.Context(), second))
	s.within(5*time.Second, "forgiven", func() bool {
		_, body := s.get("/metrics", nil)
		return strings.Contains(body, `pharos_edge_agent_clusters{state="refused"} 0`)
	})
}

func rotates(t *testing.T, s *site, shop *businessServer) {
	s.observe("shop", kubeconfig(shop.url, "second-token"))
	before := s.log.Count("reconnecting")
	s.within(15*time.Second, "reconnecting", func() bool { return s.log.Count("reconnecting") == before+1 })
	require.NoError(t, shop.admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), "observer-first", metav1.DeleteOptions{}))
	s.within(5*time.Second, "up", s.has(`pharos_cluster_up{cluster="shop"} 1`))
	shop.createNode("n3")
	s.within(2*time.Second, "watched with the second token", s.has(`kube_node_info{cluster="shop",node="n3"`))
}

func noticesAFreeze(t *testing.T, s *site, shop *businessServer) {
	shop.signal(syscall.SIGSTOP)
	s.within(15*time.Second, "not up", s.has(`pharos_cluster_up{cluster="shop"} 0`))
	require.NotEmpty(t, s.series("kube_node_info"), "nodes stay for a while")
	resp, body := s.get("/proxy/fleet/shop/apiserver/metrics", http.Header{scrapeTimeoutHeader: {"1"}})
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Contains(t, body, "scraping the API server")
	require.NotContains(t, body, shop.url)
	s.within(25*time.Second, "nodes are absent", func() bool { return len(s.series("kube_node_info")) == 0 })
	require.NotEmpty(t, s.series("pharos_machine_info"))
	require.Empty(t, s.series("kube_pod"))
	_, body = s.get("/sd/kube-apiserver", nil)
	require.Contains(t, body, `"cluster":"shop"`, "an API server that is down is still a target")
	_, body = s.get("/sd/kubelet", nil)
	require.Equal(t, "[]\n", body, "which nodes there are is not known")
	shop.signal(syscall.SIGCONT)
	s.within(60*time.Second, "up again", s.has(`pharos_cluster_up{cluster="shop"} 1`))
	require.Len(t, s.series("kube_node_info"), 2)
}

func noticesADeath(t *testing.T, s *site, shop *businessServer) {
	shop.kill()
	s.within(15*time.Second, "not up", s.has(`pharos_cluster_up{cluster="shop"} 0`))
	require.NotEmpty(t, s.series(`pharos_cluster_answers{cluster="shop"} 0`))
	shop.start()
	shop.createNode("n4")
	s.within(60*time.Second, "up again", s.has(`pharos_cluster_up{cluster="shop"} 1`))
	s.within(5*time.Second, "all nodes", func() bool { return len(s.series("kube_node_info")) == 3 })
	require.LessOrEqual(t, s.log.Count("level=ERROR"), 4)
}

func obeysRemoval(t *testing.T, s *site, _ *businessServer) {
	require.NoError(t, s.cell.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "shop-observer"}}))
	s.within(15*time.Second, "not up", s.has(`pharos_cluster_up{cluster="shop"} 0`))
	require.Empty(t, s.series("kube_"))
	require.Empty(t, s.series("pharos_cluster_answers"), "who cannot ask does not know")
	s.within(5*time.Second, "certificates forgotten", func() bool { return len(s.series("pharos_cluster_certificate")) == 0 })
	s.within(5*time.Second, "credentials forgotten", func() bool {
		resp, body := s.get("/proxy/fleet/shop/apiserver/metrics", nil)
		return resp.StatusCode == http.StatusBadGateway && strings.Contains(body, "no usable kubeconfig")
	})
}

func forgets(t *testing.T, s *site, _ *businessServer) {
	require.NoError(t, s.cell.Delete(t.Context(), clusterNamed("fleet", "shop")))
	s.within(5*time.Second, "gone", func() bool { return len(s.series("pharos_")) == 0 })
	_, body := s.get("/metrics", nil)
	require.NotContains(t, body, `cluster="shop"`)
	for _, component := range []string{"kube-apiserver", "kubelet"} {
		_, body = s.get("/sd/"+component, nil)
		require.Equal(t, "[]\n", body)
	}
}
