package fleettest

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/rules"
)

// Cell is one cell of a world.
type Cell struct {
	Geography, Region, Name string
	// Shards and Replicas of its edge. Zero and none mean one.
	Shards   uint
	Replicas []string
	// Read are the shards of the cascade that read it: two while it moves.
	Read []int
	// Clusters are its business clusters by name, with their nodes. The cell's own
	// is added.
	Clusters []Cluster
}

// Cluster is one cluster of a cell.
type Cluster struct {
	Name  string
	Nodes int
	// Unwatched is a cluster whose watch by the edge agent is broken: of its nodes
	// nothing is known.
	Unwatched bool
}

// World is a fleet with all its servers, and beside them a Direct one that is
// told every raw series of the whole fleet.
type World struct {
	Interval time.Duration
	Seed     uint64
	Cells    []Cell
	// Shards are the cascades of each geography.
	Shards map[string][]int
	// Trouble is what goes wrong, and where.
	Trouble Trouble
	// PodsEach is how many pods each node has, at least three.
	PodsEach int

	Central  *Server
	Direct   *Server
	contract rules.Contract
	edges    []*edgeServer
	cascades []*cascadeServer
	step     int
	begun    time.Time
}

// edgeServer is one server of a cell's edge.
type edgeServer struct {
	*Server
	cell    Cell
	shard   uint
	replica string
	raw     []*rawSeries
}

func (e *edgeServer) name() string { return fmt.Sprintf("%s-%d-%s", e.cell.Name, e.shard, e.replica) }

func (e *edgeServer) address() string { return e.name() + ":9090" }

func (e *edgeServer) labels() map[string]string {
	return e.Config.GlobalConfig.ExternalLabels.Map()
}

type cascadeServer struct {
	*Server
	geography string
	shard     int
	reads     []*edgeServer
}

func (c *cascadeServer) address() string {
	return fmt.Sprintf("cascade-%s-%d:9090", c.geography, c.shard)
}

// Start renders and starts all servers of the world.
func (w *World) Start(tb testing.TB) {
	tb.Helper()
	contract, err := rules.Load()
	require.NoError(tb, err)
	w.contract = contract
	w.begun = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	w.Direct = Bare(tb)
	for i := range w.Cells {
		w.Cells[i].Shards = max(1, w.Cells[i].Shards)
		if len(w.Cells[i].Replicas) == 0 {
			w.Cells[i].Replicas = []string{"a"}
		}
		w.Cells[i].Clusters = append(slices.Clone(w.Cells[i].Clusters), Cluster{Name: rules.MetaCluster, Nodes: 2})
		w.startEdges(tb, w.Cells[i])
	}
	for geography, shards := range w.Shards {
		for _, shard := range shards {
			w.startCascade(tb, geography, shard)
		}
	}
	// Servers that read each other do so in the same order in every run.
	slices.SortFunc(w.cascades, func(a, b *cascadeServer) int {
		return cmp.Or(cmp.Compare(a.geography, b.geography), cmp.Compare(a.shard, b.shard))
	})
	w.startCentral(tb)
}

func (w *World) startEdges(tb testing.TB, c Cell) {
	tb.Helper()
	for shard := range c.Shards {
		for _, replica := range c.Replicas {
			files, err := edge.Render(edge.Options{
				Geography: c.Geography, Region: c.Region, Cell: c.Name, Replica: replica, Shard: shard, Shards: c.Shards,
				Interval: w.Interval, Static: &edge.Static{Edges: []string{"edge:9090"}},
			})
			require.NoError(tb, err)
			e := &edgeServer{Server: New(tb, files), cell: c, shard: shard, replica: replica}
			e.raw = w.rawOf(e)
			w.edges = append(w.edges, e)
		}
	}
}

func (w *World) startCascade(tb testing.TB, geography string, shard int) {
	tb.Helper()
	out := &cascadeServer{geography: geography, shard: shard}
	o := cascade.Options{
		Geography: geography, Shard: shard, Replica: "a", Interval: w.Interval, Self: []string{"cascade:9090"},
	}
	for _, e := range w.edges {
		if e.cell.Geography == geography && slices.Contains(e.cell.Read, shard) {
			out.reads = append(out.reads, e)
		}
	}
	for _, c := range w.Cells {
		if c.Geography == geography && slices.Contains(c.Read, shard) {
			o.Cells = append(o.Cells, cascade.Cell{Name: c.Name, Region: c.Region, Shards: c.Shards, Endpoints: w.addresses(c.Name)})
		}
	}
	files, err := cascade.Render(o)
	require.NoError(tb, err)
	out.Server = New(tb, files)
	w.cascades = append(w.cascades, out)
}

// addresses are those of the servers of a cell's edge.
func (w *World) addresses(cell string) []string {
	var out []string
	for _, e := range w.edges {
		if e.cell.Name == cell {
			out = append(out, e.address())
		}
	}
	return out
}

func (w *World) startCentral(tb testing.TB) {
	tb.Helper()
	o := central.Options{
		Replica: "a", Replicas: []string{"a"}, Interval: w.Interval, CascadeShards: w.Shards,
		Static: &central.Static{
			Centrals: map[string]string{"a": "central:9090"}, Cascades: map[string][]string{}, Alertmanagers: []string{"alertmanager:9093"},
		},
	}
	for geography := range w.Shards {
		o.Geographies = append(o.Geographies, geography)
	}
	for _, c := range w.cascades {
		o.Static.Cascades[c.geography] = append(o.Static.Cascades[c.geography], c.address())
	}
	for _, c := range w.Cells {
		o.Cells = append(o.Cells, central.Cell{Geography: c.Geography, Region: c.Region, Name: c.Name, Shards: c.Shards, Replicas: uint(len(c.Replicas))})
	}
	files, err := central.Render(o)
	require.NoError(tb, err)
	w.Central = New(tb, files)
}

// Now is the moment of the last round.
func (w *World) Now() time.Time { return w.begun.Add(time.Duration(w.step) * w.Interval) }

// Round lets one interval pass: every edge scrapes and evaluates, then every
// cascade, then the central. The Direct server is told all that edges scraped.
func (w *World) Round(tb testing.TB) {
	tb.Helper()
	w.step++
	at := w.Now()
	for _, e := range w.edges {
		raw := w.scraped(e)
		e.Scrape(tb, "everything", at, raw)
		all := make([]Sample, len(raw))
		for i, s := range raw {
			s.Labels = filledIn(s.Labels, e.labels())
			all[i] = s
		}
		w.Direct.Scrape(tb, e.name(), at, all)
		if !w.Trouble.dead(e) {
			e.Round(tb, at)
		}
	}
	w.Direct.Scrape(tb, "the plan of the fleet", at, w.plan(at))
	for _, c := range w.cascades {
		for _, e := range c.reads {
			c.Read(tb, "federate-edge", e.address(), w.answering(e), at)
		}
		c.Scrape(tb, "itself", at, w.ofItself("cascade", at))
		c.Round(tb, at)
	}
	for _, c := range w.cascades {
		w.Central.Read(tb, "federate-cascade", c.address(), c.Server, at)
	}
	w.Central.Scrape(tb, "itself", at, w.ofItself("central", at))
	w.Central.Round(tb, at)
}

// answering is the edge server, or nil while it does not answer.
func (w *World) answering(e *edgeServer) *Server {
	if w.Trouble.dead(e) {
		return nil
	}
	return e.Server
}

// plan is what the fleet should have, as the Direct server is told: the truth
// that is rendered into the centrals, in words of its own.
func (w *World) plan(at time.Time) []Sample {
	var out []Sample
	add := func(name string, more ...string) {
		out = append(out, Sample{Labels: labels.FromStrings(append([]string{"__name__", name}, more...)...), At: at, Value: 1})
	}
	for _, c := range w.Cells {
		add("plan_cell", "geography", c.Geography, "region", c.Region, "cell", c.Name)
		for shard := range c.Shards {
			add("plan_edge", "geography", c.Geography, "region", c.Region, "cell", c.Name, "edge_shard", strconv.FormatUint(uint64(shard), 10))
		}
	}
	for geography, shards := range w.Shards {
		add("plan_geography", "geography", geography)
		for _, shard := range shards {
			add("plan_cascade", "geography", geography, "cascade_shard", strconv.Itoa(shard))
		}
	}
	add("plan_central", "central", "a")
	return out
}
