// Package sources_test has a real edge Prometheus find and scrape the real
// servers of a cell: etcd, kube-apiserver, kube-controller-manager,
// kube-scheduler, node_exporter and the edge agent, with the edge's own account
// and the rights that it is given, and asks whether everything that the contract
// says is scraped is there. Only the kubelet is played.
package sources_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
	"github.com/pharos-fleet/pharos/rules"
)

func TestSourcesOnRealServers(t *testing.T) {
	w := newWorld(t)
	p := w.startEdge(t)
	t.Run("the edge has no more rights than it needs", w.edgeMayOnlyRead)
	t.Run("nobody else may read", w.othersAreKeptOut)
	t.Run("every job has targets and all are up", func(t *testing.T) { everyJobIsUp(t, p) })
	t.Run("a scrape through the agent fails", aScrapeFails)
	t.Run("every declared series is there", func(t *testing.T) { everySeriesIsThere(t, p) })
	t.Run("nothing else is kept", func(t *testing.T) { nothingElseIsKept(t, p) })
	t.Run("shards divide the targets by cluster", func(t *testing.T) { w.shardsDivide(t, p) })
	t.Run("API servers are found behind their Service", w.apiServersAreFound)
	t.Run("a Prometheus that the cell has already", w.anExternalEdge)
}

func (w *world) startEdge(t *testing.T) *promtest.Server {
	w.pod(t, deploy.Namespace, "edge-0", edgeAddress, map[string]string{
		v1alpha1.LabelComponent: v1alpha1.ComponentEdge, v1alpha1.LabelReplica: "a",
	})
	files, err := edge.Render(w.options())
	require.NoError(t, err)
	return w.prometheus(t, edgeAddress+":9090", files)
}

// edgeMayOnlyRead asks the API server what the account could do.
func (w *world) edgeMayOnlyRead(t *testing.T) {
	may := func(verb, resource, subresource, namespace string) bool {
		review, err := w.api.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + deploy.Namespace + ":edge",
				Groups:             []string{"system:serviceaccounts", "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource, Subresource: subresource, Namespace: namespace},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		return review.Status.Allowed
	}
	require.True(t, may("list", "pods", "", ""))
	require.True(t, may("get", "nodes", "metrics", ""))
	for _, verb := range []string{"get", "list", "watch", "create", "update", "patch", "delete"} {
		require.False(t, may(verb, "nodes", "proxy", ""), "%s nodes/proxy is as good as root on the node", verb)
		require.False(t, may(verb, "secrets", "", "kube-system"), verb)
		require.False(t, may(verb, "configmaps", "", ""), verb)
		require.False(t, may(verb, "services", "", "kube-system"), verb)
	}
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		require.False(t, may(verb, "pods", "", deploy.Namespace), verb)
		require.False(t, may(verb, "nodes", "", ""), verb)
	}
	require.False(t, may("create", "pods", "exec", deploy.Namespace))
}

func (w *world) othersAreKeptOut(t *testing.T) {
	for _, url := range []string{
		"https://" + metaControllers + ":10257/metrics", "https://" + metaScheduler + ":10259/metrics", "https://" + nodeAddress + ":10250/metrics",
	} {
		testkit.Await(t, func() error {
			resp, err := w.anybody().Get(url)
			if err != nil {
				return err
			}
			return resp.Body.Close()
		})
		requireGuarded(t, w.anybody(), url)
	}
}

// jobsOf are the jobs that must have targets, by cluster.
func jobsOf() map[string][]string {
	both := []string{"state", "kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler", "kubelet", "cadvisor", "node-exporter"}
	return map[string][]string{rules.MetaCluster: append([]string{"edge", "edge-agent-self"}, both...), "shop": both}
}

func everyJobIsUp(t *testing.T, p *promtest.Server) {
	testkit.Await(t, func() error {
		var missing []error
		for cluster, jobs := range jobsOf() {
			for _, job := range jobs {
				expr := fmt.Sprintf("min(up{job=%q, cluster=%q})", job, cluster)
				got, err := p.Now(expr)
				if err != nil || len(got) != 1 || got[0].Value != 1 {
					missing = append(missing, fmt.Errorf("%s is %v, %w", expr, got, err))
				}
			}
		}
		return errors.Join(append(missing, down(p))...)
	})
}

// cannotBeHere are the declared series that these servers cannot have, and why.
func cannotBeHere() map[string]string {
	none := map[string]string{}
	if _, err := os.Stat("/proc/pressure/cpu"); err != nil {
		for _, name := range []string{
			"node_pressure_cpu_waiting_seconds_total", "node_pressure_memory_stalled_seconds_total", "node_pressure_io_stalled_seconds_total",
		} {
			none[name] = "the kernel of this machine does not measure pressure"
		}
	}
	return none
}

// aScrapeFails gives the agent no time for one, or there were no failure to count.
func aScrapeFails(t *testing.T) {
	url := "http://" + agentAddress + ":9096/proxy/" + fleet + "/shop/apiserver/metrics"
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	request.Header.Set("X-Prometheus-Scrape-Timeout-Seconds", "0.000001")
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusBadGateway, response.StatusCode)
}

// everySeriesIsThere is a table over the contract: each raw series of an edge,
// from each cluster that has the source, with the labels declared.
func everySeriesIsThere(t *testing.T, p *promtest.Server) {
	contract, err := rules.Load()
	require.NoError(t, err)
	checked := map[string]bool{}
	for _, r := range contract.Raw {
		if r.Tier != rules.Edge {
			continue
		}
		for _, name := range r.Kind.Names(r.Name) {
			if why, exempt := cannotBeHere()[name]; exempt {
				t.Logf("%s is not looked for: %s", name, why)
				continue
			}
			checked[name] = true
			t.Run(name, func(t *testing.T) { seriesIsThere(t, p, r, name) })
		}
	}
	require.Greater(t, len(checked), 60)
	for name := range cannotBeHere() {
		require.False(t, checked[name])
	}
}

func seriesIsThere(t *testing.T, p *promtest.Server, r rules.Raw, name string) {
	t.Helper()
	var clusters []string
	for cluster, jobs := range jobsOf() {
		if slices.Contains(jobs, r.Source) {
			clusters = append(clusters, cluster)
		}
	}
	require.NotEmpty(t, clusters, "no job %s", r.Source)
	switch {
	case ofClustersOnly(name):
		clusters = []string{"shop"}
	case strings.HasPrefix(name, "pharos_cell_"):
		clusters = []string{rules.MetaCluster}
	}
	for _, cluster := range clusters {
		testkit.Await(t, func() error {
			got, err := p.Now(fmt.Sprintf("%s{job=%q, cluster=%q}", name, r.Source, cluster))
			if err != nil {
				return err
			}
			for _, s := range got {
				if len(lacking(r.Labels, maps.Keys(s.Metric))) == 0 {
					return nil
				}
			}
			return fmt.Errorf("%s of cluster %s with labels %v: there are %v", name, cluster, r.Labels, got)
		})
	}
}

// ofClustersOnly tells whether a series says something that the cell itself has
// no more than a name of.
func ofClustersOnly(name string) bool {
	return strings.HasPrefix(name, "pharos_machine_") || strings.HasPrefix(name, "pharos_cluster_")
}

func lacking[L ~string](labels []string, has func(func(L) bool)) []string {
	there := map[string]bool{}
	for l := range has {
		there[string(l)] = true
	}
	return slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return there[l] })
}

// nothingElseIsKept looks at what an API server exports by the thousand.
func nothingElseIsKept(t *testing.T, p *promtest.Server) {
	contract, err := rules.Load()
	require.NoError(t, err)
	declared := map[string]bool{"up": true}
	for _, r := range contract.Raw {
		for _, name := range r.Kind.Names(r.Name) {
			declared[name] = true
		}
	}
	for _, s := range contract.Series {
		for _, name := range s.Kind.Names(s.Name) {
			declared[name] = true
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	asked, err := p.API()
	require.NoError(t, err)
	names, _, _, err := asked.LabelValues(ctx, "__name__", nil, time.Now().Add(-time.Minute), time.Now())
	require.NoError(t, err)
	for _, name := range names {
		require.True(t, declared[string(name)] || strings.HasPrefix(string(name), "scrape_"), "%s is kept and not declared", name)
	}
	got, err := p.Now(`sum(scrape_samples_post_metric_relabeling) / sum(scrape_samples_scraped)`)
	require.NoError(t, err)
	require.Len(t, got, 1)
	t.Logf("%.1f %% of what is scraped is kept", 100*float64(got[0].Value))
}

// apiServersAreFound shows the discovery that is used where the cell names no
// URL. Its address cannot be of this machine: an API server refuses loopback
// addresses in EndpointSlices.
func (w *world) apiServersAreFound(t *testing.T) {
	const address = "192.0.2.77"
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "kubernetes-more", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{address}}},
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To(int32(6443))}},
	}
	w.create(t, slice)
	o := w.options()
	o.APIServer = promcfg.APIServer{}
	files, err := edge.Render(o)
	require.NoError(t, err)
	// The name of the API server means nothing outside a cluster.
	files[promcfg.ConfigFile] = []byte(strings.ReplaceAll(string(files[promcfg.ConfigFile]), "https://kubernetes.default.svc\n", w.config.Host+"\n"))
	p := w.prometheus(t, endpointAddress+":9090", files)
	testkit.Await(t, func() error {
		targets, err := p.Targets()
		if err != nil {
			return err
		}
		for _, target := range targets {
			if target.Labels["job"] == "kube-apiserver" && target.ScrapeURL == "https://"+address+":6443/metrics" && target.Labels["cluster"] == rules.MetaCluster {
				return nil
			}
		}
		return fmt.Errorf("no target at %s", address)
	})
}
