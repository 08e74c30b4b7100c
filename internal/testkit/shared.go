package testkit

import (
	"context"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Shared is one API server that the tests of a package have one after another. A
// start costs more than most tests do after it. Each test finds it as it was made:
// what the one before has left is deleted when that ends.
type Shared struct {
	env    *envtest.Environment
	config *rest.Config
	// quiet lists every kind of object, deprecated ones too, without a word of it.
	quiet *rest.Config
	// natural are the objects that the API server has by itself.
	natural map[string]bool
	lent    bool
}

// Main runs the tests of a package and stops what they shared. It is the last thing
// that TestMain calls.
func (s *Shared) Main(m *testing.M) {
	code := m.Run()
	if err := s.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping kube-apiserver:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func (s *Shared) stop() error {
	if s.env == nil {
		return nil
	}
	return s.env.Stop()
}

// World is the API server for one test, until that ends.
func (s *Shared) World(t testing.TB) *World {
	t.Helper()
	if s.lent {
		t.Fatal("another test has the shared API server: take NewWorld for a second one")
	}
	if s.env == nil {
		s.env = environment(t)
		config, err := s.env.Start()
		if err != nil {
			t.Fatalf("starting kube-apiserver: %v", err)
		}
		s.config, s.natural = config, map[string]bool{}
		s.quiet = rest.CopyConfig(config)
		s.quiet.WarningHandler = rest.NoWarnings{}
		for _, o := range s.objects(t) {
			s.natural[o.id()] = true
		}
	}
	s.lent = true
	t.Cleanup(func() {
		s.clear(t)
		s.lent = false
	})
	return &World{Config: s.config, Admin: Client(t, s.config)}
}

// object is one of any kind.
type object struct {
	of        schema.GroupVersionResource
	namespace string
	name      string
}

func (o object) id() string { return fmt.Sprint(o.of.GroupResource(), " ", o.namespace, "/", o.name) }

// groups are those in which tests make objects. What is in others, the API server
// makes and takes away itself.
func groups() []string {
	return []string{"", "apps", "batch", "policy", "rbac.authorization.k8s.io", "admissionregistration.k8s.io", v1alpha1.GroupVersion.Group}
}

// objects are all that there are, namespaces last.
func (s *Shared) objects(t testing.TB) []object {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	kinds, err := discovery.NewDiscoveryClientForConfigOrDie(s.quiet).ServerPreferredResources()
	if err != nil {
		t.Fatalf("asking which kinds of objects there are: %v", err)
	}
	reader := metadata.NewForConfigOrDie(s.quiet)
	var all, namespaces []object
	for _, list := range kinds {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatalf("reading the version %q: %v", list.GroupVersion, err)
		}
		for _, kind := range list.APIResources {
			if !slices.Contains(groups(), version.Group) || !slices.Contains(kind.Verbs, "list") || !slices.Contains(kind.Verbs, "delete") {
				continue
			}
			of := version.WithResource(kind.Name)
			found, err := reader.Resource(of).List(ctx, metav1.ListOptions{})
			if err != nil {
				t.Fatalf("listing %s: %v", of, err)
			}
			for _, item := range found.Items {
				o := object{of, item.Namespace, item.Name}
				if kind.Name == "namespaces" {
					namespaces = append(namespaces, o)
				} else {
					all = append(all, o)
				}
			}
		}
	}
	return append(all, namespaces...)
}

// clear deletes what a test has left, until nothing of it is there.
func (s *Shared) clear(t testing.TB) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		left := slices.DeleteFunc(s.objects(t), func(o object) bool { return s.natural[o.id()] })
		if len(left) == 0 {
			return
		}
		var err error
		for _, o := range left {
			if e := s.remove(o); client.IgnoreNotFound(e) != nil {
				err = fmt.Errorf("deleting %s: %w", o.id(), e)
			}
		}
		if time.Since(begun) > Patience {
			t.Fatalf("clearing the shared API server for the next test: %d objects are left, as %s: %v", len(left), left[0].id(), err)
		}
	}
}

// remove deletes an object at once, whatever its finalizers wait for: none of the
// controllers that would end that runs.
func (s *Shared) remove(o object) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	of := metadata.NewForConfigOrDie(s.quiet).Resource(o.of).Namespace(o.namespace)
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	if err := of.Delete(ctx, o.name, now); err != nil {
		return err
	}
	if o.of.Resource == "namespaces" {
		admin := kubernetes.NewForConfigOrDie(s.quiet).CoreV1().Namespaces()
		namespace, err := admin.Get(ctx, o.name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		namespace.Spec.Finalizers = nil
		_, err = admin.Finalize(ctx, namespace, metav1.UpdateOptions{})
		return err
	}
	_, err := of.Patch(ctx, o.name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	return err
}
