//go:build !race

package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"pharos": func() { os.Exit(exitCode(run(context.Background(), newRootCommand(), os.Stdout), os.Stderr)) },
	})
}

// Case C43: testdata/script/replay.txtar.
// Scripts run the program as a person would, each in a folder of its own. They go
// without the race detector, by which a render takes ten times as long; the packages
// that it is made of have tests of their own with it.
func TestScripts(t *testing.T) {
	var tools []string
	for _, name := range []string{"promtool", "amtool"} {
		tools = append(tools, filepath.Dir(testkit.Binary(t, name)))
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", strings.Join(append(tools, e.Getenv("PATH")), string(filepath.ListSeparator)))
			e.Setenv("SNAPSHOT", filepath.Join(testkit.Root(t), "remediator", "snapshot", "testdata", "by-hand.yaml"))
			e.Setenv("CONTRACT", filepath.Join(testkit.Root(t), "rules", rules.ContractFile))
			return nil
		},
		RequireExplicitExec: true,
	})
}
