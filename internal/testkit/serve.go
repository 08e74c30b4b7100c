package testkit

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/pharos-fleet/pharos/internal/local/pki"
)

// Serve runs a handler at an address until the test ends.
func Serve(t testing.TB, address string, handler http.Handler) {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatalf("listening: %v", err)
	}
	ServeOn(t, listener, handler)
}

// ServeTLS runs a handler behind a certificate until the test ends. Where clients is
// an authority, whoever comes must have a certificate that it has signed.
func ServeTLS(t testing.TB, address string, own pki.Pair, clients *pki.CA, handler http.Handler) {
	t.Helper()
	cert, err := tls.X509KeyPair(own.Cert, own.Key)
	if err != nil {
		t.Fatalf("reading the certificate of %s: %v", address, err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
	if clients != nil {
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		config.ClientCAs.AppendCertsFromPEM(clients.Cert)
	}
	listener, err := tls.Listen("tcp", address, config)
	if err != nil {
		t.Fatalf("listening: %v", err)
	}
	ServeOn(t, listener, handler)
}

// ServeOn runs a handler until the test ends.
func ServeOn(t testing.TB, listener net.Listener, handler http.Handler) {
	t.Helper()
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	done := make(chan error, 1)
	go func() { done <- srv.Serve(listener) }()
	t.Cleanup(func() {
		err := srv.Close()
		if ended := <-done; err == nil && !errors.Is(ended, http.ErrServerClosed) {
			err = ended
		}
		if err != nil {
			t.Errorf("serving at %s: %v", listener.Addr(), err)
		}
	})
}
