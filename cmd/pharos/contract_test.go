package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// answerOf runs a command and gives what it prints.
func answerOf(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRootCommand()
	root.SetArgs(args)
	err := run(context.Background(), root, &out)
	return out.String(), err
}

func TestWhatIsBuiltInFitsTheContract(t *testing.T) {
	out, err := answerOf(t, "contract", "check")
	require.NoError(t, err, out)
	require.Regexp(t, `fit it, with [1-9]\d+, [1-9]\d+ and 0 queries\n$`, out)
	out, err = answerOf(t, "contract", "check", "--contract", "../../rules/contract.yaml", "--rules", "../../rules",
		"--dashboards", "../../dashboards/json", "--policies", "../../deploy/examples/remediation-policy.yaml")
	require.NoError(t, err, out)
}

func TestContractCheckNamesTheLineOfEachProblem(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("../../rules")))
	path := filepath.Join(dir, "edge", "nodes.rules.yaml")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, bytes.Replace(raw, []byte("(kube_node_info"), []byte("(kube_node_infos"), 1), 0o600))
	policies := filepath.Join(dir, "policies.yaml")
	require.NoError(t, os.WriteFile(policies, []byte("apiVersion: a/v1\nkind: Policy\nspec: {expr: nonsense}\n"), 0o600))
	out, err := answerOf(t, "contract", "check", "--rules", dir, "--policies", policies)
	require.ErrorContains(t, err, "2 wrong")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	require.Len(t, lines, 2, out)
	require.Regexp(t, `^`+path+`:\d+: series "kube_node_infos" is not declared`, lines[0])
	require.Equal(t, policies+`:3: series "nonsense" is not declared in contract.yaml`, lines[1])
}

// Rules of a team's own are checked as they are rendered: beside what is built in.
func TestContractCheckTakesRulesOfOnesOwn(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "central"), 0o700))
	write := func(group string) {
		rule := "groups:\n  - name: " + group + "\n    rules:\n      - alert: Many\n        expr: max by (geography, region, cell, cluster) (cluster:nodes:count) > 5\n" +
			"        labels: {severity: none}\n        annotations: {summary: a, description: b, runbook_url: https://example.org/c}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "central", "mine.rules.yaml"), []byte(rule), 0o600))
	}
	_, before, err := contractFilesChecked(t)
	require.NoError(t, err)
	write("mine")
	_, with, err := contractFilesChecked(t, "--rules", dir)
	require.NoError(t, err)
	require.Equal(t, before+1, with)
	write("central-nodes")
	out, _, err := contractFilesChecked(t, "--rules", dir)
	require.ErrorContains(t, err, "1 wrong")
	require.Contains(t, out, "mine.rules.yaml:2: group \"central-nodes\" is in")

	policies := filepath.Join(t.TempDir(), "policies.yaml")
	require.NoError(t, os.WriteFile(policies, []byte("apiVersion: a/v1\nkind: Policy\nspec: {expr: nonsense}\n"), 0o600))
	_, _, err = contractFilesChecked(t, "--rules", dir, "--policies", policies)
	require.ErrorContains(t, err, "2 wrong", "all at once")
}

// contractFilesChecked gives how many rule files a check says that it saw.
func contractFilesChecked(t *testing.T, args ...string) (out string, files int, err error) {
	t.Helper()
	out, err = answerOf(t, append([]string{"contract", "check"}, args...)...)
	if err != nil {
		return out, 0, err
	}
	_, after, _ := strings.Cut(out, ": ")
	count, _, _ := strings.Cut(after, " ")
	files, err = strconv.Atoi(count)
	require.NoError(t, err, out)
	return out, files, nil
}

func TestContractCheckNeverPassesWhatItCannotRead(t *testing.T) {
	empty, odd := t.TempDir(), t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(odd, "edge"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(odd, "edge", "a.yaml"), nil, 0o600))
	// folder has one good file of rules, and something beside.
	folder := func(beside func(dir string) error) string {
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "central"), 0o700))
		require.NoError(t, os.CopyFS(filepath.Join(dir, "central"), os.DirFS("../../rules/central")))
		require.NoError(t, beside(dir))
		return dir
	}
	file := func(path ...string) func(dir string) error {
		return func(dir string) error {
			at := filepath.Join(append([]string{dir}, path...)...)
			return errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, nil, 0o600))
		}
	}
	misspelt := folder(file("centrl", "x.rules.yaml"))
	capital := folder(file("Edge", "nodes.yaml"))
	beside := folder(func(dir string) error { return errors.Join(file("x.rules.yaml")(dir), file("y", "z.rules.yml")(dir)) })
	dangling := folder(func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, "central", "a.rules.yaml")) })
	danglingTier := folder(func(dir string) error { return os.Symlink("nowhere", filepath.Join(dir, "edge")) })
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	blank := filepath.Join(t.TempDir(), "blank.yaml")
	require.NoError(t, os.WriteFile(blank, nil, 0o600))
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no contract":         {[]string{"--contract", "nowhere.yaml"}, "nowhere.yaml: no such file"},
		"empty contract":      {[]string{"--contract", blank}, "1 wrong"},
		"no rules":            {[]string{"--rules", empty}, "none of its folders edge, cascade and central has a file"},
		"file of no rules":    {[]string{"--rules", odd}, "a.yaml is no file whose name ends in .rules.yaml, so it would not be checked"},
		"misspelt tier":       {[]string{"--rules", misspelt}, "centrl/x.rules.yaml would not be checked; the folders of the tiers are edge, cascade and central"},
		"capital tier":        {[]string{"--rules", capital}, "what is in " + filepath.Join(capital, "Edge") + " would not be checked"},
		"rules beside":        {[]string{"--rules", beside}, filepath.Join(beside, "x.rules.yaml") + " would not be checked"},
		"rules further down":  {[]string{"--rules", beside}, "y/z.rules.yml would not be checked"},
		"dangling file":       {[]string{"--rules", dangling}, "central/a.rules.yaml: no such file"},
		"dangling tier":       {[]string{"--rules", danglingTier}, "edge: no such file"},
		"pipe":                {[]string{"--policies", pipe}, "pipe is no regular file"},
		"no dashboards":       {[]string{"--dashboards", "nowhere"}, "reading the dashboards: open nowhere"},
		"empty dashboards":    {[]string{"--dashboards", empty}, "is empty"},
		"no policies":         {[]string{"--policies", "nowhere.yaml"}, "nowhere.yaml: no such file"},
		"empty policies":      {[]string{"--policies", blank}, "1 wrong"},
		"something more said": {[]string{"nonsense"}, "unknown command"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := answerOf(t, append([]string{"contract", "check"}, tc.args...)...)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestRulesExportRefusesWhatAClusterWouldRefuse(t *testing.T) {
	_, err := answerOf(t, "rules", "export", "--interval", "1h", "--namespace", "A", "--label", "a b=c", "--capacity", "clusters=60")
	for _, want := range []string{
		`--tier "": must be one of`, "--interval: interval 1h0m0s", `--namespace "A": `, "--label a b=c: ", `are those of the cell of an edge, and the tier is ""`,
	} {
		require.ErrorContains(t, err, want)
	}
	_, err = answerOf(t, "rules", "export", "--tier", "edge", "--size", "Huge", "--capacity", "clusters=0,addresses=many,cpu=4")
	for _, want := range []string{
		`--size "Huge": must be Small, Medium or Large`, "--capacity clusters=0: the limit must be above 0", "--capacity addresses=many: the limit quantities must match",
		"--capacity cpu=4: the pool must be addresses or clusters",
	} {
		require.ErrorContains(t, err, want)
	}
	out, err := answerOf(t, "rules", "export", "--tier", "edge", "--namespace", "monitoring", "--label", "release=x")
	require.NoError(t, err)
	require.Equal(t, strings.Count(out, "kind: PrometheusRule"), strings.Count(out, "namespace: monitoring"))
	require.Contains(t, out, "release: x")
	require.Equal(t, strings.Count(out, "kind: PrometheusRule"), strings.Count(out, "interval: 30s"), "each group says how often")
	require.NotContains(t, out, "cell:capacity_limit:value", "which nobody has said")
	out, err = answerOf(t, "rules", "export", "--tier", "edge", "--size", "Large", "--capacity", "addresses=4k", "--capacity", "clusters=60")
	require.NoError(t, err)
	for _, want := range []string{"cell:capacity_limit:value", "vector(4000)", "vector(60)", "edge:interval:seconds", "edge:sample_limit:count", "vector(1500000)"} {
		require.Contains(t, out, want)
	}
}
