package edge

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// check refuses what Prometheus could not work with, everything at once.
func (o Options) check() error {
	place := fmt.Sprintf("edge of cell %q: ", o.Cell)
	var errs []error
	if shards := max(1, o.Shards, o.ShardsBeside); o.Shard >= shards {
		errs = append(errs, fmt.Errorf("%sshard %d: the %d shards are numbered from 0", place, o.Shard, shards))
	}
	if !slices.Contains([]v1alpha1.CellSize{"", v1alpha1.CellSmall, v1alpha1.CellMedium, v1alpha1.CellLarge}, o.Size) {
		errs = append(errs, fmt.Errorf("%ssize %q: must be %s, %s or %s", place, o.Size, v1alpha1.CellSmall, v1alpha1.CellMedium, v1alpha1.CellLarge))
	}
	if !slices.Contains([]v1alpha1.ObjectStateSource{"", v1alpha1.ObjectStateAgent, v1alpha1.ObjectStateKubeStateMetrics}, o.ObjectState) {
		errs = append(errs, fmt.Errorf("%sobject state %q: must be %s or %s", place, o.ObjectState, v1alpha1.ObjectStateAgent, v1alpha1.ObjectStateKubeStateMetrics))
	}
	for _, pool := range slices.Sorted(maps.Keys(o.Capacity)) {
		errs = append(errs, promcfg.CheckLabelValue(place+"capacity pool", pool))
		if limit := o.Capacity[pool]; !(limit > 0) || math.IsInf(limit, 0) {
			errs = append(errs, fmt.Errorf("%scapacity pool %q: limit %v: must be above 0", place, pool, limit))
		}
	}
	errs = append(errs, oneOf(place+"unverified component", o.Unverified, checkable()), oneOf(place+"component to skip", o.Skip, skippable()))
	owners := map[string]int{}
	for i, t := range o.Targets {
		what := fmt.Sprintf("%starget %d", place, i)
		errs = append(errs, checkTarget(what, t), o.checkSkipped(what, t), o.checkRead(what, t), o.checkShared(what, i, owners))
	}
	errs = append(errs, o.checkLink(place))
	if o.Static != nil {
		return errors.Join(append(errs, o.Static.check(place))...)
	}
	return errors.Join(append(errs,
		promcfg.CheckURL(place+"agent URL", o.AgentURL, "http", "https"),
		promcfg.CheckURL(place+"API server URL", o.APIServer.BaseURL(), "https"),
	)...)
}

func oneOf(what string, given []v1alpha1.TargetComponent, allowed []string) error {
	var errs []error
	for _, g := range given {
		if !slices.Contains(allowed, string(g)) {
			errs = append(errs, fmt.Errorf("%s %q: must be one of %s", what, g, strings.Join(allowed, ", ")))
		}
	}
	return errors.Join(errs...)
}

// checkable are the components that often have a certificate signed by
// themselves. An API server has one of the cluster's authority.
func checkable() []string {
	return []string{componentKubelet, componentControllers, componentScheduler}
}

// skippable are all but those without which nothing could be said of a cluster.
func skippable() []string {
	return slices.DeleteFunc(nameable(), func(component string) bool {
		return component == componentAPIServer || component == componentKubeStateMetrics
	})
}

func (o Options) unverified(component string) bool {
	return slices.Contains(o.Unverified, v1alpha1.TargetComponent(component))
}

func (s Static) check(place string) error {
	var errs []error
	for _, address := range slices.Concat(s.Edges, s.Agents) {
		errs = append(errs, promcfg.CheckAddress(place+"static target", address))
	}
	for _, cluster := range slices.Sorted(maps.Keys(s.Business)) {
		errs = append(errs,
			promcfg.CheckAddress(fmt.Sprintf("%sbusiness cluster %q", place, cluster), s.Business[cluster]),
			checkClusterName(place+"static target", cluster),
		)
	}
	return errors.Join(errs...)
}
