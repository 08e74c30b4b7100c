package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

func newRulesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rules", Short: "Work with the recording and alerting rules of the tiers", Args: cobra.NoArgs}
	cmd.AddCommand(newRulesExportCommand())
	return cmd
}

// ruleExport is what the command exports, as flags say it.
type ruleExport struct {
	rules.Export
	tier, size string
	capacity   map[string]string
}

func newRulesExportCommand() *cobra.Command {
	var from ruleExport
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the rules of a tier as PrometheusRule objects, for a Prometheus that the Prometheus Operator runs",
		Long: `Print the rules of a tier as PrometheusRule objects, one for each subject, for a Prometheus that the Prometheus Operator runs: an edge
that is External, for example. The objects of an edge are complete, and look only at series with the label cluster, so that what the Prometheus
scrapes of its own cluster does not count. Those of a cascade or a central read what follows from the fleet's topology, which their rendered
configuration brings.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			export, err := from.checked()
			if err != nil {
				return err
			}
			raw, err := rules.PrometheusRules(rules.Tier(from.tier), export)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(raw)
			return err
		},
	}
	cmd.Flags().StringVar(&from.tier, "tier", "", "tier whose rules are printed: edge, cascade or central")
	cmd.Flags().DurationVar(&from.Interval, "interval", 30*time.Second, "interval of the fleet, at which the rules are evaluated")
	cmd.Flags().StringVar(&from.Namespace, "namespace", "", "namespace of the objects (default: that of who applies them)")
	cmd.Flags().StringToStringVar(&from.Labels, "label", nil, "label of the objects as key=value; may be given several times")
	cmd.Flags().StringVar(&from.size, "size", "", "of an edge: size of its cell, Small, Medium or Large (default Medium)")
	cmd.Flags().StringToStringVar(&from.capacity, "capacity", nil,
		"of an edge: how much its cell has of what can run out, as pool=limit, where pool is addresses or clusters; may be given several times")
	return cmd
}

// checked refuses what a cluster or a Prometheus would refuse later.
func (e ruleExport) checked() (rules.Export, error) {
	var errs []error
	if !slices.Contains(rules.Tiers(), rules.Tier(e.tier)) {
		errs = append(errs, fmt.Errorf("--tier %q: must be one of %q", e.tier, rules.Tiers()))
	}
	if err := promcfg.CheckInterval(e.Interval); err != nil {
		errs = append(errs, fmt.Errorf("--interval: %w", err))
	}
	if wrong := validation.IsDNS1123Label(e.Namespace); e.Namespace != "" && len(wrong) > 0 {
		errs = append(errs, fmt.Errorf("--namespace %q: %s", e.Namespace, strings.Join(wrong, "; ")))
	}
	for _, key := range slices.Sorted(maps.Keys(e.Labels)) {
		wrong := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(e.Labels[key]))
		if len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("--label %s=%s: %s", key, e.Labels[key], strings.Join(wrong, "; ")))
		}
	}
	topology, err := e.topology()
	if e.tier == string(rules.Edge) {
		e.Topology = topology
	} else if e.size != "" || len(e.capacity) > 0 {
		err = fmt.Errorf("--size, --capacity: are those of the cell of an edge, and the tier is %q", e.tier)
	}
	return e.Export, errors.Join(append(errs, err)...)
}

// topology is what the rules of an edge must know of its cell.
func (e ruleExport) topology() ([]rules.Constant, error) {
	var errs []error
	o := edge.Options{Interval: e.Interval, Size: v1alpha1.CellSize(e.size), Capacity: map[string]float64{}}
	if !slices.Contains([]v1alpha1.CellSize{"", v1alpha1.CellSmall, v1alpha1.CellMedium, v1alpha1.CellLarge}, o.Size) {
		errs = append(errs, fmt.Errorf("--size %q: must be %s, %s or %s", e.size, v1alpha1.CellSmall, v1alpha1.CellMedium, v1alpha1.CellLarge))
	}
	for _, pool := range slices.Sorted(maps.Keys(e.capacity)) {
		if !slices.Contains([]v1alpha1.CapacityPoolName{v1alpha1.PoolAddresses, v1alpha1.PoolClusters}, v1alpha1.CapacityPoolName(pool)) {
			errs = append(errs, fmt.Errorf("--capacity %s=%s: the pool must be %s or %s", pool, e.capacity[pool], v1alpha1.PoolAddresses, v1alpha1.PoolClusters))
			continue
		}
		limit, err := resource.ParseQuantity(e.capacity[pool])
		if err == nil && limit.Sign() <= 0 {
			err = errors.New("must be above 0")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("--capacity %s=%s: the limit %w", pool, e.capacity[pool], err))
		}
		o.Capacity[pool] = limit.AsApproximateFloat64()
	}
	return o.Topology(), errors.Join(errs...)
}
