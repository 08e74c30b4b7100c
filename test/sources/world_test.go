package sources_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/edge/agent"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/pki"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// Addresses of what runs. The ports are the usual ones.
const (
	metaControllers, metaScheduler = "127.93.1.1", "127.93.1.2"
	shopControllers, shopScheduler = "127.93.1.3", "127.93.1.4"
	nodeAddress                    = "127.93.2.1" // kubelet and node_exporter
	agentAddress                   = "127.93.3.1"
	edgeAddress, externalAddress   = "127.93.4.1", "127.93.4.2"
	endpointAddress                = "127.93.4.3"
	centralAddress                 = "127.93.4.20"
	objectsAddress                 = "127.93.5.1"

	nodeName = "m1"
	fleet    = "fleet" // namespace of Clusters
)

func shardAddresses() []string   { return []string{"127.93.4.10", "127.93.4.11", "127.93.4.12"} }
func cascadeAddresses() []string { return []string{"127.93.4.21", "127.93.4.22"} }

// clusterNames are the business clusters. All are seen through one API server, and
// only of the first there are servers of its own.
func clusterNames() []string { return []string{"shop", "bank", "mill", "farm", "port", "mine"} }

// etcds are members of one etcd: two, so that each has a peer.
func etcds() []string { return []string{"127.93.6.1", "127.93.6.2"} }

// world is a cell with everything that an edge reads. One real API server plays
// the meta cluster's and, seen through the agent, that of business cluster shop.
type world struct {
	config *rest.Config
	admin  client.Client
	api    kubernetes.Interface
	ca     *pki.CA
	// bundle are the authorities of the API server and of the other servers.
	bundle []byte
}

func newWorld(t *testing.T) *world {
	w := &world{config: testkit.APIServer(t)}
	var err error
	w.ca, err = pki.NewCA("authority", time.Now())
	require.NoError(t, err)
	w.bundle = append(append([]byte{}, w.config.CAData...), w.ca.Cert...)
	w.admin, err = client.New(w.config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	w.api, err = kubernetes.NewForConfig(w.config)
	require.NoError(t, err)
	objects, err := deploy.Cell()
	require.NoError(t, err)
	for _, o := range objects {
		require.NoError(t, w.admin.Create(t.Context(), o), "%s %s", o.GetKind(), o.GetName())
	}
	w.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fleet}})
	rights, err := deploy.ClusterNamespace(fleet)
	require.NoError(t, err)
	for _, o := range rights {
		require.NoError(t, w.admin.Create(t.Context(), o))
	}
	w.startNode(t)
	w.startEtcd(t)
	w.startControlPlanes(t)
	w.startAgent(t)
	return w
}

func (w *world) create(t testing.TB, o client.Object) {
	t.Helper()
	require.NoError(t, w.admin.Create(t.Context(), o), "%T %s", o, o.GetName())
}

// pod makes a pod that runs at an address, as its kubelet would say.
func (w *world) pod(t testing.TB, namespace, name, ip string, labels map[string]string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: corev1.PodSpec{
			NodeName: nodeName,
			Containers: []corev1.Container{{
				Name: "c", Image: "i", SecurityContext: restricted(),
				Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
					corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
				}},
			}},
		},
	}
	w.create(t, pod)
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, HostIP: nodeAddress, HostIPs: []corev1.HostIP{{IP: nodeAddress}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", Image: "i", ImageID: "i", RestartCount: 2,
			State:                corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}},
		}},
	}
	require.NoError(t, w.admin.Status().Update(t.Context(), pod))
}

// restricted is what the namespace of Pharos asks of every pod.
func restricted() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: ptr.To(false), RunAsNonRoot: ptr.To(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// startNode makes a node with its kubelet and host.
func (w *world) startNode(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName, Labels: map[string]string{
		corev1.LabelTopologyZone: "z", v1alpha1.LabelRack: "r", v1alpha1.LabelPool: "p",
	}}}
	w.create(t, node)
	size := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	node.Status = corev1.NodeStatus{
		Capacity: size, Allocatable: size,
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeAddress}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
		Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
		NodeInfo:        corev1.NodeSystemInfo{KubeletVersion: "v1.37.2", KernelVersion: "6.12.0", OSImage: "o", ContainerRuntimeVersion: "c"},
	}
	require.NoError(t, w.admin.Status().Update(t.Context(), node))
	startKubelet(t, nodeAddress+":10250", w.api, w.ca)
	testkit.Spawn(t, "node_exporter", "--web.listen-address="+nodeAddress+":9100")
	w.pod(t, "kube-system", "node-exporter", nodeAddress, map[string]string{"app.kubernetes.io/name": "node-exporter"})
}

func (w *world) startEtcd(t *testing.T) {
	peers := ""
	for i, ip := range etcds() {
		peers += fmt.Sprintf("m%d=http://%s:2380,", i, ip)
	}
	for i, ip := range etcds() {
		testkit.Spawn(t, "etcd", fmt.Sprintf("--name=m%d", i), "--data-dir="+t.TempDir(),
			"--listen-client-urls=http://"+ip+":2379", "--advertise-client-urls=http://"+ip+":2379",
			"--listen-peer-urls=http://"+ip+":2380", "--initial-advertise-peer-urls=http://"+ip+":2380",
			"--initial-cluster="+peers[:len(peers)-1], "--listen-metrics-urls=http://"+ip+":2381")
		w.pod(t, "kube-system", fmt.Sprintf("etcd-%d", i), ip, map[string]string{"component": "etcd"})
		w.pod(t, "kube-system", fmt.Sprintf("shop-etcd-%d", i), ip, hosted("etcd"))
	}
}

func hosted(component string) map[string]string {
	return map[string]string{edge.LabelCluster: "shop", edge.LabelControlPlane: component}
}

// startControlPlanes runs the controllers and schedulers of both clusters. The
// meta cluster's let in who has the right; the hosted ones, whose API server the
// edge has no account at, let everybody read their metrics.
func (w *world) startControlPlanes(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	raw, err := pki.Kubeconfig("meta", w.config.Host, w.config.CAData, "admin", pki.Pair{Cert: w.config.CertData, Key: w.config.KeyData})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(kubeconfig, raw, 0o600))
	for _, s := range []struct{ program, ip, port, open string }{
		{"kube-controller-manager", metaControllers, "10257", ""}, {"kube-controller-manager", shopControllers, "10257", ",/metrics"},
		{"kube-scheduler", metaScheduler, "10259", ""}, {"kube-scheduler", shopScheduler, "10259", ",/metrics"},
	} {
		cert, key := serving(t, w.ca, s.ip)
		args := []string{
			"--kubeconfig=" + kubeconfig, "--authentication-kubeconfig=" + kubeconfig, "--authorization-kubeconfig=" + kubeconfig,
			"--bind-address=" + s.ip, "--secure-port=" + s.port, "--tls-cert-file=" + cert, "--tls-private-key-file=" + key,
			"--authorization-always-allow-paths=/healthz,/readyz,/livez" + s.open, "--leader-elect=false",
		}
		labels := map[string]string{"component": s.program}
		if s.program == "kube-controller-manager" {
			args = append(args, "--controllers=namespace-controller,deployment-controller")
		}
		if s.open != "" {
			labels = hosted(s.program)
		}
		testkit.Spawn(t, s.program, args...)
		w.pod(t, "kube-system", s.program+"-"+s.ip, s.ip, labels)
	}
	// Something to schedule, so that attempts are counted.
	w.create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "to-be-placed"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}})
}

// token is a service account's.
func (w *world) token(t testing.TB, account string) string {
	t.Helper()
	request, err := w.api.CoreV1().ServiceAccounts(deploy.Namespace).CreateToken(t.Context(), account,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return request.Status.Token
}

// startAgent runs the edge agent with its own account, and lets it see shop by
// an observer with the rights that an observer is given.
func (w *world) startAgent(t *testing.T) {
	w.create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "pharos-observer"}})
	w.create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "pharos-observer"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"nodes", "pods"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: []string{""}, Resources: []string{"nodes/metrics"}, Verbs: []string{"get"}},
		{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
	}})
	w.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "pharos-observer"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "pharos-observer"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: deploy.Namespace, Name: "pharos-observer"}},
	})
	observer, err := pki.TokenKubeconfig("shop", w.config.Host, w.bundle, "observer", w.token(t, "pharos-observer"))
	require.NoError(t, err)
	w.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: "shop-observer"}, Data: map[string][]byte{kube.SecretKeyKubeconfig: observer}})
	for _, name := range clusterNames() {
		w.create(t, &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: name}, Spec: v1alpha1.ClusterSpec{
			Size: v1alpha1.ClusterSmall, Version: "v1.37.2", Profile: "standard", ObserverKubeconfigSecret: "shop-observer",
		}})
	}
	w.create(t, &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: fleet, Name: nodeName}, Spec: v1alpha1.MachineSpec{
		ClusterName: "shop", NodeName: nodeName, Roles: []string{"worker"}, State: v1alpha1.MachineInUse,
		Pool: "p", FailureDomain: v1alpha1.FailureDomain{Zone: "z", Rack: "r"},
	}})
	config := rest.AnonymousClientConfig(w.config)
	config.BearerToken = w.token(t, "edge-agent")
	a, err := agent.New(agent.Options{Cell: config, Listen: agentAddress + ":9096"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	w.pod(t, deploy.Namespace, "edge-agent", agentAddress, map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentEdgeAgent})
}

// prometheus starts a server that has rendered files and the edge's own account.
func (w *world) prometheus(t testing.TB, address string, files promcfg.Files) *promtest.Server {
	t.Helper()
	files = maps.Clone(files)
	files[promcfg.TokenFile], files[promcfg.CAFile] = []byte(w.token(t, "edge")), w.bundle
	return promtest.Prometheus(t, address, files).Ready(t)
}

// anybody is who has no credential.
func (w *world) anybody() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(w.bundle)
	return &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
}

func (w *world) options() edge.Options {
	return edge.Options{
		Geography: "asia", Region: "east", Cell: "asia-1", Replica: "a", Interval: 2 * time.Second,
		APIServer: promcfg.APIServer{URL: w.config.Host}, AgentURL: "http://" + net.JoinHostPort(agentAddress, "9096"),
	}
}
