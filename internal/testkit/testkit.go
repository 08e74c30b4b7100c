// Package testkit gives tests the real servers that Pharos works with.
package testkit

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/binaries"
)

// Binary returns the path of a server binary of the local fleet. A missing one
// fails the test: nothing here is skipped.
func Binary(t testing.TB, name string) string {
	t.Helper()
	path, err := binaries.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Root returns the folder of the source tree.
func Root(t testing.TB) string {
	t.Helper()
	start, err := os.Getwd()
	if err != nil {
		t.Fatalf("finding the source tree: %v", err)
	}
	// A test runs in the folder of its package. File names of the program would
	// do as well, but are not there with -trimpath.
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("finding the source tree: no go.mod in %s or above", start)
		}
	}
}

// APIServer starts a real kube-apiserver with an etcd of its own and the
// custom resources of Pharos, and stops both when the test ends. The returned
// configuration is an administrator's. A start takes some seconds: share one
// among subtests, and among the tests of a package (Shared).
func APIServer(t testing.TB) *rest.Config {
	t.Helper()
	env := environment(t)
	// Servers that have started are stopped though not all of it did, as where the
	// custom resources are refused.
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stopping kube-apiserver: %v", err)
		}
	})
	config, err := env.Start()
	if err != nil {
		t.Fatalf("starting kube-apiserver: %v", err)
	}
	return config
}

// environment is what an API server starts with.
func environment(t testing.TB) *envtest.Environment {
	t.Helper()
	env := &envtest.Environment{
		Scheme:                kube.Scheme(),
		CRDDirectoryPaths:     []string{filepath.Join(Root(t), "deploy", "crds")},
		ErrorIfCRDPathMissing: true,
		ControlPlane:          envtest.ControlPlane{},
		// A start takes some seconds, and on a machine that is busy with other tests
		// sometimes more than the 20 that are allowed otherwise.
		ControlPlaneStartTimeout: 2 * time.Minute,
		ControlPlaneStopTimeout:  2 * time.Minute,
	}
	env.ControlPlane.Etcd = &envtest.Etcd{Path: Binary(t, "etcd")}
	env.ControlPlane.APIServer = &envtest.APIServer{Path: Binary(t, "kube-apiserver")}
	return env
}
