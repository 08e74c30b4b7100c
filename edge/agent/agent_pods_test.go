package agent

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// These are steps of TestAgent about pods, the cell itself and the nodes' own metrics.

func followsPods(t *testing.T, s *site, shop *businessServer) {
	s.within(5*time.Second, "pods are known", func() bool {
		_, body := s.get("/metrics", nil)
		return strings.Contains(body, `pharos_edge_agent_pods_known{cluster="shop"} 1`)
	})
	shop.createPod("default", "web-1", "n1")
	s.within(2*time.Second, "pending", s.has(`kube_pod_status_phase{cluster="shop",namespace="default",pod="web-1",phase="Pending"} 1`))
	require.Equal(t, []string{`kube_pod_container_resource_requests{cluster="shop",namespace="default",pod="web-1",container="web",node="n1",resource="cpu",unit="core"} 0.25`},
		s.series("kube_pod_container_resource_requests"))
	shop.setPod("default", "web-1", corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.2.0.1", HostIP: "10.1.0.1"})
	s.within(2*time.Second, "running", s.has(`kube_pod_status_phase{cluster="shop",namespace="default",pod="web-1",phase="Running"} 1`))
	require.Equal(t, []string{`kube_pod_info{cluster="shop",namespace="default",pod="web-1",host_ip="10.1.0.1",pod_ip="10.2.0.1",node="n1",host_network="false"} 1`},
		s.series("kube_pod_info"))
	shop.createPod("default", "web-2", "")
	require.NoError(t, shop.admin.CoreV1().Pods("default").Delete(t.Context(), "web-2", metav1.DeleteOptions{}))
	s.within(2*time.Second, "gone", func() bool { return len(s.series("kube_pod_info")) == 1 })
}

// exportsTheCell has the agent show the cluster that it runs in.
func exportsTheCell(t *testing.T, s *site, _ *businessServer) {
	const path = "/state/_meta/metrics"
	host := nodeNamed("host-1")
	s.create(host)
	planes := make([]*corev1.Pod, 0, 3)
	for i, network := range []bool{false, false, true} {
		planes = append(planes, podNamed("fleet", fmt.Sprint("plane-", i), "host-1"))
		planes[i].Spec.HostNetwork = network
		s.create(planes[i])
		planes[i].Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprint("10.3.0.", i)}
		require.NoError(t, s.cell.Status().Update(t.Context(), planes[i]))
	}
	is := func(sample string) func() bool {
		return func() bool { return slices.Contains(s.seriesAt(path, ""), sample) }
	}
	s.within(10*time.Second, "addresses", is("pharos_cell_addresses_used 2"))
	require.True(t, is(`pharos_cluster_up{cluster="_meta"} 1`)())
	require.True(t, is(`kube_node_status_allocatable{cluster="_meta",node="host-1",resource="cpu",unit="core"} 31.5`)())
	require.Empty(t, s.seriesAt(path, "pharos_cluster_info"), "it is no Cluster")
	require.Len(t, s.seriesAt(path, `pharos_cluster_certificate_expiry_timestamp_seconds{cluster="_meta"}`), 1)
	planes[0].Status.Phase = corev1.PodSucceeded
	require.NoError(t, s.cell.Status().Update(t.Context(), planes[0]))
	s.within(2*time.Second, "an address is given back", is("pharos_cell_addresses_used 1"))
	for _, o := range []client.Object{host, planes[0], planes[1], planes[2]} {
		require.NoError(t, s.cell.Delete(t.Context(), o, client.GracePeriodSeconds(0)))
	}
}

// scrapesNodes scrapes kubelets that ask the cluster's API server whom to let in.
func scrapesNodes(t *testing.T, s *site, shop *businessServer) {
	ca := newAuthority(t)
	host := startMachine(t, ca, asKubelet(shop.objects, "n-host", tells("m")))
	n := host.node("n-host")
	require.NoError(t, shop.objects.Create(t.Context(), n))
	s.observeWith("shop", map[string][]byte{"kubeconfig": kubeconfig(shop.url, "first-token"), secretKeyKubeletCA: ca.pem})
	s.within(20*time.Second, "authority taken over", func() bool {
		resp, _ := s.get("/proxy/fleet/shop/nodes/n-host/kubelet/metrics", nil)
		return resp.StatusCode == http.StatusOK
	})
	_, body := s.get("/proxy/fleet/shop/nodes/n-host/cadvisor/metrics", nil)
	require.Equal(t, "m{path=\"/metrics/cadvisor\"} 1\n", body)
	_, body = s.get("/proxy/fleet/shop/nodes/n-host/node-exporter/metrics", nil)
	require.Equal(t, "m{path=\"/metrics\"} 1\n", body)
	require.NoError(t, shop.objects.Delete(t.Context(), n.DeepCopy()))
	s.within(2*time.Second, "out of the inventory", func() bool {
		resp, _ := s.get("/proxy/fleet/shop/nodes/n-host/kubelet/metrics", nil)
		return resp.StatusCode == http.StatusNotFound
	})
}

// doesWithoutPods takes the rights of an observer as it was before pods were
// exported, and then adds what is missing.
func doesWithoutPods(t *testing.T, s *site, shop *businessServer) {
	host := startMachine(t, newAuthority(t), asKubelet(shop.objects, "n-host", tells("m")))
	n := host.node("n-host")
	require.NoError(t, shop.objects.Create(t.Context(), n))
	defer func() { require.NoError(t, shop.objects.Delete(t.Context(), n.DeepCopy())) }()
	older := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "older"},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"get", "list", "watch"}},
			{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
		},
	}
	require.NoError(t, shop.objects.Create(t.Context(), older))
	shop.bind("old", "older")
	s.observeWith("shop", map[string][]byte{"kubeconfig": kubeconfig(shop.url, "old-token"), secretKeyKubeletUnverified: []byte("true")})
	s.within(20*time.Second, "told", func() bool { return s.log.Count("pods not watched") == 1 })
	s.within(5*time.Second, "up all the same", s.has(`pharos_cluster_up{cluster="shop"} 1`))
	require.Len(t, s.series("kube_node_info"), 2)
	require.Empty(t, s.series("kube_pod"))
	_, body := s.get("/metrics", nil)
	require.Contains(t, body, `pharos_edge_agent_pods_known{cluster="shop"} 0`)
	require.Contains(t, body, `pharos_edge_agent_pods_known{cluster="_meta"} 1`)
	require.Contains(t, body, `pharos_edge_agent_clusters{state="up"} 1`)
	resp, body := s.get("/proxy/fleet/shop/nodes/n-host/kubelet/metrics", nil)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Contains(t, body, "it answered 403 Forbidden; the observer needs the verb get on nodes/metrics")
	resp, _ = s.get("/proxy/fleet/shop/apiserver/metrics", nil)
	require.Equal(t, http.StatusOK, resp.StatusCode)

	older.Rules[0].Resources = append(older.Rules[0].Resources, "pods", "nodes/metrics")
	require.NoError(t, shop.objects.Update(t.Context(), older))
	s.within(60*time.Second, "pods", s.has(`kube_pod_info{cluster="shop",namespace="default",pod="web-1"`))
	require.Equal(t, 1, s.log.Count("pods not watched"))
	resp, _ = s.get("/proxy/fleet/shop/nodes/n-host/kubelet/metrics", nil)
	require.Equal(t, http.StatusOK, resp.StatusCode)
}
