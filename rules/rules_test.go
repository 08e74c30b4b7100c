package rules_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

func tiers() []rules.Tier { return []rules.Tier{rules.Edge, rules.Cascade, rules.Central} }

func promtool(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command(testkit.Binary(t, "promtool"), args...).CombinedOutput()
	require.NoError(t, err, "promtool %s:\n%s", strings.Join(args, " "), out)
}

func TestPromtoolAcceptsTheRules(t *testing.T) {
	for _, tier := range tiers() {
		promtool(t, "check", "rules", "--lint=all", "--lint-fatal", rules.FileName(tier))
		promtool(t, "test", "rules", filepath.Join("tests", string(tier)+".test.yaml"))
	}
}

func each(t *testing.T, do func(t *testing.T, tier rules.Tier, r rulefmt.Rule)) {
	t.Helper()
	for _, tier := range tiers() {
		groups, err := rules.Groups(tier)
		require.NoError(t, err)
		require.Len(t, groups.Groups, 1, "one group, so that each rule sees what the one before it recorded")
		for _, r := range groups.Groups[0].Rules {
			t.Run(string(tier)+"/"+r.Record+r.Alert, func(t *testing.T) { do(t, tier, r) })
		}
	}
}

func TestEveryRuleHasAUnitTest(t *testing.T) {
	each(t, func(t *testing.T, tier rules.Tier, r rulefmt.Rule) {
		raw, err := os.ReadFile(filepath.Join("tests", string(tier)+".test.yaml"))
		require.NoError(t, err)
		tested := "expr: '" + r.Record + "'"
		if r.Alert != "" {
			tested = "alertname: " + r.Alert
		}
		if r.Record == "node:not_ready:info" {
			tested = "node:unhealthy:info" // its only reader, by which it is tested
		}
		require.Contains(t, string(raw), tested)
	})
}

func TestRulesReadOnlyWhatTheirTierHas(t *testing.T) {
	c := contract(t)
	each(t, func(t *testing.T, tier rules.Tier, r rulefmt.Rule) {
		reads := selected(t, r.Expr)
		for _, annotation := range r.Annotations {
			for _, query := range queries(annotation) {
				reads = append(reads, selected(t, query)...)
			}
		}
		for _, name := range reads {
			require.NoError(t, c.Readable(name, tier))
		}
	})
}

func TestReadableKnowsTheTiers(t *testing.T) {
	c := contract(t)
	require.NoError(t, c.Readable("up", rules.Central))
	require.NoError(t, c.Readable("kube_node_info", rules.Edge))
	require.ErrorContains(t, c.Readable("kube_node_info", rules.Central), "stays at the edge")
	require.ErrorContains(t, c.Readable("fleet:nodes:count", rules.Edge), "is recorded at the central")
	require.ErrorContains(t, c.Readable("geography:cell_expected:info", rules.Central), "goes no higher than the cascade")
	require.ErrorContains(t, c.Readable("nonsense", rules.Edge), "is not declared")
}

// selected lists the names of the series that a query selects. A selector
// without one name could read anything, so it is refused.
func selected(t *testing.T, query string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	require.NoError(t, err, query)
	var names []string
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			require.NotEmpty(t, s.Name, "%s: a selector without a name", query)
			names = append(names, s.Name)
		}
		return nil
	})
	return names
}

// queries lists the queries in an annotation's template, with placeholders filled in.
func queries(template string) []string {
	var out []string
	for _, m := range regexp.MustCompile(`(?:query|printf) "((?:[^"\\]|\\.)*)"`).FindAllStringSubmatch(template, -1) {
		out = append(out, strings.NewReplacer("%q", `"x"`, "%s", "x").Replace(m[1]))
	}
	return out
}

func TestQueriesFindsThoseOfTemplates(t *testing.T) {
	require.Equal(t, []string{`a{b="x"}`, "c"}, queries(`{{ with printf "a{b=%q}" $x | query }}{{ end }}{{ query "c" }}`))
}

func TestEveryAlertTellsAPersonWhatToDo(t *testing.T) {
	each(t, func(t *testing.T, tier rules.Tier, r rulefmt.Rule) {
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
	each(t, func(_ *testing.T, _ rules.Tier, r rulefmt.Rule) { alerts[r.Alert+".md"] = true })
	pages, err := os.ReadDir(filepath.Join(testkit.Root(t), "docs", "runbooks"))
	require.NoError(t, err)
	for _, page := range pages {
		require.True(t, alerts[page.Name()], "%s is the runbook of no alert", page.Name())
	}
}

// A runbook's block holds commands or queries, one a line.
func TestEveryQueryInARunbookParses(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(testkit.Root(t), "docs", "runbooks", "*.md"))
	require.NoError(t, err)
	found := 0
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range regexp.MustCompile("(?s)```\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
			for line := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n") {
				line = strings.TrimSpace(line)
				if command, _, _ := strings.Cut(line, " "); command == "kubectl" || command == "amtool" {
					continue
				}
				_, err := parser.NewParser(parser.Options{}).ParseExpr(line)
				require.NoError(t, err, "%s: %s", filepath.Base(page), line)
				found++
			}
		}
	}
	require.Greater(t, found, 10)
}

func TestRenderScalesDurationsToTheInterval(t *testing.T) {
	for interval, want := range map[time.Duration]time.Duration{
		time.Second: time.Second, 5 * time.Second: 5 * time.Second, 15 * time.Second: 15 * time.Second, 40 * time.Second: 40 * time.Second,
	} {
		raw, err := rules.Render(rules.Central, interval)
		require.NoError(t, err)
		r := alert(t, raw, "PharosNodeNotReady")
		require.Equal(t, model.Duration(want), r.For, "for: one interval")
		require.Equal(t, model.Duration(2*want), r.KeepFiringFor, "keep_firing_for: two intervals")
		stale := alert(t, raw, "PharosCellStale")
		require.Equal(t, model.Duration(max(6*want, 10*time.Second)), stale.For, "time to start in")
		require.Equal(t, model.Duration(max(4*want, 10*time.Second)), stale.KeepFiringFor, "time to hear of nodes again")
		require.GreaterOrEqual(t, alert(t, raw, "PharosPartialView").For, stale.For, "the cause comes first")
		require.Zero(t, alert(t, raw, "PharosWatchdog").For)
	}
}

func alert(t *testing.T, raw []byte, name string) rulefmt.Rule {
	t.Helper()
	groups := parse(t, raw)
	for _, r := range groups.Groups[0].Rules {
		if r.Alert == name {
			return r
		}
	}
	t.Fatalf("no alert %s", name)
	return rulefmt.Rule{}
}
