package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/edge/agent"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/pki"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

const (
	stateEdge, stateAgent, stateHosted = "127.98.2.1:9090", "127.98.2.2:9096", "127.98.2.3:6443"
	// static is the namespace of Clusters that an edge is told of by name.
	static = "static"
)

// BenchmarkStateOfACell has a stock Prometheus read what a real agent tells of the
// clusters of a cell, at the interval and with the rules of a fleet. One scrape that
// fails makes its cell incomplete for three intervals, so what counts is the longest
// of all, and that none failed. Each round is an interval.
func BenchmarkStateOfACell(b *testing.B) {
	for _, clusters := range []int{100, largestClusters} {
		b.Run(fmt.Sprintf("clusters=%d", clusters), func(b *testing.B) {
			w := testkit.NewWorld(b)
			names := populate(b, w, clusters)
			watch(b, w)
			s := readState(b, names)
			all := func(query string, value float64) {
				testkit.Await(b, func() error { return s.Gives(query, value) })
			}
			all(`count(up{job="state"} == 1)`, float64(len(names)))
			all("cell:state_known:bool", 1)
			begun := time.Now()
			for b.Loop() {
				time.Sleep(interval)
			}
			since := fmt.Sprintf("[%ds]", int(time.Since(begun).Seconds()))
			value := func(query string) float64 { return float64(s.Vector(b, query)[0].Value) }
			b.ReportMetric(1000*value(`max(max_over_time(scrape_duration_seconds{job="state"}`+since+`))`), "ms-longest")
			b.ReportMetric(1000*value(`avg(avg_over_time(scrape_duration_seconds{job="state"}`+since+`))`), "ms-mean")
			b.ReportMetric(value(`sum(scrape_samples_scraped{job="state"})`), "series")
			b.ReportMetric(value(`sum(count_over_time(up{job="state"}`+since+`)) - sum(sum_over_time(up{job="state"}`+since+`))`), "failed")
			b.ReportMetric(value(`sum(count_over_time(up{job="state"}`+since+`))`), "scrapes")
			b.ReportMetric(value(`min(min_over_time(cell:state_known:bool`+since+`))`), "known")
		})
	}
}

// populate makes Clusters, each of which is the same API server.
func populate(b *testing.B, w *testkit.World, clusters int) []string {
	b.Helper()
	ca, err := pki.NewCA("hosted", time.Now())
	require.NoError(b, err)
	host, _, err := net.SplitHostPort(stateHosted)
	require.NoError(b, err)
	pair, err := ca.Serving(host, time.Now(), host)
	require.NoError(b, err)
	testkit.ServeTLS(b, stateHosted, pair, nil, newHosted(b))
	access := testkit.Kubeconfig(b, "https://"+stateHosted, ca.Cert, clientcmdapi.AuthInfo{Token: "observer"})
	w.Create(b, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: static}})
	var names []string
	for i := range clusters {
		name := fmt.Sprintf("cluster-%03d", i)
		names = append(names, name)
		w.Create(b, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: static, Name: name + "-observer"}, Data: map[string][]byte{kube.SecretKeyKubeconfig: []byte(access)},
		})
		w.Create(b, &v1alpha1.Cluster{
			ObjectMeta: metav1.ObjectMeta{Namespace: static, Name: name},
			Spec: v1alpha1.ClusterSpec{
				Profile: "standard", Size: v1alpha1.ClusterSmall, Version: "v1.37.2", ObserverKubeconfigSecret: name + "-observer",
			},
		})
	}
	return names
}

// hosted answers as the API server of a business cluster in which nothing changes.
// Hundreds of real ones would be the load, and not what they are watched for.
type hosted map[string][]byte

func newHosted(b *testing.B) hosted {
	b.Helper()
	list := metav1.ListMeta{ResourceVersion: "7"}
	nodes := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: list}
	pods := corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: list}
	for i := range 10 {
		name := fmt.Sprintf("node-%04d", i)
		nodes.Items = append(nodes.Items, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "7", Labels: map[string]string{corev1.LabelTopologyZone: "zone-a"}},
			Status: corev1.NodeStatus{
				Capacity: resources(), Allocatable: resources(), NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "v1.37.2"},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse}},
			},
		})
		for j := range 3 {
			pods.Items = append(pods.Items, corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: static, Name: fmt.Sprintf("deployment-%04d-6c8b9d7f5-%05d", i, j), ResourceVersion: "7"},
				Spec: corev1.PodSpec{NodeName: name, Containers: []corev1.Container{{
					Name: "web", Image: "web", Resources: corev1.ResourceRequirements{Requests: resources()},
				}}},
				Status: corev1.PodStatus{Phase: corev1.PodRunning},
			})
		}
	}
	out := hosted{}
	for path, of := range map[string]any{"/api/v1/nodes": nodes, "/api/v1/pods": pods} {
		raw, err := json.Marshal(of)
		require.NoError(b, err)
		out[path] = raw
	}
	return out
}

func (h hosted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	of, asked := h[r.URL.Path], r.URL.Query()
	w.Header().Set("Content-Type", "application/json")
	switch {
	case of == nil:
		http.NotFound(w, r)
	case asked.Has("sendInitialEvents"):
		http.Error(w, "streaming lists is unknown here", http.StatusUnprocessableEntity)
	case !asked.Has("watch"):
		_, _ = w.Write(of)
	default:
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		seconds, err := strconv.Atoi(asked.Get("timeoutSeconds"))
		if err != nil {
			seconds = 600
		}
		select {
		case <-r.Context().Done():
		case <-time.After(time.Duration(seconds) * time.Second):
		}
	}
}

func resources() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m"), corev1.ResourceMemory: resource.MustParse("512Mi")}
}

// watch runs the agent of the cell until the benchmark ends.
func watch(b *testing.B, w *testkit.World) {
	b.Helper()
	a, err := agent.New(agent.Options{Cell: w.Config, Listen: stateAgent})
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		require.NoError(b, <-done)
	})
}

// readState runs the edge of the cell.
func readState(b *testing.B, clusters []string) *promtest.Server {
	b.Helper()
	o := edge.Options{
		Geography: "asia", Region: "east", Cell: "asia-1", Replica: "a", Interval: interval,
		Static: &edge.Static{Edges: []string{stateEdge}, Agents: []string{stateAgent}, Business: map[string]string{}},
	}
	for _, name := range clusters {
		o.Static.Business[name] = stateAgent
	}
	files, err := edge.Render(o)
	require.NoError(b, err)
	return promtest.Prometheus(b, stateEdge, files, o.Flags()...).Ready(b)
}
