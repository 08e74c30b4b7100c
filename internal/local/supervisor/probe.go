package supervisor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

const (
	probeInterval = 100 * time.Millisecond
	probeTimeout  = 2 * time.Second
	// probeBytes is how much of an answer is read.
	probeBytes = 64 << 10
)

// await asks until the answer is 200 or ctx is done.
func (p Probe) await(ctx context.Context) error {
	if p.URL == "" {
		return nil
	}
	client, err := p.client()
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	for !ask(ctx, client, p.URL) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(probeInterval):
		}
	}
	return nil
}

func ask(ctx context.Context, client *http.Client, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, probeBytes)
	return resp.StatusCode == http.StatusOK
}

func (p Probe) client() (*http.Client, error) {
	transport := &http.Transport{}
	if p.CAFile != "" {
		config, err := p.tls()
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = config
	}
	return &http.Client{Transport: transport}, nil
}

func (p Probe) tls() (*tls.Config, error) {
	ca, err := os.ReadFile(p.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority of a probe: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("reading the certificate authority of a probe: %s holds no certificate", p.CAFile)
	}
	config := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	if p.CertFile != "" {
		cert, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate of a probe: %w", err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	return config, nil
}
