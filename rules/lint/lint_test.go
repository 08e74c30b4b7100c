package lint_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/rules/lint"
)

// builtIn is what the repository holds.
func builtIn(t *testing.T) lint.Input {
	t.Helper()
	raw, err := rules.ContractSource()
	require.NoError(t, err)
	in := lint.Input{Contract: lint.File{Name: "contract.yaml", Content: raw}, Rules: map[rules.Tier][]lint.File{}}
	for _, tier := range rules.Tiers() {
		for _, subject := range rules.Subjects(tier) {
			raw, err := rules.Source(tier, subject)
			require.NoError(t, err)
			in.Rules[tier] = append(in.Rules[tier], lint.File{Name: rules.SourcePath(tier, subject), Content: raw})
		}
	}
	pages, err := filepath.Glob(filepath.Join(testkit.Root(t), "dashboards", "json", "*.json"))
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	for _, page := range pages {
		raw, err := os.ReadFile(page)
		require.NoError(t, err)
		in.Dashboards = append(in.Dashboards, lint.File{Name: filepath.Base(page), Content: raw})
	}
	policy, err := os.ReadFile(filepath.Join(testkit.Root(t), "deploy", "examples", "remediation-policy.yaml"))
	require.NoError(t, err)
	in.Policies = []lint.File{{Name: "remediation-policy.yaml", Content: policy}}
	return in
}

func TestWhatTheRepositoryHoldsFits(t *testing.T) {
	checked, err := lint.Check(builtIn(t))
	require.NoError(t, err)
	require.Greater(t, checked.Rules, 100)
	require.Greater(t, checked.Dashboards, 100)
	require.Zero(t, checked.Policies, "a RemediationPolicy asks nothing in its own words")
}

// What the remediator asks of a central is written in its code.
func TestWhatTheRemediatorReadsIsDeclared(t *testing.T) {
	contract, err := rules.Load()
	require.NoError(t, err)
	path := filepath.Join(testkit.Root(t), "remediator", "signal", "centrals.go")
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	found := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "select") {
			return true
		}
		query, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		name, _, _ := strings.Cut(query, "{")
		require.NoError(t, contract.Readable(name, rules.Central), spec.Names[0].Name)
		found++
		return true
	})
	require.Greater(t, found, 1)
}

const smallContract = `series:
  - {name: nodes, kind: gauge, unit: u, help: h, labels: [geography, region, cell, cluster], from: edge, to: central, max: {per: cluster, series: 1}}
  - {name: beat, kind: gauge, unit: u, help: h, labels: [geography, region, cell], from: edge, to: central, max: {per: cell, series: 1}}
  - {name: took, kind: histogram, unit: u, help: h, labels: [geography, region, cell, cluster], from: edge, to: central, max: {per: cluster, series: 9}}
  - {name: all, kind: gauge, unit: u, help: h, labels: [], from: central, to: central, max: {per: fleet, series: 1}}
  - {name: step, kind: gauge, unit: u, help: h, labels: [], from: central, to: central, rendered: true, max: {per: fleet, series: 1}}
raw:
  - {name: kube_node, tier: edge, source: s, help: h, labels: [cluster, node]}
  - {name: latency, kind: histogram, tier: edge, source: s, help: h, labels: [cluster]}
  - {name: ALERTS, tier: central, source: its own rules, help: h, labels: [alertname, alertstate], open: true}
`

const smallEdge = `groups:
  - name: g
    rules:
      - record: nodes
        expr: |
          count by (cluster) (
            max by (cluster, node) (kube_node)
          )
      - {record: beat, expr: vector(time())}
      - {record: took_bucket, expr: 'sum by (cluster, le) (rate(latency_bucket[5m]))'}
      - {record: took_sum, expr: 'sum by (cluster) (rate(latency_sum[5m]))'}
      - {record: took_count, expr: 'sum by (cluster) (rate(latency_count[5m]))'}
`

const smallCentral = `groups:
  - name: g
    rules:
      - record: all
        expr: |
          sum(
            max by (cell, cluster) (nodes)
          )
      - alert: Few
        expr: max by (cell, cluster) (nodes) < 3
        labels: {severity: none}
        annotations:
          summary: Few
          runbook_url: https://example.org/Few
          description: >-
            Cluster {{ $labels.cluster }} has {{ $value }} of
            {{ with query "all" }}{{ . | first | value }}{{ end }} and
            {{ with printf "max by (cell) (beat{cell=%q})" $labels.cell | query }}{{ . | first | value }}{{ end }}
`

const smallDashboard = `{
  "panels": [
    {"targets": [{"expr": "max by (cell) (nodes{cell=~\"$cell\"})"}]},
    {"panels": [{"targets": [
      {"expr": "all"}]}]}
  ],
  "annotations": {"list": [
    {"expr": "step"}
  ]},
  "templating": {"list": [
    {"type": "datasource", "query": "prometheus"},
    {"type": "query",
     "query": "label_values(nodes, cell)"}
  ]}
}
`

const smallPolicy = `apiVersion: a/v1
kind: Policy
spec:
  signals:
    - expr: |
        max by (cell)
        (nodes)
`

func small() lint.Input {
	return lint.Input{
		Contract: lint.File{Name: "c.yaml", Content: []byte(smallContract)},
		Rules: map[rules.Tier][]lint.File{
			rules.Edge:    {{Name: "e.yaml", Content: []byte(smallEdge)}},
			rules.Central: {{Name: "z.yaml", Content: []byte(smallCentral)}},
		},
		Dashboards: []lint.File{{Name: "d.json", Content: []byte(smallDashboard)}},
		Policies:   []lint.File{{Name: "p.yaml", Content: []byte(smallPolicy)}},
	}
}

// edit replaces something in one of the files.
func edit(t *testing.T, in *lint.Input, file, before, after string) {
	t.Helper()
	files := []*lint.File{&in.Contract, &in.Rules[rules.Edge][0], &in.Rules[rules.Central][0], &in.Dashboards[0], &in.Policies[0]}
	for _, f := range files {
		if f.Name == file {
			require.Contains(t, string(f.Content), before)
			f.Content = []byte(strings.Replace(string(f.Content), before, after, 1))
		}
	}
}

func TestCheckNamesWhatDoesNotFit(t *testing.T) {
	checked, err := lint.Check(small())
	require.NoError(t, err)
	require.Equal(t, lint.Checked{Rules: 9, Dashboards: 4, Policies: 1}, checked)
	for name, tc := range map[string]struct{ file, before, after, want string }{
		"contract":             {"c.yaml", "kind: histogram", "kind: gauge", `e.yaml:10: records "took_bucket", which is not declared`},
		"contract unreadable":  {"c.yaml", "series:", "serious:", "c.yaml:1: field serious not found"},
		"contract empty":       {"c.yaml", smallContract, "", "c.yaml: is empty"},
		"never recorded":       {"c.yaml", "rendered: true, ", "", `c.yaml:6: series "step": no rule of the central records it`},
		"record undeclared":    {"e.yaml", "record: nodes", "record: knots", `e.yaml:4: records "knots", which is not declared`},
		"record of the other":  {"c.yaml", "labels: [geography, region, cell], from: edge", "labels: [geography, region, cell], from: cascade", `e.yaml:9: records "beat" at the edge, but the contract says that the cascade`},
		"record of topology":   {"z.yaml", "record: all", "record: step", `z.yaml:4: records "step", but the contract says that it comes from the topology`},
		"record twice":         {"e.yaml", "record: beat", "record: nodes", `e.yaml:9: records "nodes", as e.yaml:4 does already`},
		"label missing":        {"e.yaml", "count by (cluster) (", "count(", `e.yaml:4: records "nodes" without its declared labels (cluster); aggregate by (cluster)`},
		"label extra":          {"e.yaml", "count by (cluster) (", "count by (cluster, node) (", `e.yaml:4: records "nodes" with labels (node), which are not declared`},
		"label of the rule":    {"e.yaml", "record: beat, ", "record: beat, labels: {x: y}, ", `e.yaml:9: records "beat" with labels (x)`},
		"scraped labels":       {"e.yaml", "count by (cluster) (\n            max by (cluster, node) (kube_node)\n          )", "kube_node", `with labels (instance, job), which say who told it or where it was scraped; aggregate by (cluster)`},
		"number":               {"e.yaml", "vector(time())", "time()", `e.yaml:9: records "beat" from a number`},
		"open":                 {"z.yaml", "sum(\n            max by (cell, cluster) (nodes)\n          )", "ALERTS", `z.yaml:4: records "all" with labels that depend`},
		"no such series":       {"e.yaml", "(kube_node)", "(kube_knot)", `e.yaml:7: series "kube_knot" is not declared`},
		"of another tier":      {"z.yaml", "(nodes)\n", "(kube_node)\n", `z.yaml:7: series "kube_node" stays at the edge`},
		"no such group":        {"e.yaml", "max by (cluster, node)", "max by (cluster, rack)", `e.yaml:7: groups by label "rack", which what it aggregates does not have; that has (cluster, node)`},
		"no such matcher":      {"e.yaml", "(kube_node)", `(kube_node{rack="1"})`, `e.yaml:7: selects by label "rack", which kube_node does not have`},
		"counts the told":      {"z.yaml", "max by (cell, cluster) (nodes)\n", "nodes\n", `z.yaml:6: sum over series that still say who told them (cascade_replica, cascade_shard, edge_replica, edge_shard) counts each as often as it is told; take max by (cell, cluster, geography, region) (…)`},
		"alert of the told":    {"z.yaml", "expr: max by (cell, cluster) (nodes) < 3", "expr: nodes < 3", `z.yaml:9: alert "Few" is one alert for each who tells of it`},
		"the better of a pair": {"c.yaml", "- {name: nodes, ", "- {name: nodes, lesser: true, ", `z.yaml:7: takes the max of what several servers tell of nodes, of which the lesser is the worse; take min by (cell, cluster, geography, region)`},
		"the lesser of a pair": {"z.yaml", "max by (cell, cluster) (nodes)\n", "min by (cell, cluster) (last_over_time(nodes[5m]) > 1 or nodes)\n", `z.yaml:7: takes the min of what several servers tell of nodes, of which the greater is the worse`},
		"alert without label":  {"z.yaml", "$labels.cluster", "$labels.node", `z.yaml:16: names label "node", which the alert does not have; it has (cell, cluster, severity)`},
		"annotation":           {"z.yaml", `query "all"`, `query "sum(all) by (x)"`, `z.yaml:17: groups by label "x"`},
		"annotation put up":    {"z.yaml", "beat{cell=%q}", "bit{cell=%q}", `z.yaml:18: series "bit" is not declared`},
		"asks a variable":      {"z.yaml", `{{ with query "all" }}`, `{{ $q := "knots" }}{{ with query $q }}`, `z.yaml:17: asks "query $q", of which nobody can tell what it reads`},
		"asks what is piped":   {"z.yaml", `{{ with query "all" }}`, `{{ with "all" | toUpper | query }}`, `of which nobody can tell what it reads`},
		"asks what is put up":  {"z.yaml", `{{ with query "all" }}`, `{{ with query (printf $labels.cell) }}`, `of which nobody can tell what it reads`},
		"asks inside":          {"z.yaml", `{{ with query "all" }}`, `{{ with (query (printf "knots{cell=%q}" $labels.cell)) }}`, `z.yaml:17: series "knots" is not declared`},
		"asks further down":    {"z.yaml", `{{ . | first | value }}{{ end }} and`, `{{ if true }}{{ range query "knots" }}{{ end }}{{ end }}{{ end }} and`, `series "knots" is not declared`},
		"asks elsewhere":       {"z.yaml", `summary: Few`, `summary: '{{ define "x" }}{{ query "knots" }}{{ end }}'`, `z.yaml:13: series "knots" is not declared`},
		"no severity":          {"z.yaml", `labels: {severity: none}`, `labels: {team: x}`, `z.yaml:9: alert "Few" has no label severity`},
		"strange severity":     {"z.yaml", `severity: none`, `severity: page`, `z.yaml:11: alert "Few" has severity "page", which is none of`},
		"no summary":           {"z.yaml", `summary: Few`, `title: Few`, `z.yaml:9: alert "Few" has no annotation summary`},
		"no description":       {"z.yaml", `description: >-`, `text: >-`, `z.yaml:9: alert "Few" has no annotation description`},
		"no runbook":           {"z.yaml", `runbook_url: https://example.org/Few`, `team: x`, `z.yaml:9: alert "Few" has no annotation runbook_url`},
		"no such runbook":      {"z.yaml", `https://example.org/Few`, `Few.md`, `z.yaml:14: alert "Few" has runbook_url "Few.md", which is no address`},
		"second document":      {"z.yaml", "      - alert: Few", "---\ngroups:\n  - name: h\n    rules:\n      - alert: Few", `z.yaml:9: begins a second document`},
		"group's interval":     {"e.yaml", "  - name: g\n", "  - name: g\n    interval: 1h\n", `e.yaml:3: group "g" sets interval: `},
		"group's limit":        {"e.yaml", "  - name: g\n", "  - name: g\n    limit: 1\n", `e.yaml:3: group "g" sets limit: `},
		"group's offset":       {"e.yaml", "  - name: g\n", "  - name: g\n    query_offset: 4m\n", `e.yaml:3: group "g" sets query_offset: `},
		"group's label":        {"e.yaml", "  - name: g\n", "  - name: g\n    labels: {cell: x}\n", `e.yaml:3: sets label "cell", which says where or by whom`},
		"rule's place":         {"e.yaml", "record: beat, ", "record: beat, labels: {cell: b}, ", `e.yaml:9: sets label "cell", which says where or by whom`},
		"rule's teller":        {"e.yaml", "record: beat, ", "record: beat, labels: {edge_replica: b}, ", `e.yaml:9: sets label "edge_replica"`},
		"a fraction":           {"c.yaml", "per: cluster, series: 1}", "per: cluster, series: 1.5}", `c.yaml:2: series[0] "nodes": max.series: 1.5 is no whole number from 1 to 10000000`},
		"beyond all bounds":    {"c.yaml", "per: cluster, series: 1}", "per: cluster, series: 18446744073709551615}", `c.yaml:2: series[0] "nodes": max.series: 18446744073709551615 is no whole number`},
		"unit of lines":        {"c.yaml", "unit: u", `unit: "a\nb"`, `c.yaml:2: series[0] "nodes": unit: "a\nb" has what would break the page`},
		"unit of cells":        {"c.yaml", "unit: u", `unit: "a|b"`, `unit: "a|b" has what would break the page`},
		"unit of a template":   {"c.yaml", "unit: u", `unit: "{{ x }}"`, `unit: "{{ x }}" has what would break the page`},
		"help of lines":        {"c.yaml", "help: h", `help: "a\tb"`, `help: "a\tb" has what would break the page`},
		"source of cells":      {"c.yaml", "source: s", `source: "a|b"`, `source: "a|b" has what would break the page`},
		"larger than allowed":  {"e.yaml", "groups:", "#" + strings.Repeat("x", lint.MaxFile) + "\ngroups:", `e.yaml: is larger than 1 MiB`},
		"larger policy":        {"p.yaml", "spec:", "#" + strings.Repeat("x", lint.MaxFile) + "\nspec:", `p.yaml: is larger than 1 MiB`},
		"larger page":          {"d.json", "{", "{" + strings.Repeat(" ", lint.MaxFile), `d.json: is larger than 1 MiB`},
		"larger contract":      {"c.yaml", "series:", "#" + strings.Repeat("x", lint.MaxFile) + "\nseries:", `c.yaml: is larger than 1 MiB`},
		"unparsable":           {"e.yaml", "max by (cluster, node) (kube_node)", "max by (cluster, node) (kube_node]", `e.yaml:7: cannot be parsed`},
		"unknown field":        {"e.yaml", "    rules:", "    ruled:", `e.yaml:3: field ruled not found`},
		"no rules":             {"e.yaml", smallEdge, "groups: []", `e.yaml: has no rules`},
		"empty file":           {"e.yaml", smallEdge, "", `e.yaml: has no rules`},
		"no alert or record":   {"e.yaml", "record: beat, ", "", `e.yaml:9: `},
		"no name":              {"e.yaml", "(kube_node)", `({job="x"})`, `e.yaml:7: selects series by something else than one name`},
		"several names":        {"e.yaml", "(kube_node)", `({__name__=~"kube_.*"})`, `e.yaml:7: selects series by something else than one name`},
		"sides differ":         {"e.yaml", "(kube_node)\n", "(kube_node) * latency_sum\n", `the sides have different labels`},
		"side without label":   {"e.yaml", "(kube_node)\n", "(kube_node) and on (node) latency_sum\n", `e.yaml:7: matches on label "node", which the right side does not have`},
		"several match":        {"e.yaml", "(kube_node)\n", "(kube_node) * on (cluster) group_left () latency_sum\n", `several elements of the right side may have the same (cluster)`},
		"nothing taken over":   {"e.yaml", "(kube_node)\n", "(kube_node) * on (cluster) group_left (rack) max by (cluster) (latency_sum)\n", `takes over label "rack"`},
		"copied from nothing":  {"e.yaml", "(kube_node)\n", `(label_replace(kube_node, "a", "$1", "b", "(.*)"))` + "\n", `copies from label "b"`},
		"panel":                {"d.json", `"expr": "all"`, `"expr": "knots"`, `d.json:5: series "knots" is not declared`},
		"panel of the told":    {"d.json", `"expr": "all"`, `"expr": "nodes"`, `d.json:5: shows everything once for each who tells of it`},
		"panel's label":        {"d.json", `by (cell) (nodes`, `by (rack) (nodes`, `d.json:3: groups by label "rack"`},
		"annotation of a page": {"d.json", `"expr": "step"`, `"expr": "steps"`, `d.json:8: series "steps" is not declared`},
		"variable":             {"d.json", `label_values(nodes, cell)`, `label_values(nodes, rack)`, `d.json:13: variable asks for label "rack"`},
		"variable of the told": {"d.json", `label_values(nodes, cell)`, `label_values(nodes, edge_replica)`, `d.json:13: variable asks for label "edge_replica", which says who told`},
		"variable of all":      {"d.json", `label_values(nodes, cell)`, `label_values(cell)`, `d.json:13: variable asks "label_values(cell)", of which nobody can tell`},
		"no JSON":              {"d.json", `"list": [`, `"list": (`, `d.json:7: is no JSON`},
		"JSON ends":            {"d.json", "  ]}\n}\n", "", `d.json:13: is empty, or ends too early`},
		"no panels":            {"d.json", smallDashboard, "{}", `d.json:1: has no panels`},
		"no dashboard":         {"d.json", smallDashboard, "", `d.json:1: is empty`},
		"key twice":            {"d.json", `"annotations":`, `"panels":`, `key "panels" is there twice`},
		"policy":               {"p.yaml", "(nodes)", "(knots)", `p.yaml:7: series "knots" is not declared`},
		"no policy":            {"p.yaml", smallPolicy, "", `p.yaml: is empty`},
		"no object":            {"p.yaml", "kind: Policy", "", `p.yaml:1: is no Kubernetes object`},
		"policy unreadable":    {"p.yaml", "spec:", "spec: [", `p.yaml:`},
	} {
		t.Run(name, func(t *testing.T) {
			in := small()
			edit(t, &in, tc.file, tc.before, tc.after)
			_, err := lint.Check(in)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// Whoever asks how far servers disagree takes both, and what is computed of a
// value has no worse side that anybody could tell.
func TestWhatIsNoChoiceBetweenTellersFits(t *testing.T) {
	for _, expr := range []string{
		"max by (cell, cluster) (nodes) - min by (cell, cluster) (nodes)", "min by (cell, cluster) (1 - nodes)", "min by (cell, cluster) (timestamp(nodes))",
		"min by (cell) (max by (cell, cluster) (nodes))", "min by (cell, cluster) (-nodes)", "min by (cell, cluster) (nodes > bool 3)",
	} {
		in := small()
		edit(t, &in, "z.yaml", "max by (cell, cluster) (nodes) < 3", expr)
		_, err := lint.Check(in)
		if err != nil {
			require.NotContains(t, err.Error(), "several servers tell", expr)
		}
	}
}

func TestEverythingIsToldAtOnce(t *testing.T) {
	in := small()
	edit(t, &in, "c.yaml", "rendered: true, ", "")
	edit(t, &in, "e.yaml", "kube_node", "kube_knot")
	edit(t, &in, "e.yaml", "rate(latency_sum[5m])", "rate(latency_sums[5m])")
	edit(t, &in, "d.json", `"expr": "all"`, `"expr": "nodes"`)
	edit(t, &in, "p.yaml", "by (cell)", "by (rack)")
	var problems rules.Problems
	_, err := lint.Check(in)
	require.ErrorAs(t, err, &problems)
	var places []string
	for _, p := range problems {
		places = append(places, p.File+":"+strconv.Itoa(p.Line))
	}
	require.Equal(t, []string{"c.yaml:6", "d.json:5", "e.yaml:7", "e.yaml:11", "p.yaml:6"}, places)
}

// The largest file that is read at all comes to an end with every rule of it wrong.
func TestManyMistakesAreTold(t *testing.T) {
	const each = "      - {record: x, expr: 'sum by (a) (knots)'}\n"
	in := small()
	begin := []byte("groups:\n  - name: g\n    rules:\n")
	many := (lint.MaxFile - len(begin)) / len(each)
	in.Rules[rules.Edge][0].Content = append(begin, strings.Repeat(each, many)...)
	var problems rules.Problems
	_, err := lint.Check(in)
	require.ErrorAs(t, err, &problems)
	require.Greater(t, len(problems), many)
}

func FuzzCheck(f *testing.F) {
	f.Add(smallEdge, smallDashboard, smallPolicy)
	f.Add("groups: [{name: g, rules: [{record: a, expr: '{'}]}]", `{"panels":[1,{"expr":null}]}`, "a: &a [*a]")
	f.Fuzz(func(_ *testing.T, rule, dashboard, policy string) {
		in := small()
		in.Rules[rules.Edge][0].Content = []byte(rule)
		in.Dashboards[0].Content = []byte(dashboard)
		in.Policies[0].Content = []byte(policy)
		_, _ = lint.Check(in) // it must come to an end, and not panic
	})
}
