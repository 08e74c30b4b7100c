package testkit

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
)

// World is one API server as its administrator sees it. Names without a
// namespace are names in Pharos' own.
type World struct {
	// Config is an administrator's.
	Config *rest.Config
	// Admin may do everything.
	Admin client.Client
}

// NewWorld starts an API server; see APIServer.
func NewWorld(t testing.TB) *World {
	t.Helper()
	config := APIServer(t)
	return &World{Config: config, Admin: Client(t, config)}
}

// Client speaks with an API server in the types that Pharos knows.
func Client(t testing.TB, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	if err != nil {
		t.Fatalf("making a client: %v", err)
	}
	return c
}

// As is the same API server with the rights of a service account of Pharos, and
// no more.
func As(config *rest.Config, account string) *rest.Config {
	c := rest.CopyConfig(config)
	c.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + deploy.Namespace + ":" + account,
		Groups:   []string{"system:serviceaccounts", "system:authenticated"},
	}
	return c
}

// Kubeconfig leads a user to a server whose authority is ca.
func Kubeconfig(t testing.TB, server string, ca []byte, user clientcmdapi.AuthInfo) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	c.AuthInfos["u"] = &user
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	data, err := clientcmd.Write(*c)
	if err != nil {
		t.Fatalf("writing a kubeconfig: %v", err)
	}
	return string(data)
}

// Key is a name in Pharos' namespace.
func Key(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: deploy.Namespace, Name: name}
}

// Get reads an object of Pharos' namespace into o, which it returns.
func Get[T client.Object](t testing.TB, from client.Reader, name string, o T) T {
	t.Helper()
	if err := from.Get(t.Context(), Key(name), o); err != nil {
		t.Fatalf("reading %T %s: %v", o, name, err)
	}
	return o
}

// Create makes an object, which must not be there yet.
func (w *World) Create(t testing.TB, o client.Object) {
	t.Helper()
	if err := w.Admin.Create(t.Context(), o); err != nil {
		t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
	}
}

// SetStatus writes an object's status.
func (w *World) SetStatus(t testing.TB, o client.Object) {
	t.Helper()
	if err := w.Admin.Status().Update(t.Context(), o); err != nil {
		t.Fatalf("writing the status of %T %s: %v", o, o.GetName(), err)
	}
}

// StatefulSet is the one of that name.
func (w *World) StatefulSet(t testing.TB, name string) *appsv1.StatefulSet {
	t.Helper()
	return Get(t, w.Admin, name, &appsv1.StatefulSet{})
}

// Deployment is the one of that name.
func (w *World) Deployment(t testing.TB, name string) *appsv1.Deployment {
	t.Helper()
	return Get(t, w.Admin, name, &appsv1.Deployment{})
}

// ConfigMap is the one of that name.
func (w *World) ConfigMap(t testing.TB, name string) *corev1.ConfigMap {
	t.Helper()
	return Get(t, w.Admin, name, &corev1.ConfigMap{})
}

// Service is the one of that name.
func (w *World) Service(t testing.TB, name string) *corev1.Service {
	t.Helper()
	return Get(t, w.Admin, name, &corev1.Service{})
}

// Pod is the one of that name.
func (w *World) Pod(t testing.TB, name string) *corev1.Pod {
	t.Helper()
	return Get(t, w.Admin, name, &corev1.Pod{})
}

// Text is every file of a server in one.
func (w *World) Text(t testing.TB, name string) string {
	t.Helper()
	w.ConfigMap(t, name) // one that is not there has no text
	var b strings.Builder
	for _, file := range Files(t, w.Admin, name) {
		b.WriteString(file)
	}
	return b.String()
}

// Files are those of a server, out of all its ConfigMaps.
func Files(t testing.TB, c client.Client, server string) map[string]string {
	t.Helper()
	var all corev1.ConfigMapList
	if err := c.List(t.Context(), &all, client.InNamespace(deploy.Namespace)); err != nil {
		t.Fatalf("listing the files of %s: %v", server, err)
	}
	files := map[string]string{}
	for _, cm := range all.Items {
		if part, _, _ := strings.Cut(cm.Name, "."); part == server {
			maps.Copy(files, cm.Data)
		}
	}
	return files
}

// Versions are the resource versions of all objects of the lists' kinds, by kind
// and name.
func (w *World) Versions(t testing.TB, lists ...client.ObjectList) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, list := range lists {
		if err := w.Admin.List(t.Context(), list); err != nil {
			t.Fatalf("listing %T: %v", list, err)
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			o := item.(client.Object)
			kind, err := apiutil.GVKForObject(o, w.Admin.Scheme())
			out[kind.Kind+" "+o.GetName()] = o.GetResourceVersion()
			return err
		})
		if err != nil {
			t.Fatalf("naming the items of %T: %v", list, err)
		}
	}
	return out
}

// Settle plays the controllers of a StatefulSet or else a Deployment: they have
// taken up its latest change. It returns what its pods are made of.
func (w *World) Settle(t testing.TB, name string) corev1.PodTemplateSpec {
	t.Helper()
	if s := (&appsv1.StatefulSet{}); w.Admin.Get(t.Context(), Key(name), s) == nil {
		s.Status.ObservedGeneration = s.Generation
		w.SetStatus(t, s)
		return s.Spec.Template
	}
	d := w.Deployment(t, name)
	d.Status.ObservedGeneration = d.Generation
	w.SetStatus(t, d)
	return d.Spec.Template
}

// RunPod plays the kubelet: the pod runs, and is not ready yet.
func (w *World) RunPod(t testing.TB, template corev1.PodTemplateSpec, name, ip string) {
	t.Helper()
	template = *template.DeepCopy()
	// A claim template's volume is the StatefulSet controller's to add.
	template.Spec.Volumes, template.Spec.Containers[0].VolumeMounts = nil, nil
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name, Labels: template.Labels}, Spec: template.Spec}
	w.Create(t, pod)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	w.SetStatus(t, pod)
}

// SetReady plays the kubelet: the pod's probes succeed.
func (w *World) SetReady(t testing.TB, name string) {
	t.Helper()
	pod := w.Pod(t, name)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.SetStatus(t, pod)
}
