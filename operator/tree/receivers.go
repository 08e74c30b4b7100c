package tree

import (
	"fmt"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/cell"
)

// receivers are mistakes in the addresses that are written to. Rendering would
// refuse them, too, but of the cell or the central that writes.
func receivers(f v1alpha1.Federation) []problem {
	var all []problem
	add := func(path, what, url string) {
		err := promcfg.CheckReceivers(path, []promcfg.Receiver{{Name: what, URL: url}}, promcfg.Credentials{})
		if err != nil {
			all = append(all, problem{path, err})
		}
	}
	for _, g := range f.Spec.Geographies {
		if f.Spec.Link.Type != v1alpha1.LinkRemoteWrite || f.Spec.Link.ReceiveURL == "" || g.Name == "" {
			continue // the schema has said so
		}
		// The first and the last that may come to be, when a geography is divided.
		for _, shard := range []int32{0, 999} {
			add("spec.link.receiveURL", fmt.Sprintf("cascade %d of %s", shard, g.Name), cell.ReceiveURL(f.Spec.Link, g.Name, shard))
		}
	}
	for i, store := range f.Spec.LongTerm {
		if store.Name != "" && store.URL != "" {
			add(fmt.Sprintf("spec.longTerm[%d].url", i), store.Name, store.URL)
		}
	}
	return all
}
