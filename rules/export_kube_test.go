package rules_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

// TestTheOperatorsDefinitionTakesTheObjects applies what is exported to a real
// API server that has the Prometheus Operator's own definition, strictly: a field
// that the definition does not know is an error.
func TestTheOperatorsDefinitionTakesTheObjects(t *testing.T) {
	config := testkit.APIServer(t)
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{testkit.OperatorCRD(t, "prometheusrules")},
	})
	require.NoError(t, err)
	c, err := client.New(config, client.Options{})
	require.NoError(t, err)
	strict := client.WithFieldValidation(c, "Strict")
	for _, tier := range rules.Tiers() {
		raw, err := rules.PrometheusRules(tier, rules.Export{
			Interval: 30 * time.Second, Namespace: "default", Labels: map[string]string{"release": "kube-prometheus"},
		})
		require.NoError(t, err)
		applied := 0
		documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
		for {
			object := &unstructured.Unstructured{}
			err := documents.Decode(&object.Object)
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			sent := object.DeepCopy()
			require.NoError(t, strict.Create(context.Background(), object), object.GetName())
			require.Equal(t, sent.Object["spec"], object.Object["spec"], "nothing was pruned or changed")
			applied++
		}
		require.GreaterOrEqual(t, applied, len(rules.Subjects(tier)))
	}
}
