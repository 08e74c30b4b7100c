package agent

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/rules"
)

// strangeState has names and values that a text format may stumble over.
func strangeState(t *testing.T) state {
	t.Helper()
	const strange = "a\"b\\c\nd{}= 北京\xff"
	s := largeState(2, 3, 20)
	n := nodeNamed("n-strange")
	n.Spec.ProviderID, n.Status.NodeInfo.OSImage = strange, strings.Repeat("北", 400)
	n.Labels[corev1.LabelTopologyZone] = strange
	n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: strange, Status: strange})
	n.Status.Capacity[strange] = n.Status.Capacity["pods"]
	s.clusters[0].nodes = append(s.clusters[0].nodes, drawnNode(t, n))
	p := podNamed("default", "p-strange", "n-strange")
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "web", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: strange}},
		LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: strange}},
	}}
	s.clusters[0].pods = append(slices.Clone(s.clusters[0].pods), drawnPod(t, p))
	s.clusters[1].spec.Spec.Profile = strange
	s.clusters[1].certificates = born.Time
	s.clusters[1].answers, s.clusters[1].answersKnown = true, true
	s.machines = append(s.machines, machineOfCluster{Machine: &v1alpha1.Machine{Spec: v1alpha1.MachineSpec{ClusterName: "cluster-00", Pool: strange}}})
	s.clusters = append(s.clusters, clusterState{name: metaCluster, view: view{up: true, pods: s.clusters[1].pods}})
	return s
}

// What we write by hand is read by the two parsers there are: the one of the
// client library, which sees each family once or fails, and Prometheus' own.
func TestStateIsReadBack(t *testing.T) {
	text := written(t, strangeState(t))
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	require.NoError(t, err)
	samples := 0
	for name, f := range families {
		require.NotEmpty(t, f.GetHelp(), name)
		require.Equal(t, strings.HasSuffix(name, "_total"), f.GetType().String() == "COUNTER", name)
		samples += len(f.GetMetric())
	}
	require.Contains(t, families, "pharos_cell_addresses_used")

	seen, names := readByPrometheus(t, []byte(text))
	require.Len(t, seen, samples)
	require.Len(t, slices.Compact(names), len(families), "the samples of a family are together")
}

// Whatever the contract says that rules may read of object state is exported,
// under its name and with its labels.
func TestStateHasWhatTheContractDeclares(t *testing.T) {
	contract, err := rules.Load()
	require.NoError(t, err)
	labelsOf := map[string]map[string]bool{}
	seen, _ := readByPrometheus(t, []byte(written(t, strangeState(t))))
	for _, series := range seen {
		name := series.Get(model.MetricNameLabel)
		if labelsOf[name] == nil {
			// The edge adds the label of the target where a series has none.
			labelsOf[name] = map[string]bool{"cluster": true}
		}
		series.Range(func(l labels.Label) { labelsOf[name][l.Name] = true })
	}
	declared := 0
	for _, raw := range contract.Raw {
		if (raw.Source != componentState && raw.Source != "edge-agent") || strings.HasPrefix(raw.Name, "pharos_edge_agent_") {
			continue
		}
		declared++
		require.Contains(t, labelsOf, raw.Name)
		for _, label := range raw.Labels {
			require.Contains(t, labelsOf[raw.Name], label, raw.Name)
		}
	}
	require.NotZero(t, declared)
}

// readByPrometheus returns the series, and the names of the metrics in their order.
func readByPrometheus(t *testing.T, text []byte) (seen map[string]labels.Labels, names []string) {
	t.Helper()
	p, err := textparse.New(text, "text/plain; version=0.0.4", labels.NewSymbolTable(), textparse.ParserOptions{})
	require.NoError(t, err)
	seen = map[string]labels.Labels{}
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return seen, names
		}
		require.NoError(t, err)
		if entry != textparse.EntrySeries {
			continue
		}
		var series labels.Labels
		p.Labels(&series)
		require.NotContains(t, seen, series.String(), "each series once")
		require.Contains(t, []string{"", unitCore, unitByte, unitInteger}, series.Get("unit"))
		seen[series.String()] = series
		names = append(names, series.Get(model.MetricNameLabel))
	}
}

// A reader that asks for less than it could still gets the same bytes each time.
func TestStateIsTheSameEachTime(t *testing.T) {
	s := strangeState(t)
	require.True(t, bytes.Equal([]byte(written(t, s)), []byte(written(t, s))))
}
