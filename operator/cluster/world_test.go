package cluster

import (
	"context"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// world is a cell with Pharos' real rights in it, and the API server of a
// business cluster behind a front that can be taken away.
type world struct {
	*testkit.World
	business *business
	front    *front
	// operator acts with the rights of the account machine-operator, and no more.
	operator client.Client
	clock    *clocktesting.FakePassiveClock
	recorder *events.FakeRecorder
	r        *Reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		World: testkit.NewWorld(t), business: startBusiness(t),
		clock: clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second)), recorder: events.NewFakeRecorder(64),
	}
	at, err := url.Parse(w.business.config.Host)
	require.NoError(t, err)
	w.front = &front{to: at.Host}
	w.front.open(t)
	t.Cleanup(func() { w.front.close(t) })
	cell, err := deploy.Cell()
	require.NoError(t, err)
	clusters, err := deploy.ClusterNamespace("fleet")
	require.NoError(t, err)
	w.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}})
	w.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	for _, o := range append(cell, clusters...) {
		w.Create(t, o)
	}
	w.operator = testkit.Client(t, testkit.As(w.Config, "machine-operator"))
	w.r, err = New(Options{
		Client: w.operator, Live: w.operator, Recorder: w.recorder, Registry: prometheus.NewRegistry(),
		Log: slog.New(slog.DiscardHandler), Clock: w.clock,
	})
	require.NoError(t, err)
	return w
}

// cluster makes a Cluster with a Secret of its own name, which is still to be stored.
func (w *world) cluster(t *testing.T, namespace, name string) client.ObjectKey {
	t.Helper()
	c := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.ClusterSpec{ObserverKubeconfigSecret: name},
	}
	w.Create(t, c)
	return client.ObjectKeyFromObject(c)
}

// good makes a Cluster that is as it should be, and has looked at it.
func (w *world) good(t *testing.T, name string) client.ObjectKey {
	t.Helper()
	key := w.cluster(t, "fleet", name)
	w.store(t, key, w.business.kubeconfig(t, w.front.url(), w.business.token))
	w.look(t, key)
	w.requireReady(t, key, metav1.ConditionTrue, v1alpha1.ReasonAPIServerReady, "says that it is ready")
	require.Equal(t, []string{"Normal APIServerReady"}, w.told())
	return key
}

// store creates or overwrites a kubeconfig Secret.
func (w *world) store(t *testing.T, key client.ObjectKey, kubeconfig string) {
	t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	if w.Admin.Get(t.Context(), key, s) != nil {
		w.Create(t, s)
	}
	s.Data = map[string][]byte{kube.SecretKeyKubeconfig: []byte(kubeconfig)}
	require.NoError(t, w.Admin.Update(t.Context(), s))
}

func (w *world) discard(t *testing.T, key client.ObjectKey) {
	t.Helper()
	require.NoError(t, w.Admin.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}))
}

func (w *world) get(t *testing.T, key client.ObjectKey) *v1alpha1.Cluster {
	t.Helper()
	c := &v1alpha1.Cluster{}
	require.NoError(t, w.Admin.Get(t.Context(), key, c))
	return c
}

// annotate sets an annotation, or takes it away.
func (w *world) annotate(t *testing.T, key client.ObjectKey, annotation string, value *string) {
	t.Helper()
	c := w.get(t, key)
	before := c.DeepCopy()
	delete(c.Annotations, annotation)
	if value != nil {
		c.Annotations = map[string]string{annotation: *value}
	}
	require.NoError(t, w.Admin.Patch(t.Context(), c, client.MergeFrom(before)))
}

// look reconciles, ten seconds after the last time.
func (w *world) look(t *testing.T, key client.ObjectKey) time.Duration {
	t.Helper()
	w.clock.SetTime(w.clock.Now().Add(10 * time.Second))
	result, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
	require.NoError(t, err)
	return result.RequeueAfter
}

// lookTwice has the second look find what the first did, and write nothing.
func (w *world) lookTwice(t *testing.T, key client.ObjectKey) {
	t.Helper()
	w.look(t, key)
	written := w.get(t, key).ResourceVersion
	w.look(t, key)
	require.Equal(t, written, w.get(t, key).ResourceVersion, "nothing has changed, and it was written")
}

// lookUntil looks until what Ready says matches: a server takes a moment to notice.
func (w *world) lookUntil(t *testing.T, key client.ObjectKey, says string) {
	t.Helper()
	message := ""
	for start := time.Now(); time.Since(start) < 30*time.Second; time.Sleep(100 * time.Millisecond) {
		w.look(t, key)
		message = meta.FindStatusCondition(w.get(t, key).Status.Conditions, v1alpha1.ConditionReady).Message
		if regexp.MustCompile(says).MatchString(message) {
			return
		}
	}
	require.Regexp(t, says, message)
}

func (w *world) requireReady(t *testing.T, key client.ObjectKey, status metav1.ConditionStatus, reason, says string) *v1alpha1.Cluster {
	t.Helper()
	c := w.get(t, key)
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	require.NotNil(t, ready)
	require.Equal(t, reason, ready.Reason, ready.Message)
	require.Equal(t, status, ready.Status)
	require.Contains(t, ready.Message, says)
	require.Equal(t, c.Generation, ready.ObservedGeneration)
	require.Equal(t, c.Generation, c.Status.ObservedGeneration)
	return c
}

// told are the events since it was last asked, without their messages.
func (w *world) told() []string {
	var out []string
	for {
		select {
		case e := <-w.recorder.Events:
			out = append(out, strings.Join(strings.Fields(e)[:2], " "))
		default:
			return out
		}
	}
}

// business is the real API server of a business cluster, with an etcd that can
// be stopped alone.
type business struct {
	config *rest.Config
	admin  client.Client
	env    *envtest.Environment
	// token is the observer's.
	token string
}

func startBusiness(t *testing.T) *business {
	t.Helper()
	env := &envtest.Environment{ControlPlaneStartTimeout: 2 * time.Minute} // as for all tests: testkit
	// In a folder of ours, so that it outlives a stop.
	env.ControlPlane.Etcd = &envtest.Etcd{Path: testkit.Binary(t, "etcd"), DataDir: t.TempDir()}
	env.ControlPlane.APIServer = &envtest.APIServer{Path: testkit.Binary(t, "kube-apiserver")}
	config, err := env.Start()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, env.Stop()) })
	b := &business{config: config, admin: testkit.Client(t, config), env: env}
	observer := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pharos-observer"}}
	require.NoError(t, b.admin.Create(t.Context(), observer))
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, b.admin.SubResource("token").Create(t.Context(), observer, request))
	b.token = request.Status.Token
	return b
}

// grant gives the observer a ClusterRole.
func (b *business) grant(t *testing.T, role string) {
	t.Helper()
	require.NoError(t, b.admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "observer-" + strings.ReplaceAll(role, ":", "-")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "pharos-observer"}},
	}))
}

func (b *business) kubeconfig(t *testing.T, server, token string) string {
	t.Helper()
	return testkit.Kubeconfig(t, server, b.config.CAData, clientcmdapi.AuthInfo{Token: token})
}

// certificate is that of a server which is its own authority.
func certificate(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}

// front passes connections on to a server, until it is closed: then it and they
// are gone. It comes back at the same address.
type front struct {
	to      string
	address string

	listener net.Listener
	cancel   context.CancelFunc
	passing  sync.WaitGroup
}

func (f *front) url() string { return "https://" + f.address }

func (f *front) open(t *testing.T) {
	t.Helper()
	address := f.address
	if address == "" {
		address = "127.0.0.1:0"
	}
	var err error
	f.listener, err = net.Listen("tcp", address)
	require.NoError(t, err)
	f.address = f.listener.Addr().String()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	f.cancel = cancel
	listener := f.listener
	f.passing.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			f.passing.Go(func() { f.pass(ctx, from) })
		}
	})
}

func (f *front) pass(ctx context.Context, from net.Conn) {
	to, err := net.Dial("tcp", f.to)
	if err != nil {
		_ = from.Close() // as the server itself would be: gone
		return
	}
	both := func() { _, _ = from.Close(), to.Close() }
	stop := context.AfterFunc(ctx, both)
	defer stop()
	defer both()
	var other sync.WaitGroup
	other.Go(func() {
		defer both()
		_, _ = io.Copy(to, from) // ends when either end does
	})
	_, _ = io.Copy(from, to)
	both()
	other.Wait()
}

func (f *front) close(t *testing.T) {
	t.Helper()
	f.cancel()
	require.NoError(t, f.listener.Close())
	f.passing.Wait()
}
