package federation

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
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

// ways are how a central hears of cascades by its objects.
func (p *pair) ways(t *testing.T, name string) (way string) {
	t.Helper()
	if slices.Contains(p.StatefulSet(t, name).Spec.Template.Spec.Containers[0].Args, promcfg.ReceiveFlag) {
		way = "takes"
	}
	for _, job := range regexp.MustCompile("job_name: (federate-)?cascade\n").FindAllStringSubmatch(p.Text(t, name), -1) {
		if job[1] != "" {
			way += " reads"
		}
	}
	return way
}

// writesTo are the centrals that the cascade is told to write to.
func (p *pair) writesTo(t *testing.T) (all []string) {
	t.Helper()
	for _, name := range []string{"central-a", "central-b"} {
		if strings.Contains(p.Text(t, "cascade-asia-0"), "url: http://"+p.Service(t, name).Spec.ClusterIP+":9090/api/v1/write\n") {
			all = append(all, name)
		}
	}
	return all
}

// comesBack plays a central that was restarted, and took up its files.
func (p *pair) comesBack(t *testing.T, name string, central *running) {
	t.Helper()
	p.rolls(t, name, map[string]string{"central-a": "127.92.4.1", "central-b": "127.92.4.2"}[name], true)
	central.takesUp(t, p.world, name)
}

// At every moment each central that serves hears of the cascade: receivers come first,
// then who writes, and then nothing is read any more.
func (p *pair) linkIsPushed(t *testing.T) {
	cascade := &running{}
	p.cascades = map[string]*running{"127.92.5.3:9090": cascade}
	p.rolls(t, "cascade-asia-0", "127.92.5.3", true)
	p.change(t, func(s *v1alpha1.FederationSpec) {
		s.Link = v1alpha1.Link{Type: v1alpha1.LinkRemoteWrite, ReceiveURL: "http://hub.example.org/{geography}/{shard}/write"}
	})
	p.look(t)
	require.Equal(t, []string{"takes reads", " reads"}, []string{p.ways(t, "central-a"), p.ways(t, "central-b")})
	require.Empty(t, p.writesTo(t), "nobody takes it yet")
	p.look(t)
	require.Equal(t, []string{"central-a"}, p.writesTo(t))
	p.comesBack(t, "central-a", p.a)
	p.rolls(t, "cascade-asia-0", "127.92.5.3", true)
	p.look(t)
	require.Equal(t, []string{"takes reads", "takes reads"}, []string{p.ways(t, "central-a"), p.ways(t, "central-b")})
	p.comesBack(t, "central-b", p.b)
	cascade.loaded.Config = p.Text(t, "cascade-asia-0")
	require.Contains(t, p.look(t), "centrals go on reading cascades until all of them write: cascade-asia-0 does not write to central-b")
	require.Equal(t, []string{"central-a", "central-b"}, p.writesTo(t))
	cascade.down = true
	require.Contains(t, p.look(t), "cascade-asia-0 does not tell at 127.92.5.3:9090, which the operator's pod must reach: connection refused")
	require.Equal(t, "takes reads", p.ways(t, "central-a"), "what is not known takes nothing away")

	cascade.down, cascade.loaded.Config = false, p.Text(t, "cascade-asia-0")
	require.NotContains(t, p.look(t), "go on reading")
	require.Equal(t, []string{"takes", "takes reads"}, []string{p.ways(t, "central-a"), p.ways(t, "central-b")})
	p.a.takesUp(t, p.world, "central-a")
	p.look(t)
	require.Equal(t, "takes", p.ways(t, "central-b"))
	p.b.takesUp(t, p.world, "central-b")
	require.NotContains(t, p.look(t), "central-")
	require.Equal(t, []string{"central-a", "central-b"}, p.writesTo(t))
}

// The cascade writes to each central until that is restarted to read, and to the second
// for good while the first does not come up.
func (p *pair) linkIsPulled(t *testing.T) {
	p.change(t, func(s *v1alpha1.FederationSpec) { s.Link = v1alpha1.Link{Type: v1alpha1.LinkFederate} })
	p.look(t)
	require.Equal(t, []string{" reads", "takes"}, []string{p.ways(t, "central-a"), p.ways(t, "central-b")})
	require.Contains(t, p.Text(t, "cascade-asia-0"), "127.93.0.1:9090", "it reads edges at once: that needs no restart")
	p.rolls(t, "cascade-asia-0", "127.92.5.3", true)
	p.rolls(t, "central-a", "127.92.4.1", false)
	p.look(t)
	require.Equal(t, []string{"central-b"}, p.writesTo(t))
	p.look(t)
	require.Equal(t, []string{"central-b"}, p.writesTo(t))
	require.Equal(t, "takes", p.ways(t, "central-b"))
	p.comesBack(t, "central-a", p.a)
	p.look(t)
	require.Equal(t, " reads", p.ways(t, "central-b"))
	p.look(t)
	require.Empty(t, p.writesTo(t))
	p.comesBack(t, "central-b", p.b)
	require.NotContains(t, p.look(t), "central-")
	p.stop(t, "cascade-asia-0")
}
