package federation

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// recovered is the message of a geography whose plan was lost.
const recovered = "the plan was lost with the status, and is what the cascades read"

// recover finds the plan of geographies of which the status says nothing in what
// their cascades were given. A status is lost when a Federation is made anew over
// what runs, or is restored from a backup; cells would be placed by name, and leave
// all at once the shards that have heard them.
func (r *Reconciler) recover(ctx context.Context, f *v1alpha1.Federation) error {
	lost := slices.ContainsFunc(f.Spec.Geographies, func(g v1alpha1.Geography) bool { return geography(f, g.Name) == nil })
	if !lost {
		return nil
	}
	var given corev1.ConfigMapList
	err := r.Live.List(ctx, &given, client.InNamespace(r.Namespace), client.MatchingLabels{
		LabelFederation: f.Name, v1alpha1.LabelManagedBy: "pharos", v1alpha1.LabelComponent: v1alpha1.ComponentCascade,
	})
	if err != nil {
		return fmt.Errorf("looking for the shard plan in what runs: %w", err)
	}
	found, err := planOf(given.Items)
	if err != nil {
		return err
	}
	for _, g := range f.Spec.Geographies {
		if status, runs := found[g.Name]; runs && geography(f, g.Name) == nil {
			f.Status.Geographies = append(f.Status.Geographies, status)
			r.Log.InfoContext(ctx, "shard plan found in what runs", slog.String("geography", g.Name), slog.Int("cells", len(status.Cells)))
		}
	}
	return nil
}

// reading is which shards read a cell, and which parts it has.
type reading struct {
	shards []int32
	parts  map[string]bool
}

// planOf is the plan that the files of cascades were rendered from, by geography. A
// cell that two of them read moves: which way is not known and does not matter,
// because it stays with both until the one that it goes to is warm.
func planOf(given []corev1.ConfigMap) (map[string]v1alpha1.GeographyStatus, error) {
	cells := map[string]map[string]*reading{}
	shards := map[string][]int32{}
	for _, files := range given {
		name := files.Labels[v1alpha1.LabelGeography]
		number, err := strconv.ParseInt(files.Labels[v1alpha1.LabelShard], 10, 32)
		if err == nil {
			shards[name] = append(shards[name], int32(number))
			if cells[name] == nil {
				cells[name] = map[string]*reading{}
			}
			err = reads(files.Data, int32(number), cells[name])
		}
		if err != nil {
			return nil, workload.Invalidf("status.geographies: is lost, and what the cascades read cannot be seen in ConfigMap %s: %w; nothing in the hub is changed meanwhile, so that no cell "+
				"leaves its cascade. Put the ConfigMap back as it was, or delete it: its cells are then placed anew", files.Name, err)
		}
	}
	out := map[string]v1alpha1.GeographyStatus{}
	for name, read := range cells {
		status := v1alpha1.GeographyStatus{Name: name, Message: recovered, Shards: distinct(shards[name])}
		for _, cell := range slices.Sorted(maps.Keys(read)) {
			at := distinct(read[cell].shards)
			placed := v1alpha1.CellPlacement{Name: cell, Shard: at[0]}
			if len(at) > 1 {
				placed.MovingTo = ptr.To(at[1])
				status.Moving++
			}
			record(&placed, workload.Division{Shards: uint(len(read[cell].parts))})
			status.Cells = append(status.Cells, placed)
		}
		out[name] = status
	}
	return out, nil
}

func distinct(numbers []int32) []int32 {
	return slices.Compact(slices.Sorted(slices.Values(numbers)))
}

// reads adds the cells that a cascade's files tell it to expect.
func reads(files map[string]string, shard int32, cells map[string]*reading) error {
	for name, text := range files {
		if !strings.HasPrefix(name, strings.TrimSuffix(rules.TopologyFileName, rules.FileSuffix)) {
			continue
		}
		var parsed rulefmt.RuleGroups
		if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for _, g := range parsed.Groups {
			for _, rule := range g.Rules {
				if rule.Record == "geography:edge_expected:info" {
					expect(cells, shard, rule.Labels)
				}
			}
		}
	}
	return nil
}

// expect adds one part of a cell.
func expect(cells map[string]*reading, shard int32, labels map[string]string) {
	cell := labels["cell"]
	if cells[cell] == nil {
		cells[cell] = &reading{parts: map[string]bool{}}
	}
	cells[cell].shards = append(cells[cell].shards, shard)
	cells[cell].parts[labels[rules.LabelEdgeShard]] = true
}
