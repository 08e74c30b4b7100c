package binaries

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
	"golang.org/x/sys/unix"
	"golang.org/x/tools/txtar"
)

// reporter is a program that answers --version as the servers do.
const reporter = `package main

import "fmt"

var version = "unset"

func main() { fmt.Println("tiny version", version) }
`

// tinyModule stands in for the module of the servers: small, but real to the go
// command. Files are added as name and content in turn.
func tinyModule(files ...string) []byte {
	archive := &txtar.Archive{Files: []txtar.File{{Name: "go.mod", Data: []byte("module tiny.test/servers\n\ngo 1.26.0\n")}}}
	for i := 0; i < len(files); i += 2 {
		archive.Files = append(archive.Files, txtar.File{Name: files[i], Data: []byte(files[i+1])})
	}
	return txtar.Format(archive)
}

// tiny is a component built inside a tiny module, from cmd/<name>.
func tiny(name string, source []byte) Component {
	const module = "tiny.test/servers"
	return Component{
		Name: name, Version: "v1.2.3", module: module, pkg: module + "/cmd/" + name, source: source,
		linking: []string{"-X", "main.version=v1.2.3"}, reports: "1.2.3",
	}
}

// twoTiny are two components that build.
func twoTiny() []Component {
	source := tinyModule("cmd/alpha/main.go", reporter, "cmd/beta/main.go", reporter)
	return []Component{tiny("alpha", source), tiny("beta", source)}
}

// slowTiny is a component whose compilation never ends by itself: its assembly
// includes a header that is a pipe, and the assembler waits for what never comes.
func slowTiny(t *testing.T) (c Component, header string) {
	t.Helper()
	header = filepath.Join(t.TempDir(), "never.h")
	require.NoError(t, unix.Mkfifo(header, 0o600))
	return slowTinyOf(header), header
}

func slowTinyOf(header string) Component {
	return tiny("slow", tinyModule("cmd/slow/main.go", reporter, "cmd/slow/slow.s", fmt.Sprintf("#include %q\n", header)))
}

// waitCompiling returns when the assembler has opened the header of slowTiny, and
// keeps the other end of the pipe open for the rest of the test.
func waitCompiling(t *testing.T, header string) {
	t.Helper()
	require.Eventually(t, func() bool {
		file, err := os.OpenFile(header, os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err != nil {
			return false
		}
		t.Cleanup(func() { _ = file.Close() })
		return true
	}, time.Minute, 20*time.Millisecond, "the assembler did not start")
}

// requireNobodyReads asserts that no process has the header of slowTiny open.
func requireNobodyReads(t *testing.T, header string) {
	t.Helper()
	require.True(t, nobodyReads(header), "the assembler is still alive")
}

func nobodyReads(header string) bool {
	file, err := os.OpenFile(header, os.O_WRONLY|unix.O_NONBLOCK, 0)
	if err == nil {
		_ = file.Close()
	}
	return errors.Is(err, unix.ENXIO)
}

// moduleProxy serves one module version from a folder, as GOPROXY understands it.
func moduleProxy(t *testing.T, path, version string, files map[string]string) (url string) {
	t.Helper()
	src, proxy := t.TempDir(), t.TempDir()
	for name, data := range files {
		file := filepath.Join(src, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
		require.NoError(t, os.WriteFile(file, []byte(data), 0o644))
	}
	dir := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	require.NoError(t, os.MkdirAll(dir, 0o755))
	archive, err := os.Create(filepath.Join(dir, version+".zip"))
	require.NoError(t, err)
	require.NoError(t, modzip.CreateFromDir(archive, module.Version{Path: path, Version: version}, src))
	require.NoError(t, archive.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, version+".mod"), []byte(files["go.mod"]), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, version+".info"), fmt.Appendf(nil, `{"Version":%q}`, version), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "list"), []byte(version+"\n"), 0o644))
	return "file://" + proxy
}

// script writes an executable shell script.
func script(t *testing.T, dir, name, body string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body+"\n"), 0o755))
}

// fakeGo puts a go command in front of the real one.
func fakeGo(t *testing.T, body string) {
	t.Helper()
	dir := t.TempDir()
	script(t, dir, "go", body)
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// requireTidy asserts that the cache holds whole binaries, logs and the lock, and nothing else.
func requireTidy(t *testing.T, cache string) {
	t.Helper()
	entries, err := os.ReadDir(cache)
	require.NoError(t, err)
	for _, entry := range entries {
		name := entry.Name()
		if name == "logs" || name == ".lock" {
			continue
		}
		require.True(t, strings.Contains(name, "-v") && !strings.HasPrefix(name, workPrefix), "left behind: %s", name)
		binary := filepath.Join(cache, name, name[:strings.LastIndex(name, "-v")])
		require.NoError(t, exec.Command(binary, "--version").Run(), "not a whole binary: %s", binary)
	}
}
