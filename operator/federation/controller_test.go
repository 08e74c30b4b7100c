package federation

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/version"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// The life of one Federation; each step finds the world as the last left it.
func TestReconciler(t *testing.T) {
	w := newWorld(t)
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "fleet"},
		Spec: v1alpha1.FederationSpec{
			Geographies:     []v1alpha1.Geography{{Name: "asia"}, {Name: "europe"}},
			IntervalSeconds: ptr.To[int32](5),
			Network:         v1alpha1.Network{ServiceAddressing: v1alpha1.ServiceClusterIP},
			Alerting:        v1alpha1.Alerting{DingTalk: []v1alpha1.DingTalkRobot{{Name: "oncall", SecretName: "robot"}}},
		},
	})
	for _, step := range []struct {
		name string
		run  func(*testing.T, *world)
	}{
		{"objects of others are in the way", refusesTheirs},
		{"applies every part", appliesEveryPart},
		{"changes nothing twice", changesNothingTwice},
		{"reports ready parts", reportsReadyParts},
		{"cells feed the cascade", cellsFeedTheCascade},
		{"a cell that is wrong harms no other", leavesOutTheWrongCell},
		{"waits for its cache", waitsForItsCache},
		{"puts back what was edited", putsBackEdits},
		{"invalid changes nothing", invalidChangesNothing},
		{"rules of a team's own run", ownRulesRun},
		{"edited copies of rules are made anew", editedCopiesAreMadeAnew},
		{"rules that are wrong hold up nothing", wrongRulesHold},
		{"accepted rules that are lost stop everything", lostRulesStop},
		{"rules are put right, and taken out", rulesTakenOut},
		{"one Federation is in charge", oneInCharge},
		{"another wrote meanwhile", plansOverNobody},
		{"a geography is renamed under its cells", geographyRenamed},
		{"a geography is removed", geographyRemoved},
		{"the relay goes with its robots", relayGoes},
		{"rights are narrow", rightsAreNarrow},
	} {
		require.True(t, t.Run(step.name, func(t *testing.T) { step.run(t, w) }), "the steps after it would not mean anything")
	}
}

// Somebody runs an Alertmanager of their own beside Pharos, under the same name.
func refusesTheirs(t *testing.T, w *world) {
	theirs := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "alertmanager"},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "theirs"}, Ports: []corev1.ServicePort{{Port: 1}}},
	}
	w.Create(t, theirs)
	version := theirs.ResourceVersion
	w.reconcile(t, "fleet")
	w.requireInvalid(t, "fleet", "Service alertmanager is in namespace pharos-system already and is not Pharos' own")
	require.Equal(t, version, w.Service(t, "alertmanager").ResourceVersion)
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("central-a"), &corev1.Service{})))
	require.NoError(t, w.Admin.Delete(t.Context(), theirs))
}

func appliesEveryPart(t *testing.T, w *world) {
	w.reconcile(t, "fleet")
	for _, name := range []string{"central-a", "central-b", "cascade-asia-0", "cascade-europe-0"} {
		s := w.StatefulSet(t, name)
		c := s.Spec.Template.Spec.Containers[0]
		require.Equal(t, workload.DefaultPrometheusImage, c.Image)
		require.Contains(t, c.Args, "--web.listen-address=$(POD_IP):9090")
		require.Contains(t, c.Args, "--storage.tsdb.retention.time=48h")
		require.Equal(t, strings.SplitN(name, "-", 2)[0], s.Spec.Template.Labels[v1alpha1.LabelComponent])
		require.Contains(t, w.ConfigMap(t, name).Data["prometheus.yml"], "scrape_interval: 5s")
	}
	require.Equal(t, "asia", w.StatefulSet(t, "cascade-asia-0").Spec.Template.Labels[v1alpha1.LabelGeography])

	relay := w.Service(t, "notify")
	require.Contains(t, w.ConfigMap(t, "alertmanager").Data["alertmanager.yml"], "http://"+relay.Spec.ClusterIP+":9095/alertmanager/oncall")
	require.Contains(t, w.StatefulSet(t, "alertmanager").Spec.Template.Spec.Containers[0].Args, "--cluster.listen-address=")

	args := w.Deployment(t, "remediator").Spec.Template.Spec.Containers[0].Args
	require.Equal(t, []string{
		"remediator", "--listen=$(POD_IP):8081", "--namespace=$(POD_NAMESPACE)",
		"--central=central-a=http://" + w.Service(t, "central-a").Spec.ClusterIP + ":9090",
		"--central=central-b=http://" + w.Service(t, "central-b").Spec.ClusterIP + ":9090",
	}, args)

	notify := w.Deployment(t, "notify").Spec.Template.Spec
	require.Equal(t, version.Image, notify.Containers[0].Image)
	require.False(t, *notify.AutomountServiceAccountToken)
	require.Contains(t, w.ConfigMap(t, "notify").Data["notify.yaml"], "../secrets/oncall/accessToken")
	require.NoError(t, w.Admin.Get(t.Context(), testkit.Key("notify"), &corev1.PersistentVolumeClaim{}))

	f := w.federation(t, "fleet")
	ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady)
	require.Equal(t, v1alpha1.ReasonProgressing, ready.Reason)
	require.Equal(t, f.Generation, ready.ObservedGeneration)
	require.Equal(t, f.Generation, f.Status.ObservedGeneration)
	require.Contains(t, ready.Message, "central-a")
	require.Len(t, f.Status.Parts, 7)
}

func changesNothingTwice(t *testing.T, w *world) {
	w.reconcile(t, "fleet") // the API server takes two writes to settle a new claim
	before := w.versions(t)
	w.reconcile(t, "fleet")
	require.Equal(t, before, w.versions(t))
}

func reportsReadyParts(t *testing.T, w *world) {
	for i, part := range w.federation(t, "fleet").Status.Parts {
		w.runPod(t, part.Name, "127.92.1."+string(rune('1'+i)))
	}
	w.reconcile(t, "fleet")
	f := w.federation(t, "fleet")
	require.True(t, meta.IsStatusConditionTrue(f.Status.Conditions, v1alpha1.ConditionReady), "%+v", f.Status)
	require.Contains(t, meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady).Message, "no spec.alerting.heartbeat: nobody notices")
	for _, part := range f.Status.Parts {
		require.Equal(t, int32(1), part.Ready, part.Name)
		require.Len(t, part.Addresses, 1)
	}
}

func cellsFeedTheCascade(t *testing.T, w *world) {
	w.cell(t, "asia-1", "asia", "127.93.0.1:9090")
	w.cell(t, "asia-2", "asia")
	w.cell(t, "lost", "atlantis", "127.93.0.9:9090")
	w.reconcile(t, "fleet")
	require.Contains(t, w.ConfigMap(t, "cascade-asia-0.targets-0").Data["targets-0-of-1.yaml"], "127.93.0.1:9090")
	require.Contains(t, w.Text(t, "cascade-asia-0"), "asia-2", "an unreachable cell must stay expected")
	require.NotContains(t, w.Text(t, "cascade-europe-0"), "asia-1")
	require.NotContains(t, w.Text(t, "central-a"), "cell: lost", "a cell of no geography would be expected for ever")
	require.Equal(t, int32(2), w.federation(t, "fleet").Status.Cells)
	w.requireInvalid(t, "fleet", `spec.geographies: ["asia" "europe"] lacks "atlantis" of Cells ["lost"]; they are neither read nor expected`)
	require.NoError(t, w.Admin.Delete(t.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "lost"}}))

	c := &v1alpha1.Cell{}
	require.NoError(t, w.Admin.Get(t.Context(), client.ObjectKey{Name: "asia-1"}, c))
	c.Status.EdgeEndpoints = []string{"127.93.0.2:9090"}
	require.NoError(t, w.Admin.Status().Update(t.Context(), c))
	template := w.StatefulSet(t, "cascade-asia-0").Generation
	w.reconcile(t, "fleet")
	require.Contains(t, w.Text(t, "cascade-asia-0"), "127.93.0.2:9090")
	require.NotContains(t, w.Text(t, "cascade-asia-0"), "127.93.0.1:9090")
	require.Equal(t, template, w.StatefulSet(t, "cascade-asia-0").Generation, "a change of cells must not restart the cascade")
}

// A newcomer says that it is where an older cell is already.
func leavesOutTheWrongCell(t *testing.T, w *world) {
	time.Sleep(1100 * time.Millisecond) // ages are known to the second
	w.cell(t, "asia-0", "asia", "127.93.0.2:9090")
	w.cell(t, "asia-3", "asia", "127.93.0.3:9090")
	w.reconcile(t, "fleet")
	f := w.federation(t, "fleet")
	ready := meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionReady)
	require.Equal(t, v1alpha1.ReasonAvailable, ready.Reason, ready.Message)
	require.Contains(t, ready.Message, `Cell "asia-0" is not read: endpoint 127.93.0.2:9090 of the edge belongs to Cell "asia-1"`)
	require.Equal(t, int32(3), f.Status.Cells)
	require.Contains(t, w.Text(t, "cascade-asia-0"), "127.93.0.3:9090", "what came with it is read")
	require.Equal(t, 1, strings.Count(w.Text(t, "cascade-asia-0"), "127.93.0.2:9090"), "the older one is read, once")
	require.Contains(t, w.Text(t, "cascade-asia-0"), "asia-0", "a cell that is not read is missing, and must be seen to be")

	for _, name := range []string{"asia-0", "asia-3"} {
		require.NoError(t, w.Admin.Delete(t.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	w.reconcile(t, "fleet")
	ready = meta.FindStatusCondition(w.federation(t, "fleet").Status.Conditions, v1alpha1.ConditionReady)
	require.NotContains(t, ready.Message, "asia-0")
}

func putsBackEdits(t *testing.T, w *world) {
	cm := w.ConfigMap(t, "central-a")
	right := cm.Data["prometheus.yml"]
	cm.Data["prometheus.yml"] = "global: {}"
	require.NoError(t, w.Admin.Update(t.Context(), cm))
	w.reconcile(t, "fleet")
	marks := func(config string) string { return markName.ReplaceAllString(config, "the mark") } // its number is another
	require.Equal(t, marks(right), marks(w.ConfigMap(t, "central-a").Data["prometheus.yml"]))
}

func invalidChangesNothing(t *testing.T, w *world) {
	before := w.versions(t)
	f := w.federation(t, "fleet")
	valid := f.DeepCopy()
	f.Spec.Alerting.DingTalk[0].URL = "https://example.org/hook"
	f.Spec.IntervalSeconds = ptr.To[int32](7)
	require.NoError(t, w.Admin.Update(t.Context(), f))
	w.reconcile(t, "fleet")
	w.requireInvalid(t, "fleet", "spec.alerting.dingTalk[oncall].url")
	delete(before, "Federation fleet")
	after := w.versions(t)
	delete(after, "Federation fleet")
	require.Equal(t, before, after, "an invalid spec touched what runs")

	f = w.federation(t, "fleet")
	f.Spec = valid.Spec
	require.NoError(t, w.Admin.Update(t.Context(), f))
	w.reconcile(t, "fleet")
	require.True(t, meta.IsStatusConditionTrue(w.federation(t, "fleet").Status.Conditions, v1alpha1.ConditionReady))
	require.Subset(t, testkit.Told(w.r.Recorder.(*events.FakeRecorder)), []string{v1alpha1.ReasonProgressing, v1alpha1.ReasonAvailable, v1alpha1.ReasonInvalid})
}

func oneInCharge(t *testing.T, w *world) {
	before := w.versions(t)
	w.Create(t, &v1alpha1.Federation{
		ObjectMeta: metav1.ObjectMeta{Name: "rival"},
		Spec:       v1alpha1.FederationSpec{Geographies: []v1alpha1.Geography{{Name: "mars"}}},
	})
	w.reconcile(t, "rival")
	w.requireInvalid(t, "rival", `"fleet" is in charge already`)
	w.reconcile(t, "fleet")
	after := w.versions(t)
	delete(after, "Federation rival")
	require.Equal(t, before, after)
}

// Somebody renames a geography by mistake. Its cells are read and expected as before,
// and their cascade keeps what it has.
func geographyRenamed(t *testing.T, w *world) {
	before := w.versions(t)
	f := w.federation(t, "fleet")
	f.Spec.Geographies[0].Name = "asai"
	require.NoError(t, w.Admin.Update(t.Context(), f))
	w.reconcile(t, "fleet")
	w.requireInvalid(t, "fleet", `spec.geographies: ["asai" "europe"] lacks "asia" of Cells ["asia-1" "asia-2"]; nothing in the hub is changed`)
	after := w.versions(t)
	delete(before, "Federation fleet")
	delete(after, "Federation fleet")
	require.Equal(t, before, after, "cells that are read today lost their cascade, or the centrals what to expect")

	f = w.federation(t, "fleet")
	f.Spec.Geographies[0].Name = "asia"
	require.NoError(t, w.Admin.Update(t.Context(), f))
	w.reconcile(t, "fleet")
	require.True(t, meta.IsStatusConditionTrue(w.federation(t, "fleet").Status.Conditions, v1alpha1.ConditionReady))
}

// meanwhile lets somebody write the Federation between our reading and our writing.
type meanwhile struct {
	client.Client
	write func()
}

func (c meanwhile) Status() client.SubResourceWriter {
	c.write()
	return c.Client.Status()
}

// Two operators plan at once: the second one to write has planned from what is no
// longer so, and must not put it over the first one's.
func plansOverNobody(t *testing.T, w *world) {
	w.cell(t, "asia-9", "asia")
	ours := w.r.Client
	w.r.Client = meanwhile{ours, func() {
		f := w.federation(t, "fleet")
		f.Status.Geographies[0].Message = "planned by another"
		require.NoError(t, w.Admin.Status().Update(t.Context(), f))
	}}
	defer func() { w.r.Client = ours }()
	again, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "fleet"}})
	require.NoError(t, err)
	require.Positive(t, again.RequeueAfter)
	require.Equal(t, "planned by another", w.federation(t, "fleet").Status.Geographies[0].Message)
	require.NotContains(t, w.Text(t, "cascade-asia-0"), "asia-9", "a plan was carried out that is not written down")
	w.r.Client = ours
	w.reconcile(t, "fleet")
	require.Contains(t, w.Text(t, "cascade-asia-0"), "asia-9")
	require.NoError(t, w.Admin.Delete(t.Context(), &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: "asia-9"}}))
	w.reconcile(t, "fleet")
}

func relayGoes(t *testing.T, w *world) {
	f := w.federation(t, "fleet")
	f.Spec.Alerting.DingTalk = nil
	require.NoError(t, w.Admin.Update(t.Context(), f))
	w.reconcile(t, "fleet")
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("notify"), &appsv1.Deployment{})))
	require.True(t, apierrors.IsNotFound(w.Admin.Get(t.Context(), testkit.Key("notify"), &corev1.Service{})))
	require.NotContains(t, w.Text(t, "alertmanager"), "oncall")
}

func rightsAreNarrow(t *testing.T, w *world) {
	f := w.federation(t, "fleet")
	before := f.DeepCopy()
	f.Spec.Retention = "1h"
	require.True(t, apierrors.IsForbidden(w.operator.Patch(t.Context(), f, client.MergeFrom(before))), "the spec could be patched")
	require.True(t, apierrors.IsForbidden(w.operator.List(t.Context(), &corev1.SecretList{}, client.InNamespace(deploy.Namespace))))
	require.True(t, apierrors.IsForbidden(w.operator.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "x"}, &corev1.Secret{})))
	elsewhere := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	require.True(t, apierrors.IsForbidden(w.operator.Create(t.Context(), elsewhere)))
}

// staleCache has not seen any Federation yet.
type staleCache struct{ client.Client }

func (c staleCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, about := list.(*v1alpha1.FederationList); about {
		return nil
	}
	return c.Client.List(ctx, list, opts...)
}

// A Federation that only the live read sees: who is in charge is not known.
func waitsForItsCache(t *testing.T, w *world) {
	before := w.versions(t)
	fresh := w.r.Client
	w.r.Client = staleCache{fresh}
	defer func() { w.r.Client = fresh }()
	again, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "fleet"}})
	require.NoError(t, err)
	require.Positive(t, again.RequeueAfter)
	require.Equal(t, before, w.versions(t))
}

// The API refuses such an interval today; an older object can have one.
func TestCheckRefusesAnInterval(t *testing.T) {
	f := &v1alpha1.Federation{ObjectMeta: metav1.ObjectMeta{Name: "fleet", UID: "u"}}
	require.NoError(t, check(f, f))
	f.Spec.IntervalSeconds = ptr.To[int32](41)
	require.ErrorContains(t, check(f, f), "spec.intervalSeconds: interval 41s: must be at most 40s")
}

func TestNewRefuses(t *testing.T) {
	_, err := New(workload.Options{})
	require.ErrorContains(t, err, "required")
}

func (w *world) reconcile(t *testing.T, name string) {
	t.Helper()
	_, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: name}})
	require.NoError(t, err)
}

func (w *world) requireInvalid(t *testing.T, name, text string) {
	t.Helper()
	testkit.RequireReady(t, w.federation(t, name).Status.Conditions, v1alpha1.ReasonInvalid, text)
}
