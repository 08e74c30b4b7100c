package federation

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/version"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// world is a hub with Pharos' real rights in it.
type world struct {
	admin client.Client
	// operator acts with the rights of the account operator, and no more.
	operator client.Client
	r        *Reconciler
}

func newWorld(t *testing.T) *world {
	t.Helper()
	config := testkit.APIServer(t)
	w := &world{admin: newClient(t, config)}
	hub, err := deploy.Hub(version.Image)
	require.NoError(t, err)
	for _, o := range hub {
		w.create(t, o)
	}
	impersonated := rest.CopyConfig(config)
	impersonated.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + deploy.Namespace + ":operator",
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	w.operator = newClient(t, impersonated)
	w.r, err = New(workload.Options{
		Client: w.operator, Live: w.operator, Recorder: events.NewFakeRecorder(64), Registry: prometheus.NewRegistry(),
		Log: slog.New(slog.DiscardHandler), Namespace: deploy.Namespace,
	})
	require.NoError(t, err)
	return w
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
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

func (w *world) cell(t *testing.T, name, geography string, endpoints ...string) {
	t.Helper()
	c := &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.CellSpec{Geography: geography, Region: "r", KubeconfigSecret: name},
	}
	w.create(t, c)
	c.Status.EdgeEndpoints = endpoints
	require.NoError(t, w.admin.Status().Update(t.Context(), c))
}

func (w *world) federation(t *testing.T, name string) *v1alpha1.Federation {
	t.Helper()
	f := &v1alpha1.Federation{}
	require.NoError(t, w.admin.Get(t.Context(), client.ObjectKey{Name: name}, f))
	return f
}

func (w *world) statefulSet(t *testing.T, name string) *appsv1.StatefulSet {
	t.Helper()
	return get(t, w.admin, name, &appsv1.StatefulSet{})
}

func (w *world) deployment(t *testing.T, name string) *appsv1.Deployment {
	t.Helper()
	return get(t, w.admin, name, &appsv1.Deployment{})
}

func (w *world) service(t *testing.T, name string) *corev1.Service {
	t.Helper()
	return get(t, w.admin, name, &corev1.Service{})
}

func (w *world) configMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	return get(t, w.admin, name, &corev1.ConfigMap{})
}

// text is every file of a part in one.
func (w *world) text(t *testing.T, name string) string {
	t.Helper()
	var b strings.Builder
	for _, file := range w.configMap(t, name).Data {
		b.WriteString(file)
	}
	return b.String()
}

// versions are the resource versions of everything that the operator wrote.
func (w *world) versions(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for kind, list := range map[string]client.ObjectList{
		"StatefulSet": &appsv1.StatefulSetList{}, "Deployment": &appsv1.DeploymentList{}, "ConfigMap": &corev1.ConfigMapList{},
		"Service": &corev1.ServiceList{}, "PersistentVolumeClaim": &corev1.PersistentVolumeClaimList{}, "Federation": &v1alpha1.FederationList{},
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

// runPod plays the controllers and the kubelet for one workload.
func (w *world) runPod(t *testing.T, name, ip string) {
	t.Helper()
	var template corev1.PodTemplateSpec
	if s := (&appsv1.StatefulSet{}); w.admin.Get(t.Context(), key(name), s) == nil {
		template = s.Spec.Template
		s.Status.ObservedGeneration = s.Generation
		require.NoError(t, w.admin.Status().Update(t.Context(), s))
	} else {
		d := w.deployment(t, name)
		template = d.Spec.Template
		d.Status.ObservedGeneration = d.Generation
		require.NoError(t, w.admin.Status().Update(t.Context(), d))
	}
	// A claim template's volume is the StatefulSet controller's to add.
	template.Spec.Volumes, template.Spec.Containers[0].VolumeMounts = nil, nil
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name + "-0", Labels: template.Labels}, Spec: template.Spec}
	w.create(t, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	require.NoError(t, w.admin.Status().Update(t.Context(), pod))
}
