// Package spread_test has Kubernetes' own scheduler place what is rendered for a
// fleet: servers that stand in for each other go to different nodes and zones, and
// still run where there is one node.
package spread_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/operator/tree"
)

const fleet = `apiVersion: pharos.dev/v1alpha1
kind: Federation
metadata: {name: fleet}
spec:
  geographies: [{name: asia}, {name: europe}]
  alerting: {dingTalk: [{name: oncall, secretName: robot}]}
---
apiVersion: pharos.dev/v1alpha1
kind: Cell
metadata: {name: asia-1}
spec: {geography: asia, region: east, kubeconfigSecret: asia-1, edge: {shards: 2, replicas: 2, endpoints: ["a:9090", "b:9090", "c:9090", "d:9090"]}}
`

// twins are the pods that stand in for each other, of which no two are to be lost
// together. A cascade has no twin.
func twins() [][2]string {
	return [][2]string{
		{"central-a-0", "central-b-0"}, {"alertmanager-0", "alertmanager-1"}, {"edge-0", "edge-0-b-0"}, {"edge-1-a-0", "edge-1-b-0"},
	}
}

var servers testkit.Shared

func TestMain(m *testing.M) { servers.Main(m) }

func TestTwinsAreSpread(t *testing.T) {
	sets := rendered(t)
	for name, c := range map[string]struct {
		nodes []*corev1.Node
		// nodeApart and zoneApart say whether twins are on different ones.
		nodeApart, zoneApart bool
	}{
		"two nodes in two zones":                {[]*corev1.Node{node("a1", "a"), node("b1", "b")}, true, true},
		"many nodes, of which one zone has one": {[]*corev1.Node{node("a1", "a"), node("a2", "a"), node("a3", "a"), node("b1", "b")}, true, true},
		"two nodes in one zone":                 {[]*corev1.Node{node("a1", "a"), node("a2", "a")}, true, false},
		"one node":                              {[]*corev1.Node{node("a1", "a")}, false, false},
		"a second node that takes no pods":      {[]*corev1.Node{node("a1", "a"), node("b1", "b", corev1.Taint{Key: "example.org/kept", Effect: corev1.TaintEffectNoSchedule})}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := servers.World(t)
			w.RunScheduler(t)
			w.Create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: deploy.Namespace}})
			zones := map[string]string{}
			for _, n := range c.nodes {
				zones[n.Name] = n.Labels[corev1.LabelTopologyZone]
				join(t, w, n)
			}
			on := placed(t, w, sets)
			for _, pair := range twins() {
				one, other := on[pair[0]], on[pair[1]]
				require.Equal(t, c.nodeApart, one != other, "%s is on %q and %s on %q", pair[0], one, pair[1], other)
				require.Equal(t, c.zoneApart, zones[one] != zones[other], "%s is in zone %q and %s in %q", pair[0], zones[one], pair[1], zones[other])
			}
		})
	}
}

func node(name, zone string, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelTopologyZone: zone}},
		Spec:       corev1.NodeSpec{Taints: taints},
	}
}

// join plays the kubelet of a node with room for everything, and the controller that
// finds it ready: a new node has a taint until then.
func join(t *testing.T, w *testkit.World, n *corev1.Node) {
	t.Helper()
	taints := n.Spec.Taints
	w.Create(t, n)
	n.Spec.Taints = taints
	require.NoError(t, w.Admin.Update(t.Context(), n))
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("1000"), corev1.ResourceMemory: resource.MustParse("10Ti"), corev1.ResourcePods: resource.MustParse("100"),
	}
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.SetStatus(t, n)
}

// rendered are the StatefulSets of the hub and of a cell, as a repository has them.
func rendered(t *testing.T) []*appsv1.StatefulSet {
	t.Helper()
	file := filepath.Join(t.TempDir(), "fleet.yaml")
	require.NoError(t, os.WriteFile(file, []byte(fleet), 0o600))
	described, err := tree.Read(file, "")
	require.NoError(t, err)
	made, err := tree.New(described, deploy.Namespace)
	require.NoError(t, err)
	var sets []*appsv1.StatefulSet
	require.NoError(t, made.Each(func(f tree.File) error {
		if filepath.Base(filepath.Dir(f.Path)) != "manifests" {
			return nil
		}
		for document := range strings.SplitSeq(string(f.Content), "\n---\n") {
			set := &appsv1.StatefulSet{}
			require.NoError(t, yaml.Unmarshal([]byte(document), set), f.Path)
			if set.Kind == "StatefulSet" {
				sets = append(sets, set)
			}
		}
		return nil
	}))
	return sets
}

// placed makes the pods of all sets, as their controller does, and says on which node
// the scheduler has put each.
func placed(t *testing.T, w *testkit.World, sets []*appsv1.StatefulSet) map[string]string {
	t.Helper()
	var pods []string
	for _, set := range sets {
		for i := range ptr.Deref(set.Spec.Replicas, 1) {
			name := fmt.Sprintf("%s-%d", set.Name, i)
			spec := *set.Spec.Template.Spec.DeepCopy()
			// Where a volume lies is for who provides volumes to say.
			spec.Volumes, spec.Containers[0].VolumeMounts = nil, nil
			w.Create(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name, Labels: set.Spec.Template.Labels}, Spec: spec})
			pods = append(pods, name)
		}
	}
	on := map[string]string{}
	testkit.Await(t, func() error {
		for _, name := range pods {
			p := w.Pod(t, name)
			if on[name] = p.Spec.NodeName; on[name] == "" {
				return fmt.Errorf("%s is on no node: %+v", name, p.Status.Conditions)
			}
		}
		return nil
	})
	return on
}
