package cell

import (
	"testing"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
)

// An edge that writes shows what the Secret of the link has, and one that is read
// has no need of it.
func TestAnEdgeThatWritesShowsTheLinksCredentials(t *testing.T) {
	f := &v1alpha1.Federation{}
	f.Spec.Geographies = []v1alpha1.Geography{{Name: "asia"}}
	f.Spec.Link = v1alpha1.Link{
		Type: v1alpha1.LinkRemoteWrite, ReceiveURL: "https://{geography}-{shard}.example.org/api/v1/write",
		Credentials: &v1alpha1.LinkCredentials{SecretName: "hub-access", Use: []v1alpha1.LinkKey{v1alpha1.LinkAuthority, v1alpha1.LinkToken}},
	}
	f.Status.Geographies = []v1alpha1.GeographyStatus{{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "one", Shard: 3}}}}
	c := &v1alpha1.Cell{}
	c.Name, c.Spec.Geography, c.Spec.Region = "one", "asia", "r"
	mounted := func() (secrets []string, config string) {
		r, err := Renderer{Namespace: "pharos-system"}.Render(c, f)
		require.NoError(t, err)
		promcfgtest.Check(t, r.Files["edge"], "link/ca.crt", "link/token")
		for _, o := range r.Objects {
			if s, is := o.(*appsv1ac.StatefulSetApplyConfiguration); is {
				for _, v := range s.Spec.Template.Spec.Volumes {
					if v.Secret != nil {
						secrets = append(secrets, *v.Secret.SecretName)
					}
				}
			}
		}
		return secrets, string(r.Files["edge"]["prometheus.yml"])
	}
	secrets, config := mounted()
	require.Equal(t, []string{"hub-access"}, secrets)
	require.Contains(t, config, "url: https://asia-3.example.org/api/v1/write")
	require.Contains(t, config, "credentials_file: ../secrets/link/token")
	require.Contains(t, config, "ca_file: ../secrets/link/ca.crt")
	require.NotContains(t, config, "cert_file")
	f.Spec.Link.Type = v1alpha1.LinkFederate
	secrets, config = mounted()
	require.Empty(t, secrets)
	require.NotContains(t, config, "secrets/link")
}

// While a cell goes from one geography to another, its edge writes to the cascades of
// both, to each under its own name.
func TestAnEdgeWritesToBothGeographiesUnderTheirNames(t *testing.T) {
	f := &v1alpha1.Federation{}
	f.Spec.Geographies = []v1alpha1.Geography{{Name: "asia"}, {Name: "europe"}}
	f.Spec.Link = v1alpha1.Link{Type: v1alpha1.LinkRemoteWrite, ReceiveURL: "https://{geography}-{shard}.example.org/api/v1/write"}
	f.Status.Geographies = []v1alpha1.GeographyStatus{
		{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "one", Shard: 3}}},
		{Name: "europe", Cells: []v1alpha1.CellPlacement{{Name: "one", Reading: v1alpha1.ReadingBeside}}},
	}
	c := &v1alpha1.Cell{}
	c.Name, c.Spec.Geography, c.Spec.Region = "one", "europe", "r"
	r, err := Renderer{Namespace: "pharos-system"}.Render(c, f)
	require.NoError(t, err)
	cfg, err := config.Load(string(r.Files["edge"]["prometheus.yml"]), promslog.NewNopLogger())
	require.NoError(t, err)
	written := map[string]string{}
	for _, w := range cfg.RemoteWriteConfigs {
		b := labels.NewBuilder(labels.FromStrings("__name__", "cell:heartbeat:timestamp_seconds", "geography", "europe", "region", "r", "cell", "one", "edge_shard", "0"))
		require.True(t, relabel.ProcessBuilder(b, w.WriteRelabelConfigs...))
		written[w.URL.Host] = b.Get("geography")
	}
	require.Equal(t, map[string]string{"asia-3.example.org": "asia", "europe-0.example.org": "europe"}, written)
}

// A Federation that is made anew has no plan at first. The edge goes on writing, and is
// not restarted.
func TestAnEdgeThatWritesWaitsForThePlan(t *testing.T) {
	w := newWorld(t)
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec: v1alpha1.FederationSpec{
			Geographies: []v1alpha1.Geography{{Name: "asia"}},
			Link:        v1alpha1.Link{Type: v1alpha1.LinkRemoteWrite, ReceiveURL: "https://{geography}-{shard}.example.org/api/v1/write"},
		},
	})
	plan := func(all ...v1alpha1.GeographyStatus) {
		f := w.Federation(t, "fleet")
		f.Status.Geographies = all
		require.NoError(t, w.Admin.Status().Update(t.Context(), f))
	}
	w.secret(t, "asia-1", w.access)
	w.reconcile(t, "asia-1")
	require.NotContains(t, w.Text(t, "edge"), "example.org", "an edge that is new may begin before it is known whom it writes to")
	made := w.StatefulSet(t, "edge").Generation
	plan(v1alpha1.GeographyStatus{Name: "asia", Cells: []v1alpha1.CellPlacement{{Name: "asia-1", Shard: 3}}})
	w.reconcile(t, "asia-1")
	require.Contains(t, w.Text(t, "edge"), "url: https://asia-3.example.org/api/v1/write")

	plan()
	w.reconcile(t, "asia-1")
	w.requireReason(t, "asia-1", v1alpha1.ReasonProgressing, "waiting for Federation fleet to place the cell")
	require.Contains(t, w.Text(t, "edge"), "url: https://asia-3.example.org/api/v1/write")
	require.Equal(t, made, w.StatefulSet(t, "edge").Generation)
}
