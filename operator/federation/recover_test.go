package federation

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// lostPlan is a hub whose plan is lost, in each way in which it can be. The cells are
// where nobody would place them who began anew, and one is on its way.
type lostPlan struct {
	*world
	spec v1alpha1.FederationSpec
}

// The status of a Federation is lost, on a real API server, and the cells stay where
// they are.
func TestAPlanIsFoundAgain(t *testing.T) {
	p := &lostPlan{newWorld(t), v1alpha1.FederationSpec{
		Geographies: []v1alpha1.Geography{{Name: "asia", MaxSeriesPerShard: ptr.To[int32](1000)}, {Name: "europe"}},
		Network:     v1alpha1.Network{ServiceAddressing: v1alpha1.ServiceClusterIP},
	}}
	p.Create(t, &v1alpha1.Federation{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}, Spec: p.spec})
	p.cell(t, "asia-1", "asia", "127.93.0.1:9090")
	p.cell(t, "asia-2", "asia", "127.93.0.2:9090")
	f := p.federation(t, "fleet")
	plan := []v1alpha1.CellPlacement{{Name: "asia-1", Shard: 4, EdgeShards: 3}, {Name: "asia-2", Shard: 0, MovingTo: ptr.To[int32](2), EdgeShards: 1}}
	f.Status.Geographies = []v1alpha1.GeographyStatus{{Name: "asia", Shards: []int32{0, 2, 4}, Moving: 1, Cells: plan}, {Name: "europe", Shards: []int32{0}}}
	p.SetStatus(t, f)
	p.reconcile(t, "fleet")
	p.stays(t, "")
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"a file is spoilt", p.spoilt},
		{"a file is missing", p.missing},
		{"it is found", p.found},
		{"a spoilt file of another geography does not matter", p.anothers},
		{"the Federation is made anew", p.madeAnew},
		{"a geography that is left is found, too", p.renamed},
		{"what runs cannot be read", p.unreadable},
	} {
		require.True(t, t.Run(step.name, step.run), "the steps after it would not mean anything")
	}
}

func (p *lostPlan) stays(t *testing.T, message string) {
	t.Helper()
	require.Equal(t, []string{"asia-2"}, p.readBy(t, "cascade-asia-0"))
	require.Equal(t, []string{"asia-2"}, p.readBy(t, "cascade-asia-2"))
	require.Equal(t, []string{"asia-1"}, p.readBy(t, "cascade-asia-4"))
	status := p.federation(t, "fleet").Status.Geographies
	require.Len(t, status, 2)
	require.Equal(t, []int32{0, 2, 4}, status[0].Shards)
	require.Equal(t, message, status[0].Message)
	require.EqualValues(t, 4, status[0].Cells[0].Shard)
	require.EqualValues(t, 3, status[0].Cells[0].EdgeShards, "the old servers of its edge are still expected")
	require.NotNil(t, status[0].Cells[0].EdgeShardsBeside)
	require.Equal(t, v1alpha1.CellPlacement{Name: "asia-2", Shard: 0, MovingTo: ptr.To[int32](2), EdgeShards: 1}, status[0].Cells[1])
}

// lose wipes what the status says of some geographies, as a backup does that has none.
func (p *lostPlan) lose(t *testing.T, geographies ...v1alpha1.GeographyStatus) {
	t.Helper()
	f := p.federation(t, "fleet")
	f.Status = v1alpha1.FederationStatus{Geographies: geographies}
	p.SetStatus(t, f)
}

// file makes a file of a cascade's another, or takes it away, and gives what it was.
func (p *lostPlan) file(t *testing.T, cascade, text string) (before string) {
	t.Helper()
	const name = "topology.rules.yaml"
	cm := p.ConfigMap(t, cascade)
	before = cm.Data[name]
	cm.Data[name] = text
	if text == "" {
		delete(cm.Data, name)
	}
	require.NoError(t, p.Admin.Update(t.Context(), cm))
	return before
}

// refuses looks at a plan that cannot be found: nothing that runs is another then.
func (p *lostPlan) refuses(t *testing.T, why string) {
	t.Helper()
	before := p.versions(t)
	p.anew(t)
	p.reconcile(t, "fleet")
	p.requireInvalid(t, "fleet", why)
	after := p.versions(t)
	delete(before, "Federation fleet")
	delete(after, "Federation fleet")
	require.Equal(t, before, after)
	require.Empty(t, p.federation(t, "fleet").Status.Geographies)
}

func (p *lostPlan) spoilt(t *testing.T) {
	p.lose(t)
	whole := p.file(t, "cascade-asia-4", "groups: {")
	p.refuses(t, "status.geographies: is lost, and what the cascades read cannot be seen in ConfigMap cascade-asia-4")
	p.file(t, "cascade-asia-4", whole)
}

// A part of the files is not taken for the whole.
func (p *lostPlan) missing(t *testing.T) {
	whole := p.file(t, "cascade-asia-4", "")
	p.refuses(t, "topology.rules.yaml: is not there, and prometheus.yml names it")
	p.file(t, "cascade-asia-4", whole)
	cm := p.ConfigMap(t, "cascade-asia-4")
	require.NoError(t, p.Admin.Delete(t.Context(), cm.DeepCopy()))
	p.refuses(t, "ConfigMap cascade-asia-4 and those whose names begin with cascade-asia-4. (with a dot): prometheus.yml: is not there")
	cm.ResourceVersion, cm.UID, cm.OwnerReferences = "", "", nil // its owner is the operator's to say
	p.Create(t, cm)
}

func (p *lostPlan) found(t *testing.T) {
	p.anew(t)
	p.reconcile(t, "fleet")
	p.stays(t, recovered)
}

// Europe is new to the status, and not to what runs.
func (p *lostPlan) anothers(t *testing.T) {
	p.lose(t, p.federation(t, "fleet").Status.Geographies[0])
	p.file(t, "cascade-asia-4", "groups: {")
	p.anew(t)
	p.reconcile(t, "fleet")
	p.stays(t, recovered)
}

// It is deleted, and made anew before what it owned has gone.
func (p *lostPlan) madeAnew(t *testing.T) {
	require.NoError(t, p.Admin.Delete(t.Context(), p.federation(t, "fleet")))
	p.Create(t, &v1alpha1.Federation{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}, Spec: p.spec})
	p.anew(t)
	p.reconcile(t, "fleet")
	p.stays(t, recovered)
	require.Equal(t, p.federation(t, "fleet").UID, p.StatefulSet(t, "cascade-asia-4").OwnerReferences[0].UID)
}

// It was lost while the cells went to a geography of another name: the old one is read
// on, and is the one that they are expected of.
func (p *lostPlan) renamed(t *testing.T) {
	f := p.federation(t, "fleet")
	f.Spec.Geographies[0].Name = "apac"
	require.NoError(t, p.Admin.Update(t.Context(), f))
	for _, name := range []string{"asia-1", "asia-2"} {
		c := &v1alpha1.Cell{}
		require.NoError(t, p.Admin.Get(t.Context(), client.ObjectKey{Name: name}, c))
		c.Spec.Geography = "apac"
		require.NoError(t, p.Admin.Update(t.Context(), c))
	}
	p.lose(t)
	for range 2 {
		p.anew(t)
		p.reconcile(t, "fleet")
		f = p.federation(t, "fleet")
		require.Equal(t, []string{"asia-1", "asia-2"}, strings.Fields(shown(f, "asia")))
		require.Equal(t, []string{"asia-1*", "asia-2*"}, strings.Fields(shown(f, "apac")))
		require.Equal(t, []string{"asia-1"}, p.readBy(t, "cascade-asia-4"))
		p.lose(t)
	}
}

// That does not say that there is nothing.
func (p *lostPlan) unreadable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorContains(t, p.r.recover(ctx, &v1alpha1.Federation{Spec: p.spec}), "looking for the shard plan in what runs")
}

// An operator that ends between two cascades leaves a cell with three readers: the one
// that it has left, the one that has it, and the one that it goes to. At most the last
// has not heard it yet, so that two of them suffice, whichever they are; the cell
// stays with both until one of them may go.
func TestACellWithThreeReadersStaysWithTwo(t *testing.T) {
	var sets []appsv1.StatefulSet
	var given []corev1.ConfigMap
	for _, shard := range []string{"0", "2", "4"} {
		about := metav1.ObjectMeta{Name: "cascade-asia-" + shard, Labels: map[string]string{v1alpha1.LabelGeography: "asia", v1alpha1.LabelShard: shard}}
		sets = append(sets, appsv1.StatefulSet{ObjectMeta: about})
		given = append(given, corev1.ConfigMap{ObjectMeta: about, Data: map[string]string{
			"prometheus.yml": "rule_files: [topology.rules.yaml]\n",
			"topology.rules.yaml": `groups: [{name: topology, rules: [
				{record: "geography:edge_expected:info", expr: vector(1), labels: {cell: a, edge_shard: "0"}},
				{record: "geography:edge_expected:info", expr: vector(1), labels: {cell: a, edge_shard: "1"}}]}]`,
		}})
	}
	found, err := planOf(map[string]bool{"asia": true}, sets, given)
	require.NoError(t, err)
	require.Equal(t, v1alpha1.GeographyStatus{
		Name: "asia", Message: recovered, Shards: []int32{0, 2, 4}, Moving: 1,
		Cells: []v1alpha1.CellPlacement{{Name: "a", Shard: 0, MovingTo: ptr.To[int32](2), EdgeShards: 2}},
	}, found["asia"])

	f := fleetOf(found["asia"])
	f.Spec.Geographies = []v1alpha1.Geography{{Name: "asia"}}
	for _, warm := range []map[string]bool{nil, {"a": true}} {
		layouts, err := Plan(f, []v1alpha1.Cell{cellIn("asia", "a")}, Heard{Warm: warm})
		require.NoError(t, err)
		require.Equal(t, warm == nil, layouts["asia"].Cells[0].Moving())
		require.Equal(t, 2, layouts["asia"].Cells[0].Next)
	}
}
