package federation

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
)

// Cascades read edges by https with what the Secret has; centrals, which are
// beside them, get none of it.
func TestCascadesShowTheLinksCredentials(t *testing.T) {
	f := fleetOf()
	f.Spec.Link.Credentials = &v1alpha1.LinkCredentials{
		SecretName: "edge-access", ServerName: "edge.example.org",
		Use: []v1alpha1.LinkKey{v1alpha1.LinkAuthority, v1alpha1.LinkCertificate, v1alpha1.LinkToken},
	}
	theirs := cellIn("europe", "theirs")
	theirs.Spec.Edge = v1alpha1.Edge{Mode: v1alpha1.EdgeExternal, IntervalSeconds: ptr.To(int32(20))}
	theirs.Status.EdgeEndpoints = []string{"edge.example.org:443"}
	r := offline(t, f, cellIn("asia", "a"), theirs)
	cascade := r.Files["cascade-europe-0"]
	promcfgtest.Check(t, cascade, "link/ca.crt", "link/tls.crt", "link/tls.key", "link/token")
	for _, want := range []string{
		"scheme: https", "credentials_file: ../secrets/link/token", "ca_file: ../secrets/link/ca.crt",
		"cert_file: ../secrets/link/tls.crt", "key_file: ../secrets/link/tls.key", "server_name: edge.example.org",
	} {
		require.Contains(t, string(cascade["prometheus.yml"]), want)
	}
	pod := set(t, r.Objects, "cascade-europe-0").Spec.Template.Spec
	require.Equal(t, "/etc/secrets/link", *pod.Containers[0].VolumeMounts[2].MountPath)
	require.Equal(t, "edge-access", *pod.Volumes[1].Secret.SecretName)
	require.NotContains(t, string(r.Files["central-a"]["prometheus.yml"]), "secrets/link")
	require.Len(t, set(t, r.Objects, "central-a").Spec.Template.Spec.Volumes, 1)
}
