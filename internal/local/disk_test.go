package local_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/binaries"
)

func TestFullDisk(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "fleet"))
	release, err := local.Claim(f)
	require.NoError(t, err)
	require.NoError(t, local.CheckSpace(f.Layout.Dir))
	other := errors.New("other")
	require.Equal(t, other, local.Explain(other, f.Layout))
	require.NoError(t, os.Mkdir(f.Layout.LogDir(), 0o700))

	err = local.Undo(t.Context(), f, fmt.Errorf("writing x: %w", syscall.ENOSPC))
	require.ErrorContains(t, err, "the disk is full: make room, or give --state-dir on another disk")
	require.NotContains(t, err.Error(), "\n")
	require.NoDirExists(t, f.Layout.Dir, "nothing is left")
	release()

	release, err = local.Claim(f)
	require.NoError(t, err)
	release()
	require.ErrorContains(t, local.Undo(t.Context(), f, other), "logs are in "+f.Layout.LogDir())
	require.DirExists(t, f.Layout.Dir, "the logs say more")
}

// A file system of 2 MiB is mounted where the kernel lets an ordinary process do
// that, in a mount namespace of its own; elsewhere there is /dev/full.
func TestSmallDisk(t *testing.T) {
	dir := t.TempDir()
	script := `mount -t tmpfs -o size=2m none "$1" && exec "$2" -test.run=^TestHelperSmallDisk$`
	cmd := exec.Command("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", dir, os.Args[0])
	cmd.Env = append(os.Environ(), "SMALL_DISK="+dir)
	if out, err := cmd.CombinedOutput(); err == nil {
		require.Contains(t, string(out), "PASS")
		return
	} else if _, helped := errors.AsType[*exec.ExitError](err); helped {
		require.NotContains(t, string(out), "FAIL", string(out))
	}
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("x")
	require.ErrorContains(t, local.Explain(err, open(t, dir).Layout), "the disk is full")
	require.NoError(t, f.Close())
}

// TestHelperSmallDisk runs in the namespace that TestSmallDisk makes.
func TestHelperSmallDisk(t *testing.T) {
	dir := os.Getenv("SMALL_DISK")
	if dir == "" {
		return
	}
	f := open(t, filepath.Join(dir, "fleet"))
	err := f.Up(t.Context(), local.Options{Binaries: binaries.Options{BinDir: "/nowhere"}})
	require.ErrorContains(t, err, "MiB free and a fleet needs 1024 MiB")
	require.NotContains(t, err.Error(), "\n")
	require.NoDirExists(t, f.Layout.Dir)

	// What servers say of a full disk is in their own words.
	own := errors.New("kube-apiserver ended 5 times")
	require.ErrorContains(t, local.Explain(own, open(t, dir).Layout), "the disk is full")

	filler, err := os.Create(filepath.Join(dir, "filler"))
	require.NoError(t, err)
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	require.ErrorIs(t, err, syscall.ENOSPC)
	_, err = local.Claim(f)
	require.ErrorContains(t, err, "the disk is full: make room")
	require.NoDirExists(t, f.Layout.Dir, "nothing is left")
}
