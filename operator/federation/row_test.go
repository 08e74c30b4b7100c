package federation

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// rolls plays a StatefulSet's controller and the kubelet: the pod is made anew of what
// is wanted, and comes up or does not.
func (p *pair) rolls(t *testing.T, name, ip string, ready bool) {
	t.Helper()
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name + "-0"}}
	require.NoError(t, client.IgnoreNotFound(p.Admin.Delete(t.Context(), old, client.GracePeriodSeconds(0))))
	s := p.StatefulSet(t, name)
	s.Status.ObservedGeneration, s.Status.UpdateRevision = s.Generation, fmt.Sprintf("%s-%d", name, s.Generation)
	if ready || s.Status.CurrentRevision == "" {
		s.Status.CurrentRevision = s.Status.UpdateRevision
	}
	p.SetStatus(t, s)
	template := s.Spec.Template
	metav1.SetMetaDataLabel(&template.ObjectMeta, appsv1.ControllerRevisionHashLabelKey, s.Status.UpdateRevision)
	p.RunPod(t, template, name+"-0", ip)
	if ready {
		p.SetReady(t, name+"-0")
	}
}

// memory is what each cascade is given.
func (p *pair) memory(t *testing.T) (out []string) {
	t.Helper()
	for _, geography := range []string{"africa", "europe", "asia"} {
		limit := p.StatefulSet(t, "cascade-"+geography+"-0").Spec.Template.Spec.Containers[0].Resources.Limits.Memory()
		out = append(out, limit.String())
	}
	return out
}

func (p *pair) give(t *testing.T, memory string) {
	t.Helper()
	p.change(t, func(s *v1alpha1.FederationSpec) { s.Resources.Cascade.MemoryLimit = ptr.To(resource.MustParse(memory)) })
}

// hear lets a central hear of a cascade, and of its cells, from now on.
func (c *running) hear(geography string, cells ...string) {
	c.cascades[geography].beat = time.Now().Add(time.Second)
	for _, cell := range cells {
		c.cascades[geography].cells[cell] = append(c.cascades[geography].cells[cell], time.Now())
	}
}

// A long-term store with a token of its own is a mount more: files that name it must
// not reach a central that cannot be restarted.
func (p *pair) filesWait(t *testing.T) {
	p.rolls(t, "central-a", "127.92.4.1", true)
	p.a.takesUp(t, p.world, "central-a")
	require.NotContains(t, p.look(t), "central-")
	p.stop(t, "central-b")
	before := p.ConfigMap(t, "central-a").Data
	p.change(t, func(s *v1alpha1.FederationSpec) {
		s.LongTerm[0].URL, s.LongTerm[0].BearerTokenSecret = "https://store.example.org/write", "store-token"
	})
	require.Contains(t, p.look(t), "central-a is not restarted while central-b is not well: central-b is not ready")
	require.Equal(t, before, p.ConfigMap(t, "central-a").Data, "they name a token that is not mounted there")
	require.Contains(t, p.Text(t, "central-b"), "secrets/year/token", "the first is well with what it has, and this may be what mends the second")
	p.rolls(t, "central-b", "127.92.4.2", true)
	p.b.takesUp(t, p.world, "central-b")
	p.look(t)
	require.Contains(t, p.Text(t, "central-a"), "secrets/year/token")
	p.rolls(t, "central-a", "127.92.4.1", true)
	p.a.takesUp(t, p.world, "central-a")
	require.NotContains(t, p.look(t), "central-")
}

func (p *pair) cascadesInTurn(t *testing.T) {
	p.give(t, "3Gi")
	p.change(t, func(s *v1alpha1.FederationSpec) {
		s.Geographies = []v1alpha1.Geography{{Name: "asia"}, {Name: "europe"}, {Name: "africa"}}
	})
	p.cell(t, "europe-1", "europe", "127.93.0.3:9090")
	p.cell(t, "africa-1", "africa", "127.93.0.4:9090")
	p.look(t)
	for i, geography := range []string{"africa", "europe", "asia"} {
		p.rolls(t, "cascade-"+geography+"-0", fmt.Sprintf("127.92.5.%d", i+1), true)
	}
	for _, c := range []*running{p.a, p.b} {
		c.cascades = map[string]*passing{}
		for _, geography := range []string{"africa", "europe", "asia"} {
			c.cascades[geography] = &passing{cells: map[string][]time.Time{}}
			c.hear(geography, geography+"-1")
		}
	}
	p.a.takesUp(t, p.world, "central-a")
	p.look(t)
	p.b.takesUp(t, p.world, "central-b")
	require.NotContains(t, p.look(t), "cascade-")

	p.give(t, "4Gi")
	require.Contains(t, p.look(t), "cascade-europe-0 and 1 after it are not restarted: cascade-africa-0 was changed just now", "asia has more cells")
	require.Equal(t, []string{"4Gi", "3Gi", "3Gi"}, p.memory(t))
	require.Equal(t, 2, p.held(t), "by one note")
	p.rolls(t, "cascade-africa-0", "127.92.5.1", false)
	require.Contains(t, p.look(t), "cascade-africa-0 is not ready")
	// Another is away for a moment: it must come back as it was.
	p.stop(t, "cascade-europe-0")
	require.Contains(t, p.look(t), "cascade-africa-0 has not come up since it was changed")
	require.Equal(t, []string{"4Gi", "3Gi", "3Gi"}, p.memory(t))
	p.cell(t, "asia-3", "asia", "127.93.0.5:9090")
	p.look(t)
	require.Contains(t, p.Text(t, "cascade-asia-0"), "127.93.0.5:9090", "files reach all of them")
	p.a.takesUp(t, p.world, "central-a")
	p.look(t)
	p.b.takesUp(t, p.world, "central-b")
	p.rolls(t, "cascade-europe-0", "127.92.5.2", true)

	p.rolls(t, "cascade-africa-0", "127.92.5.1", true)
	for _, c := range []*running{p.a, p.b} {
		c.cascades["africa"].beat = time.Now().Add(-10 * time.Second)
	}
	require.Contains(t, p.look(t), "central-b has not heard of cascade-africa-0 since its pod was made")
	p.a.hear("africa")
	p.b.hear("africa")
	p.a.cascades["africa"].refused, p.b.cascades["africa"].refused = 1, 1
	require.Contains(t, p.look(t), "cascade-africa-0 refuses its newest configuration")
	p.a.cascades["africa"].refused, p.b.cascades["africa"].refused = 0, 0
	require.Contains(t, p.look(t), `central-b has not heard of Cells ["africa-1"] from cascade-africa-0 since its pod was made, and did before`)
	require.Equal(t, []string{"4Gi", "3Gi", "3Gi"}, p.memory(t))
	time.Sleep(1100 * time.Millisecond) // when a pod was made is known to the second
	p.b.hear("africa", "africa-1")
	require.Contains(t, p.look(t), "cascade-asia-0 is not restarted: cascade-europe-0 was changed just now", "one central is enough: the other may be the one that is changed")
	require.Equal(t, []string{"4Gi", "4Gi", "3Gi"}, p.memory(t))
}

// The operator reaches no central: nothing goes on by itself, and a person may say that it may.
func (p *pair) personAgrees(t *testing.T) {
	p.rolls(t, "cascade-europe-0", "127.92.5.2", true)
	p.a.down, p.b.down = true, true
	said := p.look(t)
	require.Contains(t, said, "not known, because a central does not answer the operator: central-b at 127.92.4.2:9090: connection refused. Let the operator's pod reach that address")
	change := regexp.MustCompile(`kubectl annotate --overwrite federation fleet pharos.dev/proceed=(cascade-asia-0[.][0-9a-f]+)`).FindStringSubmatch(said)
	require.NotNil(t, change, said)
	require.Equal(t, 1, p.held(t))

	p.give(t, "5Gi")
	p.agree(t, change[1])
	require.NotContains(t, p.look(t), "cascade-asia-0 was changed", "he agreed to another change")
	require.Equal(t, []string{"4Gi", "4Gi", "3Gi"}, p.memory(t))
	p.give(t, "4Gi")
	require.NotContains(t, p.look(t), "restarted")
	require.Equal(t, []string{"4Gi", "4Gi", "4Gi"}, p.memory(t))
	require.Zero(t, p.held(t))
	p.rolls(t, "cascade-asia-0", "127.92.5.3", true)
	p.a.down, p.b.down = false, false
}

func (p *pair) agree(t *testing.T, change string) {
	t.Helper()
	f := p.federation(t, "fleet")
	metav1.SetMetaDataAnnotation(&f.ObjectMeta, workload.AnnotationProceed, change)
	require.NoError(t, p.Admin.Update(t.Context(), f))
}

// held is how many servers are held, as is told to whoever asks.
func (p *pair) held(t *testing.T) (servers int) {
	t.Helper()
	metrics, err := p.registry.Gather()
	require.NoError(t, err)
	for _, m := range metrics {
		if m.GetName() != "pharos_operator_changes_held" {
			continue
		}
		for _, s := range m.GetMetric() {
			servers += int(s.GetGauge().GetValue())
		}
	}
	problems, err := testutil.GatherAndLint(p.registry, "pharos_operator_changes_held")
	require.NoError(t, err)
	require.Empty(t, problems)
	return servers
}

// The node of a cascade is gone. It may be mended by what comes next; the others go on.
func (p *pair) cascadeLost(t *testing.T) {
	p.stop(t, "cascade-africa-0")
	p.give(t, "6Gi")
	require.Contains(t, p.look(t), "cascade-europe-0 and 1 after it are not restarted: cascade-africa-0 was changed just now")
	require.Contains(t, p.look(t), "cascade-africa-0 is not ready")
	require.Equal(t, []string{"6Gi", "4Gi", "4Gi"}, p.memory(t))
	// What is new has nothing to lose.
	p.change(t, func(s *v1alpha1.FederationSpec) {
		s.Geographies = append(s.Geographies, v1alpha1.Geography{Name: "moon"})
	})
	require.Contains(t, p.look(t), "is not ready")
	p.StatefulSet(t, "cascade-moon-0")
}

// A cascade is to be written to, for which it needs a flag, and has no turn. Its edges
// may be made elsewhere meanwhile.
func (p *pair) addressesPass(t *testing.T) {
	p.change(t, func(s *v1alpha1.FederationSpec) {
		s.Link = v1alpha1.Link{Type: v1alpha1.LinkRemoteWrite, ReceiveURL: "http://hub.example.org/{geography}/{shard}/write"}
	})
	require.Contains(t, p.look(t), "not restarted")
	const name = "cascade-europe-0"
	flags, before := p.StatefulSet(t, name).Spec.Template.Spec.Containers[0].Args, p.ConfigMap(t, name).Data
	require.NotContains(t, flags, promcfg.ReceiveFlag, "it waits")

	c := &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "europe-1"}}
	require.NoError(t, p.Admin.Get(t.Context(), client.ObjectKeyFromObject(c), c))
	c.Status.EdgeEndpoints = []string{"127.93.0.9:9090"}
	p.SetStatus(t, c)
	p.look(t)
	require.Equal(t, before, p.ConfigMap(t, name).Data, "what the flag is for waits with it")
	require.Contains(t, p.Text(t, name), "127.93.0.9:9090")
	require.NotContains(t, p.Text(t, name), "127.93.0.3:9090")
}
