package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/rules"
)

// edgesScrape asks the edge of each cell what it scrapes: every server of the
// control planes of the cell itself and of what it hosts, and all of them answer.
func edgesScrape(t *testing.T, p *person) {
	tiers, err := p.fleet().Tiers(t.Context())
	require.NoError(t, err)
	require.Len(t, tiers.Cells, len(layout.Cells()))
	for _, c := range tiers.Cells {
		cell, err := layout.ClusterByName(c.Name)
		require.NoError(t, err)
		clusters := []string{rules.MetaCluster}
		for _, hosted := range layout.HostedBy(cell) {
			clusters = append(clusters, hosted.Name)
		}
		require.NotEmpty(t, c.Status.EdgeEndpoints)
		require.EventuallyWithT(t, func(tries *assert.CollectT) {
			require.NoError(tries, scrapesAll(t, c.Status.EdgeEndpoints[0], clusters))
		}, 30*time.Second, time.Second, "the edge of %s", c.Name)
	}
}

func scrapesAll(t *testing.T, edge string, clusters []string) error {
	t.Helper()
	client, err := api.NewClient(api.Config{Address: "http://" + edge})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	targets, err := promv1.NewAPI(client).Targets(ctx)
	if err != nil {
		return err
	}
	up := map[string]bool{}
	for _, target := range targets.Active {
		of := string(target.Labels["job"] + " of " + target.Labels["cluster"])
		if target.Health != promv1.HealthGood {
			return fmt.Errorf("%s at %s is %s: %s", of, target.ScrapeURL, target.Health, target.LastError)
		}
		up[of] = true
	}
	for _, cluster := range clusters {
		jobs := []string{"state", "kube-apiserver", "kube-controller-manager", "kube-scheduler"}
		if cluster == rules.MetaCluster {
			jobs = append(jobs, "etcd") // one serves all
		}
		for _, job := range jobs {
			if !up[job+" of "+cluster] {
				return fmt.Errorf("%s of %s is no target", job, cluster)
			}
		}
	}
	return nil
}
