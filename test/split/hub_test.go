package split_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/kubelet"
	"github.com/pharos-fleet/pharos/internal/obs"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/internal/version"
	"github.com/pharos-fleet/pharos/operator"
	"github.com/pharos-fleet/pharos/operator/workload"
)

const (
	podRange        = "127.94.1.0/24"
	kubeletAddress  = "127.94.0.1:19250"
	operatorAddress = "127.94.0.2:8080"
)

// controllers are those that the node and a StatefulSet's pods, volumes and
// accounts need.
const controllers = "--controllers=node-lifecycle-controller,statefulset-controller,garbage-collector-controller,root-ca-certificate-publisher-controller," +
	"persistentvolumeclaim-protection-controller,persistentvolume-protection-controller"

// hub is a hub whose pods run: Kubernetes' own servers, and a kubelet that runs
// what a pod says as a process, with its files mounted and kept up to date.
type hub struct {
	*testkit.World
	// owner outlives the subtests, in which the operator restarts.
	owner *testing.T
	pods  string
	// endOperator ends the operator's process, as far as it can have one here.
	endOperator func()
}

func newHub(t *testing.T) *hub {
	t.Helper()
	log.SetLogger(obs.Logr(slog.New(slog.DiscardHandler))) // what the library says outside of a manager
	config := apiServer(t)
	h := &hub{World: &testkit.World{Config: config, Admin: testkit.Client(t, config)}, owner: t, pods: t.TempDir()}
	objects, err := deploy.Hub(version.Image)
	require.NoError(t, err)
	for _, o := range objects {
		h.Create(t, o)
	}
	h.runKubelet(t)
	t.Cleanup(func() { h.explain(t) })
	access := filepath.Join(t.TempDir(), "kubeconfig")
	kubeconfig := testkit.Kubeconfig(t, config.Host, config.CAData, clientcmdapi.AuthInfo{
		ClientCertificateData: config.CertData, ClientKeyData: config.KeyData,
	})
	require.NoError(t, os.WriteFile(access, []byte(kubeconfig), 0o600))
	authority := filepath.Join(t.TempDir(), "ca.crt")
	require.NoError(t, os.WriteFile(authority, config.CAData, 0o600))
	shared := []string{"--kubeconfig=" + access, "--leader-elect=false", "--secure-port=0"}
	testkit.Spawn(t, "kube-scheduler", shared...)
	testkit.Spawn(t, "kube-controller-manager", append(shared, controllers, "--root-ca-file="+authority)...)
	return h
}

// apiServer gives pods the tokens of their accounts, other than a test's usual one.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	server := &envtest.APIServer{Path: testkit.Binary(t, "kube-apiserver")}
	server.Configure().Disable("disable-admission-plugins")
	env := &envtest.Environment{
		Scheme:                   kube.Scheme(),
		CRDDirectoryPaths:        []string{filepath.Join(testkit.Root(t), "deploy", "crds")},
		ErrorIfCRDPathMissing:    true,
		ControlPlaneStartTimeout: 2 * time.Minute, // as for all tests: testkit
		ControlPlane:             envtest.ControlPlane{Etcd: &envtest.Etcd{Path: testkit.Binary(t, "etcd")}, APIServer: server},
	}
	config, err := env.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, env.Stop()) })
	return config
}

func (h *hub) runKubelet(t *testing.T) {
	t.Helper()
	said := &testkit.Said{}
	k, err := kubelet.New(kubelet.Options{
		Config: h.Config, NodeName: "hub-node", Root: h.pods, PodCIDR: podRange, Listen: kubeletAddress,
		Images: map[string]string{
			workload.DefaultPrometheusImage:   testkit.Binary(t, "prometheus"),
			workload.DefaultAlertmanagerImage: testkit.Binary(t, "alertmanager"),
		},
		Log: slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelWarn})), Registry: prometheus.NewRegistry(),
	})
	require.NoError(t, err)
	run(t, "kubelet", said, k.Run)
}

// startOperator runs the operator of the hub with its own rights. It knows
// nothing but what the API server tells it.
func (h *hub) startOperator(t *testing.T) {
	t.Helper()
	said := &testkit.Said{}
	o, err := operator.NewHub(operator.Options{
		Config: testkit.As(h.Config, "operator"), Listen: operatorAddress, Namespace: deploy.Namespace,
		Log: slog.New(slog.NewTextHandler(said, nil)),
	})
	require.NoError(t, err)
	h.endOperator = run(h.owner, "operator", said, o.Run)
}

// run runs a part of the test's process until the test, or the returned
// function, ends it.
func run(t *testing.T, name string, said *testkit.Said, part func(context.Context) error) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- part(ctx) }()
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		require.NoError(t, <-done, name)
	}
	t.Cleanup(func() {
		end()
		if t.Failed() {
			t.Logf("%s:\n%s", name, said.Tail())
		}
	})
	return end
}

// server is the Prometheus in the only pod of a StatefulSet, once it is ready.
func (h *hub) server(t *testing.T, name string) *promtest.Server {
	t.Helper()
	testkit.Await(t, func() error {
		for _, p := range h.federation(t).Status.Parts {
			if p.Name == name && p.Ready == 1 {
				return nil
			}
		}
		return errors.New(name + " is not ready")
	})
	s := h.at(t, name)
	t.Logf("%s is at %s", name, s.Address)
	return s
}

// at is that server, whether it is ready or not.
func (h *hub) at(t *testing.T, name string) *promtest.Server {
	t.Helper()
	return promtest.Elsewhere(h.Pod(t, name+"-0").Status.PodIP + ":9090")
}

// explain shows, of a test that failed, how the pods are.
func (h *hub) explain(t *testing.T) {
	var pods corev1.PodList
	if !t.Failed() || h.Admin.List(context.Background(), &pods) != nil {
		return
	}
	for _, p := range pods.Items {
		t.Logf("pod %s on %q is %s: %+v %+v", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Conditions, p.Status.ContainerStatuses)
	}
}

// signal sends a signal to the process of a pod.
func (h *hub) signal(t *testing.T, pod string, signal syscall.Signal) {
	t.Helper()
	mark := []byte("PHAROS_POD_DIR=" + filepath.Join(h.pods, "pods", string(h.Pod(t, pod).UID)) + "\x00")
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	require.NoError(t, err)
	for _, f := range files {
		if env, err := os.ReadFile(f); err == nil && bytes.Contains(env, mark) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(pid, signal))
			return
		}
	}
	t.Fatalf("pod %s has no process", pod)
}

func (h *hub) federation(t *testing.T) *v1alpha1.Federation {
	t.Helper()
	f := &v1alpha1.Federation{}
	f.Name = "fleet"
	require.NoError(t, h.Admin.Get(t.Context(), objectKey(f), f))
	return f
}
