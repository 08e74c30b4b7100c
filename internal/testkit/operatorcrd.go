package testkit

import (
	"context"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// operatorModule is the Prometheus Operator, whose module brings the definitions
// of its objects.
const operatorModule = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

// OperatorCRD returns the file in which the Prometheus Operator defines one of its
// resources, named by its plural, after a download if need be.
func OperatorCRD(t testing.TB, plural string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	download := exec.CommandContext(ctx, "go", "mod", "download", "-json", operatorModule)
	download.Dir = t.TempDir() // away from our own go.mod
	out, err := download.Output()
	if err != nil {
		t.Fatalf("downloading %s through the module proxy: %v\n%s", operatorModule, err, out)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal(out, &module); err != nil {
		t.Fatalf("reading where %s lies: %v", operatorModule, err)
	}
	return filepath.Join(module.Dir, "example", "prometheus-operator-crd", "monitoring.coreos.com_"+plural+".yaml")
}
