package agent

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

const (
	// peekInterval is how often, give or take a tenth, the served certificate is
	// looked at. It is renewed days before it ends.
	peekInterval = 10 * time.Minute
	// peekAgain is the interval while it cannot be seen.
	peekAgain   = 30 * time.Second
	peekTimeout = 10 * time.Second
)

// expiry is when the certificates end that a way into a cluster rests on.
type expiry struct {
	mu             sync.Mutex
	served, client time.Time // zero while not known, or where there is none
}

// soonest is when the first of them ends; zero when none is known.
func (e *expiry) soonest() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.served.IsZero() || (!e.client.IsZero() && e.client.Before(e.served)) {
		return e.client
	}
	return e.served
}

// begin forgets what was known with another credential.
func (e *expiry) begin(client time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.served, e.client = time.Time{}, client
}

func (e *expiry) sawServed(until time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.served = until
}

// clientExpiry is when the client certificate of a configuration ends; zero when
// it has none.
func clientExpiry(config *rest.Config) (time.Time, error) {
	block, _ := pem.Decode(config.CertData)
	if block == nil {
		return time.Time{}, nil
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return time.Time{}, fmt.Errorf("reading the client certificate in the kubeconfig: %w", err)
	}
	return certificate.NotAfter, nil
}

// certificatePeeker looks at the certificate that an API server serves, on a
// connection of its own: one that was opened before a renewal still shows the
// old certificate. It verifies nothing, so that a certificate is seen that
// nobody can verify any more; and it shows no credential, and believes nothing
// but the date.
type certificatePeeker struct {
	base  *url.URL
	tls   *tls.Config // nil when the API server is not asked by TLS
	proxy func(*http.Request) (*url.URL, error)
}

func newCertificatePeeker(config *rest.Config, base *url.URL) (*certificatePeeker, error) {
	own, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates in the kubeconfig: %w", err)
	}
	p := &certificatePeeker{base: base, proxy: config.Proxy}
	if base.Scheme == "https" {
		p.tls = &tls.Config{InsecureSkipVerify: true}
		if own != nil {
			p.tls.ServerName = own.ServerName
		}
	}
	return p, nil
}

// run looks now and then until ctx ends.
func (p *certificatePeeker) run(ctx context.Context, to *expiry) {
	if p.tls == nil {
		return
	}
	for {
		pause := peekAgain
		if until, err := p.peek(ctx); err == nil {
			to.sawServed(until)
			pause = peekInterval
		}
		if !sleep(ctx, wait.Jitter(pause*9/10, 0.2)) {
			return
		}
	}
}

// peek returns when the first certificate of the served chain ends.
func (p *certificatePeeker) peek(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, peekTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.base.JoinPath("version").String(), nil)
	if err != nil {
		return time.Time{}, fmt.Errorf("building a request: %w", err)
	}
	transport := &http.Transport{TLSClientConfig: p.tls, Proxy: p.proxy, DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return time.Time{}, fmt.Errorf("looking at the served certificate: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if _, err := io.CopyN(io.Discard, resp.Body, 64<<10); err != nil && !errors.Is(err, io.EOF) {
		return time.Time{}, fmt.Errorf("looking at the served certificate: %w", err)
	}
	if resp.TLS == nil || len(resp.TLS.PeerCertificates) == 0 {
		return time.Time{}, errors.New("looking at the served certificate: there is none")
	}
	until := resp.TLS.PeerCertificates[0].NotAfter
	for _, c := range resp.TLS.PeerCertificates {
		if c.NotAfter.Before(until) {
			until = c.NotAfter
		}
	}
	return until, nil
}
