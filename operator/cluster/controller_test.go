package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

func TestReconciler(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *world)
	}{
		{"ready", ready},
		{"columns", columns},
		{"gone and back", goneAndBack},
		{"hanging", hanging},
		{"no Secret, then one", secretMissing},
		{"Secret mended", secretMended},
		{"Secret replaced", secretReplaced},
		{"Secret not given out", secretNotGivenOut},
		{"credential withdrawn", unauthorized},
		{"another authority", untrustedServer},
		{"paused", isPaused},
		{"changed meanwhile", changedMeanwhile},
		{"deleted", deleted},
		{"ending", ending},
		{"rights are narrow", rightsAreNarrow},
		// These break the business cluster.
		{"may not ask", mayNotAsk},
		{"etcd is down", notReady},
	} {
		t.Run(test.name, func(t *testing.T) {
			defer w.told()
			test.run(t, w)
		})
	}
}

func ready(t *testing.T, w *world) {
	key := w.good(t, "ready")
	c := w.get(t, key)
	require.Regexp(t, `^v1\.\d+\.\d+`, c.Status.Version)
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	require.True(t, ready.LastTransitionTime.Time.Equal(w.clock.Now()), "the transition was at %s", ready.LastTransitionTime)
	for range 3 {
		next := w.look(t, key)
		require.InDelta(t, paceReady, next, paceJitter*float64(paceReady))
		require.GreaterOrEqual(t, next, paceReady)
	}
	require.Equal(t, c.ResourceVersion, w.get(t, key).ResourceVersion, "nothing has changed, and it was written")
	require.Empty(t, w.told(), "a change is told once")
	require.EqualValues(t, 4, testutil.ToFloat64(w.r.metrics.looks.WithLabelValues(v1alpha1.ReasonAPIServerReady)))
}

// What kubectl get shows without being asked for more.
func columns(t *testing.T, w *world) {
	key := w.good(t, "columns")
	web, err := rest.HTTPClientFor(w.Config)
	require.NoError(t, err)
	at, err := url.JoinPath(w.Config.Host, "apis/pharos.dev/v1alpha1/namespaces", key.Namespace, "clusters", key.Name)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	require.NoError(t, err)
	request.Header.Set("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1")
	response, err := web.Do(request)
	require.NoError(t, err)
	var table metav1.Table
	require.NoError(t, json.NewDecoder(response.Body).Decode(&table))
	require.NoError(t, response.Body.Close())
	shown := map[string]any{}
	for i, column := range table.ColumnDefinitions {
		if column.Priority == 0 {
			shown[column.Name] = table.Rows[0].Cells[i]
		}
	}
	delete(shown, "Age")
	require.Equal(t, map[string]any{
		"Name": "columns", "Ready": "True", "Reason": "APIServerReady", "Version": w.get(t, key).Status.Version, "Size": nil, "Paused": "False",
	}, shown)
}

func goneAndBack(t *testing.T, w *world) {
	key := w.good(t, "gone")
	version := w.get(t, key).Status.Version
	w.front.close(t)
	w.lookTwice(t, key)
	c := w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "connection refused: see whether the API server runs in its cell")
	require.Equal(t, version, c.Status.Version, "the last known version")
	require.Less(t, w.look(t, key), paceReady, "it is looked at sooner")
	require.Equal(t, []string{"Warning Unreachable"}, w.told())
	w.front.open(t)
	w.look(t, key)
	w.requireReady(t, key, metav1.ConditionTrue, v1alpha1.ReasonAPIServerReady, "")
	require.Equal(t, []string{"Normal APIServerReady"}, w.told())
}

// A server that takes connections and says nothing: no longer than its time.
func hanging(t *testing.T, w *world) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	patient := w.r.timeout
	w.r.timeout = 300 * time.Millisecond
	defer func() { w.r.timeout = patient }()
	key := w.cluster(t, "fleet", "hanging")
	w.store(t, key, w.business.kubeconfig(t, "https://"+l.Addr().String(), w.business.token))
	start := time.Now()
	w.lookTwice(t, key)
	require.Less(t, time.Since(start), 4*time.Second)
	w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "no answer in time")
	require.Equal(t, []string{"Warning Unreachable"}, w.told())
}

func secretMissing(t *testing.T, w *world) {
	key := w.cluster(t, "fleet", "missing")
	w.lookTwice(t, key)
	w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigMissing, "there is no Secret fleet/missing, which spec.observerKubeconfigSecret names")
	w.store(t, key, "")
	w.look(t, key)
	w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigMissing, "has nothing under the key kubeconfig")
	require.Equal(t, []string{"Warning KubeconfigMissing"}, w.told(), "the reason has not changed")
	w.store(t, key, w.business.kubeconfig(t, w.front.url(), w.business.token))
	w.look(t, key)
	w.requireReady(t, key, metav1.ConditionTrue, v1alpha1.ReasonAPIServerReady, "")
	w.discard(t, key)
	w.look(t, key)
	w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigMissing, "")
	require.Equal(t, []string{"Normal APIServerReady", "Warning KubeconfigMissing"}, w.told())
}

// What is no kubeconfig, or would read files or run commands here.
func secretMended(t *testing.T, w *world) {
	key := w.cluster(t, "fleet", "mended")
	user := clientcmdapi.AuthInfo{Exec: &clientcmdapi.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: "sh", InteractiveMode: clientcmdapi.NeverExecInteractiveMode,
	}}
	for content, says := range map[string]string{
		"clusters: [": "reading kubeconfig",
		testkit.Kubeconfig(t, w.front.url(), w.business.config.CAData, user):                                            "names a file or a command",
		testkit.Kubeconfig(t, w.front.url(), w.business.config.CAData, clientcmdapi.AuthInfo{TokenFile: "/etc/shadow"}): "names a file or a command",
		testkit.Kubeconfig(t, w.front.url(), []byte("no certificate"), clientcmdapi.AuthInfo{Token: "x"}):               "certificate",
	} {
		w.store(t, key, content)
		w.lookTwice(t, key)
		w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigInvalid, says)
	}
	require.Equal(t, []string{"Warning KubeconfigInvalid"}, w.told(), "the reason has not changed")
	w.store(t, key, w.business.kubeconfig(t, w.front.url(), w.business.token))
	w.look(t, key)
	w.requireReady(t, key, metav1.ConditionTrue, v1alpha1.ReasonAPIServerReady, "")
}

// A Secret that leads elsewhere is followed at the next look, though the old one
// still works.
func secretReplaced(t *testing.T, w *world) {
	key := w.good(t, "replaced")
	w.store(t, key, w.business.kubeconfig(t, "https://127.0.0.1:1", w.business.token))
	w.look(t, key)
	w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "https://127.0.0.1:1/readyz")
}

// In a namespace where deploy/cell/clusters was not applied, the rights are
// missing for the events, too; the status is told all the same.
func secretNotGivenOut(t *testing.T, w *world) {
	key := w.cluster(t, "elsewhere", "unread")
	w.store(t, key, w.business.kubeconfig(t, w.front.url(), w.business.token))
	w.lookTwice(t, key)
	w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigUnreadable, "apply deploy/cell/clusters in namespace elsewhere")
}

func unauthorized(t *testing.T, w *world) {
	key := w.good(t, "unauthorized")
	w.store(t, key, w.business.kubeconfig(t, w.front.url(), "no-such-token"))
	w.lookTwice(t, key)
	c := w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonUnauthorized, "does not accept the credential in Secret fleet/unauthorized")
	require.NotContains(t, fmt.Sprint(c.Status), "no-such-token", "a status is for everyone to read")
	require.Equal(t, []string{"Warning Unauthorized"}, w.told())
	w.store(t, key, w.business.kubeconfig(t, w.front.url(), w.business.token))
	w.look(t, key)
	w.requireReady(t, key, metav1.ConditionTrue, v1alpha1.ReasonAPIServerReady, "")
}

// Something else answers at the address: nothing is believed of it.
func untrustedServer(t *testing.T, w *world) {
	var asked atomic.Int32
	other := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	other.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	other.StartTLS()
	defer other.Close()
	key := w.cluster(t, "fleet", "untrusted")
	w.store(t, key, w.business.kubeconfig(t, other.URL, w.business.token))
	w.lookTwice(t, key)
	w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "compare its certificate with the authority")
	require.Zero(t, asked.Load(), "the credential was shown to a stranger")
}

func isPaused(t *testing.T, w *world) {
	key := w.good(t, "paused")
	c := w.get(t, key)
	require.True(t, meta.IsStatusConditionFalse(c.Status.Conditions, v1alpha1.ConditionPaused))
	w.annotate(t, key, v1alpha1.AnnotationPaused, ptr.To("power work"))
	w.lookTwice(t, key)
	c = w.requireReady(t, key, metav1.ConditionTrue, v1alpha1.ReasonAPIServerReady, "")
	paused := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionPaused)
	require.Equal(t, metav1.ConditionTrue, paused.Status)
	require.Contains(t, paused.Message, `"power work"`)
	require.Equal(t, []string{"Normal Paused"}, w.told())

	w.discard(t, key)
	w.look(t, key)
	w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigMissing, "")
	require.Equal(t, []string{"Warning KubeconfigMissing"}, w.told(), "who pauses repairs still wants to see")
	w.annotate(t, key, v1alpha1.AnnotationPaused, nil)
	w.look(t, key)
	require.True(t, meta.IsStatusConditionFalse(w.get(t, key).Status.Conditions, v1alpha1.ConditionPaused))
	require.Equal(t, []string{"Normal Resumed"}, w.told())
}

// The Cluster is given another Secret while the API server of the first is being
// asked: what was seen is not told of the second.
func changedMeanwhile(t *testing.T, w *world) {
	key := w.cluster(t, "fleet", "meanwhile")
	w.store(t, key, w.business.kubeconfig(t, w.front.url(), w.business.token))
	c := w.get(t, key)
	seen := w.r.look(t.Context(), c)
	changed := w.get(t, key)
	changed.Spec.ObserverKubeconfigSecret = "another"
	require.NoError(t, w.Admin.Update(t.Context(), changed))
	err := w.r.report(t.Context(), c, decide(c, seen, w.clock.Now()))
	require.True(t, apierrors.IsConflict(err), "%v", err)
	require.Empty(t, w.get(t, key).Status.Conditions)
	require.Empty(t, w.told())
	w.look(t, key)
	w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigMissing, "fleet/another")
}

func deleted(t *testing.T, w *world) {
	key := w.good(t, "deleted")
	open := w.r.servers.Len()
	require.NoError(t, w.Admin.Delete(t.Context(), w.get(t, key)))
	require.Zero(t, w.look(t, key), "it is looked at again")
	require.Equal(t, open-1, w.r.servers.Len(), "its connections are kept")
}

// A program that ends in the middle of a look has seen nothing.
func ending(t *testing.T, w *world) {
	key := w.good(t, "ending")
	before := w.get(t, key)
	arrived, gate := make(chan struct{}), make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(arrived); <-gate }))
	defer server.Close()
	defer close(gate)
	w.store(t, key, testkit.Kubeconfig(t, server.URL, certificate(server), clientcmdapi.AuthInfo{Token: "x"}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-arrived; cancel() }()
	_, err := w.r.Reconcile(ctx, ctrl.Request{NamespacedName: key})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, before.ResourceVersion, w.get(t, key).ResourceVersion)
}

func rightsAreNarrow(t *testing.T, w *world) {
	key := w.good(t, "narrow")
	c := w.get(t, key)
	require.True(t, apierrors.IsForbidden(w.operator.Update(t.Context(), c)), "a Cluster's spec is not the node operator's")
	require.True(t, apierrors.IsForbidden(w.operator.Delete(t.Context(), c)))
	require.True(t, apierrors.IsForbidden(w.operator.List(t.Context(), &corev1.SecretList{}, client.InNamespace("fleet"))))
	elsewhere := &corev1.Secret{}
	require.True(t, apierrors.IsForbidden(w.operator.Get(t.Context(), client.ObjectKey{Namespace: "elsewhere", Name: "unread"}, elsewhere)))
}

// A cluster that has taken from everyone what everyone may, and gives it to the
// observer bit by bit.
func mayNotAsk(t *testing.T, w *world) {
	key := w.good(t, "may-not")
	version := w.get(t, key).Status.Version
	for _, name := range []string{"system:public-info-viewer", "system:discovery"} {
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
		require.NoError(t, w.business.admin.Delete(t.Context(), binding))
	}
	w.lookUntil(t, key, "does not let the credential in Secret fleet/may-not get /readyz: grant it")
	w.lookTwice(t, key)
	w.requireReady(t, key, metav1.ConditionUnknown, v1alpha1.ReasonUnauthorized, "")

	half := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "half"}, Rules: []rbacv1.PolicyRule{
		{NonResourceURLs: []string{"/readyz"}, Verbs: []string{"get"}},
	}}
	require.NoError(t, w.business.admin.Create(t.Context(), half))
	w.business.grant(t, half.Name)
	w.lookUntil(t, key, "asking for its version: HTTP 403")
	c := w.requireReady(t, key, metav1.ConditionTrue, v1alpha1.ReasonAPIServerReady, "says that it is ready")
	require.Equal(t, version, c.Status.Version)

	w.business.grant(t, "system:public-info-viewer") // as the message says
	w.lookUntil(t, key, "says that it is ready$")
	require.Equal(t, []string{"Warning Unauthorized", "Normal APIServerReady"}, w.told())
}

// The API server stands and its etcd does not: it says so itself.
func notReady(t *testing.T, w *world) {
	key := w.good(t, "not-ready")
	version := w.get(t, key).Status.Version
	require.NoError(t, w.business.env.ControlPlane.Etcd.Stop())
	w.lookUntil(t, key, "says that it is not ready")
	c := w.requireReady(t, key, metav1.ConditionFalse, v1alpha1.ReasonAPIServerNotReady, "says that it is not ready, because of etcd")
	require.Equal(t, version, c.Status.Version)
	require.Contains(t, w.told(), "Warning APIServerNotReady") // on its way down it may also say nothing in time
	require.NoError(t, w.business.env.ControlPlane.Etcd.Start())
	w.lookUntil(t, key, "says that it is ready$")
	require.Contains(t, w.told(), "Normal APIServerReady")
}

func TestNewRefuses(t *testing.T) {
	_, err := New(Options{})
	require.ErrorContains(t, err, "are required")
}
