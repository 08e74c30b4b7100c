// Package tiers_test runs the three tiers as real servers, configured by
// nothing but what the tier packages render.
package tiers_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	amtemplate "github.com/prometheus/alertmanager/template"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/central/alerting"
	"github.com/pharos-fleet/pharos/dashboards"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/rules"
)

// Asia has a pair of edges, Europe a single one.
const (
	asiaAgent, europeAgent             = "127.91.1.1:9096", "127.91.1.2:9096"
	asiaEdgeA, asiaEdgeB, europeEdge   = "127.91.2.1:9090", "127.91.2.2:9090", "127.91.2.3:9090"
	asiaCascade, europeCascade         = "127.91.3.1:9090", "127.91.3.2:9090"
	centralA, centralB                 = "127.91.4.1:9090", "127.91.4.2:9090"
	alertmanagerAddress, notifyAddress = "127.91.5.1:9093", "127.91.5.2:9095"
	asiaCell, europeCell, asia, europe = "asia-1", "europe-1", "asia", "europe"
	nodesEach                          = 10
)

// fleet is everything that runs, and a server that scrapes everything itself.
type fleet struct {
	begun                            time.Time
	asia, europe                     *cell
	asiaEdgeA, asiaEdgeB, europeEdge *promtest.Server
	asiaCascade, europeCascade       *promtest.Server
	centrals                         []*promtest.Server
	direct                           *promtest.Server
	relay                            *relay
}

// TestOnRealServers runs its fleets side by side, however few processors there
// are: they mostly wait.
func TestOnRealServers(t *testing.T) {
	t.Parallel()
	var fleets sync.WaitGroup
	fleets.Go(func() { t.Run("three tiers", threeTiers) })
	fleets.Go(func() { t.Run("what cannot be believed does not count", whatCannotBeBelieved) })
	fleets.Wait()
}

func threeTiers(t *testing.T) {
	f := startFleet(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"everything is counted once", f.everythingIsCountedOnce},
		{"a lost node reaches both centrals and a person, and leaves", f.aLostNodeReachesBothCentrals},
		{"a hung edge of a pair changes nothing", f.aHungEdgeOfAPairChangesNothing},
		{"a dead edge and a dead central are known as such", f.theDeadAreKnownAsSuch},
		{"they come back, and nobody is told what is not so", f.theDeadComeBack},
		{"no sum was ever without its completeness", f.noSumWasEverWithoutItsCompleteness},
		{"series bear the declared labels", f.seriesBearTheDeclaredLabels},
	} {
		require.True(t, t.Run(step.name, step.run), "the steps after it would not mean anything")
	}
}

func startFleet(t *testing.T) *fleet {
	f := &fleet{begun: time.Now(), relay: &relay{}}
	f.asia = newCell(t, asiaAgent, "shop", nodesEach)
	f.europe = newCell(t, europeAgent, "bank", nodesEach)
	f.asiaEdgeA = startEdge(t, asiaEdgeA, edge.Options{Geography: asia, Region: "east", Cell: asiaCell, Replica: "a"}, asiaAgent, "shop")
	f.asiaEdgeB = startEdge(t, asiaEdgeB, edge.Options{Geography: asia, Region: "east", Cell: asiaCell, Replica: "b"}, asiaAgent, "shop")
	f.europeEdge = startEdge(t, europeEdge, edge.Options{Geography: europe, Region: "west", Cell: europeCell, Replica: "a"}, europeAgent, "bank")
	f.asiaCascade = startCascade(t, asiaCascade, asia, cascade.Cell{Name: asiaCell, Region: "east", Endpoints: []string{asiaEdgeA, asiaEdgeB}})
	f.europeCascade = startCascade(t, europeCascade, europe, cascade.Cell{Name: europeCell, Region: "west", Endpoints: []string{europeEdge}})
	f.direct = startDirect(t)
	testkit.Serve(t, notifyAddress, f.relay)
	files, err := alerting.Render(alerting.Options{
		NotifyURL: "http://" + notifyAddress, Robots: []string{"oncall"}, GroupInterval: time.Second,
	})
	require.NoError(t, err)
	startAlertmanager(t, alertmanagerAddress, files, alerting.ConfigFile)
	// A central that has been there for longer than what it waits for would alert.
	for _, s := range []*promtest.Server{f.asiaEdgeA, f.asiaEdgeB, f.europeEdge, f.asiaCascade, f.europeCascade} {
		s.Ready(t)
	}
	f.centrals = []*promtest.Server{startCentral(t, "a", centralA), startCentral(t, "b", centralB)}
	return f
}

func startEdge(t *testing.T, address string, o edge.Options, agent, cluster string) *promtest.Server {
	o.Interval = interval
	o.Static = &edge.Static{Edges: []string{address}, Agents: []string{agent}, Business: map[string]string{cluster: agent}}
	files, err := edge.Render(o)
	require.NoError(t, err)
	return promtest.Prometheus(t, address, files)
}

func startCascade(t *testing.T, address, geography string, cells ...cascade.Cell) *promtest.Server {
	files, err := cascade.Render(cascade.Options{
		Geography: geography, Replica: "a", Interval: interval, Cells: cells, Self: []string{address},
	})
	require.NoError(t, err)
	return promtest.Prometheus(t, address, files)
}

func startCentral(t *testing.T, replica, address string) *promtest.Server {
	files, err := central.Render(central.Options{
		Replica: replica, Replicas: []string{"a", "b"}, Interval: interval, Geographies: []string{asia, europe},
		Cells: []central.Cell{
			{Geography: asia, Region: "east", Name: asiaCell}, {Geography: europe, Region: "west", Name: europeCell},
		},
		Static: &central.Static{
			Cascades:      map[string][]string{asia: {asiaCascade}, europe: {europeCascade}},
			Centrals:      map[string]string{"a": centralA, "b": centralB},
			Alertmanagers: []string{alertmanagerAddress},
		},
	})
	require.NoError(t, err)
	return promtest.Prometheus(t, address, files)
}

// bothWant waits until both centrals give the value.
func (f *fleet) bothWant(t *testing.T, expr string, value float64) {
	t.Helper()
	took := testkit.Await(t, func() error {
		return errors.Join(f.centrals[0].Gives(expr, value), f.centrals[1].Gives(expr, value))
	})
	t.Logf("%s is %v at both centrals after %s", expr, value, took.Round(100*time.Millisecond))
}

func (f *fleet) everythingIsCountedOnce(t *testing.T) {
	f.bothWant(t, "fleet:cells_contributing:count", 2)
	f.bothWant(t, "fleet:nodes:count", 2*nodesEach)
	f.bothWant(t, "fleet:nodes_ready:count", 2*nodesEach)
	f.bothWant(t, `geography:nodes:count{geography="asia"}`, nodesEach)
	f.bothWant(t, `max by (cell) (cluster:up:min{cell="asia-1"})`, 1)
	f.bothWant(t, `count(cluster:nodes:count{cell="asia-1"})`, 2) // both edges of the pair are there
	for _, c := range f.centrals {
		require.NoError(t, c.Lacks(`ALERTS{alertname!="PharosWatchdog", alertstate="firing"}`), "a start is no alarm")
	}
	f.agrees(t)
}

func (f *fleet) aLostNodeReachesBothCentrals(t *testing.T) {
	const lost = `max without (edge_replica, cascade_replica) (node:unhealthy:info{cell="asia-1", cluster="shop", node="n3", reason="Unknown", zone="z", rack="r0", pool="p", geography="asia", region="east"})`
	f.asia.set(3, "unknown")
	f.bothWant(t, lost, 1)
	f.bothWant(t, "fleet:nodes_ready:count", 2*nodesEach-1)
	f.bothWant(t, `max by (rack) (rack:nodes_unhealthy:count)`, 1)
	f.bothWant(t, `max by (rack) (rack:nodes:count)`, 5)
	f.eventuallyTold(t, "PharosNodeNotReady", "firing")
	f.asia.set(3, "true")
	testkit.Await(t, func() error {
		return errors.Join(f.centrals[0].Lacks("node:unhealthy:info"), f.centrals[1].Lacks("node:unhealthy:info"))
	})
	alert := f.eventuallyTold(t, "PharosNodeNotReady", "resolved")
	require.Len(t, f.relay.told("PharosNodeNotReady", "firing"), 1, "two centrals and two edges make one alert")
	for label := range alert.Labels {
		require.NotContains(t, label, "replica")
	}
	require.Contains(t, alert.Annotations["description"], "2 of 2 cells")
}

func (f *fleet) eventuallyTold(t *testing.T, alertname, status string) amtemplate.Alert {
	t.Helper()
	testkit.Await(t, func() error {
		if len(f.relay.told(alertname, status)) == 0 {
			return fmt.Errorf("nobody was told that %s is %s", alertname, status)
		}
		return nil
	})
	return f.relay.told(alertname, status)[0]
}

func (f *fleet) aHungEdgeOfAPairChangesNothing(t *testing.T) {
	f.asiaEdgeA.Signal(syscall.SIGSTOP)
	testkit.Await(t, func() error {
		return f.asiaCascade.Gives(`up{job="federate-edge", cell="asia-1", instance="`+asiaEdgeA+`"}`, 0)
	})
	f.bothWant(t, `count(cluster:nodes:count{cell="asia-1"})`, 1)
	f.bothWant(t, "fleet:nodes:count", 2*nodesEach)
	f.bothWant(t, "fleet:cells_contributing:count", 2)
	f.asiaEdgeA.Signal(syscall.SIGCONT)
	f.bothWant(t, `count(cluster:nodes:count{cell="asia-1"})`, 2)
}

// noSumWasEverWithoutItsCompleteness looks back on all that happened above: at
// no moment did a sum stand beside a completeness that it did not have.
func (f *fleet) noSumWasEverWithoutItsCompleteness(t *testing.T) {
	cells, nodes := map[model.Time]float64{}, map[model.Time]float64{}
	for _, series := range f.centrals[1].Raw(t, `{__name__=~"fleet:nodes:count|fleet:cells_contributing:count"}`, f.begun) {
		into := cells
		if series.Metric[model.MetricNameLabel] == "fleet:nodes:count" {
			into = nodes
		}
		for _, sample := range series.Values {
			into[sample.Timestamp] = float64(sample.Value)
		}
	}
	seen := map[float64]bool{}
	for at, sum := range nodes {
		require.Equal(t, cells[at]*nodesEach, sum, "at %s", at.Time())
		seen[cells[at]] = true
	}
	require.True(t, seen[1] && seen[2], "both a whole and a partial view must have been seen")
}

func (f *fleet) seriesBearTheDeclaredLabels(t *testing.T) {
	contract, err := rules.Load()
	require.NoError(t, err)
	f.asia.set(0, "false")
	f.bothWant(t, `count(count by (node) (node:unhealthy:info{node="n0"}))`, 1) // of n8 the killed central has what was
	f.bothWant(t, `count(count by (rack) (rack:nodes:count{rack="r0"}))`, 1)
	// What the killed central recorded last is still there; ask for what is new.
	f.bothWant(t, `count(time() - timestamp(fleet:cell_contributing:bool) < 3)`, 2)
	f.everyPanelShowsSomething(t)
	recorders := map[rules.Tier]*promtest.Server{rules.Edge: f.asiaEdgeB, rules.Cascade: f.asiaCascade, rules.Central: f.centrals[0]}
	crossed := 0
	for _, s := range contract.Series {
		if s.To != rules.Central {
			continue
		}
		for _, name := range s.Kind.Names(s.Name) {
			declared := s.Labels
			if name != s.Name && strings.HasSuffix(name, "_bucket") {
				declared = append(slices.Clone(declared), "le")
			}
			recorded := false
			for _, c := range f.centrals {
				var got []model.LabelSet
				testkit.Await(t, func() error { // an exception may come and go
					recorded = len(recent(t, recorders[s.From], name)) > 0
					if got = recent(t, c, name); recorded != (len(got) > 0) {
						return fmt.Errorf("%s is at the %s or at %s, and not at both", name, s.From, c.Address)
					}
					return nil
				})
				for _, set := range got {
					if s.Name == "fleet:alert_held:info" {
						require.ElementsMatch(t, labelsOfHeld(t, c, set["alertname"]), identifying(set, declared),
							"%s is held as %v because of its %s: it has the labels that the alert has, and no others", set["alertname"], set, set["because"])
						continue
					}
					require.ElementsMatch(t, declared, identifying(set, declared), name)
				}
			}
			if recorded {
				crossed++
			}
		}
	}
	require.Greater(t, crossed, 25, "the cell of this test has nodes and no control plane, but those it has")
}

// labelsOfHeld are the labels of an alert as it fires, with which it is held, and
// why it is. An alert is held here only while a machine with too much to do keeps
// a cell from being heard of for six intervals, or scraped for four.
func labelsOfHeld(t *testing.T, s *promtest.Server, alertname model.LabelValue) []string {
	t.Helper()
	got := s.Vector(t, fmt.Sprintf("last_over_time(ALERTS{alertname=%q, alertstate=\"firing\"}[2m])", string(alertname)))
	require.NotEmpty(t, got, "%s is held and has not fired", alertname)
	names := []string{"because"}
	for name := range got[0].Metric {
		if name != "alertstate" && name != "severity" && name != model.MetricNameLabel {
			names = append(names, string(name))
		}
	}
	return names
}

// recent are the series of a name that a server has had in the last intervals.
func recent(t *testing.T, s *promtest.Server, name string) []model.LabelSet {
	t.Helper()
	return s.Series(t, name, time.Now().Add(-5*interval))
}

// everyPanelShowsSomething asks a central what Grafana would, while a node is
// not ready. Of parts that this fleet lacks there is nothing to show; a fleet that
// has all of them is in test/dashboards.
func (f *fleet) everyPanelShowsSomething(t *testing.T) {
	t.Helper()
	all, err := dashboards.All()
	require.NoError(t, err)
	shown := 0
	for _, d := range all {
		for _, panel := range d.Panels {
			for _, target := range panel.Panel.Targets {
				expr := regexp.MustCompile(`\$[a-z]+`).ReplaceAllString(target.(prometheus.Dataquery).Expr, ".*")
				got := f.centrals[1].Vector(t, expr)
				parsed, err := parser.NewParser(parser.Options{}).ParseExpr(expr)
				require.NoError(t, err)
				if f.shows(t, parsed) {
					require.NotEmpty(t, got, "panel %q of %q: %s", *panel.Panel.Title, *d.Title, expr)
					shown++
				}
			}
		}
	}
	require.Greater(t, shown, 50)
	require.NoError(t, f.centrals[1].Lacks("fleet:cell_expected:info unless on (geography, region, cell) (fleet:cell_contributing:bool == 1)"))
}

// shows tells whether an expression must give something at a central that has
// what it reads. What picks out troubles may find none.
func (f *fleet) shows(t *testing.T, n parser.Node) bool {
	t.Helper()
	switch n := n.(type) {
	case *parser.VectorSelector:
		return len(recent(t, f.centrals[1], n.Name)) > 0
	case *parser.BinaryExpr:
		if n.Op == parser.LOR {
			return f.shows(t, n.LHS) || f.shows(t, n.RHS)
		}
		if n.Op.IsComparisonOperator() || n.Op == parser.LUNLESS {
			return false
		}
	}
	for child := range parser.ChildrenIter(n) {
		if !f.shows(t, child) {
			return false
		}
	}
	return true
}

// identifying are the labels that say what a series is about: not its name, not
// where it was scraped, and not who told it unless that is declared.
func identifying(set model.LabelSet, declared []string) []string {
	beside := append(rules.Tellers(), model.MetricNameLabel, "job", "instance")
	var out []string
	for name := range set {
		if slices.Contains(declared, string(name)) || !slices.Contains(beside, string(name)) {
			out = append(out, string(name))
		}
	}
	return out
}
