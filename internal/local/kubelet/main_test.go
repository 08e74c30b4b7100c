package kubelet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pharos-fleet/pharos/internal/local/binaries"
	"github.com/pharos-fleet/pharos/internal/local/kubelet"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

const (
	toolImage = "example.test/tool:v1"
	fleetMark = "PHAROS_FLEET"
	patience  = time.Minute // the machine may be busy
)

var (
	toolBinary string
	api        *rest.Config
	client     kubernetes.Interface
	kubeconfig []byte
	lastPort   atomic.Int32
	lastRange  atomic.Int32
)

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runTests gives all tests one real API server whose Services have loopback addresses.
func runTests(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "kubelet test ") // with spaces on purpose
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	toolBinary = filepath.Join(dir, "tool")
	if out, err := exec.Command("go", "build", "-o", toolBinary, "./testdata/tool").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("building tool: %w: %s", err, out)
	}
	if os.Getenv(roleVariable) != "" {
		return m.Run(), nil // a child of a test: it has its API server already
	}
	env, err := apiServer()
	if err != nil {
		return 1, err
	}
	if api, err = env.Start(); err != nil {
		return 1, fmt.Errorf("starting kube-apiserver: %w", err)
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	kubeconfig = env.KubeConfig
	api.QPS, api.Burst = 200, 400
	client = kubernetes.NewForConfigOrDie(api)
	if err := os.Setenv(fleetMark, "test fleet"); err != nil {
		return 1, err
	}
	lastPort.Store(19000)
	return m.Run(), nil
}

func apiServer() (*envtest.Environment, error) {
	etcdPath, etcdErr := binaries.Find("etcd")
	serverPath, serverErr := binaries.Find("kube-apiserver")
	if err := errors.Join(etcdErr, serverErr); err != nil {
		return nil, err
	}
	server := &envtest.APIServer{Path: serverPath}
	server.Configure().
		Set("service-cluster-ip-range", "127.90.128.0/20").
		Set("endpoint-reconciler-type", "none").
		Set("kubelet-preferred-address-types", "InternalIP")
	return &envtest.Environment{
		ControlPlane: envtest.ControlPlane{
			Etcd:      &envtest.Etcd{Path: etcdPath},
			APIServer: server,
		},
		ControlPlaneStartTimeout: 2 * time.Minute, // as for all tests: testkit
	}, nil
}

// testNode is a running kubelet in a namespace of its own.
type testNode struct {
	t         *testing.T
	name      string
	namespace string
	root      string
	opts      kubelet.Options
	log       *testkit.Said
	cancel    context.CancelFunc
	done      chan error
}

// startNode starts a kubelet and stops it with the test.
func startNode(t *testing.T, change ...func(*kubelet.Options)) *testNode {
	t.Helper()
	n := newNode(t, change...)
	n.start()
	return n
}

func newNode(t *testing.T, change ...func(*kubelet.Options)) *testNode {
	t.Helper()
	name := fmt.Sprintf("node-%d", lastRange.Add(1))
	n := &testNode{t: t, name: name, namespace: name, log: &testkit.Said{}}
	n.root = filepath.Join(t.TempDir(), "root with spaces")
	n.opts = kubelet.Options{
		Config: api, NodeName: name, Root: n.root,
		PodCIDR:         fmt.Sprintf("127.90.%d.0/24", lastRange.Load()),
		Listen:          fmt.Sprintf("127.90.127.1:%d", lastPort.Add(1)),
		Images:          map[string]string{toolImage: toolBinary},
		NoClaims:        true,
		RestartDelay:    200 * time.Millisecond,
		MaxRestartDelay: time.Second,
		Log:             slog.New(slog.NewTextHandler(n.log, nil)),
	}
	for _, c := range change {
		c(&n.opts)
	}
	ctx := t.Context()
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.namespace}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.CoreV1().ServiceAccounts(n.namespace).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		n.stop()
		if t.Failed() {
			t.Log(n.log.String())
		}
		require.Empty(t, n.processes(), "processes left behind")
	})
	return n
}

func (n *testNode) start() {
	n.t.Helper()
	n.opts.Registry = prometheus.NewRegistry()
	k, err := kubelet.New(n.opts)
	require.NoError(n.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	n.cancel, n.done = cancel, make(chan error, 1)
	go func() { n.done <- k.Run(ctx) }()
}

// stop ends the kubelet as SIGTERM would.
func (n *testNode) stop() {
	n.t.Helper()
	if n.cancel == nil {
		return
	}
	n.cancel()
	n.cancel = nil
	select {
	case err := <-n.done:
		require.NoError(n.t, err)
	case <-time.After(patience):
		n.t.Fatal("the kubelet did not end")
	}
}

// processes lists the processes that belong to pods of the node.
func (n *testNode) processes() []string {
	mark := []byte("PHAROS_POD_DIR=" + n.root + "/")
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	var out []string
	for _, f := range files {
		if data, err := os.ReadFile(f); err == nil && bytes.Contains(data, mark) {
			out = append(out, filepath.Base(filepath.Dir(f)))
		}
	}
	return out
}

// pod returns a pod with one container that runs the tool.
func (n *testNode) pod(name string, args ...string) *corev1.Pod {
	grace := int64(5)
	no := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.namespace, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: n.name, TerminationGracePeriodSeconds: &grace, AutomountServiceAccountToken: &no,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "main", Image: toolImage, Args: args}},
		},
	}
}

// server returns a pod that serves HTTP on its own address, port 8080.
func (n *testNode) server(name string, args ...string) *corev1.Pod {
	p := n.pod(name, append([]string{"serve", "--listen=$(POD_IP):8080"}, args...)...)
	c := &p.Spec.Containers[0]
	c.Env = []corev1.EnvVar{{Name: "POD_IP", ValueFrom: field("status.podIP")}}
	c.Ports = []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}
	c.ReadinessProbe = &corev1.Probe{ProbeHandler: httpGet("/healthz"), PeriodSeconds: 1, FailureThreshold: 1}
	return p
}

func field(path string) *corev1.EnvVarSource {
	return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
}

func (n *testNode) create(p *corev1.Pod) *corev1.Pod {
	n.t.Helper()
	out, err := client.CoreV1().Pods(p.Namespace).Create(n.t.Context(), p, metav1.CreateOptions{})
	require.NoError(n.t, err)
	return out
}

func (n *testNode) get(name string) *corev1.Pod {
	n.t.Helper()
	p, err := client.CoreV1().Pods(n.namespace).Get(n.t.Context(), name, metav1.GetOptions{})
	require.NoError(n.t, err)
	return p
}

// wait waits until a pod is as wanted, and returns it.
func (n *testNode) wait(name, what string, cond func(*corev1.Pod) bool) *corev1.Pod {
	n.t.Helper()
	var p *corev1.Pod
	eventually(n.t, what, func() error {
		p = n.get(name)
		if !cond(p) {
			return fmt.Errorf("status is %+v", p.Status)
		}
		return nil
	})
	return p
}

func (n *testNode) waitReady(name string) *corev1.Pod {
	n.t.Helper()
	return n.wait(name, "pod "+name+" is ready", ready)
}

func (n *testNode) waitGone(name string) {
	n.t.Helper()
	eventually(n.t, "pod "+name+" is gone", func() error {
		p, err := client.CoreV1().Pods(n.namespace).Get(n.t.Context(), name, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("still there: %+v", p.Status)
		}
		return nil
	})
}

func (n *testNode) delete(name string) {
	n.t.Helper()
	require.NoError(n.t, client.CoreV1().Pods(n.namespace).Delete(n.t.Context(), name, metav1.DeleteOptions{}))
}

func (n *testNode) annotate(name, key, value string) {
	n.t.Helper()
	quoted := fmt.Sprintf("%q", value)
	if value == "" {
		quoted = "null"
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, key, quoted)
	_, err := client.CoreV1().Pods(n.namespace).Patch(n.t.Context(), name, "application/merge-patch+json", []byte(patch), metav1.PatchOptions{})
	require.NoError(n.t, err)
}

func ready(p *corev1.Pod) bool {
	return condition(p, corev1.PodReady).Status == corev1.ConditionTrue
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return corev1.PodCondition{}
}

// main returns the status of a pod's first container.
func mainStatus(p *corev1.Pod) corev1.ContainerStatus {
	if len(p.Status.ContainerStatuses) == 0 {
		return corev1.ContainerStatus{}
	}
	return p.Status.ContainerStatuses[0]
}

func waitingReason(p *corev1.Pod) string {
	if w := mainStatus(p).State.Waiting; w != nil {
		return w.Reason
	}
	return ""
}

// ask reads a page of a pod that serves.
func (n *testNode) ask(p *corev1.Pod, path string, query ...string) string {
	n.t.Helper()
	text, err := get("http://"+p.Status.PodIP+":8080"+path, query...)
	require.NoError(n.t, err)
	return text
}

func get(address string, query ...string) (string, error) {
	values := url.Values{}
	for i := 0; i < len(query); i += 2 {
		values.Set(query[i], query[i+1])
	}
	c := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(address + "?" + values.Encode())
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, data)
	}
	return strings.TrimSpace(string(data)), err
}

func newRegistry() *prometheus.Registry { return prometheus.NewRegistry() }

// eventually tries until there is no error.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		err := f()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waiting until %s: %v", what, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
