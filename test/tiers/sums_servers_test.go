package tiers_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// directServer scrapes what all edges of the fleet scrape, by itself.
const directServer, planAddress = "127.91.6.1:9090", "127.91.6.2:9090"

// startDirect starts the server with which both centrals are compared.
func startDirect(t *testing.T) *promtest.Server {
	t.Helper()
	testkit.Serve(t, planAddress, http.HandlerFunc(plan))
	return promtest.Prometheus(t, directServer, promcfg.Files{promcfg.ConfigFile: []byte(directConfig())})
}

// agrees waits until both centrals say of nodes and cells what one Prometheus says
// that scrapes everything itself: servers scrape one after the other.
func (f *fleet) agrees(t *testing.T) {
	t.Helper()
	table := directly()
	for _, what := range []string{"cells_contributing:count", "completeness:ratio", "nodes:count", "nodes_ready:count"} {
		for _, of := range []string{"fleet:", "geography:"} {
			testkit.Await(t, func() error {
				want := byLabels(vector(f.direct.Vector(t, table[of+what])))
				for _, c := range f.centrals {
					got := byLabels(vector(c.Vector(t, of+what)))
					if fmt.Sprint(got) != fmt.Sprint(want) {
						return fmt.Errorf("%s: %s says %v, and directly it is %v", of+what, c.Address, got, want)
					}
				}
				return nil
			})
		}
	}
}

// vector is a result over the network as one in the process.
func vector(result model.Vector) promql.Vector {
	var out promql.Vector
	for _, s := range result {
		set := map[string]string{}
		for name, v := range s.Metric {
			set[string(name)] = string(v)
		}
		out = append(out, promql.Sample{Metric: labels.FromMap(set), F: float64(s.Value)})
	}
	return out
}

// plan tells what the fleet should have.
func plan(w http.ResponseWriter, _ *http.Request) {
	for _, cell := range [][3]string{{asia, "east", asiaCell}, {europe, "west", europeCell}} {
		where := fmt.Sprintf("geography=%q,region=%q,cell=%q", cell[0], cell[1], cell[2])
		fmt.Fprintf(w, "plan_cell{%s} 1\nplan_edge{%s,edge_shard=\"0\"} 1\nplan_geography{geography=%q} 1\n", where, where, cell[0])
	}
}

func directConfig() string {
	config := `
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
- {job_name: plan, honor_labels: true, static_configs: [{targets: ["` + planAddress + `"]}], metric_relabel_configs: [{action: labeldrop, regex: job|instance}]}
`
	jobs := map[string]string{"state": "/state/direct/metrics", "edge": "/metrics"}
	for job, path := range jobs {
		config += fmt.Sprintf("- job_name: %s\n  metrics_path: %s\n  static_configs:\n", job, path)
		for _, s := range []struct{ agent, edge, geography, region, cell, replica string }{
			{asiaAgent, asiaEdgeA, asia, "east", asiaCell, "a"},
			{asiaAgent, asiaEdgeB, asia, "east", asiaCell, "b"},
			{europeAgent, europeEdge, europe, "west", europeCell, "a"},
		} {
			address := s.edge
			if job == "state" {
				address = s.agent
			}
			config += fmt.Sprintf("  - {targets: [%q], labels: {geography: %s, region: %s, cell: %s, edge_replica: %s, edge_shard: \"0\"}}\n",
				address, s.geography, s.region, s.cell, s.replica)
		}
	}
	return config
}
