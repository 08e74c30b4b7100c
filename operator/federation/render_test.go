package federation

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// set finds a StatefulSet among objects.
func set(t *testing.T, objects workload.Objects, name string) *appsv1ac.StatefulSetApplyConfiguration {
	t.Helper()
	for _, o := range objects {
		if s, is := o.(*appsv1ac.StatefulSetApplyConfiguration); is && *s.Name == name {
			return s
		}
	}
	require.Fail(t, "there is no StatefulSet "+name)
	return nil
}

func identities(objects workload.Objects) []string {
	var all []string
	for _, o := range objects {
		all = append(all, workload.Identity(o))
	}
	return all
}

func offline(t *testing.T, f *v1alpha1.Federation, cells ...v1alpha1.Cell) Rendered {
	t.Helper()
	layouts, err := Plan(f, cells, Heard{})
	require.NoError(t, err)
	r, err := Render(f, cells, layouts, "pharos-system", nil)
	require.NoError(t, err)
	return r
}

// Cascades write to both centrals, and everybody who is written to is reached
// by a Service and started so that he takes it.
func TestTiersThatWrite(t *testing.T) {
	f := fleetOf()
	f.Spec.Link = v1alpha1.Link{Type: v1alpha1.LinkRemoteWrite, ReceiveURL: "https://{geography}-{shard}.example.org/api/v1/write"}
	theirs := cellIn("europe", "theirs")
	theirs.Spec.Edge.Mode = v1alpha1.EdgeExternal
	theirs.Status.EdgeEndpoints = []string{"edge.example.org:9090"}
	r := offline(t, f, cellIn("europe", "a"), theirs)
	require.Contains(t, identities(r.Objects), "Service cascade-europe-0")
	cascade := r.Files["cascade-europe-0"]
	promcfgtest.Check(t, cascade)
	for _, replica := range []string{"a", "b"} {
		require.Contains(t, string(cascade["prometheus.yml"]), "url: http://central-"+replica+".pharos-system.svc:9090/api/v1/write")
		central := set(t, r.Objects, "central-"+replica).Spec.Template.Spec.Containers[0]
		require.Contains(t, central.Args, "--web.enable-remote-write-receiver")
		require.Contains(t, string(r.Files["central-"+replica]["prometheus.yml"]), "out_of_order_time_window")
	}
	require.Contains(t, set(t, r.Objects, "cascade-europe-0").Spec.Template.Spec.Containers[0].Args, "--web.enable-remote-write-receiver")
	require.Contains(t, string(cascade["targets-0-of-1.yaml"]), "edge.example.org:9090", "somebody else's edge is read all the same")

	f.Spec.Link = v1alpha1.Link{}
	r = offline(t, f, cellIn("asia", "a"))
	require.NotContains(t, identities(r.Objects), "Service cascade-europe-0", "pods that are read need no Service")
	require.NotContains(t, set(t, r.Objects, "central-a").Spec.Template.Spec.Containers[0].Args, "--web.enable-remote-write-receiver")
}

// A cascade tells when it comes near the limit that its geography has.
func TestACascadeKnowsItsLimit(t *testing.T) {
	r := offline(t, fleetOf(), cellIn("asia", "a"))
	limit := `record: cascade:series_limit:count\n        expr: vector\(%s\)`
	require.Regexp(t, fmt.Sprintf(limit, "1000"), string(r.Files["cascade-asia-0"][rules.TopologyFileName]))
	require.Regexp(t, fmt.Sprintf(limit, "100000"), string(r.Files["cascade-europe-0"][rules.TopologyFileName]), "where none is set")
}

// Both centrals write to each store, with the token that its Secret has.
func TestLongTermStores(t *testing.T) {
	f := fleetOf()
	f.Spec.LongTerm = []v1alpha1.LongTermStore{
		{Name: "year", URL: "https://store.example.org/write", BearerTokenSecret: "store-year"},
		{Name: "lab", URL: "http://lab:8428/api/v1/write"},
	}
	r := offline(t, f, cellIn("asia", "a"))
	for _, name := range []string{"central-a", "central-b"} {
		config := string(r.Files[name]["prometheus.yml"])
		require.Contains(t, config, "credentials_file: ../secrets/year/token")
		require.Contains(t, config, "url: http://lab:8428/api/v1/write")
		pod := set(t, r.Objects, name).Spec.Template.Spec
		var mounts []string
		for _, m := range pod.Containers[0].VolumeMounts {
			mounts = append(mounts, *m.MountPath)
		}
		require.Equal(t, []string{"/etc/prometheus", "/prometheus", "/etc/secrets/year"}, mounts)
		require.Equal(t, "store-year", *pod.Volumes[1].Secret.SecretName)
	}
	require.NotContains(t, string(r.Files["cascade-europe-0"]["prometheus.yml"]), "store.example.org")
}
