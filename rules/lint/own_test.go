package lint_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/rules/lint"
	"github.com/pharos-fleet/pharos/rules/lint/linttest"
)

// own is what is built in, with a series in the contract that the rules given
// record at an edge.
func own(t *testing.T, series string, files map[rules.Tier][]lint.File) (rules.Contract, error) {
	t.Helper()
	in := builtIn(t)
	in.Contract.Content = []byte(strings.Replace(string(in.Contract.Content), "series:\n", series, 1))
	in.Own = files
	return lint.Own(in)
}

// A team's rules are given to the servers of their tier, beside those that are built
// in, and their series cross.
func TestOwnRulesGoWithTheContract(t *testing.T) {
	contract, err := own(t, linttest.Series, map[rules.Tier][]lint.File{rules.Edge: {{Name: "some/where/images.rules.yaml", Content: []byte(linttest.Record)}}})
	require.NoError(t, err)
	builtIn, err := rules.Load()
	require.NoError(t, err)
	for _, tier := range rules.Tiers() {
		before, err := builtIn.Files(tier, 15*time.Second, nil)
		require.NoError(t, err)
		now, err := contract.Files(tier, 15*time.Second, nil)
		require.NoError(t, err)
		if tier == rules.Edge {
			require.Equal(t, linttest.Record, string(now["own-images.rules.yaml"]))
			delete(now, "own-images.rules.yaml")
		}
		for name := range before {
			if !strings.HasPrefix(name, "topology") { // which counts what is undeclared
				require.Equal(t, string(before[name]), string(now[name]), name)
			}
		}
		require.Len(t, now, len(before))
	}
	require.Contains(t, contract.Keep(rules.Central), "cluster:pods_without_image:count")
	loaded := rules.RuleFiles(rules.Edge, map[string][]byte{"own-a.rules.yaml": nil, "topology.rules.yaml": nil})
	require.Equal(t, append(rules.FileNames(rules.Edge), "own-a.rules.yaml"), loaded, "what reads the others comes last")
}

func TestOwnRulesTakeNoPlaceOfOthers(t *testing.T) {
	group := func(rule string) string { return "groups:\n  - name: mine\n    rules:\n" + rule }
	alert := func(name string) string {
		return group("      - alert: " + name + "\n        expr: max by (geography, region, cell, cluster) (cluster:nodes:count) > 5\n        labels: {severity: none}\n" +
			"        annotations: {summary: a, description: b, runbook_url: https://example.org/c}\n")
	}
	for name, tc := range map[string]struct {
		tier          rules.Tier
		file, content string
		want          string
	}{
		"a group":                     {rules.Edge, "x.rules.yaml", strings.Replace(linttest.Record, "name: images", "name: central-nodes", 1), `x.rules.yaml:2: group "central-nodes" is in central/nodes.rules.yaml:`},
		"a rendered group":            {rules.Edge, "x.rules.yaml", strings.Replace(linttest.Record, "name: images", "name: topology", 1), `x.rules.yaml:2: group "topology" has a name that begins with "topology"`},
		"an alert":                    {rules.Central, "x.rules.yaml", alert("PharosNodeNotReady"), `x.rules.yaml:4: alert "PharosNodeNotReady" is in central/nodes.rules.yaml:`},
		"an alert that is lost":       {rules.Cascade, "x.rules.yaml", alert("Mine"), `x.rules.yaml:4: alert "Mine" would reach nobody: only centrals send alerts; record at the cascade`},
		"a series, with other labels": {rules.Edge, "x.rules.yaml", group("      - record: cluster:nodes:count\n        expr: count by (cluster) (kube_node_info)\n        labels: {x: y}\n"), `x.rules.yaml:4: records "cluster:nodes:count" with labels`},
		"a series":                    {rules.Edge, "x.rules.yaml", group("      - record: cluster:nodes:count\n        expr: count by (cluster) (kube_node_info) + 1\n"), `x.rules.yaml:4: records "cluster:nodes:count", as edge/nodes.rules.yaml:`},
		"what is undeclared":          {rules.Edge, "x.rules.yaml", group("      - record: cluster:mine:count\n        expr: count by (cluster) (kube_node_info)\n"), `x.rules.yaml:4: records "cluster:mine:count", which is not declared`},
		"a name":                      {rules.Edge, "a b.rules.yaml", linttest.Record, `a b.rules.yaml: its name can be that of no file in a ConfigMap`},
		"no rules":                    {rules.Edge, "x.rules.yaml", "groups: {}\n", `x.rules.yaml:1: `},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[rules.Tier][]lint.File{rules.Edge: {{Name: "good.rules.yaml", Content: []byte(linttest.Record)}}}
			if tc.tier == rules.Edge && strings.Contains(tc.content, "pods_without_image") {
				files = map[rules.Tier][]lint.File{}
			}
			files[tc.tier] = append(files[tc.tier], lint.File{Name: tc.file, Content: []byte(tc.content)})
			_, err := own(t, linttest.Series, files)
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "good.rules.yaml")
		})
	}
	_, err := own(t, "series: 3\n", nil)
	require.ErrorContains(t, err, "contract.yaml:")
}

// A team's own rule cannot make everybody's numbers wrong: each of these was taken once.
func TestOwnRulesCannotSpoilTheNumbersOfOthers(t *testing.T) {
	const count = `count by (cluster) (kube_pod_container_status_waiting_reason{reason="ImagePullBackOff"})`
	const place, fixed, ahead, below = "by which what it says would count as of another place", "a moment that is fixed by @", "stamped later than now", "may be below nought"
	natural := strings.Replace(linttest.Series, "max: {per: cluster", "natural: true\n    max: {per: cluster", 1)
	for series, wanted := range map[string][][2]string{
		linttest.Series: {
			{`label_replace(` + count + `, "cell", "c2", "", "")`, place},
			{`label_join(` + count + `, "cell", "-", "cluster")`, place},
			{`label_replace(` + count + `, "edge_replica", "$1", "cluster", "(.+)")`, place},
			{`count_values by (cluster) ("region", kube_node_info)`, place},
			{`count by (cluster) (kube_node_info @ 0)`, fixed},
			{`count by (cluster) (last_over_time(kube_node_info[5m] @ end()))`, fixed},
			{`max by (cluster) (max_over_time(kube_node_info[5m:1m] @ 0))`, fixed},
			{`count by (cluster) (kube_node_info offset -5m)`, ahead},
			{`count by (cluster) (kube_node_info offset 5m)`, ""},
			{count + ` - on (cluster) count by (cluster) (kube_node_info)`, ""},
		},
		natural: {
			{`-1 * ` + count, below},
			{count + ` - on (cluster) count by (cluster) (kube_node_info)`, below},
			{`min by (cluster) (cluster:certificate_expiry:seconds)`, below},
			{`sum by (cluster) (deriv(kube_node_created[5m]))`, below},
			{`clamp_min(` + count + ` - on (cluster) count by (cluster) (kube_node_info), 0)`, ""},
			{`(` + count + ` - on (cluster) count by (cluster) (kube_node_info)) > 0`, ""},
			{`sum by (cluster) (rate(node_cpu_seconds_total[5m])) / on (cluster) cluster:nodes:count or 0 * cluster:nodes:count`, ""},
			{`sum by (cluster) (label_replace(kube_node_info, "mine", "$1", "node", "(.+)"))`, ""},
		},
	} {
		file := lint.File{Name: "x.rules.yaml", Content: []byte("groups:\n  - name: mine\n    rules:\n")}
		for _, w := range wanted {
			file.Content = append(file.Content, "      - record: cluster:pods_without_image:count\n        expr: |\n          "+w[0]+"\n"...)
		}
		_, err := own(t, series, map[rules.Tier][]lint.File{rules.Edge: {file}})
		var problems rules.Problems
		require.ErrorAs(t, err, &problems)
		for i, w := range wanted {
			const first, lines = 6, 3
			of := slices.DeleteFunc(slices.Clone(problems), func(p rules.Problem) bool { return p.File != file.Name || p.Line != first+lines*i })
			if w[1] == "" {
				require.Empty(t, of, w[0])
				continue
			}
			require.Contains(t, of.Error(), w[1], w[0])
		}
	}
}

// What is built in keeps its meaning in a team's own contract.
func TestAnOwnContractContradictsNothing(t *testing.T) {
	const declared = `  - name: cluster:nodes:count
    kind: gauge
    unit: nodes
`
	for name, tc := range map[string]struct{ from, to, want string }{
		"kind":    {declared, strings.Replace(declared, "gauge", "counter", 1), "kind is counter, and gauge where it is built in"},
		"unit":    {declared, strings.Replace(declared, "unit: nodes", "unit: pods", 1), "unit is pods, and nodes where it is built in"},
		"natural": {declared, strings.Replace(declared, "unit: nodes", "unit: nodes\n    lesser: true", 1), "lesser is true, and false where it is built in"},
	} {
		t.Run(name, func(t *testing.T) {
			in := builtIn(t)
			before := string(in.Contract.Content)
			require.Contains(t, before, tc.from)
			in.Contract.Content = []byte(strings.Replace(before, tc.from, tc.to, 1))
			_, err := lint.Own(in)
			require.ErrorContains(t, err, `series "cluster:nodes:count": `+tc.want)
			require.Regexp(t, `contract\.yaml:\d+: series "cluster:nodes:count"`, err.Error())
		})
	}
	in := builtIn(t)
	in.Contract.Content = []byte(strings.ReplaceAll(string(in.Contract.Content), "natural: true\n", "natural: false\n"))
	_, err := lint.Own(in)
	require.ErrorContains(t, err, "natural is false, and true where it is built in")

	in = builtIn(t)
	in.Contract.Content = []byte(strings.Replace(string(in.Contract.Content), "labels: [cluster, node, kernel_version,", "labels: [node, cluster, kernel_build,", 1))
	_, err = lint.Own(in)
	require.ErrorContains(t, err, `series "kube_node_info": labels is [cluster container_runtime_version internal_ip kernel_build`)
}
