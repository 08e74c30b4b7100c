package links_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/rules"
)

// A fleet has three cells in one geography of two cascade shards. The first has
// a pair of edges. The second is moving: both shards read it. The third has an
// existing pair of Prometheus servers, which are read whatever the link.
const (
	geography, region = "asia", "east"
	pairCell          = "asia-1"
	movingCell        = "asia-2"
	stockCell         = "asia-3"
	cells             = 3
)

// fleet is everything that runs, joined by one kind of link.
type fleet struct {
	kind promcfg.LinkKind
	net  byte // the fleet's part of the loopback network

	servers map[string]*promtest.Server
	// wires by the names of what they join, the lower one first.
	wires map[[2]string]*wire
}

// The servers' names. Their order is that of their addresses.
func edgeNames() []string    { return []string{"pair-a", "pair-b", "moving", "stock-a", "stock-b"} }
func cascadeNames() []string { return []string{"cascade-0", "cascade-1"} }
func centralNames() []string { return []string{"central-a", "central-b"} }

// ways are the wires between tiers: of each edge those of its cell's shards, of
// each cascade both centrals.
func ways() [][2]string {
	return [][2]string{
		{"pair-a", "cascade-0"}, {"pair-b", "cascade-0"},
		{"moving", "cascade-0"}, {"moving", "cascade-1"},
		{"stock-a", "cascade-1"}, {"stock-b", "cascade-1"},
		{"cascade-0", "central-a"}, {"cascade-0", "central-b"}, {"cascade-1", "central-a"}, {"cascade-1", "central-b"},
	}
}

func (f *fleet) address(host int, port int) string {
	return fmt.Sprintf("127.92.%d.%d:%d", f.net, host, port)
}

func (f *fleet) exporter() string { return f.address(1, 9100) }

// of is where a server listens.
func (f *fleet) of(name string) string {
	place := slices.Index(slices.Concat(edgeNames(), cascadeNames(), centralNames()), name)
	return f.address(10+place, 9090)
}

// by is the address through which the upper of two servers reads the lower, or
// the lower writes to the upper.
func (f *fleet) by(lower, upper string) string { return f.wires[[2]string{lower, upper}].address() }

func newFleet(t *testing.T, kind promcfg.LinkKind, net byte) *fleet {
	t.Helper()
	f := &fleet{kind: kind, net: net, servers: map[string]*promtest.Server{}, wires: map[[2]string]*wire{}}
	newExporter(t, f.exporter())
	for i, way := range ways() {
		target := way[0]
		if f.pushes(way) {
			target = way[1]
		}
		f.wires[way] = newWire(t, f.address(100+i, 9090), f.of(target))
	}
	f.startEdges(t)
	f.startCascades(t)
	f.startCentrals(t)
	for _, s := range f.servers {
		s.Ready(t)
	}
	return f
}

// pushes tells whether the lower of two servers writes to the upper.
func (f *fleet) pushes(way [2]string) bool {
	return f.kind == promcfg.Push && way[0] != "stock-a" && way[0] != "stock-b"
}

// receivers are where a server writes to.
func (f *fleet) receivers(lower string) []promcfg.Receiver {
	var out []promcfg.Receiver
	for _, way := range ways() {
		if way[0] == lower && f.pushes(way) {
			out = append(out, promcfg.Receiver{Name: way[1], URL: "http://" + f.by(way[0], way[1]) + promcfg.ReceivePath})
		}
	}
	return out
}

func (f *fleet) startEdges(t *testing.T) {
	t.Helper()
	for name, o := range map[string]edge.Options{
		"pair-a": {Cell: pairCell, Replica: "a"},
		"pair-b": {Cell: pairCell, Replica: "b"},
		"moving": {Cell: movingCell, Replica: "a"},
	} {
		o.Geography, o.Region, o.Interval, o.Contract = geography, region, interval, contract(t)
		o.Static = &edge.Static{Edges: []string{f.of(name)}}
		o.Link, o.Receivers = promcfg.Link{Kind: f.kind}, f.receivers(name)
		files, err := edge.Render(o)
		require.NoError(t, err)
		f.servers[name] = promtest.Prometheus(t, f.of(name), alsoScraping(t, files, f.exporter()), o.Flags()...)
	}
	for _, name := range []string{"stock-a", "stock-b"} {
		f.servers[name] = promtest.Prometheus(t, f.of(name), stockEdge(t, name, f.exporter()))
	}
}

// stockEdge is a Prometheus as the Prometheus operator would set it up, with
// Pharos' rules added to what it has. It evaluates at an interval of its own.
func stockEdge(t *testing.T, replica, exporter string) promcfg.Files {
	t.Helper()
	files, err := rules.Files(rules.Edge, interval, []rules.Constant{{Record: "edge:interval:seconds", Value: interval.Seconds()}})
	require.NoError(t, err)
	config := fmt.Sprintf(`
global:
  scrape_interval: 1s
  scrape_timeout: 1s
  evaluation_interval: 1s
  external_labels: {prometheus: monitoring/k8s, prometheus_replica: %s, environment: production}
rule_files: ["*.rules.yaml"]
scrape_configs: []
`, replica)
	files[promcfg.ConfigFile] = []byte(config)
	return alsoScraping(t, named(t, files), exporter)
}

// named names the rule files one by one, which Prometheus would find by itself.
func named(t *testing.T, files promcfg.Files) promcfg.Files {
	t.Helper()
	return edited(t, files, func(config map[string]any) { config["rule_files"] = rules.FileNames(rules.Edge) })
}

// alsoScraping adds the test's exporter to what a configuration has, as a team
// adds jobs of its own.
func alsoScraping(t *testing.T, files promcfg.Files, exporter string) promcfg.Files {
	t.Helper()
	jobs := fmt.Sprintf(`
- {job_name: exporter, scrape_native_histograms: true, honor_labels: true, static_configs: [{targets: ['%[1]s']}]}
- {job_name: custom, metrics_path: /custom, convert_classic_histograms_to_nhcb: true, scrape_native_histograms: true, honor_labels: true, static_configs: [{targets: ['%[1]s']}]}
`, exporter)
	var more []any
	require.NoError(t, yaml.Unmarshal([]byte(jobs), &more))
	return edited(t, files, func(config map[string]any) {
		has, _ := config["scrape_configs"].([]any)
		config["scrape_configs"] = append(has, more...)
	})
}

func edited(t *testing.T, files promcfg.Files, change func(map[string]any)) promcfg.Files {
	t.Helper()
	var config map[string]any
	require.NoError(t, yaml.Unmarshal(files[promcfg.ConfigFile], &config))
	change(config)
	raw, err := yaml.Marshal(config)
	require.NoError(t, err)
	files[promcfg.ConfigFile] = raw
	return files
}

func (f *fleet) cascade(t *testing.T, name string) cascade.Options {
	t.Helper()
	all := []cascade.Cell{
		{Name: pairCell, Region: region, Endpoints: []string{"pair-a", "pair-b"}},
		{Name: movingCell, Region: region, Endpoints: []string{"moving"}},
		{Name: stockCell, Region: region, Endpoints: []string{"stock-a", "stock-b"}, External: true},
	}
	shard := 0
	if name == "cascade-1" {
		shard = 1
	}
	o := cascade.Options{
		Geography: geography, Shard: shard, Replica: "a", Interval: interval, Contract: contract(t),
		Self: []string{f.of(name)}, Link: promcfg.Link{Kind: f.kind}, Receivers: f.receivers(name),
	}
	for _, c := range all[shard : shard+2] {
		for i, e := range c.Endpoints {
			c.Endpoints[i] = f.by(e, name)
		}
		o.Cells = append(o.Cells, c)
	}
	return o
}

func (f *fleet) startCascades(t *testing.T) {
	t.Helper()
	for _, name := range cascadeNames() {
		o := f.cascade(t, name)
		files, err := cascade.Render(o)
		require.NoError(t, err)
		f.servers[name] = promtest.Prometheus(t, f.of(name), files, o.Flags()...)
	}
}

func (f *fleet) startCentrals(t *testing.T) {
	t.Helper()
	for i, name := range centralNames() {
		static := &central.Static{Cascades: map[string][]string{}, Centrals: map[string]string{}}
		for _, c := range cascadeNames() {
			at := f.of(c)
			if f.kind == promcfg.Pull {
				at = f.by(c, name)
			}
			static.Cascades[geography] = append(static.Cascades[geography], at)
		}
		o := central.Options{
			Replica: []string{"a", "b"}[i], Replicas: []string{"a", "b"}, Interval: interval, Contract: contract(t),
			Geographies: []string{geography}, CascadeShards: map[string][]int{geography: {0, 1}},
			Static: static, Link: promcfg.Link{Kind: f.kind},
		}
		for c, replicas := range map[string]uint{pairCell: 2, movingCell: 1, stockCell: 2} {
			o.Cells = append(o.Cells, central.Cell{Geography: geography, Region: region, Name: c, Replicas: replicas})
		}
		files, err := central.Render(o)
		require.NoError(t, err)
		f.servers[name] = promtest.Prometheus(t, f.of(name), files, o.Flags()...)
	}
}

// atCentrals runs check at both.
func (f *fleet) atCentrals(t *testing.T, check func(*promtest.Server) error) {
	t.Helper()
	for _, name := range centralNames() {
		testkit.Await(t, func() error { return check(f.servers[name]) })
	}
}
