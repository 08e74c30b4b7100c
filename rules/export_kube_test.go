package rules_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
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

// operatorModule is the Prometheus Operator, whose module brings the definition
// of its objects.
const operatorModule = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

// TestTheOperatorsDefinitionTakesTheObjects applies what is exported to a real
// API server that has the Prometheus Operator's own definition, strictly: a field
// that the definition does not know is an error.
func TestTheOperatorsDefinitionTakesTheObjects(t *testing.T) {
	config := testkit.APIServer(t)
	_, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{filepath.Join(operatorFolder(t), "example", "prometheus-operator-crd", "monitoring.coreos.com_prometheusrules.yaml")},
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

// operatorFolder is where the module lies, after a download if need be.
func operatorFolder(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", operatorModule)
	download.Dir = t.TempDir() // away from our own go.mod
	out, err := download.Output()
	require.NoError(t, err, "%s", out)
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(out, &module))
	return module.Dir
}
