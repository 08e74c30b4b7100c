package tree

import (
	"fmt"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/internal/crd"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/cell"
)

// receivers are mistakes in the addresses that are written to, or that alerts are
// sent to. Rendering would refuse them, too, but of the cell or the central that
// writes.
func receivers(spec v1alpha1.FederationSpec) []crd.Problem {
	var all []crd.Problem
	if err := checkReceiveURL(spec); err != nil {
		all = append(all, crd.Problem{Path: "spec.link.receiveURL", Err: err})
	}
	for i, store := range spec.LongTerm {
		if store.Name == "" || store.URL == "" {
			continue // the schema has said so
		}
		if err := checkReceiver(fmt.Sprintf("spec.longTerm[%d].url", i), store.Name, store.URL); err != nil {
			all = append(all, crd.Problem{Path: fmt.Sprintf("spec.longTerm[%d].url", i), Err: err})
		}
	}
	var managers []central.Alertmanager
	for _, a := range spec.Alerting.Alertmanagers {
		managers = append(managers, central.Alertmanager{Name: a.Name, URL: a.URL})
	}
	if i, err := central.WrongAlertmanager(managers); err != nil {
		all = append(all, crd.Problem{Path: fmt.Sprintf("spec.alerting.alertmanagers[%d].url", i), Err: err})
	}
	return all
}

// checkReceiveURL tries the address of the first and of the last shard that may
// come to be when a geography is divided, and gives the first mistake.
func checkReceiveURL(spec v1alpha1.FederationSpec) error {
	if spec.Link.Type != v1alpha1.LinkRemoteWrite || spec.Link.ReceiveURL == "" {
		return nil // nobody uses it, or the schema has said so
	}
	for _, g := range spec.Geographies {
		for _, shard := range []int32{0, cascade.MaxShard} {
			url := cell.ReceiveURL(spec.Link, g.Name, shard)
			if err := checkReceiver("spec.link.receiveURL", fmt.Sprintf("cascade %d of %s", shard, g.Name), url); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkReceiver(path, name, url string) error {
	return promcfg.CheckReceivers(path, []promcfg.Receiver{{Name: name, URL: url}}, promcfg.Credentials{})
}
