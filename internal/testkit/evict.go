package testkit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// RunControllers runs some of Kubernetes' own controllers until the test ends.
func (w *World) RunControllers(t testing.TB, names ...string) {
	t.Helper()
	Spawn(t, "kube-controller-manager", w.access(t), "--leader-elect=false", "--secure-port=0", "--controllers="+strings.Join(names, ","))
}

// RunScheduler runs Kubernetes' own scheduler until the test ends.
func (w *World) RunScheduler(t testing.TB) {
	t.Helper()
	Spawn(t, "kube-scheduler", w.access(t), "--leader-elect=false", "--secure-port=0")
}

// access is the flag by which Kubernetes' own programs reach the API server.
func (w *World) access(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := Kubeconfig(t, w.Config.Host, w.Config.CAData, clientcmdapi.AuthInfo{ClientCertificateData: w.Config.CertData, ClientKeyData: w.Config.KeyData})
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatalf("writing a kubeconfig: %v", err)
	}
	return "--kubeconfig=" + file
}

// OneOfTwoStays empties the nodes of two StatefulSets with one pod each, as kubectl
// drain does: the second pod has to stay while the first is away. The controllers of
// StatefulSets and disruptions must run; the kubelet is played.
func (w *World) OneOfTwoStays(t testing.TB, first, second string) {
	t.Helper()
	first, second = first+"-0", second+"-0"
	gone := types.UID("")
	for _, pod := range []string{first, second} {
		w.comes(t, pod, gone)
	}
	gone = w.Pod(t, first).UID
	w.goes(t, first)
	w.until(t, first+" comes again", func() bool { return w.isAnother(t, first, gone) })
	if err := w.evict(t, second); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("%s was to be evicted while %s is away, and the API server said: %v", second, first, err)
	}
	w.comes(t, first, gone)
	w.goes(t, second)
}

// goes waits until a pod may be evicted, which it is: budgets are counted a moment later.
func (w *World) goes(t testing.TB, pod string) {
	t.Helper()
	w.until(t, pod+" may be evicted", func() bool { return w.evict(t, pod) == nil })
}

// comes plays the kubelet of a pod, another one than that which is gone.
func (w *World) comes(t testing.TB, name string, gone types.UID) {
	t.Helper()
	w.until(t, name+" is made", func() bool { return w.isAnother(t, name, gone) })
	pod := w.Pod(t, name)
	pod.Status.Phase = corev1.PodRunning
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	w.SetStatus(t, pod)
}

func (w *World) isAnother(t testing.TB, name string, gone types.UID) bool {
	pod := &corev1.Pod{}
	return w.Admin.Get(t.Context(), Key(name), pod) == nil && pod.UID != gone
}

func (w *World) evict(t testing.TB, pod string) error {
	t.Helper()
	return w.Admin.SubResource("eviction").Create(t.Context(), w.Pod(t, pod), &policyv1.Eviction{})
}

func (w *World) until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("waited two minutes in vain: %s", what)
		}
	}
}
