package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func command(t *testing.T, args ...string) (*cobra.Command, *strings.Builder) {
	t.Helper()
	var said strings.Builder
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(&said)
	root.SetErr(io.Discard)
	return root, &said
}

// Each program has the flags that all have, says which cluster it wants, and
// refuses in one sentence what it cannot read.
func TestProgramsShareTheirFlags(t *testing.T) {
	for role, flags := range map[string]struct{ listen, cluster string }{
		"edge-agent":       {":9096", "cell"},
		"notify":           {":9095", ""},
		"remediator":       {":8081", "hub"},
		"operator":         {":8080", "hub"},
		"machine-operator": {":8082", "cell"},
	} {
		t.Run(role, func(t *testing.T) {
			root, _ := command(t, role)
			cmd, _, err := root.Find([]string{role})
			require.NoError(t, err)
			require.Equal(t, flags.listen, cmd.Flag("listen").DefValue)
			if flags.cluster == "" {
				require.Nil(t, cmd.Flag("kubeconfig"))
			} else {
				require.Contains(t, cmd.Flag("kubeconfig").Usage, "kubeconfig of the "+flags.cluster)
			}
			root, _ = command(t, role, "--log-level", "loud")
			require.ErrorContains(t, root.Execute(), `reading log level "loud"`)
			root, _ = command(t, role, "extra")
			require.ErrorContains(t, root.Execute(), "extra")
		})
	}
}

// Whatever cannot work is refused before anything is touched.
func TestRefusals(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", "relative/is/ignored")
	for _, tc := range []struct {
		args []string
		err  string
	}{
		{[]string{"up", "--instance", "12"}, "instance 12 does not exist: use 0 to 9"},
		{[]string{"down", "--instance", "-1"}, "instance -1 does not exist"},
		{[]string{"status", "--instance", "10"}, "instance 10 does not exist"},
		{[]string{"demo", "--instance", "10"}, "instance 10 does not exist"},
		{[]string{"demo", "--node", "nope"}, `no node "nope"`},
		{[]string{"demo", "--timeout", "-1s"}, "--timeout"},
		{[]string{"up", "--timeout", "0s"}, "--timeout"},
		{[]string{"fault", "list", "--instance", "10"}, "instance 10 does not exist"},
		{[]string{"fault", "clear"}, "no fleet runs in "},
		{[]string{"fault", "list", "--instance", "7"}, "start one with `pharos up --instance 7`"},
		{[]string{"status", "--output", "yaml"}, "use text or json"},
		{[]string{"down", "--state-dir", "/etc/passwd"}, "the state folder cannot be used: open /etc/passwd/fleet.json: not a directory: give another --state-dir than /etc/passwd"},
		{[]string{"status", "--state-dir", "/etc/passwd"}, "the state folder cannot be used"},
		{[]string{"up", "--state-dir", "/etc/passwd"}, "/etc/passwd"},
	} {
		root, _ := command(t, tc.args...)
		err := root.Execute()
		require.ErrorContains(t, err, tc.err, tc.args)
		require.NotContains(t, err.Error(), "\n")
	}
	t.Setenv("HOME", "")
	root, _ := command(t, "up")
	require.ErrorContains(t, root.Execute(), "give --state-dir")
}

func TestStatusOfNothing(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	root, said := command(t, "status", "--instance", "9")
	require.NoError(t, root.Execute())
	require.Contains(t, said.String(), "start one with pharos up --instance 9")
	root, said = command(t, "status", "--instance", "9", "-o", "json")
	require.NoError(t, root.Execute())
	require.JSONEq(t, `{"state":"None"}`, onlyState(t, said.String()))
}

// A relative state folder begins where the command is typed.
func TestRelativeStateFolder(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	root, said := command(t, "status", "--state-dir", "here")
	require.NoError(t, root.Execute())
	require.Contains(t, said.String(), "no fleet in "+filepath.Join(dir, "here"))
	require.NoDirExists(t, filepath.Join(dir, "here"))
}

func TestAnswerThatCannotBeWrittenIsAFailure(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = full.Close() })
	for _, output := range []string{"text", "json"} {
		root, _ := command(t, "status", "-o", output)
		err := run(t.Context(), root, full)
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.NotContains(t, err.Error(), "\n")
	}
}

func onlyState(t *testing.T, s string) string {
	t.Helper()
	var report map[string]any
	require.NoError(t, json.Unmarshal([]byte(s), &report))
	b, err := json.Marshal(map[string]any{"state": report["state"]})
	require.NoError(t, err)
	return string(b)
}
