package sources_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/pki"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// serving writes a certificate for an address, and its key, into a folder.
func serving(t testing.TB, ca *pki.CA, ip string) (cert, key string) {
	t.Helper()
	pair, err := ca.Serving(ip, time.Now(), ip)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, pki.WritePair(dir, "tls", pair))
	return filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
}

// targets are what the server scrapes but itself, with their clusters.
func targets(t testing.TB, p *promtest.Server) map[string]string {
	t.Helper()
	found, err := p.Targets()
	require.NoError(t, err)
	out := map[string]string{}
	for _, target := range found {
		if target.Labels["job"] != "edge" {
			out[target.Labels.String()] = string(target.Labels["cluster"])
		}
	}
	return out
}

// down says which targets are not up, and why.
func down(p *promtest.Server) error {
	targets, err := p.Targets()
	if err != nil {
		return err
	}
	for _, target := range targets {
		if target.Health != promv1.HealthGood {
			return fmt.Errorf("%s of %s at %s is %s: %s", target.Labels["job"], target.Labels["cluster"], target.ScrapeURL, target.Health, target.LastError)
		}
	}
	return nil
}
