package central

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

func (o Options) check() error {
	if err := checkNames("replica", o.Replicas); err != nil {
		return err
	}
	if !slices.Contains(o.Replicas, o.Replica) {
		return fmt.Errorf("replicas %q: do not name this one", o.Replicas)
	}
	if err := checkNames("geography", o.Geographies); err != nil {
		return err
	}
	if err := o.checkCells(); err != nil {
		return err
	}
	if err := o.checkShards(); err != nil {
		return err
	}
	if err := o.checkLink(); err != nil {
		return err
	}
	if err := o.checkAlertmanagers(); err != nil {
		return err
	}
	if o.Static == nil {
		return promcfg.CheckURL("API server URL", o.APIServer.BaseURL(), "https")
	}
	return o.Static.check(o)
}

// checkNames refuses names that cannot be labels or are there twice. The names
// are sorted.
func checkNames(what string, names []string) error {
	for i, name := range names {
		if err := promcfg.CheckLabelValue("name of a "+what, name); err != nil {
			return err
		}
		if i > 0 && names[i-1] == name {
			return fmt.Errorf("%s %q: is there twice", what, name)
		}
	}
	return nil
}

// checkShards refuses a cascade that no geography has, or that is there twice.
func (o Options) checkShards() error {
	for _, geography := range slices.Sorted(maps.Keys(o.CascadeShards)) {
		if !slices.Contains(o.Geographies, geography) {
			return fmt.Errorf("cascade shards of geography %q: it is none of %q", geography, o.Geographies)
		}
		shards := o.shards(geography)
		if once := slices.Compact(slices.Clone(shards)); len(once) < len(shards) || len(shards) > 0 && shards[0] < 0 {
			return fmt.Errorf("cascade shards of geography %q: %d: each is there once and is numbered from 0", geography, shards)
		}
	}
	return nil
}

func (o Options) checkCells() error {
	for i, c := range o.Cells {
		if err := promcfg.CheckLabelValue("name of a cell", c.Name); err != nil {
			return err
		}
		if i > 0 && o.Cells[i-1].Name == c.Name {
			return fmt.Errorf("cell %q: is there twice", c.Name)
		}
		if !slices.Contains(o.Geographies, c.Geography) {
			return fmt.Errorf("cell %q: geography %q is none of %q", c.Name, c.Geography, o.Geographies)
		}
		if err := promcfg.CheckLabelValue(fmt.Sprintf("cell %q: region", c.Name), c.Region); err != nil {
			return err
		}
	}
	return nil
}

func (s Static) check(o Options) error {
	var errs []error
	for geography, addresses := range s.Cascades {
		if !slices.Contains(o.Geographies, geography) {
			errs = append(errs, fmt.Errorf("cascades of geography %q: it is none of %q", geography, o.Geographies))
		}
		for _, address := range addresses {
			errs = append(errs, promcfg.CheckAddress(fmt.Sprintf("cascade of %q", geography), address))
		}
	}
	for replica, address := range s.Centrals {
		if !slices.Contains(o.Replicas, replica) {
			errs = append(errs, fmt.Errorf("central %q: is none of %q", replica, o.Replicas))
		}
		errs = append(errs, promcfg.CheckAddress(fmt.Sprintf("central %q", replica), address))
	}
	for _, address := range s.Alertmanagers {
		errs = append(errs, promcfg.CheckAddress("Alertmanager", address))
	}
	return errors.Join(errs...)
}
