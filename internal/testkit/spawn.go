package testkit

import (
	"os/exec"
	"syscall"
	"testing"
)

// maxSaid bounds what is shown of a server's output when its test failed.
const maxSaid = 16 << 10

// Spawn starts one of the stock servers. It ends with the test, and with the
// test's process if that is killed; the end of what it said is shown if the test
// failed. The test may end it before, with End.
func Spawn(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(Binary(t, name), args...)
	var said Said
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		End(cmd)
		if t.Failed() {
			t.Logf("%s %v:\n%s", name, args, said.Tail())
		}
	})
	return cmd
}

// End kills a process and waits until it has ended.
func End(cmd *exec.Cmd) {
	_ = cmd.Process.Kill() // it may have ended already
	_ = cmd.Wait()
}
