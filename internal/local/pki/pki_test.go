package pki_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/pki"
)

func newCA(t *testing.T) *pki.CA {
	t.Helper()
	ca, err := pki.NewCA("test", time.Now())
	require.NoError(t, err)
	return ca
}

// serve starts a TLS server that lets in only clients of the CA and answers
// with the client's name.
func serve(t *testing.T, ca *pki.CA) string {
	t.Helper()
	serving, err := ca.Serving("server", time.Now())
	require.NoError(t, err)
	cert, err := tls.X509KeyPair(serving.Cert, serving.Key)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca.Cert))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		subject := r.TLS.PeerCertificates[0].Subject
		_, _ = io.WriteString(w, subject.CommonName+" of "+subject.Organization[0])
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL
}

func get(t *testing.T, kubeconfig []byte) (string, error) {
	t.Helper()
	config, err := kube.ConfigFromBytes(kubeconfig)
	require.NoError(t, err)
	client, err := rest.HTTPClientFor(config)
	require.NoError(t, err)
	resp, err := client.Get(config.Host)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b), nil
}

func TestClientOfItsCAIsLetIn(t *testing.T) {
	ca := newCA(t)
	url := serve(t, ca)
	client, err := ca.Client("admin", time.Now(), "masters")
	require.NoError(t, err)
	kubeconfig, err := pki.Kubeconfig("hub", url, ca.Cert, "admin", client)
	require.NoError(t, err)
	body, err := get(t, kubeconfig)
	require.NoError(t, err)
	require.Equal(t, "admin of masters", body)
}

func TestClientOfAnotherCAIsNot(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	url := serve(t, ca)
	stranger, err := other.Client("admin", time.Now(), "masters")
	require.NoError(t, err)
	kubeconfig, err := pki.Kubeconfig("hub", url, ca.Cert, "admin", stranger)
	require.NoError(t, err)
	_, err = get(t, kubeconfig)
	require.Error(t, err)

	client, err := ca.Client("admin", time.Now(), "masters")
	require.NoError(t, err)
	kubeconfig, err = pki.Kubeconfig("hub", url, other.Cert, "admin", client)
	require.NoError(t, err)
	_, err = get(t, kubeconfig)
	require.ErrorContains(t, err, "certificate")
}

func TestTokenKubeconfig(t *testing.T) {
	kubeconfig, err := pki.TokenKubeconfig("shop", "https://127.0.0.1:1", newCA(t).Cert, "observer", "s3cret")
	require.NoError(t, err)
	config, err := kube.ConfigFromBytes(kubeconfig)
	require.NoError(t, err)
	require.Equal(t, "s3cret", config.BearerToken)
}

func TestServiceAccountKey(t *testing.T) {
	key, err := pki.ServiceAccountKey()
	require.NoError(t, err)
	block, rest := pem.Decode(key)
	require.Empty(t, rest)
	_, err = x509.ParseECPrivateKey(block.Bytes)
	require.NoError(t, err)
}

func TestFilesAreForTheirOwnerOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with space", "pki")
	require.NoError(t, pki.WritePair(dir, "ca", newCA(t).Pair))
	require.NoError(t, os.Chmod(filepath.Join(dir, "ca.key"), 0o644))
	require.NoError(t, pki.WriteSecret(filepath.Join(dir, "ca.key"), []byte("new")))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 2, "no temporary file is left")
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), e.Name())
	}
	require.Error(t, pki.WriteSecret(filepath.Join(dir, "ca.key", "x"), nil), "a file is no folder")
}
