package workload

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

// line is a place with three servers that stand in for nobody, and one beside them of
// which there could be a second. All of them serve.
type line struct {
	Place
	client client.WithWatch
	turns  Turns
}

// wanted is what the servers are to have.
func (l line) wanted(image, text string) (all Objects) {
	for _, name := range []string{"cascade-a", "cascade-b", "cascade-c", "central-a"} {
		part := Part{Name: name, Component: "c", Labels: map[string]string{v1alpha1.LabelReplica: name}, Image: image, Port: PrometheusPort}
		all = append(all, l.PrometheusServer(Server{
			Part: part, Retention: "2d", Files: map[string][]byte{"prometheus.yml": []byte(text)}, Size: Size{Volume: resource.MustParse("1Gi")},
		})...)
	}
	return all
}

// apiServer is one that can be asked what it would write: it writes that into a copy of
// what it has.
func apiServer(has ...client.Object) client.WithWatch {
	c := fake.NewClientBuilder().WithScheme(kube.Scheme()).WithStatusSubresource(&appsv1.StatefulSet{}, &corev1.Pod{}).WithObjects(has...).Build()
	return interceptor.NewClient(c, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if !isDry(opts) {
				return c.Apply(ctx, o, opts...)
			}
			var sets appsv1.StatefulSetList
			var files corev1.ConfigMapList
			if err := errors.Join(c.List(ctx, &sets), c.List(ctx, &files)); err != nil {
				return err
			}
			var has []client.Object
			for i := range sets.Items {
				has = append(has, &sets.Items[i])
			}
			for i := range files.Items {
				has = append(has, &files.Items[i])
			}
			return apiServer(has...).Apply(ctx, o, client.FieldOwner(FieldOwner), client.ForceOwnership)
		},
	})
}

func isDry(opts []client.ApplyOption) bool {
	var asked client.ApplyOptions
	asked.ApplyOptions(opts)
	return len(asked.DryRun) > 0
}

func newLine(t *testing.T) line {
	t.Helper()
	l := line{
		Place:  Place{Namespace: "pharos-system", Labels: map[string]string{"of": "fleet"}},
		client: apiServer(),
		turns: Turns{
			Row: []string{"cascade-a", "cascade-b", "cascade-c"}, Pairs: []Pair{{"central-a", "central-b"}}, Of: &v1alpha1.Federation{ObjectMeta: metav1.ObjectMeta{Name: "fleet"}},
			RowLacks: func(context.Context, string, Observation) Lack { return Lack{} },
		},
	}
	_, err := l.ApplyInTurn(t.Context(), l.client, l.client, nil, l.wanted("old", "old"), l.turns)
	require.NoError(t, err)
	var sets appsv1.StatefulSetList
	require.NoError(t, l.client.List(t.Context(), &sets))
	require.Len(t, sets.Items, 4)
	for _, s := range sets.Items {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-0", Labels: s.Spec.Template.Labels}}
		require.NoError(t, l.client.Create(t.Context(), pod))
		pod.Status.PodIP, pod.Status.Conditions = "127.0.0.1", []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		require.NoError(t, l.client.Status().Update(t.Context(), pod))
	}
	return l
}

// has is the image of a server, and what is in its files.
func (l line) has(t *testing.T, server string) [2]string {
	t.Helper()
	var s appsv1.StatefulSet
	var files corev1.ConfigMap
	key := client.ObjectKey{Namespace: l.Namespace, Name: server}
	require.NoError(t, l.client.Get(t.Context(), key, &s))
	require.NoError(t, l.client.Get(t.Context(), key, &files))
	return [2]string{s.Spec.Template.Spec.Containers[0].Image, files.Data["prometheus.yml"]}
}

// A server that the API server lets nobody look at, or write, keeps no file from the
// others, nor the pair from its turn. Of the row nothing is restarted beside it.
func TestOneServerThatCannotBeChangedKeepsNothingFromTheOthers(t *testing.T) {
	denied := errors.New("an admission webhook denies it")
	for name, broken := range map[string]interceptor.Funcs{
		"looked at": {Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key.Name == "cascade-b" {
				return denied
			}
			return c.Get(ctx, key, o, opts...)
		}},
		"written": {Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			if Name(o) == "cascade-b" && !isDry(opts) {
				return denied
			}
			return c.Apply(ctx, o, opts...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t)
			c := interceptor.NewClient(l.client, broken)
			_, err := l.ApplyInTurn(t.Context(), c, l.client, nil, l.wanted("new", "new"), l.turns)
			require.ErrorContains(t, err, "an admission webhook denies it")
			require.Equal(t, [2]string{"old", "new"}, l.has(t, "cascade-a"))
			require.Equal(t, [2]string{"old", "old"}, l.has(t, "cascade-b"))
			require.Equal(t, [2]string{"old", "new"}, l.has(t, "cascade-c"))
			require.Equal(t, [2]string{"new", "new"}, l.has(t, "central-a"))
		})
	}
}

// Addresses change while a person reads what waits.
func TestAPersonAgreesToARestartWhateverBecomesOfTheFiles(t *testing.T) {
	l := line{}
	now, later, other := l.wanted("new", "one")[:2], l.wanted("new", "two")[:2], l.wanted("newer", "one")[:2]
	require.Equal(t, changeName("cascade-a", now), changeName("cascade-a", later))
	require.NotEqual(t, changeName("cascade-a", now), changeName("cascade-a", other))
	require.NotEqual(t, changeName("cascade-a", now[:1]), changeName("cascade-a", later[:1]), "where nothing is restarted, he agrees to the files")
}
