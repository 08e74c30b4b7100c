package cell

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/version"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// world is one API server that is hub and cell at once, with Pharos' real
// rights in it. The operator is itself in the hub, and has nothing but the
// token of operator-access in the cell.
type world struct {
	config   *rest.Config
	admin    client.Client
	r        *Reconciler
	recorder *events.FakeRecorder
	// access is the kubeconfig of operator-access.
	access string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{config: testkit.APIServer(t), recorder: events.NewFakeRecorder(64)}
	w.admin = newClient(t, w.config)
	w.install(t)
	impersonated := rest.CopyConfig(w.config)
	impersonated.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + deploy.Namespace + ":operator",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	operator := newClient(t, impersonated)
	var err error
	w.r, err = New(workload.Options{
		Client: operator, Live: operator, Recorder: w.recorder, Registry: prometheus.NewRegistry(),
		Log: slog.New(slog.DiscardHandler), Namespace: deploy.Namespace,
	})
	require.NoError(t, err)
	w.access = w.kubeconfig(w.config.Host, w.token(t, deploy.OperatorAccess))
	w.newCell(t, "alpha") // older than the next, by its name at least; nothing reconciles it
	w.newCell(t, "asia-1")
	return w
}

func (w *world) install(t *testing.T) {
	t.Helper()
	hub, err := deploy.Hub(version.Image)
	require.NoError(t, err)
	cell, err := deploy.Cell()
	require.NoError(t, err)
	for _, o := range append(hub, cell[1:]...) { // both begin with the one namespace
		w.create(t, o)
	}
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	return c
}

func (w *world) token(t *testing.T, account string) string {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: account}}
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, w.admin.SubResource("token").Create(t.Context(), sa, request))
	return request.Status.Token
}

func (w *world) kubeconfig(server, token string) string {
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: w.config.CAData}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	data, err := clientcmd.Write(*c)
	if err != nil {
		panic(fmt.Sprintf("writing a kubeconfig: %v", err))
	}
	return string(data)
}

func (w *world) remoteConfig(t *testing.T) *rest.Config {
	t.Helper()
	c, err := kube.ConfigFromBytes([]byte(w.access))
	require.NoError(t, err)
	return c
}

func key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: deploy.Namespace, Name: name}
}

// get reads an object of Pharos' namespace into o.
func get[T client.Object](t *testing.T, from client.Reader, name string, o T) T {
	t.Helper()
	require.NoError(t, from.Get(t.Context(), key(name), o))
	return o
}

func (w *world) create(t *testing.T, o client.Object) {
	t.Helper()
	require.NoError(t, w.admin.Create(t.Context(), o), "%T %s", o, o.GetName())
}

// secret creates or replaces a kubeconfig Secret.
func (w *world) secret(t *testing.T, name, kubeconfig string) {
	t.Helper()
	old := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name}}
	require.NoError(t, client.IgnoreNotFound(w.admin.Delete(t.Context(), old)))
	w.create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name},
		Data:       map[string][]byte{kube.SecretKeyKubeconfig: []byte(kubeconfig)},
	})
}

func (w *world) newCell(t *testing.T, name string) {
	t.Helper()
	w.create(t, &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.CellSpec{
			Geography: "asia", Region: "east", KubeconfigSecret: name, RepairJobConfigMap: "repair-job",
			Network: v1alpha1.Network{ServiceAddressing: v1alpha1.ServiceClusterIP},
		},
	})
}

func (w *world) cell(t *testing.T, name string) *v1alpha1.Cell {
	t.Helper()
	c := &v1alpha1.Cell{}
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Name: name}, c))
	return c
}

func (w *world) statefulSet(t *testing.T, name string) *appsv1.StatefulSet {
	t.Helper()
	return get(t, w.admin, name, &appsv1.StatefulSet{})
}

func (w *world) deployment(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	return get(t, w.admin, name, &appsv1.Deployment{})
}

func (w *world) configMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	return get(t, w.admin, name, &corev1.ConfigMap{})
}

func (w *world) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	return get(t, w.admin, name, &corev1.Pod{})
}

// settle plays the controllers, which have taken up the latest change.
func (w *world) settle(t *testing.T) {
	t.Helper()
	edge := w.statefulSet(t, "edge")
	edge.Status.ObservedGeneration = edge.Generation
	require.NoError(t, w.admin.Status().Update(t.Context(), edge))
	for _, name := range []string{"edge-agent", "machine-operator"} {
		d := w.deployment(t, name)
		d.Status.ObservedGeneration = d.Generation
		require.NoError(t, w.admin.Status().Update(t.Context(), d))
	}
}

// runPod plays the kubelet.
func (w *world) runPod(t *testing.T, template corev1.PodTemplateSpec, name, ip string, ready bool) {
	t.Helper()
	// A claim template's volume is the StatefulSet controller's to add.
	template.Spec.Volumes, template.Spec.Containers[0].VolumeMounts = nil, nil
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name, Labels: template.Labels}, Spec: template.Spec}
	w.create(t, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	require.NoError(t, w.admin.Status().Update(t.Context(), pod))
	if ready {
		w.setReady(t, name)
	}
}

func (w *world) setReady(t *testing.T, name string) {
	t.Helper()
	pod := w.pod(t, name)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	require.NoError(t, w.admin.Status().Update(t.Context(), pod))
}

// versions are the resource versions of everything that the operator wrote.
func (w *world) versions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for kind, list := range map[string]client.ObjectList{
		"StatefulSet": &appsv1.StatefulSetList{}, "Deployment": &appsv1.DeploymentList{},
		"ConfigMap": &corev1.ConfigMapList{}, "Service": &corev1.ServiceList{}, "Cell": &v1alpha1.CellList{},
	} {
		require.NoError(t, w.admin.List(t.Context(), list))
		require.NoError(t, meta.EachListItem(list, func(o runtime.Object) error {
			object := o.(client.Object)
			out[kind+" "+object.GetName()] = object.GetResourceVersion()
			return nil
		}))
	}
	return out
}
