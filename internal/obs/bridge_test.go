package obs_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pharos-fleet/pharos/internal/obs"
)

// What the libraries log comes out as our lines, at the level that was asked for.
func TestLibrariesLogThroughTheBridge(t *testing.T) {
	t.Cleanup(klog.ClearLogger)
	var out bytes.Buffer
	obs.BridgeKubernetes(obs.NewLogger(&out, obs.FormatJSON, slog.LevelWarn))
	klog.Error("from client-go")
	klog.Info("too quiet")
	ctrllog.Log.WithName("cache").Error(nil, "from controller-runtime", "kind", "Node")
	ctrllog.Log.Info("too quiet")
	require.Contains(t, out.String(), `"level":"ERROR","msg":"from client-go"`)
	require.Contains(t, out.String(), `"level":"ERROR","msg":"from controller-runtime"`)
	require.Contains(t, out.String(), `"kind":"Node"`)
	require.NotContains(t, out.String(), "too quiet")
}
