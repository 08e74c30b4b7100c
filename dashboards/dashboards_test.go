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
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(regexp.MustCompile(`\$[a-z]+`).ReplaceAllString(query, "x"))
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

// variables are those of a dashboard that a person chooses from, by name.
func variables(d dashboard.Dashboard) map[string]dashboard.VariableModel {
	out := map[string]dashboard.VariableModel{}
	for _, v := range d.Templating.List[1:] {
		out[v.Name] = v
	}
	return out
}

func TestVariablesReadDeclaredSeries(t *testing.T) {
	contract, err := rules.Load()
	require.NoError(t, err)
	all(t, func(t *testing.T, d dashboard.Dashboard) {
		for name, v := range variables(d) {
			m := regexp.MustCompile(`^(?:label_values\((.+), ([a-z]+)\)|query_result\((.+)\))$`).FindStringSubmatch(*v.Query.String)
			require.NotNil(t, m, *v.Query.String)
			for _, series := range selected(t, m[1]+m[3]) {
				require.NoError(t, contract.Readable(series, rules.Central))
			}
			if m[3] == "" {
				require.Equal(t, name, m[2])
				require.Nil(t, v.Regex, "the values are what is wanted")
			} else {
				require.Equal(t, `/`+name+`="([^"]+)"/`, *v.Regex, "whole series are no values")
			}
			if *v.IncludeAll {
				require.Equal(t, ".*", *v.AllValue, "all the names would not fit a request")
			}
		}
	})
}

// A sum over cells says nothing unless one sees how many cells it is over.
func TestEverySumStandsBesideItsCompleteness(t *testing.T) {
	contract, err := rules.Load()
	require.NoError(t, err)
	sums := sumsOverCells(t, contract)
	shown := map[string]bool{}
	all(t, func(t *testing.T, d dashboard.Dashboard) {
		for _, either := range d.Panels {
			p := either.Panel
			reads := readBy(t, p)
			for _, name := range reads {
				if !sums[name] {
					continue
				}
				shown[name] = true
				of := name[:strings.Index(name, ":")]
				require.Contains(t, reads, of+":completeness:ratio", *p.Title)
				require.Contains(t, *p.Description, "contribut", *p.Title)
			}
		}
	})
	for name := range sums {
		if strings.HasPrefix(name, "geography:") {
			require.True(t, shown[name], "%s is on no dashboard", name)
		}
	}
}

// sumsOverCells are the declared sums of a geography or of the fleet.
func sumsOverCells(t *testing.T, contract rules.Contract) map[string]bool {
	t.Helper()
	sums := map[string]bool{}
	for _, s := range contract.Series {
		if s.From == rules.Central && !s.Rendered && regexp.MustCompile(`^(fleet|geography):`).MatchString(s.Name) {
			sums[s.Name] = true
		}
	}
	for _, aboutCells := range []string{
		"fleet:cell_contributing:bool", "fleet:cell_dark:bool", "fleet:alert_held:info", "fleet:cells_contributing:count",
		"fleet:completeness:ratio", "geography:cells_contributing:count", "geography:completeness:ratio",
	} {
		require.True(t, sums[aboutCells], aboutCells)
		delete(sums, aboutCells)
	}
	return sums
}

// readBy lists the series that a panel reads.
func readBy(t *testing.T, p *dashboard.Panel) []string {
	t.Helper()
	var out []string
	for _, target := range p.Targets {
		out = append(out, selected(t, target.(prometheus.Dataquery).Expr)...)
	}
	return out
}

// Links and runbooks must lead somewhere, and to what one was looking at.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	known := map[string]bool{}
	chosenBy := map[string]map[string]dashboard.VariableModel{}
	pages, err := filepath.Glob(filepath.Join(testkit.Root(t), "docs", "runbooks", "*.md"))
	require.NoError(t, err)
	for _, page := range pages {
		known["https://github.com/pharos-fleet/pharos/blob/main/docs/runbooks/"+filepath.Base(page)] = true
	}
	all(t, func(_ *testing.T, d dashboard.Dashboard) { chosenBy["/d/"+*d.Uid] = variables(d) })
	all(t, func(t *testing.T, d dashboard.Dashboard) {
		for _, either := range d.Panels {
			for _, link := range append(either.Panel.Links, either.Panel.FieldConfig.Defaults.Links...) {
				require.NotEmpty(t, link.Title)
				page, query, carries := strings.Cut(*link.Url, "?")
				if !carries {
					require.True(t, known[page], page)
					continue
				}
				require.Contains(t, chosenBy, page)
				carried := strings.Split(query, "&")
				require.Equal(t, []string{"${__url_time_range}", "${datasource:queryparam}"}, carried[:2])
				for _, v := range carried[2:] {
					m := regexp.MustCompile(`^(?:\$\{([a-z]+):queryparam\}|var-([a-z]+)=\$\{__(?:data\.fields|field\.labels)\.([a-z]+)\})$`).FindStringSubmatch(v)
					require.NotNil(t, m, v)
					require.Equal(t, m[2], m[3])
					require.Contains(t, chosenBy[page], m[1]+m[2], "%s has no such variable", page)
					if m[1] != "" {
						require.Contains(t, variables(d), m[1], "the page that links has no such variable")
					}
				}
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
