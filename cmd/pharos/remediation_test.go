package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// Case C27: one word stops all repairs.
func TestStopAndResume(t *testing.T) {
	config := testkit.APIServer(t)
	hub, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "hub.yaml")
	as := func(user clientcmdapi.AuthInfo) {
		require.NoError(t, os.WriteFile(path, []byte(testkit.Kubeconfig(t, config.Host, config.CAData, user)), 0o600))
	}
	as(clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData})
	pharos := func(args ...string) string {
		var out strings.Builder
		root := newRootCommand()
		root.SetArgs(append([]string{"remediation", "--kubeconfig", path}, args...))
		require.NoError(t, run(t.Context(), root, &out))
		return out.String()
	}
	frozen := func() map[string]string {
		var all v1alpha1.FleetDisruptionBudgetList
		require.NoError(t, hub.List(t.Context(), &all))
		found := map[string]string{}
		for _, b := range all.Items {
			require.Equal(t, v1alpha1.Now, b.Spec.Freeze)
			found[string(b.Spec.Level)+" "+b.Name] = b.Spec.Reason
		}
		return found
	}
	require.Contains(t, pharos("stop", "--reason", "storm"), "no repair is asked for any more")
	require.Equal(t, map[string]string{"Fleet stop": "storm"}, frozen())
	pharos("stop", "--reason", strings.Repeat("é", 300))
	require.Equal(t, map[string]string{"Fleet stop": strings.Repeat("é", 256)}, frozen(), "too long a reason is no reason not to stop")
	pharos("stop", "--reason", "still storm")
	require.Equal(t, map[string]string{"Fleet stop": "still storm"}, frozen(), "once more gives another reason")

	require.NoError(t, hub.Create(t.Context(), &v1alpha1.FleetDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "sale"}, Spec: v1alpha1.FleetDisruptionBudgetSpec{Level: v1alpha1.BudgetGeography, Freeze: v1alpha1.Now, Reason: "sale"}}))
	require.Equal(t, "repairs are not stopped any more\nthe budget sale of level Geography still does: sale\n", pharos("resume"))
	require.Equal(t, map[string]string{"Geography sale": "sale"}, frozen())
	require.Contains(t, pharos("resume"), "repairs were not stopped\n")

	as(clientcmdapi.AuthInfo{Token: "nobody's"})
	root := newRootCommand()
	root.SetArgs([]string{"remediation", "--kubeconfig", path, "stop", "--reason", "storm"})
	require.ErrorContains(t, run(t.Context(), root, &strings.Builder{}), "repairs go on", "whoever could not stop them is told")
}
