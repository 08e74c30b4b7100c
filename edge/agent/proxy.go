package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"sync"
)

// errNoKubeconfig says that a cluster is known and there is no way into it.
var errNoKubeconfig = errors.New("there is no usable kubeconfig for it")

// serveAPIServer scrapes the metrics of a business cluster's API server with the
// observer's credentials, so that no Prometheus needs them.
func (a *Agent) serveAPIServer(w http.ResponseWriter, r *http.Request) {
	m := a.member(clusterKey{r.PathValue("namespace"), r.PathValue("cluster")})
	if m == nil {
		http.Error(w, "no such Cluster is watched", http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), proxyDeadline(r.Header))
	defer cancel()
	resp, err := m.scrapeAPIServer(ctx, r.Header)
	if err != nil {
		m.scrapes.failed(componentAPIServer, err)
		http.Error(w, "scraping the API server: "+err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	m.pass(w, resp, componentAPIServer, maxOfAPIServer)
}

func (m *member) scrapeAPIServer(ctx context.Context, header http.Header) (*http.Response, error) {
	conn := m.connection()
	if conn == nil {
		return nil, errNoKubeconfig
	}
	return get(ctx, conn.http, conn.base.JoinPath("metrics").String(), header)
}

// serveNode scrapes one endpoint of a node that the business cluster is known to
// have, and of no other: it leads nowhere else.
func (a *Agent) serveNode(e endpoint) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m := a.member(clusterKey{r.PathValue("namespace"), r.PathValue("cluster")})
		if m == nil {
			http.Error(w, "no such Cluster is watched", http.StatusNotFound)
			return
		}
		conn, node, ok := m.node(a.now(), r.PathValue("node"))
		if !ok {
			http.Error(w, "the Cluster is not known to have this node", http.StatusNotFound)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), proxyDeadline(r.Header))
		defer cancel()
		resp, done, err := conn.scraper.scrape(ctx, node, e, r.Header)
		if err != nil {
			m.scrapes.failed(e.name, err)
			http.Error(w, fmt.Sprintf("scraping %s of node %s: %v%s", e.name, node.name, err, advice(err)), http.StatusBadGateway)
			return
		}
		defer done()
		defer func() { _ = resp.Body.Close() }()
		m.pass(w, resp, e.name, maxOfNode)
	}
}

// pass hands a response on, and leaves its body to the caller to close. Half of one must not look like a whole one.
func (m *member) pass(w http.ResponseWriter, resp *http.Response, component string, limit int64) {
	for _, key := range []string{"Content-Type", "Content-Encoding"} {
		if value := resp.Header.Get(key); value != "" {
			w.Header().Set(key, value)
		}
	}
	if err := copyBounded(w, resp.Body, limit); err != nil {
		m.scrapes.failed(component, err)
		panic(http.ErrAbortHandler)
	}
}

// advice says what to do about a failure that does not pass by itself.
func advice(err error) string {
	switch reasonOf(err) {
	case scrapeUntrusted:
		return "; have the cluster sign the serving certificates of its kubelets (serverTLSBootstrap), or put the authority that does into the observer's Secret as " +
			secretKeyKubeletCA + ", or, if whoever answers at a node's address may have the observer's token, set " + secretKeyKubeletUnverified + " there to \"true\""
	case scrapeRefused:
		return "; the observer needs the verb get on nodes/metrics: apply deploy/business to the business cluster"
	}
	return ""
}

// scrapeLog counts the failed scrapes of one cluster, and tells once of each
// kind, so that a thousand nodes of one fault are one line.
type scrapeLog struct {
	log *slog.Logger

	mu     sync.Mutex
	counts map[scrapeFailure]int
}

type scrapeFailure struct {
	component string
	reason    scrapeReason
}

func newScrapeLog(log *slog.Logger) *scrapeLog {
	return &scrapeLog{log: log, counts: map[scrapeFailure]int{}}
}

func (s *scrapeLog) failed(component string, err error) {
	kind := scrapeFailure{component, reasonOf(err)}
	s.mu.Lock()
	s.counts[kind]++
	first := s.counts[kind] == 1
	s.mu.Unlock()
	level := slog.LevelDebug
	if first && kind.reason != scrapeCancelled {
		level = slog.LevelWarn
	}
	s.log.Log(context.Background(), level, "scrape through the proxy failed; further ones of this kind are counted, and told only at debug",
		slog.String("component", component), slog.String("reason", string(kind.reason)),
		slog.String("error", err.Error()+advice(err)))
}

// totals returns the counts of failures.
func (s *scrapeLog) totals() map[scrapeFailure]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}
