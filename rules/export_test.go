package rules_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

// TestExportedObjectsHoldTheSameRules reads the objects back.
func TestExportedObjectsHoldTheSameRules(t *testing.T) {
	labels := map[string]string{"release": "kube-prometheus", "odd": `quo"te: {{ . }}`}
	contract, err := rules.Load()
	require.NoError(t, err)
	for _, tier := range rules.Tiers() {
		export := rules.Export{
			Interval: 30 * time.Second, Namespace: "monitoring", Labels: labels,
			Topology: []rules.Constant{{Record: "edge:interval:seconds", Value: 30}},
		}
		raw, err := rules.PrometheusRules(tier, export)
		require.NoError(t, err)
		again, err := rules.PrometheusRules(tier, export)
		require.NoError(t, err)
		require.Equal(t, raw, again)
		files, err := rules.Render(tier, 30*time.Second)
		require.NoError(t, err)
		found := map[string]rulefmt.RuleGroup{}
		dec := yaml.NewDecoder(bytes.NewReader(raw))
		for {
			var object struct {
				APIVersion string `yaml:"apiVersion"`
				Kind       string
				Metadata   struct {
					Name, Namespace string
					Labels          map[string]string
				}
				Spec rulefmt.RuleGroups
			}
			err := dec.Decode(&object)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Equal(t, "monitoring.coreos.com/v1 PrometheusRule", object.APIVersion+" "+object.Kind)
			require.Len(t, object.Spec.Groups, 1)
			group := object.Spec.Groups[0]
			require.Equal(t, "pharos-"+group.Name, object.Metadata.Name)
			require.Equal(t, "monitoring", object.Metadata.Namespace)
			require.Equal(t, labels, object.Metadata.Labels)
			found[group.Name] = group
		}
		for name, file := range files {
			want := parse(t, file).Groups[0]
			want.Interval = model.Duration(30 * time.Second)
			if tier == rules.Edge {
				require.NoError(t, contract.Narrow([]rulefmt.RuleGroup{want}))
			}
			require.Equal(t, want, found[want.Name], name)
			delete(found, want.Name)
		}
		topology := string(tier) + "-topology"
		require.Equal(t, []rulefmt.Rule{{Record: "edge:interval:seconds", Expr: "vector(30)"}}, found[topology].Rules)
		delete(found, topology)
		require.Empty(t, found)
	}
}
