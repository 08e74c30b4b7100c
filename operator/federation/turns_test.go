package federation

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// running is a central as far as the operator can ask it.
type running struct {
	loaded    promapi.Loaded
	evaluated time.Time
	// heard is when each cell was heard of last, and before the same until it loaded its files.
	heard, before map[string]time.Time
	down          bool
	// cascades are those that it hears of, by their geography.
	cascades map[string]*passing
}

// passing is a cascade as a central hears of it.
type passing struct {
	beat    time.Time
	refused float64
	// cells are when each of its cells was heard of from it.
	cells map[string][]time.Time
}

// tells answers one of the questions about a cascade.
func (p *passing) tells(query string, at time.Time) (out []promapi.Sample) {
	switch window := regexp.MustCompile(`\[([0-9]+)s\]`).FindStringSubmatch(query); {
	case strings.Contains(query, "cascade:heartbeat"):
		return []promapi.Sample{{Value: float64(p.beat.Unix())}}
	case strings.Contains(query, "cascade:config_refused"):
		return []promapi.Sample{{Value: p.refused}}
	case window != nil:
		seconds, _ := strconv.Atoi(window[1])
		for cell, times := range p.cells {
			isWithin := func(then time.Time) bool {
				return !then.After(at) && then.After(at.Add(-time.Duration(seconds)*time.Second))
			}
			if slices.ContainsFunc(times, isWithin) {
				out = append(out, promapi.Sample{Value: 1, Labels: map[string]string{"cell": cell, "edge_shard": "0"}})
			}
		}
	}
	return out
}

func (c *running) Loaded(context.Context) (promapi.Loaded, error) {
	if c.down {
		return promapi.Loaded{}, errors.New("connection refused")
	}
	return c.loaded, nil
}

func (c *running) Samples(_ context.Context, query string, at time.Time) (promapi.Answer, error) {
	var a promapi.Answer
	switch {
	case c.down:
		return a, errors.New("connection refused")
	case query == "fleet:interval:seconds":
		a.Samples = []promapi.Sample{{Value: 5, At: c.evaluated}}
	case query == newest:
		heard := c.heard
		if c.before != nil && !at.After(c.loaded.Since) {
			heard = c.before
		}
		for cell, at := range heard {
			a.Samples = append(a.Samples, promapi.Sample{Value: float64(at.UnixMilli()) / 1000, Labels: map[string]string{"cell": cell, "edge_shard": "0"}})
		}
	}
	a.Samples = append(a.Samples, c.ofCascades(query, at)...)
	return a, nil
}

// ofCascades answers one of the questions about cascades, all of them or one.
func (c *running) ofCascades(query string, at time.Time) (out []promapi.Sample) {
	if of := regexp.MustCompile(`geography="([a-z]+)"`).FindStringSubmatch(query); of != nil && c.cascades[of[1]] != nil {
		return c.cascades[of[1]].tells(query, at)
	}
	if query != beatsOfCascades && query != refusedByCascades {
		return nil
	}
	for geography, cascade := range c.cascades {
		for _, s := range cascade.tells(query, at) {
			s.Labels = map[string]string{"geography": geography, "cascade_shard": "0"}
			out = append(out, s)
		}
	}
	return out
}

// takesUp lets the central load, and evaluate, what its ConfigMap has now.
func (c *running) takesUp(t *testing.T, w *world, name string) {
	t.Helper()
	c.loaded = promapi.Loaded{Config: w.ConfigMap(t, name).Data[promcfg.ConfigFile], Since: c.evaluated.Add(time.Second)}
	c.evaluated = c.evaluated.Add(3 * time.Second)
	c.hears("asia-1", "asia-2")
}

// hears lets cells be heard of when the rules were evaluated last.
func (c *running) hears(cells ...string) {
	c.heard = map[string]time.Time{}
	for _, cell := range cells {
		c.heard[cell] = c.evaluated
	}
}

// pair is a hub with two centrals that run.
type pair struct {
	*world
	a, b *running
	// cascades are those that can be asked, by their address.
	cascades map[string]*running
}

const (
	newImage    = "registry.example.org/prometheus:next"
	brokenImage = "registry.example.org/prometheus:broken"
)

// A change reaches one central after the other, on a real API server, with an
// operator that knows nothing but what it sees: before each look it restarts.
func TestCentralsAreChangedInTurn(t *testing.T) {
	p := &pair{world: newWorld(t), a: &running{evaluated: time.Now()}, b: &running{evaluated: time.Now()}}
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"both are made at once", p.madeAtOnce},
		{"an image reaches the second when the first is back with all that it had", p.imageInTurn},
		{"what the first one refuses stops there", p.refusedStopsAtTheFirst},
		{"an image that does not start is mended", p.brokenIsMended},
		{"the first one's node is gone", p.nodeGone},
		{"one that is down keeps the other from being restarted", p.lastOneIsLeft},
		{"files that need a restart wait for it", p.filesWait},
		{"a link that is to be written to", p.linkIsPushed},
		{"a link that is to be read", p.linkIsPulled},
		{"a cascade tries a change for all", p.cascadesInTurn},
		{"a person lets a change pass", p.personAgrees},
		{"a cascade that is away gets a change, and the others none", p.cascadeLost},
		{"addresses of edges reach a cascade that waits", p.addressesPass},
	} {
		require.True(t, t.Run(step.name, step.run), "the steps after it would not mean anything")
	}
}

// look lets a new operator look once, and gives what the Federation then says.
func (p *pair) look(t *testing.T) string {
	t.Helper()
	p.anew(t)
	p.r.ears.connect = func(address string) (asker, error) {
		if c, is := p.cascades[address]; is {
			return c, nil
		}
		return map[string]asker{"127.92.4.1:9090": p.a, "127.92.4.2:9090": p.b}[address], nil
	}
	p.reconcile(t, "fleet")
	return meta.FindStatusCondition(p.federation(t, "fleet").Status.Conditions, v1alpha1.ConditionReady).Message
}

func (p *pair) change(t *testing.T, spec func(*v1alpha1.FederationSpec)) {
	t.Helper()
	f := p.federation(t, "fleet")
	spec(&f.Spec)
	require.NoError(t, p.Admin.Update(t.Context(), f))
}

func (p *pair) image(t *testing.T, name string) string {
	t.Helper()
	return p.StatefulSet(t, name).Spec.Template.Spec.Containers[0].Image
}

// restart plays the StatefulSet's controller: its pod is made anew, ready or not.
func (p *pair) restart(t *testing.T, name, ip string, ready bool) {
	t.Helper()
	p.stop(t, name)
	p.RunPod(t, p.Settle(t, name), name+"-0", ip)
	if ready {
		p.SetReady(t, name+"-0")
	}
}

func (p *pair) stop(t *testing.T, name string) {
	t.Helper()
	pod := p.Pod(t, name+"-0")
	require.NoError(t, p.Admin.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
}

func (p *pair) madeAtOnce(t *testing.T) {
	p.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec: v1alpha1.FederationSpec{
			Geographies: []v1alpha1.Geography{{Name: "asia"}},
			Network:     v1alpha1.Network{ServiceAddressing: v1alpha1.ServiceClusterIP},
			LongTerm:    []v1alpha1.LongTermStore{{Name: "year", URL: "http://store.example.org/write"}},
		},
	})
	p.cell(t, "asia-1", "asia", "127.93.0.1:9090")
	p.cell(t, "asia-2", "asia", "127.93.0.2:9090")
	p.look(t)
	p.runPod(t, "central-a", "127.92.4.1")
	p.runPod(t, "central-b", "127.92.4.2")
	p.a.takesUp(t, p.world, "central-a")
	p.b.takesUp(t, p.world, "central-b")
	require.Equal(t, markIn(p.a.loaded.Config), markIn(p.b.loaded.Config), "both have the same but for their names")
	require.NotContains(t, p.look(t), "central-b is left")
	files := promcfg.Files{}
	for name, text := range p.ConfigMap(t, "central-a").Data {
		files[name] = []byte(text)
	}
	promcfgtest.Check(t, files)
}

func (p *pair) imageInTurn(t *testing.T) {
	p.change(t, func(s *v1alpha1.FederationSpec) { s.Images.Prometheus = newImage })
	require.Contains(t, p.look(t), "central-b is left as it is until central-a has taken up what it was given: central-a was changed just now")
	require.Contains(t, p.look(t), "central-a is not ready")
	require.Equal(t, newImage, p.image(t, "central-a"))
	require.Equal(t, workload.DefaultPrometheusImage, p.image(t, "central-b"))

	p.a.loaded.Since = p.a.evaluated.Add(time.Second) // its process has just begun
	p.restart(t, "central-a", "127.92.4.1", false)
	require.Contains(t, p.look(t), "central-a is not ready")
	p.SetReady(t, "central-a-0")
	p.a.down = true
	require.Contains(t, p.look(t), "not known, because a central does not answer the operator: central-a at 127.92.4.1:9090: connection refused. Let the operator's pod reach that address")
	p.a.down = false
	require.Contains(t, p.look(t), "it has not evaluated its rules since it loaded them")
	p.a.evaluated = p.a.loaded.Since.Add(3 * time.Second)
	require.Contains(t, p.look(t), `it has not heard of Cells ["asia-1" "asia-2"] since it loaded its files, and central-b does`, "it did before")
	p.a.hears("asia-1")
	require.Contains(t, p.look(t), `it has not heard of Cells ["asia-2"] since it loaded its files`)
	p.a.hears("asia-1", "asia-2")
	p.b.down = true
	require.Contains(t, p.look(t), "not known", "what the other hears is not known")
	require.Equal(t, workload.DefaultPrometheusImage, p.image(t, "central-b"))

	p.b.down = false
	require.NotContains(t, p.look(t), "central-b is left")
	require.Equal(t, newImage, p.image(t, "central-b"))
	p.restart(t, "central-b", "127.92.4.2", true)
	require.NotContains(t, p.look(t), "central-")
}

// A Prometheus that refuses its files goes on with those before.
func (p *pair) refusedStopsAtTheFirst(t *testing.T) {
	before := p.ConfigMap(t, "central-b").Data
	p.change(t, func(s *v1alpha1.FederationSpec) { s.LongTerm[0].URL = "http://store.example.org/refused" })
	require.Contains(t, p.look(t), "central-a was changed just now")
	require.Contains(t, p.look(t), "it has not loaded its newest files yet")
	again, err := p.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "fleet"}})
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, again.RequeueAfter, "soon: nothing in the hub tells when a file has been loaded")
	p.a.loaded.Refused = true
	require.Contains(t, p.look(t), "it refuses its newest configuration, and goes on with the one before; its log says why")
	require.Contains(t, p.Text(t, "central-a"), "store.example.org/refused")
	require.Equal(t, before, p.ConfigMap(t, "central-b").Data)

	p.change(t, func(s *v1alpha1.FederationSpec) { s.LongTerm[0].URL = "http://store.example.org/taken" })
	p.look(t)
	require.Contains(t, p.Text(t, "central-a"), "store.example.org/taken", "what mends the first one reaches it")
	require.Equal(t, before, p.ConfigMap(t, "central-b").Data)
	// What the second runs with, and what is not rendered any more, stays with it.
	piece := p.ConfigMap(t, "central-b")
	piece.ObjectMeta = metav1.ObjectMeta{Namespace: piece.Namespace, Name: "central-b.topology-3", Labels: piece.Labels, OwnerReferences: piece.OwnerReferences}
	p.Create(t, piece)
	p.look(t)
	require.NotNil(t, p.ConfigMap(t, piece.Name))
	p.a.takesUp(t, p.world, "central-a")
	p.look(t)
	require.Contains(t, p.Text(t, "central-b"), "store.example.org/taken")
	require.NotContains(t, p.Versions(t, &corev1.ConfigMapList{}), "ConfigMap "+piece.Name, "it has what takes its place")
	p.b.takesUp(t, p.world, "central-b")
}

func (p *pair) brokenIsMended(t *testing.T) {
	p.change(t, func(s *v1alpha1.FederationSpec) { s.Images.Prometheus = brokenImage })
	p.look(t)
	p.restart(t, "central-a", "127.92.4.1", false)
	p.look(t)
	require.Equal(t, []string{brokenImage, newImage}, []string{p.image(t, "central-a"), p.image(t, "central-b")})
	// The second is away for a moment, as when its node restarts: it must come back as it was.
	p.stop(t, "central-b")
	require.Contains(t, p.look(t), "central-b is left as it is")
	require.Equal(t, newImage, p.image(t, "central-b"))
	p.runPod(t, "central-b", "127.92.4.2")
	p.change(t, func(s *v1alpha1.FederationSpec) { s.Images.Prometheus = newImage })
	p.look(t)
	require.Equal(t, newImage, p.image(t, "central-a"))
	p.restart(t, "central-a", "127.92.4.1", true)
	require.NotContains(t, p.look(t), "central-")
	// It is away again, and nothing waits: nobody is told to end the last one.
	p.stop(t, "central-a")
	require.NotContains(t, p.look(t), "kubectl annotate")
	p.runPod(t, "central-a", "127.92.4.1")
}

func (p *pair) nodeGone(t *testing.T) {
	p.stop(t, "central-a")
	p.change(t, func(s *v1alpha1.FederationSpec) { s.Images.Prometheus = workload.DefaultPrometheusImage })
	p.look(t)
	said := p.look(t)
	require.Contains(t, said, "if its node is gone for good, delete that Node")
	require.Regexp(t, "To change central-b without that: kubectl annotate --overwrite federation fleet pharos.dev/proceed=central-b[.][0-9a-f]{12};", said)
	require.Equal(t, newImage, p.image(t, "central-b"), "it is the only one that is left")

	set := p.StatefulSet(t, "central-b")
	set.Spec.Replicas = new(int32)
	require.NoError(t, p.Admin.Update(t.Context(), set))
	p.stop(t, "central-b")
	require.NotContains(t, p.look(t), "central-b is left")
	require.Equal(t, workload.DefaultPrometheusImage, p.image(t, "central-b"))
	require.EqualValues(t, 1, *p.StatefulSet(t, "central-b").Spec.Replicas)
	p.runPod(t, "central-a", "127.92.4.1")
	p.runPod(t, "central-b", "127.92.4.2")
	require.NotContains(t, p.look(t), "central-")
}

// A second change comes while the first one is on its way to the second central.
func (p *pair) lastOneIsLeft(t *testing.T) {
	p.stop(t, "central-b")
	p.change(t, func(s *v1alpha1.FederationSpec) {
		s.Images.Prometheus, s.LongTerm[0].URL = newImage, "http://store.example.org/last"
	})
	require.Contains(t, p.look(t), "central-a is not restarted while central-b is not well: central-b is not ready")
	old := workload.DefaultPrometheusImage
	require.Equal(t, []string{old, old}, []string{p.image(t, "central-a"), p.image(t, "central-b")})
	require.Contains(t, p.Text(t, "central-a"), "store.example.org/last", "its files restart nothing")
	require.NotContains(t, p.Text(t, "central-b"), "store.example.org/last", "nobody has tried them")
	// The first one is seen to be well with them: the image may be what mends the second.
	p.a.takesUp(t, p.world, "central-a")
	p.look(t)
	require.Equal(t, []string{old, newImage}, []string{p.image(t, "central-a"), p.image(t, "central-b")})
	p.runPod(t, "central-b", "127.92.4.2")
	require.Contains(t, p.look(t), "central-a is not restarted while central-b is not well: it has not loaded its newest files yet")
	p.b.takesUp(t, p.world, "central-b")
	p.look(t)
	require.Equal(t, newImage, p.image(t, "central-a"))
}
