package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
)

func linked(kind v1alpha1.LinkType, use ...v1alpha1.LinkKey) *v1alpha1.Federation {
	f := &v1alpha1.Federation{}
	f.Spec.Link = v1alpha1.Link{Type: kind, Credentials: &v1alpha1.LinkCredentials{SecretName: "access", Use: use, ServerName: "edge"}}
	return f
}

// Whoever opens the connection shows the credentials, and nobody else has them.
func TestCredentialsAreWithWhoOpensTheConnection(t *testing.T) {
	for _, kind := range []v1alpha1.LinkType{"", v1alpha1.LinkFederate, v1alpha1.LinkRemoteWrite} {
		f := linked(kind, v1alpha1.LinkToken)
		reads := kind != v1alpha1.LinkRemoteWrite
		for opens, has := range map[v1alpha1.LinkType]bool{v1alpha1.LinkFederate: reads, v1alpha1.LinkRemoteWrite: !reads} {
			link := Link(f, opens)
			require.Equal(t, promcfg.LinkKind(kind), link.Kind)
			if !has {
				require.Equal(t, promcfg.Credentials{}, link.Credentials)
				require.Empty(t, LinkSecrets(f, opens))
				continue
			}
			require.Equal(t, promcfg.Credentials{HTTPS: reads, ServerName: "edge", BearerFile: "../secrets/link/token"}, link.Credentials)
			require.Equal(t, map[string]string{"link": "access"}, LinkSecrets(f, opens))
		}
	}
	require.Equal(t, promcfg.Link{}, Link(&v1alpha1.Federation{}, v1alpha1.LinkFederate))
	require.Equal(t, promcfg.Credentials{HTTPS: true, ServerName: "edge", CAFile: "../secrets/link/ca.crt", CertFile: "../secrets/link/tls.crt", KeyFile: "../secrets/link/tls.key"},
		Link(linked("", v1alpha1.LinkCertificate, v1alpha1.LinkAuthority), v1alpha1.LinkFederate).Credentials)
}

// An existing Prometheus that is too slow for its samples to be fresh at a
// central stays expected and is not read, and harms no other.
func TestATooSlowEdgeIsNotRead(t *testing.T) {
	slow := func(name string, every int32) v1alpha1.Cell {
		c := cellOf(name, 1, "asia", name+":9090")
		c.Spec.Edge = v1alpha1.Edge{Mode: v1alpha1.EdgeExternal, IntervalSeconds: ptr.To(every)}
		return c
	}
	f := &v1alpha1.Federation{}
	settled, wrong := Settle(f, []v1alpha1.Cell{slow("minute", 60), slow("often", 40), cellOf("ours", 1, "asia", "ours:9090")})
	require.Len(t, wrong, 1)
	require.ErrorContains(t, wrong["minute"], "spec.edge.intervalSeconds: a sample may be 1m50s old when it has come up, and counts as stale after 1m30s (6 intervals)")
	require.Empty(t, settled[0].Status.EdgeEndpoints)
	require.Zero(t, EdgeInterval(&settled[0]), "what is not read must not keep the others from being rendered")
	require.Equal(t, 40*time.Second, EdgeInterval(&settled[1]))
	require.Len(t, settled[2].Status.EdgeEndpoints, 1)

	f.Spec.IntervalSeconds = ptr.To(int32(40))
	_, wrong = Settle(f, []v1alpha1.Cell{slow("minute", 60), slow("slowest", 140)})
	require.Empty(t, wrong, "in a slower fleet it is not too slow")
}
