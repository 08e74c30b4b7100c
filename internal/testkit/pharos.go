package testkit

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/version"
)

// InstallHub applies the manifests of a hub.
func (w *World) InstallHub(t testing.TB) {
	t.Helper()
	objects, err := deploy.Hub(version.Image)
	w.install(t, objects, err)
}

// InstallCell applies the manifests of a cell, which may be in the cluster of a hub.
func (w *World) InstallCell(t testing.TB) {
	t.Helper()
	objects, err := deploy.Cell()
	w.install(t, objects, err)
}

// install makes the objects of a set of manifests. Each set begins with the one
// namespace.
func (w *World) install(t testing.TB, objects []*unstructured.Unstructured, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("reading the manifests: %v", err)
	}
	first := objects[0].DeepCopy()
	if w.Admin.Create(t.Context(), first) != nil {
		Get(t, w.Admin, first.GetName(), first)
	}
	for _, o := range objects[1:] {
		w.Create(t, o)
	}
}

// Federation is the one of that name.
func (w *World) Federation(t testing.TB, name string) *v1alpha1.Federation {
	t.Helper()
	return Get(t, w.Admin, name, &v1alpha1.Federation{})
}

// Cell is the one of that name.
func (w *World) Cell(t testing.TB, name string) *v1alpha1.Cell {
	t.Helper()
	return Get(t, w.Admin, name, &v1alpha1.Cell{})
}

// RequireReady checks what the Ready condition of an object says: the reason, whether
// that is the good one, and a text in its message.
func RequireReady(t testing.TB, conditions []metav1.Condition, reason, text string) {
	t.Helper()
	c := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case c == nil:
		t.Fatal("there is no condition Ready")
	case c.Reason != reason || (c.Status == metav1.ConditionTrue) != (reason == v1alpha1.ReasonAvailable):
		t.Fatalf("Ready is %s for %s, and should be for %s: %s", c.Status, c.Reason, reason, c.Message)
	case !strings.Contains(c.Message, text):
		t.Fatalf("the message of Ready lacks %q: %s", text, c.Message)
	}
}

// Told are the reasons of the events that were recorded since the last call.
func Told(recorder *events.FakeRecorder) []string {
	var out []string
	for {
		select {
		case e := <-recorder.Events:
			out = append(out, strings.Fields(e)[1])
		default:
			return out
		}
	}
}
