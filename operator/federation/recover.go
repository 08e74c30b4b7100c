package federation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
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
	lost := map[string]bool{}
	for _, g := range f.Spec.Geographies {
		if geography(f, g.Name) == nil {
			lost[g.Name] = true
		}
	}
	if len(lost) == 0 {
		return nil
	}
	var sets appsv1.StatefulSetList
	var given corev1.ConfigMapList
	of := []client.ListOption{client.InNamespace(r.Namespace), client.MatchingLabels{
		LabelFederation: f.Name, v1alpha1.LabelManagedBy: "pharos", v1alpha1.LabelComponent: v1alpha1.ComponentCascade,
	}}
	if err := errors.Join(r.Live.List(ctx, &sets, of...), r.Live.List(ctx, &given, of...)); err != nil {
		return fmt.Errorf("looking for the shard plan in what runs: %w", err)
	}
	if len(f.Status.Geographies) == 0 { // then one that cells are leaving is lost as well
		for _, s := range sets.Items {
			lost[s.Labels[v1alpha1.LabelGeography]] = true
		}
	}
	found, err := planOf(lost, sets.Items, given.Items)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		f.Status.Geographies = append(f.Status.Geographies, found[name])
		r.Log.InfoContext(ctx, "shard plan found in what runs", slog.String("geography", name), slog.Int("cells", len(found[name].Cells)))
	}
	return nil
}

// reading is which shards read a cell, and which parts it has.
type reading struct {
	shards []int32
	parts  map[string]bool
}

// planOf is the plan that the files of the cascades of some geographies were rendered
// from. All files of each cascade have to be there: those that are not may name more cells.
func planOf(geographies map[string]bool, sets []appsv1.StatefulSet, given []corev1.ConfigMap) (map[string]v1alpha1.GeographyStatus, error) {
	files, of := map[string]map[string]string{}, map[string]map[string]string{}
	for _, s := range sets {
		files[s.Name], of[s.Name] = map[string]string{}, s.Labels
	}
	for _, g := range given {
		name := workload.OwnerOf(g.Name)
		if files[name] == nil {
			files[name], of[name] = map[string]string{}, g.Labels
		}
		maps.Copy(files[name], g.Data)
	}
	cells, shards := map[string]map[string]*reading{}, map[string][]int32{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		in := of[name][v1alpha1.LabelGeography]
		if !geographies[in] {
			continue
		}
		number, err := strconv.ParseInt(of[name][v1alpha1.LabelShard], 10, 32)
		if cells[in] == nil {
			cells[in] = map[string]*reading{}
		}
		if err == nil {
			shards[in] = append(shards[in], int32(number))
			err = reads(files[name], int32(number), cells[in])
		}
		if err != nil {
			return nil, workload.Invalidf("status.geographies: is lost, and what the cascades read cannot be seen in ConfigMap %[1]s and those whose names begin with %[1]s. (with a dot): %[2]w; "+
				"nothing in the hub is changed meanwhile, so that no cell leaves its cascade. Put them back as they were, or delete them and StatefulSet %[1]s: its cells are then placed anew", name, err)
		}
	}
	out := map[string]v1alpha1.GeographyStatus{}
	for name, read := range cells {
		out[name] = asRead(name, shards[name], read)
	}
	return out, nil
}

// asRead is the plan of a geography by who reads what. A cell that two shards read moves:
// which way is not known and does not matter, because it stays with both until the
// one that it goes to is warm.
func asRead(geography string, shards []int32, read map[string]*reading) v1alpha1.GeographyStatus {
	status := v1alpha1.GeographyStatus{Name: geography, Message: recovered, Shards: distinct(shards)}
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
	return status
}

func distinct(numbers []int32) []int32 {
	return slices.Compact(slices.Sorted(slices.Values(numbers)))
}

// reads adds the cells that a cascade's files tell it to expect.
func reads(files map[string]string, shard int32, cells map[string]*reading) error {
	var config struct {
		RuleFiles []string `yaml:"rule_files"`
	}
	if err := yaml.Unmarshal([]byte(files[promcfg.ConfigFile]), &config); err != nil {
		return fmt.Errorf("%s: %w", promcfg.ConfigFile, err)
	}
	if len(config.RuleFiles) == 0 {
		return fmt.Errorf("%s: is not there, or names no rule files", promcfg.ConfigFile)
	}
	for _, name := range config.RuleFiles {
		if !strings.HasPrefix(name, strings.TrimSuffix(rules.TopologyFileName, rules.FileSuffix)) {
			continue
		}
		text, there := files[name]
		if !there {
			return fmt.Errorf("%s: is not there, and %s names it", name, promcfg.ConfigFile)
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
