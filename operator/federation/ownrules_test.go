package federation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/rules/lint/linttest"
)

// ownAlert is a rule file for centrals.
const ownAlert = `groups:
  - name: images
    rules:
      - alert: ImagesMissing
        expr: max by (geography, region, cell, cluster) (cluster:pods_without_image:count) > 3
        labels: {severity: warning}
        annotations:
          summary: Images cannot be had in cluster {{ $labels.cluster }} of {{ $labels.cell }}.
          description: "{{ $value }} containers wait for their image."
          runbook_url: https://runbooks.example.org/ImagesMissing
`

// give puts a file of the team's into a ConfigMap of its own, in the place of whatever
// was there.
func (w *world) give(t *testing.T, name, key, content string) {
	t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name}}
	require.NoError(t, client.IgnoreNotFound(w.Admin.Delete(t.Context(), cm)))
	w.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name}, Data: map[string]string{key: content}})
}

// respec changes the spec of the fleet.
func (w *world) respec(t *testing.T, change func(*v1alpha1.FederationSpec)) {
	t.Helper()
	f := w.federation(t, "fleet")
	change(&f.Spec)
	require.NoError(t, w.Admin.Update(t.Context(), f))
}

// judged is what is said of the rules that the fleet names.
func (w *world) judged(t *testing.T) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(w.federation(t, "fleet").Status.Conditions, v1alpha1.ConditionRulesAccepted)
	require.NotNil(t, c)
	return *c
}

// kept are the ConfigMaps with rules that were accepted.
func (w *world) kept(t *testing.T) []string {
	t.Helper()
	var all corev1.ConfigMapList
	require.NoError(t, w.Admin.List(t.Context(), &all, client.InNamespace(deploy.Namespace)))
	var names []string
	for _, cm := range all.Items {
		if strings.HasPrefix(cm.Name, "own-rules-") {
			names = append(names, cm.Name)
		}
	}
	return names
}

// ownOf is what a server of the hub runs of the team's alert.
func (w *world) ownOf(t *testing.T, server string) string {
	t.Helper()
	return w.ConfigMap(t, server).Data["own-images.rules.yaml"]
}

func ownRulesRun(t *testing.T, w *world) {
	builtIn, err := rules.ContractSource()
	require.NoError(t, err)
	w.give(t, "team-contract", "contract.yaml", strings.Replace(string(builtIn), "series:\n", linttest.Series, 1))
	w.give(t, "team-edge", "images.rules.yaml", linttest.Record)
	w.give(t, "team-central", "images.rules.yaml", ownAlert)
	w.respec(t, func(s *v1alpha1.FederationSpec) {
		s.Rules = &v1alpha1.OwnRules{ContractConfigMap: "team-contract", EdgeConfigMaps: []string{"team-edge"}, CentralConfigMaps: []string{"team-central"}}
	})
	w.reconcile(t, "fleet")
	require.Equal(t, ownAlert, w.ownOf(t, "central-a"))
	require.NotContains(t, w.ConfigMap(t, "cascade-asia-0").Data, "own-images.rules.yaml", "the folder of another tier")
	require.Contains(t, w.ConfigMap(t, "cascade-asia-0").Data["prometheus.yml"], "cluster:pods_without_image:count", "what is declared crosses")
	files := map[string][]byte{}
	for name, content := range w.ConfigMap(t, "central-a").Data {
		files[name] = []byte(content)
	}
	promcfgtest.Check(t, files)

	f := w.federation(t, "fleet")
	require.Equal(t, metav1.ConditionTrue, w.judged(t).Status)
	require.Equal(t, f.Generation, w.judged(t).ObservedGeneration)
	prefix := "own-rules-" + f.Status.RulesDigest + "."
	require.Equal(t, []string{prefix + "central", prefix + "contract", prefix + "edge"}, w.kept(t))
	require.True(t, *w.ConfigMap(t, prefix+"edge").Immutable)
	w.reconcile(t, "fleet") // central-b waits for central-a, and that is told anew
	before := w.versions(t)
	w.reconcile(t, "fleet")
	require.Equal(t, before, w.versions(t), "nothing is changed twice")
}

// Whoever takes away a copy and makes it again, edited, has no say in what runs: it is
// made as it was accepted, for cells read it, and so does the next operator.
func editedCopiesAreMadeAnew(t *testing.T, w *world) {
	name := "own-rules-" + w.federation(t, "fleet").Status.RulesDigest + ".edge"
	was := w.ConfigMap(t, name)
	require.NoError(t, w.Admin.Delete(t.Context(), was.DeepCopy()))
	w.Create(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name, Labels: was.Labels, OwnerReferences: was.OwnerReferences},
		Data:       map[string]string{"images.rules.yaml": "groups: []"},
	})
	w.reconcile(t, "fleet")
	require.Equal(t, was.Data, w.ConfigMap(t, name).Data)
	require.True(t, *w.ConfigMap(t, name).Immutable)
	require.Equal(t, was.Labels, w.ConfigMap(t, name).Labels)
}

// A mistake in one ConfigMap, or none of that name, must neither take away what runs nor
// hold up another change, whatever the operator remembers.
func wrongRulesHold(t *testing.T, w *world) {
	digest := w.federation(t, "fleet").Status.RulesDigest
	for _, c := range []struct {
		name  string
		wrong func()
		tells []string
	}{
		{"a rule that does not fit", func() {
			w.give(t, "team-central", "images.rules.yaml", strings.ReplaceAll(ownAlert, "pods_without_image", "pods_of_nobody"))
		},
			[]string{"what was accepted before goes on; refused is\nConfigMap team-central/images.rules.yaml:5: ", "cluster:pods_of_nobody:count"}},
		{"it has gone", func() { require.NoError(t, w.Admin.Delete(t.Context(), w.ConfigMap(t, "team-central"))) },
			[]string{"spec.rules.centralConfigMaps: there is no ConfigMap team-central in namespace pharos-system"}},
		{"the status is lost, too", func() {
			f := w.federation(t, "fleet")
			f.Status.RulesDigest = ""
			w.SetStatus(t, f)
		}, []string{"there is no ConfigMap team-central"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.wrong()
			interval := *w.federation(t, "fleet").Spec.IntervalSeconds + 1
			w.respec(t, func(s *v1alpha1.FederationSpec) { s.IntervalSeconds = &interval })
			w.anew(t)
			w.reconcile(t, "fleet")
			require.Equal(t, ownAlert, w.ownOf(t, "central-a"))
			require.Contains(t, w.ConfigMap(t, "central-a").Data["prometheus.yml"], fmt.Sprintf("scrape_interval: %ds", interval), "another change waited")
			require.Equal(t, digest, w.federation(t, "fleet").Status.RulesDigest)
			judged := w.judged(t)
			require.Equal(t, metav1.ConditionFalse, judged.Status)
			require.Equal(t, v1alpha1.ReasonRefused, judged.Reason)
			for _, text := range c.tells {
				require.Contains(t, judged.Message, text)
			}
			ready := meta.FindStatusCondition(w.federation(t, "fleet").Status.Conditions, v1alpha1.ConditionReady)
			require.Contains(t, ready.Message, "what spec.rules names is refused (condition RulesAccepted says why)")
			require.NotEqual(t, v1alpha1.ReasonInvalid, ready.Reason)
			require.Len(t, w.kept(t), 3)
			require.InDelta(t, 1, testutil.ToFloat64(w.r.refused.WithLabelValues("fleet")), 0)
		})
	}
}

// Where nobody knows any more what was accepted, nothing is taken away and nothing done.
func lostRulesStop(t *testing.T, w *world) {
	var copies []corev1.ConfigMap
	for _, name := range w.kept(t) {
		cm := w.ConfigMap(t, name)
		copies = append(copies, *cm.DeepCopy())
		require.NoError(t, w.Admin.Delete(t.Context(), cm))
	}
	w.anew(t)
	w.respec(t, func(s *v1alpha1.FederationSpec) { s.IntervalSeconds = ptr.To[int32](30) })
	before := w.ConfigMap(t, "central-a").ResourceVersion
	w.reconcile(t, "fleet")
	w.requireInvalid(t, "fleet", "are gone or not whole, so that nothing is changed: put right what spec.rules of the Federation names")
	w.requireInvalid(t, "fleet", "there is no ConfigMap team-central")
	require.Equal(t, before, w.ConfigMap(t, "central-a").ResourceVersion)
	for _, cm := range copies {
		cm.ResourceVersion, cm.UID = "", ""
		w.Create(t, &cm)
	}
	w.reconcile(t, "fleet")
	require.Equal(t, ownAlert, w.ownOf(t, "central-a"))
	w.respec(t, func(s *v1alpha1.FederationSpec) { s.IntervalSeconds = ptr.To[int32](5) })
}

func rulesTakenOut(t *testing.T, w *world) {
	before := w.kept(t)
	other := strings.Replace(ownAlert, "> 3", "> 4", 1)
	w.give(t, "team-central", "images.rules.yaml", other)
	w.reconcile(t, "fleet")
	require.Equal(t, other, w.ownOf(t, "central-a"))
	require.Equal(t, metav1.ConditionTrue, w.judged(t).Status)
	require.Zero(t, testutil.CollectAndCount(w.r.refused))
	require.Len(t, w.kept(t), 6)
	require.Subset(t, w.kept(t), before, "cells may read yet what ran before")
	w.reconcile(t, "fleet")
	require.Len(t, w.kept(t), 3)
	require.NotSubset(t, before, w.kept(t), "what does not run any more goes")

	w.respec(t, func(s *v1alpha1.FederationSpec) { s.Rules = nil })
	w.reconcile(t, "fleet")
	require.Empty(t, w.ownOf(t, "central-a"))
	w.reconcile(t, "fleet")
	require.Empty(t, w.kept(t))
	f := w.federation(t, "fleet")
	require.Empty(t, f.Status.RulesDigest)
	require.Nil(t, meta.FindStatusCondition(f.Status.Conditions, v1alpha1.ConditionRulesAccepted))
	require.Equal(t, other, w.ConfigMap(t, "team-central").Data["images.rules.yaml"], "what a person made is left alone")
	for _, name := range []string{"team-contract", "team-edge", "team-central"} {
		require.NoError(t, w.Admin.Delete(t.Context(), w.ConfigMap(t, name)))
	}
	w.reconcile(t, "fleet") // central-b waits for central-a, and that is told anew
}
