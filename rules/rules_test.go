package rules_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

// promtool runs it to its end. It keeps little and makes much that is dropped, so
// it collects that seldom.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.Command(testkit.Binary(t, "promtool"), args...)
	cmd.Env = append(os.Environ(), "GOGC=800")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "promtool %s:\n%s", strings.Join(args, " "), out)
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	for _, tier := range rules.Tiers() {
		for _, subject := range rules.Subjects(tier) {
			t.Run(string(tier)+"/"+subject, func(t *testing.T) {
				t.Parallel()
				promtool(t, "check", "rules", "--lint=all", "--lint-fatal", filepath.Join(string(tier), subject+".rules.yaml"))
			})
			for _, file := range testFiles(t, tier, subject) {
				t.Run(filepath.ToSlash(file), func(t *testing.T) {
					t.Parallel()
					promtool(t, "test", "rules", file)
				})
			}
		}
	}
}

// testFiles have the unit tests of the rules about a subject. Beside testFile there
// may be some of worlds that are asked less often, such as pipeline.1m.test.yaml: a
// promtool evaluates every rule at every interval of its file, and hours of a world
// at 15 s take four times as long as at a minute.
func testFiles(t *testing.T, tier rules.Tier, subject string) []string {
	t.Helper()
	others, err := filepath.Glob(filepath.Join("tests", string(tier), subject+".*.test.yaml"))
	require.NoError(t, err)
	return append([]string{testFile(tier, subject)}, others...)
}

// testFile has the unit tests of the rules about a subject.
func testFile(tier rules.Tier, subject string) string {
	return filepath.Join("tests", string(tier), subject+".test.yaml")
}

func each(t *testing.T, do func(t *testing.T, tier rules.Tier, subject string, r rulefmt.Rule)) {
	t.Helper()
	for _, tier := range rules.Tiers() {
		groups, err := rules.Groups(tier)
		require.NoError(t, err)
		for i, subject := range rules.Subjects(tier) {
			require.Equal(t, string(tier)+"-"+subject, groups.Groups[i].Name)
			for _, r := range groups.Groups[i].Rules {
				t.Run(string(tier)+"/"+subject+"/"+r.Record+r.Alert, func(t *testing.T) { do(t, tier, subject, r) })
			}
		}
	}
}

func TestEveryTestFileBelongsToRules(t *testing.T) {
	found, err := filepath.Glob(filepath.Join("tests", "*", "*.test.yaml"))
	require.NoError(t, err)
	var want []string
	for _, tier := range rules.Tiers() {
		for _, subject := range rules.Subjects(tier) {
			want = append(want, testFiles(t, tier, subject)...)
		}
	}
	require.ElementsMatch(t, want, found)
}

func TestARenderedTierIsTheFilesThatItNames(t *testing.T) {
	for _, tier := range rules.Tiers() {
		files, err := rules.Files(tier, rules.WrittenFor, nil)
		require.NoError(t, err)
		require.ElementsMatch(t, rules.FileNames(tier), slices.Collect(maps.Keys(files)))
		groups, err := rules.Groups(tier)
		require.NoError(t, err)
		for _, g := range groups.Groups {
			require.Equal(t, g, parse(t, files[g.Name+".rules.yaml"]).Groups[0], "at the interval that they are written for, rules are as they are written")
		}
	}
	_, err := rules.Groups("moon")
	require.ErrorContains(t, err, `tier "moon"`)
}

func TestReadableKnowsTheTiers(t *testing.T) {
	c := contract(t)
	require.NoError(t, c.Readable("up", rules.Central))
	require.NoError(t, c.Readable("kube_node_info", rules.Edge))
	require.ErrorContains(t, c.Readable("kube_node_info", rules.Central), "stays at the edge")
	require.ErrorContains(t, c.Readable("fleet:nodes:count", rules.Edge), "is recorded at the central")
	require.ErrorContains(t, c.Readable("geography:edge_expected:info", rules.Central), "goes no higher than the cascade")
	require.ErrorContains(t, c.Readable("nonsense", rules.Edge), "is not declared")
}

func TestEveryAlertTellsAPersonWhatToDo(t *testing.T) {
	each(t, func(t *testing.T, tier rules.Tier, _ string, r rulefmt.Rule) {
		if r.Alert == "" {
			return
		}
		require.Equal(t, rules.Central, tier, "alerts are the centrals' to send")
		require.Contains(t, []string{"critical", "warning", "none"}, r.Labels["severity"])
		require.NotEmpty(t, r.Annotations["summary"])
		require.Contains(t, r.Annotations["description"], `query "fleet:cells_expected:count"`, "completeness: the expected cells")
		if r.Alert != "PharosPartialView" { // its value is the contributing cells
			require.Contains(t, r.Annotations["description"], `query "fleet:cells_contributing:count"`)
		}
		require.Equal(t, "https://github.com/pharos-fleet/pharos/blob/main/docs/runbooks/"+r.Alert+".md", r.Annotations["runbook_url"])
		page, err := os.ReadFile(filepath.Join(testkit.Root(t), "docs", "runbooks", r.Alert+".md"))
		require.NoError(t, err)
		place := 0
		for _, heading := range []string{"# " + r.Alert + "\n", "\n## Meaning\n", "\n## Impact\n", "\n## Diagnosis\n", "\n## Mitigation\n"} {
			next := strings.Index(string(page[place:]), heading)
			require.GreaterOrEqual(t, next, 0, "runbook: heading %q is missing or out of order", heading)
			place += next + len(heading) - 1
		}
	})
}

func TestEveryRunbookHasAnAlert(t *testing.T) {
	alerts := map[string]bool{}
	each(t, func(_ *testing.T, _ rules.Tier, _ string, r rulefmt.Rule) { alerts[r.Alert+".md"] = true })
	pages, err := os.ReadDir(filepath.Join(testkit.Root(t), "docs", "runbooks"))
	require.NoError(t, err)
	for _, page := range pages {
		require.True(t, alerts[page.Name()], "%s is the runbook of no alert", page.Name())
	}
}

func TestRenderScalesDurationsToTheInterval(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 5 * time.Second: 5 * time.Second, 15 * time.Second: 15 * time.Second, 40 * time.Second: 40 * time.Second,
	} {
		files, err := rules.Render(rules.Central, interval)
		require.NoError(t, err)
		r := alert(t, files, "PharosNodeNotReady")
		require.Equal(t, model.Duration(want), r.For, "for: one interval")
		require.Equal(t, model.Duration(2*want), r.KeepFiringFor, "keep_firing_for: two intervals")
		stale := alert(t, files, "PharosCellStale")
		require.Equal(t, model.Duration(max(6*want, 10*time.Second)), stale.For, "time to start in")
		require.Equal(t, model.Duration(max(4*want, 10*time.Second)), stale.KeepFiringFor, "time to hear of nodes again")
		partial := alert(t, files, "PharosPartialView").For
		require.GreaterOrEqual(t, time.Duration(partial-stale.For), 2*want, "the cause comes first, or what mutes comes too late")
		require.Zero(t, alert(t, files, "PharosWatchdog").For)
	}
}

func alert(t *testing.T, files map[string][]byte, name string) rulefmt.Rule {
	t.Helper()
	for _, raw := range files {
		for _, r := range parse(t, raw).Groups[0].Rules {
			if r.Alert == name {
				return r
			}
		}
	}
	t.Fatalf("no alert %s", name)
	return rulefmt.Rule{}
}
