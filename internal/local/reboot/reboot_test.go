package reboot_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/pki"
	"github.com/pharos-fleet/pharos/internal/local/reboot"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

func run(t *testing.T, dir string, env map[string]string) error {
	t.Helper()
	return reboot.Run(t.Context(), reboot.Options{
		KubeconfigDir: dir,
		Getenv:        func(name string) string { return env[name] },
		Log:           slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil)),
	})
}

func env(cluster, node, action string) map[string]string {
	return map[string]string{"PHAROS_CLUSTER": cluster, "PHAROS_NODE": node, "PHAROS_ACTION": action}
}

func TestRefuses(t *testing.T) {
	dir := t.TempDir()
	for want, e := range map[string]map[string]string{
		"PHAROS_CLUSTER and PHAROS_NODE":           {},
		`action "Reinstall" asked for`:             env("shop", "n", "Reinstall"),
		`cluster "../../etc/passwd" is not a name`: env("../../etc/passwd", "n", "Reboot"),
		"finding cluster shop":                     env("shop", "n", "Reboot"),
	} {
		require.ErrorContains(t, run(t, dir, e), want)
	}
}

func TestReboot(t *testing.T) {
	config := testkit.APIServer(t)
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	dir := t.TempDir()
	kubeconfig, err := pki.Kubeconfig("shop", config.Host, config.CAData, "admin", pki.Pair{Cert: config.CertData, Key: config.KeyData})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shop.yaml"), kubeconfig, 0o600))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{layout.AnnotationFault: "node-stop"}}}
	require.NoError(t, c.Create(t.Context(), node))

	require.ErrorContains(t, run(t, dir, env("shop", "m", "Reboot")), `rebooting node m of cluster shop: nodes "m" not found`)
	require.NoError(t, run(t, dir, env("shop", "n", "Reboot")))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	require.Equal(t, layout.KubeletRunning, node.Labels[layout.LabelKubelet])
	require.NotContains(t, node.Annotations, layout.AnnotationFault)
	first := node.Status.NodeInfo.BootID
	require.NotEmpty(t, first)

	require.NoError(t, run(t, dir, env("shop", "n", "Reboot")))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(node), node))
	require.NotEqual(t, first, node.Status.NodeInfo.BootID, "each boot has an id of its own")
}
