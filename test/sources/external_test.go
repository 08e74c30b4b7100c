package sources_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// somebodysConfig is what a site runs already: other intervals, jobs called like
// ours, and kube-state-metrics' series of its own cluster.
const somebodysConfig = `
global:
  scrape_interval: 3s
  evaluation_interval: 7s
  external_labels: {site: mine, prometheus_replica: "0"}
rule_files: [pharos/*.rules.yaml]
scrape_config_files: [pharos/*.scrape.yaml]
scrape_configs:
  - job_name: kubelet
    static_configs: [{targets: ["` + objectsAddress + `:8080"]}]
  - job_name: kube-state-metrics
    honor_labels: true
    static_configs: [{targets: ["` + objectsAddress + `:8080"]}]
`

const somebodysObjects = `kube_node_info{node="theirs"} 1
kube_node_status_condition{node="theirs",condition="Ready",status="true"} 0
kube_node_status_condition{node="theirs",condition="Ready",status="false"} 1
kubelet_running_pods 7
`

// anExternalEdge loads what is rendered for a Prometheus of somebody else's into
// one, and has it record what an edge records of the fleet's clusters, and
// nothing about what it scrapes for itself.
func (w *world) anExternalEdge(t *testing.T) {
	testkit.Serve(t, objectsAddress+":8080", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, somebodysObjects)
	}))
	files, err := edge.RenderExternal(w.options())
	require.NoError(t, err)
	tree := promcfg.Files{promcfg.ConfigFile: []byte(somebodysConfig)}
	for name, content := range files {
		if name != edge.MetaScrapeFile { // it finds the account's files where only a pod has them
			tree["pharos/"+name] = content
		}
	}
	p := w.prometheus(t, externalAddress+":9090", tree)
	testkit.Await(t, func() error {
		var wrong []error
		for expr, want := range map[string]float64{
			`cluster:nodes:count{cluster="shop"}`:       1,
			`cluster:nodes_ready:count{cluster="shop"}`: 1,
			`cluster:up:min{cluster="shop"}`:            1,
			`up{job="kubelet", cluster="shop"}`:         1,
			`count(cell:heartbeat:timestamp_seconds)`:   1,
		} {
			got, err := p.Now(expr)
			if err != nil || len(got) != 1 || float64(got[0].Value) != want {
				wrong = append(wrong, fmt.Errorf("%s is %v, %w", expr, got, err))
			}
		}
		return errors.Join(wrong...)
	})
	testkit.Await(t, func() error {
		got, err := p.Now(`kube_node_info{node="theirs"}`)
		if err == nil && len(got) == 0 {
			err = errors.New("kube_node_info is not there")
		}
		return err
	})
	require.Empty(t, must(p.Now(`{__name__=~"(cluster|node|rack):.+", cluster=""}`)), "which is none of the fleet's")
	require.Empty(t, must(p.Now(`node:unhealthy:info{node="theirs"}`)))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
