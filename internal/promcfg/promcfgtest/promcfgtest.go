// Package promcfgtest holds what the tests of every render need: golden trees,
// and a check by the real promtool.
package promcfgtest

import (
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing with them")

// Golden compares files with the folder testdata/name of the calling package:
// the same names, the same bytes. With -update it writes the folder. Files that
// are tested where they are written, such as rules that are alike in every
// server, are left out by name.
func Golden(t *testing.T, name string, files promcfg.Files, without ...string) {
	t.Helper()
	files = maps.Clone(files)
	for _, file := range without {
		require.Contains(t, files, file)
		delete(files, file)
	}
	dir := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.RemoveAll(dir))
		Write(t, dir, files)
	}
	want := map[string]string{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		want[e.Name()] = string(raw)
	}
	got := map[string]string{}
	for file, raw := range files {
		got[file] = string(raw)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs (-golden +rendered); if the change is meant, run the test with -update:\n%s", dir, diff)
	}
}

// Write writes the files into a folder.
func Write(t *testing.T, dir string, files promcfg.Files) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	for file, raw := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), raw, 0o644))
	}
}

// Check has promcfg.Validate and the real promtool accept the files, laid out
// as in a pod: in etc/prometheus, with a service account beside, and in
// etc/secrets the files of Secrets that are named, such as link/ca.crt.
func Check(t *testing.T, files promcfg.Files, secrets ...string) {
	t.Helper()
	require.NoError(t, promcfg.Validate(files))
	root := t.TempDir()
	dir := filepath.Join(root, "etc", "prometheus")
	Write(t, dir, files)
	account := filepath.Join(root, "var", "run", "secrets", "kubernetes.io", "serviceaccount")
	Write(t, account, promcfg.Files{"token": []byte("token"), "ca.crt": []byte("")})
	for _, name := range secrets {
		folder, key := filepath.Split(filepath.Join(root, "etc", "secrets", name))
		Write(t, folder, promcfg.Files{key: []byte("secret")})
	}
	out, err := exec.Command(testkit.Binary(t, "promtool"), "check", "config", filepath.Join(dir, promcfg.ConfigFile)).CombinedOutput()
	require.NoError(t, err, "promtool check config:\n%s", out)
}
