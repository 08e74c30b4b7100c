package links_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/local/pki"
	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// guard lets in who shows a token. It is read as an edge, and written to as a
// central.
type guard struct {
	token   string
	written atomic.Int64
}

func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+g.token {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if r.URL.Path == promcfg.ReceivePath {
		g.written.Add(1)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	crowd{series: 1}.ServeHTTP(w, r)
}

// serveTLS serves who has a certificate of the authority, under a name that is
// not the address's.
func serveTLS(t *testing.T, address string, ca *pki.CA, handler http.Handler) {
	t.Helper()
	pair, err := ca.Serving("peer", time.Now(), "peer.example")
	require.NoError(t, err)
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	require.True(t, pool.AppendCertsFromPEM(ca.Cert))
	listener, err := tls.Listen("tcp", address, &tls.Config{
		Certificates: []tls.Certificate{cert}, ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
	})
	require.NoError(t, err)
	serveOn(t, listener, handler)
}

func serveOn(t testing.TB, listener net.Listener, handler http.Handler) {
	t.Helper()
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
}

// credentialsAreShown has a cascade read and write to servers that ask for a
// certificate and a token. One asks for another token, and is not heard of.
func credentialsAreShown(t *testing.T) {
	const at, right, wrong = "127.92.8.1:9090", "127.92.8.2:9443", "127.92.8.3:9443"
	ca, err := pki.NewCA("links", time.Now())
	require.NoError(t, err)
	client, err := ca.Client("cascade", time.Now())
	require.NoError(t, err)
	friend, stranger := &guard{token: "sesame"}, &guard{token: "another"}
	serveTLS(t, right, ca, friend)
	serveTLS(t, wrong, ca, stranger)
	files, err := cascade.Render(cascade.Options{
		Geography: geography, Replica: "a", Interval: interval, Contract: contract(t), Self: []string{at},
		Cells: []cascade.Cell{
			{Name: pairCell, Region: region, Endpoints: []string{right}, External: true},
			{Name: movingCell, Region: region, Endpoints: []string{wrong}, External: true},
		},
		Link: promcfg.Link{Kind: promcfg.Push, Credentials: promcfg.Credentials{
			HTTPS: true, CAFile: "ca.crt", CertFile: "tls.crt", KeyFile: "tls.key", ServerName: "peer.example", BearerFile: "token",
		}},
		Receivers: []promcfg.Receiver{
			{Name: "right", URL: "https://" + right + promcfg.ReceivePath}, {Name: "wrong", URL: "https://" + wrong + promcfg.ReceivePath},
		},
	})
	require.NoError(t, err)
	files["ca.crt"], files["tls.crt"], files["tls.key"], files["token"] = ca.Cert, client.Cert, client.Key, []byte("sesame")
	s := prometheus(t, at, files, promcfg.ReceiveFlag)
	s.waitReady(t)
	eventually(t, func() error { return s.gives(t, `up{cell="asia-1"}`, 1) })
	eventually(t, func() error { return s.gives(t, `up{cell="asia-2"}`, 0) })
	require.Contains(t, lastErrors(t, s)[movingCell], "401 Unauthorized")
	require.NoError(t, s.gives(t, `count(test_value)`, 1))
	eventually(t, func() error {
		if friend.written.Load() == 0 {
			return errors.New("nothing has been written yet")
		}
		return nil
	})
	require.Zero(t, stranger.written.Load())
}
