package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHelperSignals is not a test: it is the program that is told to end below.
// It cleans up after the first signal, which takes it a moment, and writes what
// it does to a pipe that nobody reads.
func TestHelperSignals(t *testing.T) {
	file := os.Getenv("SIGNALS_TEST_FILE")
	if file == "" {
		return
	}
	ctx, stop := untilSignalled()
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	<-ctx.Done()
	for range 20 {
		fmt.Fprintln(os.Stdout, "cleaning up")
		fmt.Fprintln(os.Stderr, "cleaning up")
		time.Sleep(10 * time.Millisecond)
	}
	require.NoError(t, os.Remove(file))
	stop()
	signal.Reset()
	os.Exit(7)
}

// A terminal that is closed sends SIGHUP, twice where there is a shell, and takes
// no more output. The clean-up goes on to its end.
func TestClosedTerminalDoesNotStopTheCleanUp(t *testing.T) {
	// Children take over an ignored signal, but not a handled one: with this, the
	// test means the same when it is itself run under nohup.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	for name, signals := range map[string][]syscall.Signal{
		"closed terminal": {syscall.SIGHUP, syscall.SIGHUP},
		"Ctrl-C":          {syscall.SIGINT},
		"SIGTERM":         {syscall.SIGTERM, syscall.SIGHUP},
	} {
		t.Run(name, func(t *testing.T) {
			file := t.TempDir() + "/state"
			r, w, err := os.Pipe()
			require.NoError(t, err)
			program := exec.Command(os.Args[0], "-test.run=^TestHelperSignals$")
			program.Env = append(os.Environ(), "SIGNALS_TEST_FILE="+file)
			program.Stdout, program.Stderr = w, w
			require.NoError(t, program.Start())
			require.NoError(t, w.Close())
			require.NoError(t, r.Close())
			require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, time.Minute, 5*time.Millisecond)
			for _, sig := range signals {
				require.NoError(t, program.Process.Signal(sig))
				time.Sleep(50 * time.Millisecond)
			}
			require.Error(t, program.Wait())
			require.Equal(t, 7, program.ProcessState.ExitCode(), program.ProcessState.String())
			require.NoFileExists(t, file, "the clean-up came to its end")
		})
	}
}

// A program that ignores SIGHUP from the start, as under nohup, goes on.
func TestNohup(t *testing.T) {
	file := t.TempDir() + "/state"
	program := exec.Command("/bin/sh", "-c", `trap '' HUP; exec "$0" -test.run='^TestHelperSignals$'`, os.Args[0])
	program.Env = append(os.Environ(), "SIGNALS_TEST_FILE="+file)
	require.NoError(t, program.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, time.Minute, 5*time.Millisecond)
	require.NoError(t, program.Process.Signal(syscall.SIGHUP))
	time.Sleep(500 * time.Millisecond)
	require.FileExists(t, file, "it goes on")
	require.NoError(t, program.Process.Signal(syscall.SIGTERM))
	require.Error(t, program.Wait())
	require.NoFileExists(t, file)
}
