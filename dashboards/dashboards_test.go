package dashboards_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/dashboards"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

var update = flag.Bool("update", false, "write the generated files instead of comparing with them")

func TestJSONIsCurrent(t *testing.T) {
	files, err := dashboards.JSON()
	require.NoError(t, err)
	again, err := dashboards.JSON()
	require.NoError(t, err)
	require.Equal(t, files, again)
	if *update {
		require.NoError(t, os.RemoveAll("json"))
		require.NoError(t, os.MkdirAll("json", 0o755))
		for name, raw := range files {
			require.NoError(t, os.WriteFile(filepath.Join("json", name), raw, 0o644))
		}
	}
	entries, err := os.ReadDir("json")
	require.NoError(t, err)
	require.Len(t, entries, len(files))
	for name, raw := range files {
		have, err := os.ReadFile(filepath.Join("json", name))
		require.NoError(t, err)
		if diff := cmp.Diff(string(have), string(raw)); diff != "" {
			t.Errorf("json/%s is not current; run go generate ./dashboards:\n%s", name, diff)
		}
	}
}

func all(t *testing.T, do func(t *testing.T, d dashboard.Dashboard)) {
	t.Helper()
	built, err := dashboards.All()
	require.NoError(t, err)
	for _, d := range built {
		t.Run(*d.Uid, func(t *testing.T) { do(t, d) })
	}
}

func TestDashboardsAreWhatGrafanaTakes(t *testing.T) {
	seen := map[string]bool{}
	files, err := dashboards.JSON()
	require.NoError(t, err)
	all(t, func(t *testing.T, d dashboard.Dashboard) {
		require.LessOrEqual(t, len(*d.Uid), 40)
		require.False(t, seen[*d.Uid], "two dashboards of one uid overwrite each other for ever")
		seen[*d.Uid] = true
		require.EqualValues(t, 42, d.SchemaVersion)
		require.False(t, *d.Editable)
		require.NotEmpty(t, *d.Description)
		var strict dashboard.Dashboard
		//nolint:testifylint // the SDK returns an empty list of errors, which is not nil
		require.Empty(t, strict.UnmarshalJSONStrict(files[*d.Uid+".json"]))
		require.NoError(t, strict.Validate())
		require.Len(t, strict.Panels, len(d.Panels))
		require.Equal(t, dashboard.VariableTypeDatasource, d.Templating.List[0].Type)
	})
}

func TestEveryPanelIsWhole(t *testing.T) {
	contract, err := rules.Load()
	require.NoError(t, err)
	all(t, func(t *testing.T, d dashboard.Dashboard) {
		ids := map[uint32]bool{}
		for _, either := range d.Panels {
			p := either.Panel
			require.NotNil(t, p)
			t.Run(*p.Title, func(t *testing.T) {
				require.NotZero(t, *p.Id)
				require.False(t, ids[*p.Id])
				ids[*p.Id] = true
				require.NotEmpty(t, *p.Description)
				require.NotEmpty(t, *p.FieldConfig.Defaults.Unit)
				require.NotEmpty(t, p.Links, "a way on")
				require.Equal(t, "${datasource}", *p.Datasource.Uid)
				require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, uint32(24))
				checkQueries(t, contract, p)
			})
		}
	})
}

func checkQueries(t *testing.T, contract rules.Contract, p *dashboard.Panel) {
	t.Helper()
	require.NotEmpty(t, p.Targets)
	refs := map[string]bool{}
	for _, target := range p.Targets {
		q, ok := target.(prometheus.Dataquery)
		require.True(t, ok, "%T", target)
		require.NotNil(t, q.RefId)
		require.False(t, refs[*q.RefId])
		refs[*q.RefId] = true
		require.Equal(t, "${datasource}", *q.Datasource.Uid)
		for _, name := range selected(t, q.Expr) {
			require.NoError(t, contract.Readable(name, rules.Central))
		}
		if strings.Contains(q.Expr, "rack:") || strings.Contains(q.Expr, "cluster:") || strings.Contains(q.Expr, "node:") {
			require.Regexp(t, `(max|min|group) by \(`, q.Expr, "replicas must be aggregated away")
		}
	}
}

// selected lists the series that a query reads, its variables filled in.
func selected(t *testing.T, query string) []string {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(query, "$cell", "c"))
	require.NoError(t, err, query)
	var names []string
	parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
		if s, ok := n.(*parser.VectorSelector); ok {
			require.NotEmpty(t, s.Name)
			names = append(names, s.Name)
		}
		return nil
	})
	require.NotEmpty(t, names)
	return names
}

func TestVariablesReadDeclaredSeries(t *testing.T) {
	contract, err := rules.Load()
	require.NoError(t, err)
	all(t, func(t *testing.T, d dashboard.Dashboard) {
		for _, v := range d.Templating.List[1:] {
			m := regexp.MustCompile(`^label_values\(([a-z:_]+), ([a-z]+)\)$`).FindStringSubmatch(*v.Query.String)
			require.NotNil(t, m, *v.Query.String)
			require.NoError(t, contract.Readable(m[1], rules.Central))
			require.Equal(t, ".*", *v.AllValue, "all the names would not fit a request")
		}
	})
}

// Links and runbooks must lead somewhere.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	known := map[string]bool{"/d/" + dashboards.GlobalUID: true, "/d/" + dashboards.CellUID: true}
	pages, err := filepath.Glob(filepath.Join(testkit.Root(t), "docs", "runbooks", "*.md"))
	require.NoError(t, err)
	for _, page := range pages {
		known["https://github.com/pharos-fleet/pharos/blob/main/docs/runbooks/"+filepath.Base(page)] = true
	}
	all(t, func(t *testing.T, d dashboard.Dashboard) {
		for _, either := range d.Panels {
			for _, link := range either.Panel.Links {
				require.True(t, known[*link.Url], *link.Url)
				require.NotEmpty(t, link.Title)
			}
		}
	})
}

func TestTheModelSaysWhatTheSDKLeavesOut(t *testing.T) {
	files, err := dashboards.JSON()
	require.NoError(t, err)
	for name, raw := range files {
		var model struct {
			Panels []struct {
				Type    string
				Options struct {
					Legend  struct{ ShowLegend bool }
					Tooltip struct{ Mode string }
				}
			}
		}
		require.NoError(t, json.Unmarshal(raw, &model))
		for _, p := range model.Panels {
			if p.Type == "timeseries" {
				require.True(t, p.Options.Legend.ShowLegend, name)
				require.Equal(t, "multi", p.Options.Tooltip.Mode, name)
			}
		}
	}
}
