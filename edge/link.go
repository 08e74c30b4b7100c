package edge

import (
	"cmp"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// writes are what the edge writes to each cascade that its cell has, where the
// link is pushed. With no Receivers, it records and is not heard of.
func writes(o Options, contract rules.Contract) []promcfg.RemoteWrite {
	if o.Link.Of() != promcfg.Push {
		return nil
	}
	one := rules.Size{Cells: 1, ClustersPerCell: cmp.Or(o.ClustersPerCell, rules.DefaultClustersPerCell), EdgeShards: 1}
	return promcfg.Stream{
		Pass:        promcfg.Pass(contract.Keep(rules.Cascade), contract.Labels(rules.Cascade)),
		Series:      contract.SampleLimit(rules.Cascade, one),
		Interval:    o.Interval,
		Timeout:     o.Link.Timeout,
		Credentials: o.Link.Credentials,
	}.ToEach(o.Receivers)
}

// Flags are what the server must be started with for its link, beside the usual. They
// are the same for every link: an edge that is restarted has a new address, and a
// cascade that waits for its own restart goes on reading the old one.
func (Options) Flags() []string { return []string{promcfg.FlushFlag} }

func (o Options) checkLink(place string) error {
	if err := o.Link.Check(place+"link", o.Interval); err != nil {
		return err
	}
	return promcfg.CheckReceivers(place+"cascade to write to", o.Receivers, o.Link.Credentials)
}
