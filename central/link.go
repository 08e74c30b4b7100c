package central

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// LongTerm is a store that a central writes what it has to, for longer than it
// keeps it.
//
// Every label that says who told stays on, central_replica first: each central
// writes series of its own, and a store that removes no duplicates gets none.
// Readers aggregate those labels away, as they do at a central.
type LongTerm struct {
	// Name of the store, which is that of the queue in the central's own metrics.
	Name string
	// URL that is written to, in full.
	URL string
	// Message unset means promcfg.WriteV1, which every store understands. It has
	// no histograms with custom buckets.
	Message promcfg.WriteMessage
	// Credentials are shown to the store.
	Credentials promcfg.Credentials
}

// receives tells whether anything is written to the central.
func (o Options) receives() bool { return o.Link.Of() == promcfg.Push }

// Flags are what the server must be started with for its link and its stores,
// beside the usual.
func (o Options) Flags() []string {
	var out []string
	if o.receives() {
		out = append(out, promcfg.ReceiveFlag)
	}
	if len(o.LongTerm) > 0 {
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

// series is the most that the cascade of one geography sends.
func (o Options) series(contract rules.Contract) uint {
	// A cell has a pair of edges at most, and each sends everything.
	return contract.SampleLimit(rules.Central, rules.Size{
		Cells: max(1, mostCells(o.Cells)), ClustersPerCell: o.ClustersPerCell, EdgeReplicas: 2, EdgeShards: mostShards(o.Cells),
	})
}

// cascades reads every cascade server as a target of its own. Where cascades
// write instead, they are only asked whether they answer.
func cascades(o Options, contract rules.Contract) promcfg.ScrapeConfig {
	job := promcfg.Federation{
		Job:      "federate-cascade",
		Match:    contract.Matchers(rules.Central),
		Pass:     promcfg.Pass(contract.Keep(rules.Central), contract.Labels(rules.Central)),
		Samples:  o.series(contract),
		Link:     o.Link,
		Interval: o.Interval,
	}.Scrape()
	if o.receives() && !o.Reads {
		job = promcfg.ScrapeConfig{JobName: "cascade", MetricRelabel: []promcfg.Relabel{{Action: "drop"}}}
	}
	if o.Static == nil {
		job.Kubernetes = []promcfg.KubernetesSD{o.pods("cascade")}
		job.Relabel = append(promcfg.PodAddress(promcfg.Port), promcfg.Relabel{
			SourceLabels: []string{"__meta_kubernetes_pod_label_pharos_dev_geography"}, TargetLabel: "geography",
		})
		return job
	}
	for _, geography := range slices.Sorted(maps.Keys(o.Static.Cascades)) {
		job.Static = append(job.Static, promcfg.StaticGroup{
			Targets: slices.Sorted(slices.Values(o.Static.Cascades[geography])),
			Labels:  map[string]string{"geography": geography},
		})
	}
	return job
}

// stores are what the central writes to each long-term store: every recorded
// series that there is at a central.
func stores(o Options, contract rules.Contract) []promcfg.RemoteWrite {
	names, labels := contract.Kept(rules.Central)
	var out []promcfg.RemoteWrite
	for _, store := range slices.SortedFunc(slices.Values(o.LongTerm), func(a, b LongTerm) int { return cmp.Compare(a.Name, b.Name) }) {
		out = append(out, promcfg.Stream{
			Message:     cmp.Or(store.Message, promcfg.WriteV1),
			Pass:        promcfg.Pass(strings.Join(names, "|"), labels),
			Series:      o.series(contract) * max(1, uint(len(o.Geographies))),
			Interval:    o.Interval,
			Credentials: store.Credentials,
		}.To(promcfg.Receiver{Name: store.Name, URL: store.URL}))
	}
	return out
}

func (o Options) checkLink() error {
	if err := o.Link.Check("link", o.Interval); err != nil {
		return err
	}
	if !o.receives() {
		if err := o.Link.CheckPull("link"); err != nil {
			return err
		}
		interval, timeout := o.Interval, o.Link.Scrape(o.Interval)
		if err := promcfg.CheckLag("link", interval, interval, timeout, 2); err != nil {
			return err
		}
	}
	seen := map[string]bool{}
	for _, s := range o.LongTerm {
		place := fmt.Sprintf("long-term store %q", s.Name)
		if seen[s.Name] || seen[s.URL] {
			return fmt.Errorf("%s: its name or its URL %q is there twice", place, s.URL)
		}
		seen[s.Name], seen[s.URL] = true, true
		if !slices.Contains([]promcfg.WriteMessage{"", promcfg.WriteV1, promcfg.WriteV2}, s.Message) {
			return fmt.Errorf("%s: message %q is neither %s nor %s", place, s.Message, promcfg.WriteV1, promcfg.WriteV2)
		}
		link := promcfg.Link{Kind: promcfg.Push, Credentials: s.Credentials}
		if err := link.Check(place, o.Interval); err != nil {
			return err
		}
		if err := promcfg.CheckReceivers("long-term store", []promcfg.Receiver{{Name: s.Name, URL: s.URL}}, s.Credentials); err != nil {
			return err
		}
	}
	return nil
}
