package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	// maxProxied bounds what one scrape may bring, compressed or not. A large
	// API server has some ten megabytes of metrics.
	maxProxied = 64 << 20
	// proxyTimeout bounds a scrape that states no time-out of its own.
	proxyTimeout = 10 * time.Second
	// scrapeTimeoutHeader is how Prometheus tells its time-out.
	scrapeTimeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"
)

// passedHeaders go from the scraper to the API server: which format it reads,
// protobuf included, and by which compression.
var passedHeaders = []string{"Accept", "Accept-Encoding"}

// serveProxy scrapes the metrics of a business cluster's API server with the
// observer's credentials, so that no Prometheus needs them.
func (a *Agent) serveProxy(w http.ResponseWriter, r *http.Request) {
	m := a.member(clusterKey{r.PathValue("namespace"), r.PathValue("cluster")})
	if m == nil {
		http.Error(w, "no such Cluster is watched", http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), proxyDeadline(r.Header))
	defer cancel()
	resp, err := m.scrape(ctx, r.Header)
	if err != nil {
		http.Error(w, "scraping the API server: "+err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = resp.Body.Close() }()
	for _, key := range []string{"Content-Type", "Content-Encoding"} {
		if value := resp.Header.Get(key); value != "" {
			w.Header().Set(key, value)
		}
	}
	if err := copyBounded(w, resp.Body, maxProxied); err != nil {
		a.log.Warn("scrape through the proxy ended early", slog.String("Cluster", m.key.namespace+"/"+m.key.name), slog.Any("error", err))
		panic(http.ErrAbortHandler) // half a scrape must not look like a whole one
	}
}

func (m *member) scrape(ctx context.Context, header http.Header) (*http.Response, error) {
	conn := m.connection()
	if conn == nil {
		return nil, errors.New("there is no usable kubeconfig for it")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, conn.base.JoinPath("metrics").String(), nil)
	if err != nil {
		return nil, fmt.Errorf("building a request: %w", err)
	}
	for _, key := range passedHeaders {
		if values := header.Values(key); len(values) > 0 {
			req.Header[key] = values
		}
	}
	resp, err := conn.http.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("it answered %s", resp.Status), resp.Body.Close())
	}
	return resp, nil
}

// withoutURL leaves out the address of a business cluster, which a scraper
// need not know.
func withoutURL(err error) error {
	if withURL, ok := errors.AsType[*url.Error](err); ok {
		return withURL.Err
	}
	return err
}

// proxyDeadline is the scraper's own time-out where it states a shorter one.
func proxyDeadline(h http.Header) time.Duration {
	seconds, err := strconv.ParseFloat(h.Get(scrapeTimeoutHeader), 64)
	if err != nil || !(seconds > 0 && seconds < proxyTimeout.Seconds()) {
		return proxyTimeout
	}
	return time.Duration(seconds * float64(time.Second))
}

// copyBounded fails when there are more than limit bytes.
func copyBounded(w io.Writer, r io.Reader, limit int64) error {
	n, err := io.Copy(w, io.LimitReader(r, limit))
	if err != nil || n < limit {
		return err
	}
	if more, _ := r.Read(make([]byte, 1)); more > 0 {
		return fmt.Errorf("metrics are larger than %d bytes", limit)
	}
	return nil
}
