package ownrules

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/rules/lint"
)

const namespace = "pharos-system"

func configMap(name string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
}

func TestNamedTellsWhatIsNoFile(t *testing.T) {
	binary := configMap("binary", nil)
	binary.BinaryData = map[string][]byte{"a.rules.yaml": {0xff}}
	k := NewKeeper(fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(
		configMap("contract", map[string]string{"contract.yaml": "x", "old.yaml": "y"}),
		configMap("rules", map[string]string{"a.rules.yaml": alert, "README.md": "read me"}),
		configMap("empty", nil), binary,
	).Build(), namespace)
	_, err := k.Named(t.Context(), &v1alpha1.OwnRules{
		ContractConfigMap: "contract", EdgeConfigMaps: []string{"empty", "gone"}, CascadeConfigMaps: []string{"binary"}, CentralConfigMaps: []string{"rules"},
	})
	require.EqualError(t, err, `ConfigMap binary/a.rules.yaml: is no text (binaryData), which no rule file and no contract is
ConfigMap contract/old.yaml: is not read: spec.rules.contractConfigMap is a ConfigMap with the key contract.yaml alone
ConfigMap empty: has no files, but spec.rules.edgeConfigMaps names it; one that says nothing is taken for a mistake
ConfigMap rules/README.md: is no rule file: every key of a ConfigMap in spec.rules.centralConfigMaps ends in .rules.yaml
spec.rules.edgeConfigMaps: there is no ConfigMap gone in namespace pharos-system`)
	_, wrong := errors.AsType[rules.Problems](err)
	require.True(t, wrong)

	s, err := k.Named(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, s.Digest())
}

// Whoever does not get an answer does not know what a ConfigMap has.
func TestNoAnswerIsNoRefusal(t *testing.T) {
	silent := interceptor.NewClient(fake.NewClientBuilder().WithScheme(kube.Scheme()).Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no answer")
		},
	})
	k := NewKeeper(silent, namespace)
	_, err := k.Named(t.Context(), &v1alpha1.OwnRules{EdgeConfigMaps: []string{"team"}})
	require.EqualError(t, err, "reading ConfigMap team of spec.rules.edgeConfigMaps: no answer")
	_, wrong := errors.AsType[rules.Problems](err)
	require.False(t, wrong)
	_, _, err = k.Accepted(t.Context(), "0123")
	require.ErrorContains(t, err, "no answer")
}

// A cell goes by what its Federation has accepted, and by nothing else.
func TestRunningIsWhatWasAccepted(t *testing.T) {
	c := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(configMap("team", map[string]string{"a.rules.yaml": alert})).Build()
	k := NewKeeper(c, namespace)
	f := fleet()
	f.Spec.Rules = &v1alpha1.OwnRules{CentralConfigMaps: []string{"team"}}
	_, err := k.Running(t.Context(), f)
	require.ErrorContains(t, err, "waiting for Federation fleet to say which of its spec.rules are accepted")
	f.Status.ObservedGeneration = 1
	contract, err := k.Running(t.Context(), f)
	require.NoError(t, err)
	require.Nil(t, contract, "what is named was refused from the beginning")

	named, err := k.Named(t.Context(), f.Spec.Rules)
	require.NoError(t, err)
	f.Status.RulesDigest = named.Digest()
	_, err = k.Running(t.Context(), f)
	require.ErrorContains(t, err, "are gone or not whole, so that nothing is changed")

	kept := named.Keep(workload.Place{Namespace: namespace, Labels: map[string]string{"pharos.dev/federation": "fleet"}})
	require.Len(t, kept, 1)
	require.NoError(t, c.Apply(t.Context(), kept[0], client.FieldOwner("test")))
	require.Equal(t, named.Digest(), Left(map[string]bool{workload.Identity(kept[0]): true, "ConfigMap central-a": true}))
	contract, err = k.Running(t.Context(), f)
	require.NoError(t, err)
	files, err := contract.Files(rules.Central, workload.Interval(f), nil)
	require.NoError(t, err)
	require.Equal(t, alert, string(files["own-a.rules.yaml"]))

	require.NoError(t, c.Delete(t.Context(), configMap("team", nil)))
	again, err := k.Running(t.Context(), f)
	require.NoError(t, err)
	require.Same(t, contract, again, "checked once")
	other := "ConfigMap " + keptName("0123456789abcdef0123", "edge")
	require.Empty(t, Left(map[string]bool{workload.Identity(kept[0]): true, other: true}), "one of two is a guess")
}

// Accepted by an earlier version, and wrong for this one.
func TestWhatFitsNoMoreStopsEverything(t *testing.T) {
	raw := alert + "        bogus: 1\n"
	old := configMap("team", map[string]string{"a.rules.yaml": raw})
	k := NewKeeper(fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(old).Build(), namespace)
	s, err := k.Named(t.Context(), &v1alpha1.OwnRules{CentralConfigMaps: []string{"team"}})
	require.NoError(t, err)
	_, err = k.Check(fleet(), s)
	require.ErrorContains(t, err, "ConfigMap team/a.rules.yaml:11: ")
	k = NewKeeper(fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(configMap(keptName(s.Digest(), "central"), old.Data)).Build(), namespace)
	_, _, err = k.Accepted(t.Context(), s.Digest())
	require.ErrorContains(t, err, "do not fit this version of Pharos, so that nothing is changed")
	require.ErrorContains(t, err, ".central/a.rules.yaml:11: ")
}

// An API server that hangs keeps nobody longer than he waits, and one who gives up takes
// the answer from nobody.
func TestNobodyWaitsForAnother(t *testing.T) {
	s := atCentral(lint.File{Name: "a.rules.yaml", Content: []byte(alert)})
	there := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithObjects(configMap(keptName(s.Digest(), "central"), map[string]string{"a.rules.yaml": alert})).Build()
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	var reads atomic.Int32
	k := NewKeeper(interceptor.NewClient(there, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if reads.Add(1) == 1 {
				asked <- struct{}{}
				<-answer
			}
			return errors.Join(ctx.Err(), c.Get(ctx, key, o, opts...))
		},
	}), namespace)
	impatient, giveUp := context.WithCancel(t.Context())
	gaveUp, served := make(chan error, 1), make(chan error, 1)
	go func() { _, _, err := k.Accepted(impatient, s.Digest()); gaveUp <- err }()
	<-asked
	go func() { _, _, err := k.Accepted(t.Context(), s.Digest()); served <- err }()
	_, err := k.Check(fleet(), Set{})
	require.NoError(t, err, "what is not kept waits for no reading")
	giveUp()
	require.ErrorIs(t, <-gaveUp, context.Canceled)
	close(answer)
	require.NoError(t, <-served)
	require.EqualValues(t, 4, reads.Load(), "the parts are read once")
}
