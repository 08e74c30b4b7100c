package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

const loopback = "127.92.0.1"

func restConfig(host string) *rest.Config { return &rest.Config{Host: host} }

// businessServer is the API server of a business cluster: a real
// kube-apiserver that a test can end, freeze and start again.
type businessServer struct {
	t     *testing.T
	dir   string
	etcd  string
	port  int
	url   string
	proc  *exec.Cmd
	admin kubernetes.Interface
	// objects is the administrator's, too, for any kind.
	objects client.Client
}

func startBusiness(t *testing.T) *businessServer {
	t.Helper()
	s := &businessServer{t: t, dir: t.TempDir(), port: freePort(t)}
	s.url = fmt.Sprintf("https://%s:%d", loopback, s.port)
	s.etcd = fmt.Sprintf("http://%s:%d", loopback, freePort(t))
	peer := fmt.Sprintf("http://%s:%d", loopback, freePort(t))
	stopAtEnd(t, s.spawn("etcd", "--data-dir="+filepath.Join(s.dir, "etcd"), "--listen-client-urls="+s.etcd,
		"--advertise-client-urls="+s.etcd, "--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer,
		"--initial-cluster=default="+peer, "--unsafe-no-fsync"))
	s.write("tokens.csv", "admin-token,admin,1,system:masters\nfirst-token,first,2\nsecond-token,second,3\nold-token,old,4\n")
	s.write("sa.key", newKey(t))
	s.start()
	t.Cleanup(func() { s.kill() })
	var err error
	config := &rest.Config{Host: s.url, BearerToken: "admin-token", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	s.admin, err = kubernetes.NewForConfig(config)
	require.NoError(t, err)
	s.objects, err = client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	s.install("first", "second")
	return s
}

func (s *businessServer) write(name, content string) {
	s.t.Helper()
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600))
}

func newKey(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalECPrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// spawn starts a server whose output goes to a file.
func (s *businessServer) spawn(name string, args ...string) *exec.Cmd {
	s.t.Helper()
	out, err := os.OpenFile(filepath.Join(s.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(s.t, err)
	cmd := exec.Command(testkit.Binary(s.t, name), args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(s.t, cmd.Start())
	require.NoError(s.t, out.Close())
	return cmd
}

func stopAtEnd(t *testing.T, cmd *exec.Cmd) {
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // its status says that it was killed, which we know
	})
}

func (s *businessServer) start() {
	s.t.Helper()
	key := filepath.Join(s.dir, "sa.key")
	s.proc = s.spawn("kube-apiserver", "--etcd-servers="+s.etcd, "--bind-address="+loopback,
		fmt.Sprintf("--secure-port=%d", s.port), "--cert-dir="+filepath.Join(s.dir, "certs"),
		"--service-account-issuer=https://business.example", "--service-account-key-file="+key,
		"--service-account-signing-key-file="+key, "--token-auth-file="+filepath.Join(s.dir, "tokens.csv"),
		"--authorization-mode=RBAC", "--service-cluster-ip-range=10.0.0.0/24", "--endpoint-reconciler-type=none",
		"--anonymous-auth=false", "--disable-admission-plugins=ServiceAccount")
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: s.url, BearerToken: "admin-token", TLSClientConfig: rest.TLSClientConfig{Insecure: true}, Timeout: 2 * time.Second,
	})
	require.NoError(s.t, err)
	ready := func() bool {
		_, err := client.RESTClient().Get().AbsPath("/readyz").DoRaw(s.t.Context())
		return err == nil
	}
	if !waitFor(90*time.Second, ready) {
		log, _ := os.ReadFile(filepath.Join(s.dir, "kube-apiserver.log"))
		s.t.Fatalf("kube-apiserver did not become ready:\n%s", log[max(0, len(log)-4000):])
	}
}

func (s *businessServer) kill() {
	if s.proc != nil {
		_ = s.proc.Process.Kill() // it may have ended by itself
		_ = s.proc.Wait()
		s.proc = nil
	}
}

func (s *businessServer) signal(sig os.Signal) {
	s.t.Helper()
	require.NoError(s.t, s.proc.Process.Signal(sig))
}

// install gives the cluster what deploy has for it, and lets users do what the
// observer's account may.
func (s *businessServer) install(users ...string) {
	s.t.Helper()
	objects, err := deploy.Business()
	require.NoError(s.t, err)
	for _, o := range objects {
		require.NoError(s.t, s.objects.Create(s.t.Context(), o), "%s %s", o.GetKind(), o.GetName())
	}
	for _, user := range users {
		s.bind(user, deploy.Observer)
	}
}

func (s *businessServer) bind(user, role string) {
	s.t.Helper()
	require.NoError(s.t, s.objects.Create(s.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "observer-" + user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}))
}

func (s *businessServer) createNode(name string) {
	s.t.Helper()
	n := nodeNamed(name)
	n.CreationTimestamp = metav1.Time{}
	_, err := s.admin.CoreV1().Nodes().Create(s.t.Context(), n, metav1.CreateOptions{})
	require.NoError(s.t, err)
}

func (s *businessServer) setReady(name string, status corev1.ConditionStatus) {
	s.t.Helper()
	n, err := s.admin.CoreV1().Nodes().Get(s.t.Context(), name, metav1.GetOptions{})
	require.NoError(s.t, err)
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	_, err = s.admin.CoreV1().Nodes().UpdateStatus(s.t.Context(), n, metav1.UpdateOptions{})
	require.NoError(s.t, err)
}

func podNamed(namespace, name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Name: "web", Image: "example.org/web", Resources: corev1.ResourceRequirements{Requests: resources("cpu", "250m")},
		}}},
	}
}

func (s *businessServer) createPod(namespace, name, node string) {
	s.t.Helper()
	require.NoError(s.t, s.objects.Create(s.t.Context(), podNamed(namespace, name, node)))
}

func (s *businessServer) setPod(namespace, name string, status corev1.PodStatus) {
	s.t.Helper()
	p := &corev1.Pod{}
	require.NoError(s.t, s.objects.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, p))
	p.Status = status
	require.NoError(s.t, s.objects.Status().Update(s.t.Context(), p))
}

// kubeconfig for a user with a token, by way of the given address.
func kubeconfig(server, token string) []byte {
	return []byte(strings.NewReplacer("SERVER", server, "TOKEN", token).Replace(`apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "SERVER", insecure-skip-tls-verify: true}
users:
- name: u
  user: {token: "TOKEN"}
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
`))
}

func replaced(text []byte, old, by string) []byte {
	return []byte(strings.Replace(string(text), old, by, 1))
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", loopback+":0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().(*net.TCPAddr).Port
}

func waitFor(limit time.Duration, condition func() bool) bool {
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if condition() {
			return true
		}
	}
	return false
}
