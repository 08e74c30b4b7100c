package cascade

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/prometheus/common/model"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// link is how the cell is heard of. An existing Prometheus is read, whatever the
// others do, unless it is said to write.
func (c Cell) link(o Options) promcfg.LinkKind {
	if c.External {
		return cmp.Or(c.Link, promcfg.Pull)
	}
	return cmp.Or(c.Link, o.Link.Of())
}

// receives tells whether anything is written to the cascade.
func (o Options) receives() bool {
	return o.Link.Of() == promcfg.Push || slices.ContainsFunc(o.Cells, func(c Cell) bool { return c.link(o) == promcfg.Push })
}

// Flags are what the server must be started with for its links, beside the
// usual.
func (o Options) Flags() []string {
	var out []string
	if o.receives() {
		out = append(out, promcfg.ReceiveFlag)
	}
	if o.Link.Of() == promcfg.Push { // centrals may come to be written to later
		out = append(out, promcfg.FlushFlag)
	}
	return out
}

func (o Options) storage() *promcfg.Storage {
	if !o.receives() {
		return nil
	}
	return promcfg.Receiving()
}

// edges reads every edge server as a target of its own. A cell's labels on the
// target make up{cell="…"} say which edge is dead, and are those of everything
// that is read from it.
//
// The targets are in files beside the configuration, so that it stays as it is when
// they change: Prometheus asks every target of a job whose configuration has changed
// anew, and hides what it had from all of them for an interval (docs/design/0003).
func edges(o Options, contract rules.Contract) (promcfg.ScrapeConfig, promcfg.Files, error) {
	job := promcfg.Federation{
		Job:      "federate-edge",
		Match:    contract.Matchers(rules.Cascade),
		Samples:  contract.SampleLimit(rules.Cascade, rules.Size{Cells: 1, ClustersPerCell: o.ClustersPerCell, EdgeShards: 1}),
		Link:     o.Link,
		Interval: o.Interval,
	}
	job.Pass = append(placed(o.ReplicaLabels), promcfg.Pass(contract.Keep(rules.Cascade), contract.Labels(rules.Cascade))...)
	scrape := job.Scrape()
	scrape.HonorLabels = false
	if o.Link.Of() == promcfg.Push {
		scrape.Relabel = append(scrape.Relabel, promcfg.Relabel{SourceLabels: []string{linkedLabel}, Regex: "true", Action: "drop"})
	}
	files, err := divided(o.targets())
	if err != nil {
		return promcfg.ScrapeConfig{}, nil, err
	}
	scrape.File = []promcfg.FileSD{{Files: slices.Sorted(maps.Keys(files))}}
	return scrape, files, nil
}

// linkedLabel is on the targets of the cells that are heard of as the Options say. Which
// are read is in the configuration, so that these files do not follow the link: an
// address arrives also while the link's change waits for a restart.
const linkedLabel = "__tmp_linked"

// targets are the servers that are read, and those that would be if the link were
// pulled.
func (o Options) targets() (all []promcfg.StaticGroup) {
	for _, c := range o.Cells {
		linked := !c.External && c.Link == ""
		if !linked && c.link(o) != promcfg.Pull {
			continue
		}
		for _, g := range c.targets(o.Geography) {
			if linked {
				g.Labels[linkedLabel] = "true"
			}
			all = append(all, g)
		}
	}
	return all
}

// Targets is what the files of targets are called, before their number.
const Targets = "targets"

// divided puts targets into files, those of a cell into one. Also a single one is called
// a piece, so that the operator keeps it in a ConfigMap of its own.
func divided(targets []promcfg.StaticGroup) (promcfg.Files, error) {
	const frame, perTarget, perLabel = 24, 8, 8
	size := func(g promcfg.StaticGroup) int {
		n := frame
		for _, t := range g.Targets {
			n += perTarget + len(t)
		}
		for name, value := range g.Labels {
			n += perLabel + len(name) + 3*len(value) // a letter may be written as an escape
		}
		return n
	}
	const ending = ".yaml"
	pieces := rules.Divide(Targets, ending, targets, func(g promcfg.StaticGroup) string { return g.Labels["cell"] }, size)
	if len(pieces) == 1 {
		pieces = map[string][]promcfg.StaticGroup{rules.Piece(Targets, 0, 1, ending): targets}
	}
	files := promcfg.Files{}
	for name, some := range pieces {
		var err error
		if files[name], err = promcfg.Marshal(some); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// targets are the cell's servers with the labels that their series may lack. Ours
// lack none but those of the place; into how many parts they are divided is not among
// them, or each would be another target when that changes, and be heard of late. An
// existing Prometheus has none of ours; until it names its replica in a way of its
// own, its address does.
func (c Cell) targets(geography string) []promcfg.StaticGroup {
	labels := map[string]string{"geography": geography, "region": c.Region, "cell": c.Name}
	if len(c.Endpoints) == 0 {
		return nil
	}
	if !c.External {
		return []promcfg.StaticGroup{{Targets: c.Endpoints, Labels: labels}}
	}
	if c.Shards <= 1 {
		labels[rules.LabelEdgeShard] = "0"
	}
	var out []promcfg.StaticGroup
	for _, endpoint := range c.Endpoints {
		l := maps.Clone(labels)
		l[rules.LabelEdgeReplica] = endpoint
		out = append(out, promcfg.StaticGroup{Targets: []string{endpoint}, Labels: l})
	}
	return out
}

// shown are the credentials that the receivers are shown: those of a link that reads are
// for edges.
func (o Options) shown() promcfg.Credentials {
	if o.Link.Of() != promcfg.Push {
		return promcfg.Credentials{}
	}
	return o.Link.Credentials
}

// writes are what the cascade writes to each central that takes it.
func writes(o Options, contract rules.Contract) []promcfg.RemoteWrite {
	if len(o.Receivers) == 0 {
		return nil
	}
	var shards uint
	for _, c := range o.Cells {
		shards = max(shards, c.Shards)
	}
	all := rules.Size{Cells: max(1, uint(len(o.Cells))), ClustersPerCell: o.ClustersPerCell, EdgeReplicas: 2, EdgeShards: shards}
	return promcfg.Stream{
		Pass:        promcfg.Pass(contract.Keep(rules.Central), contract.Labels(rules.Central)),
		Series:      contract.SampleLimit(rules.Central, all),
		Interval:    o.Interval,
		Timeout:     o.Link.Timeout,
		Credentials: o.shown(),
	}.ToEach(o.Receivers)
}

func (o Options) checkLink(contract rules.Contract) error {
	if err := o.Link.Check("link", o.Interval); err != nil {
		return err
	}
	if err := promcfg.CheckReceivers("central to write to", o.Receivers, o.shown()); err != nil {
		return err
	}
	for i, label := range o.ReplicaLabels {
		if !model.LegacyValidation.IsValidLabelName(label) || slices.Contains(o.ReplicaLabels[:i], label) {
			return fmt.Errorf("replica label %q: is no label name, or is there twice", label)
		}
		if slices.Contains(contract.Labels(rules.Cascade), label) {
			return fmt.Errorf("replica label %q: is a label of declared series, which would lose it", label)
		}
	}
	for _, c := range o.Cells {
		if err := c.checkLink(o); err != nil {
			return err
		}
	}
	return nil
}

// checkLink refuses a cell whose samples would come too late. Up to a central
// they take two hops.
func (c Cell) checkLink(o Options) error {
	place := fmt.Sprintf("cell %q", c.Name)
	if err := (promcfg.Link{Kind: c.Link}).Check(place+": link", o.Interval); err != nil {
		return err
	}
	if c.Interval < 0 {
		return fmt.Errorf("%s: interval %s: must not be below zero", place, c.Interval)
	}
	if c.link(o) == promcfg.Push {
		return nil
	}
	if err := o.Link.CheckPull(place); err != nil {
		return err
	}
	return promcfg.CheckLag(place, cmp.Or(c.Interval, o.Interval), o.Interval, o.Link.Scrape(o.Interval), 2)
}
