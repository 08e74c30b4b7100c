package sources_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// eventually polls until check passes.
func eventually(t testing.TB, within time.Duration, what string, check func() error) {
	t.Helper()
	begun := time.Now()
	for {
		err := check()
		if took := time.Since(begun); err == nil {
			if took > time.Second {
				t.Logf("%s after %s", what, took.Round(100*time.Millisecond))
			}
			return
		}
		if time.Since(begun) > within {
			t.Fatalf("%s: not within %s: %v", what, within, err)
		}
		time.Sleep(200 * time.Millisecond)
	}
}

// authority signs the certificates of servers by address.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t testing.TB) authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := template("authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return authority{cert, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		panic(err) // the system's random numbers do not fail
	}
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name}, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
}

// serving writes a certificate for an address, and its key, into a folder.
func (a authority) serving(t testing.TB, ip string) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := template(ip)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	template.IPAddresses = []net.IP{net.ParseIP(ip)}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &private.PublicKey, a.key)
	require.NoError(t, err)
	encoded, err := x509.MarshalECPrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded}), 0o600))
	return cert, key
}

// serve runs a handler at an address until the test ends.
func serve(t testing.TB, address string, handler http.Handler, cert, key string) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	require.NoError(t, err)
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() {
		if cert != "" {
			done <- srv.ServeTLS(listener, cert, key)
			return
		}
		done <- srv.Serve(listener)
	}()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
}

// prometheus is a real server with rendered files, laid out as in a pod.
type prometheus struct{ promv1.API }

func startPrometheus(t testing.TB, address string, files, account promcfg.Files) prometheus {
	t.Helper()
	root := t.TempDir()
	dir := filepath.Join(root, "etc", "prometheus")
	write(t, dir, files)
	write(t, filepath.Join(root, "var", "run", "secrets", "kubernetes.io", "serviceaccount"), account)
	testkit.Spawn(t, "prometheus", "--config.file="+filepath.Join(dir, promcfg.ConfigFile), "--storage.tsdb.path="+filepath.Join(root, "data"),
		"--web.listen-address="+address, "--log.level=info")
	eventually(t, 30*time.Second, "Prometheus at "+address+" is ready", func() error {
		resp, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("%s", resp.Status)
		}
		return nil
	})
	client, err := api.NewClient(api.Config{Address: "http://" + address})
	require.NoError(t, err)
	return prometheus{promv1.NewAPI(client)}
}

func write(t testing.TB, dir string, files promcfg.Files) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, content, 0o600))
	}
}

func (p prometheus) query(expr string) (model.Vector, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	result, _, _, err := p.Query(ctx, expr, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	return result.(model.Vector), nil
}

// targets are what the server scrapes but itself, with their clusters.
func (p prometheus) targets(t testing.TB) map[string]string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	found, err := p.Targets(ctx)
	require.NoError(t, err)
	out := map[string]string{}
	for _, target := range found.Active {
		if target.Labels["job"] != "edge" {
			out[target.Labels.String()] = string(target.Labels["cluster"])
		}
	}
	return out
}

// down says which targets are not up, and why.
func (p prometheus) down() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	targets, err := p.Targets(ctx)
	if err != nil {
		return err
	}
	for _, target := range targets.Active {
		if target.Health != promv1.HealthGood {
			return fmt.Errorf("%s of %s at %s is %s: %s", target.Labels["job"], target.Labels["cluster"], target.ScrapeURL, target.Health, target.LastError)
		}
	}
	return nil
}
