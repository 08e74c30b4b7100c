package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

func newRulesCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rules", Short: "Work with the recording and alerting rules of the tiers", Args: cobra.NoArgs}
	cmd.AddCommand(newRulesExportCommand())
	return cmd
}

func newRulesExportCommand() *cobra.Command {
	var tier string
	var export rules.Export
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the rules of a tier as PrometheusRule objects, for a Prometheus that the Prometheus Operator runs",
		Long: `Print the rules of a tier as PrometheusRule objects, one for each subject, for a Prometheus that the Prometheus Operator runs: an edge
that is External, for example. The objects of an edge are complete. Those of a cascade or a central read what follows from the fleet's topology,
which their rendered configuration brings.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkExport(tier, export); err != nil {
				return err
			}
			raw, err := rules.PrometheusRules(rules.Tier(tier), export)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(raw)
			return err
		},
	}
	cmd.Flags().StringVar(&tier, "tier", "", "tier whose rules are printed: edge, cascade or central")
	cmd.Flags().DurationVar(&export.Interval, "interval", 30*time.Second, "interval at which the Prometheus scrapes and evaluates")
	cmd.Flags().StringVar(&export.Namespace, "namespace", "", "namespace of the objects (default: that of who applies them)")
	cmd.Flags().StringToStringVar(&export.Labels, "label", nil, "label of the objects as key=value; may be given several times")
	return cmd
}

// checkExport refuses what a cluster or a Prometheus would refuse later.
func checkExport(tier string, e rules.Export) error {
	var errs []error
	if !slices.Contains(rules.Tiers(), rules.Tier(tier)) {
		errs = append(errs, fmt.Errorf("--tier %q: must be one of %q", tier, rules.Tiers()))
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
	return errors.Join(errs...)
}
