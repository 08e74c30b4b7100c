package rules_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

func TestNarrow(t *testing.T) {
	contract := rules.Contract{Raw: []rules.Raw{{Name: "up"}, {Name: "kube_node_info"}}}
	for query, want := range map[string]string{
		`up`:                          `up{cluster!=""}`,
		`up{job="state"}`:             `up{cluster!="",job="state"}`,
		`up{cluster="_meta"}`:         `up{cluster="_meta"}`,
		`up{cluster=~".*"}`:           `up{cluster!="",cluster=~".*"}`,
		`recorded:by:us`:              `recorded:by:us`,
		`rate(up[5m])`:                `rate(up{cluster!=""}[5m])`,
		`up and on () kube_node_info`: `up{cluster!=""} and on () kube_node_info{cluster!=""}`,
	} {
		groups := []rulefmt.RuleGroup{{Name: "g", Rules: []rulefmt.Rule{{Expr: query}}}}
		require.NoError(t, contract.Narrow(groups))
		require.Equal(t, want, groups[0].Rules[0].Expr)
	}
	require.ErrorContains(t, contract.Narrow([]rulefmt.RuleGroup{{Name: "g", Rules: []rulefmt.Rule{{Expr: "sum("}}}}), `group "g", rule 0`)
}

// somebodysWorld is a Prometheus of kube-prometheus with the exported rules: it
// has the two nodes of a business cluster from the edge agent, and the three of
// its own cluster from kube-state-metrics, without the label cluster.
const somebodysWorld = `
rule_files: [exported.rules.yaml]
evaluation_interval: 30s
tests:
  - interval: 30s
    input_series:
      - {series: 'kube_node_info{job="state", cluster="shop", node="a"}', values: '1x20'}
      - {series: 'kube_node_info{job="state", cluster="shop", node="b"}', values: '1x20'}
      - {series: 'kube_node_info{job="kube-state-metrics", node="x"}', values: '1x20'}
      - {series: 'kube_node_info{job="kube-state-metrics", node="y"}', values: '1x20'}
      - {series: 'kube_node_info{job="kube-state-metrics", node="z"}', values: '1x20'}
    promql_expr_test:
      - {expr: 'cluster:nodes:count', eval_time: 5m, exp_samples: [{labels: 'cluster:nodes:count{cluster="shop"}', value: 2}]}
      - {expr: 'cell:capacity_limit:value', eval_time: 5m, exp_samples: [{labels: 'cell:capacity_limit:value{pool="clusters"}', value: 60}]}
`

func TestExportedRulesCountTheFleetAlone(t *testing.T) {
	raw, err := rules.PrometheusRules(rules.Edge, rules.Export{
		Interval: 30 * time.Second, Topology: []rules.Constant{{Record: "cell:capacity_limit:value", Labels: map[string]string{"pool": "clusters"}, Value: 60}},
	})
	require.NoError(t, err)
	var all rulefmt.RuleGroups
	for dec := yaml.NewDecoder(bytes.NewReader(raw)); ; {
		var object struct{ Spec rulefmt.RuleGroups }
		err := dec.Decode(&object)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		all.Groups = append(all.Groups, object.Spec.Groups...)
	}
	var file bytes.Buffer
	enc := yaml.NewEncoder(&file)
	enc.SetIndent(2)
	require.NoError(t, enc.Encode(all))
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "exported.rules.yaml"), file.Bytes(), 0o600))
	test := filepath.Join(dir, "world.test.yaml")
	require.NoError(t, os.WriteFile(test, []byte(somebodysWorld), 0o600))
	promtool(t, "test", "rules", test)
}
