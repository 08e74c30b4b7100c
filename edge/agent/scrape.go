package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

const (
	// maxOfAPIServer bounds what one scrape may bring, compressed or not. A large
	// API server has some ten megabytes of metrics.
	maxOfAPIServer = 64 << 20
	// proxyTimeout bounds a scrape that states no time-out of its own.
	proxyTimeout = 10 * time.Second
	// scrapeTimeoutHeader is how Prometheus tells its time-out.
	scrapeTimeoutHeader = "X-Prometheus-Scrape-Timeout-Seconds"
)

// passedHeaders go from the scraper to who is scraped: which format it reads,
// protobuf included, and by which compression.
var passedHeaders = []string{"Accept", "Accept-Encoding"}

// scrapeReason is why a scrape failed, as the metric's label names it.
type scrapeReason string

const (
	scrapeUnreachable scrapeReason = "unreachable"  // no connection, or it broke
	scrapeTimeout     scrapeReason = "timeout"      // no answer in time
	scrapeUntrusted   scrapeReason = "untrusted"    // its certificate cannot be verified
	scrapeRefused     scrapeReason = "unauthorized" // it does not let us read its metrics
	scrapeStatus      scrapeReason = "status"       // it answers with something else
	scrapeTooLarge    scrapeReason = "too_large"    // it has more to say than we pass on
	scrapeBusy        scrapeReason = "busy"         // earlier scrapes of it have not ended
	scrapeNoAddress   scrapeReason = "no_address"   // it is not known where it is
	scrapeCancelled   scrapeReason = "cancelled"    // the scraper went away
)

// scrapeError is a failed scrape whose reason is known.
type scrapeError struct {
	reason scrapeReason
	err    error
}

func (e *scrapeError) Error() string { return e.err.Error() }

func (e *scrapeError) Unwrap() error { return e.err }

// reasonOf says why a scrape failed.
func reasonOf(err error) scrapeReason {
	if known, ok := errors.AsType[*scrapeError](err); ok {
		return known.reason
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return scrapeUntrusted
	}
	if errors.Is(err, context.Canceled) {
		return scrapeCancelled
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		return scrapeTimeout
	}
	return scrapeUnreachable
}

// get asks for metrics in the form that the scraper reads.
func get(ctx context.Context, client *http.Client, target string, header http.Header) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, fmt.Errorf("building a request: %w", err)
	}
	for _, key := range passedHeaders {
		if values := header.Values(key); len(values) > 0 {
			req.Header[key] = values
		}
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, withoutURL(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	reason := scrapeStatus
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		reason = scrapeRefused
	}
	// What little it says in the way of a reason is read, so that the connection
	// can be used again.
	_, drained := io.CopyN(io.Discard, resp.Body, 64<<10)
	if errors.Is(drained, io.EOF) {
		drained = nil
	}
	return nil, &scrapeError{reason: reason, err: errors.Join(fmt.Errorf("it answered %s", resp.Status), drained, resp.Body.Close())}
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
		return &scrapeError{reason: scrapeTooLarge, err: fmt.Errorf("metrics are larger than %d bytes", limit)}
	}
	return nil
}
