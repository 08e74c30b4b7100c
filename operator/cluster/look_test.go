package cluster

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// to returns the way to a server, over connections that are new each time.
func to(t *testing.T, address string, trust *tls.Config) *server {
	t.Helper()
	base, err := url.Parse(address)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}
	return &server{base: base, http: &http.Client{Transport: transport, Timeout: time.Minute}}
}

// The same failure is told in the same words, though it comes over another
// connection and at another time.
func TestCauseIsSteady(t *testing.T) {
	reset := listening(t, func(c *net.TCPConn) {
		_, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, c.SetLinger(0))
		require.NoError(t, c.Close())
	})
	var held []net.Conn
	t.Cleanup(func() {
		for _, c := range held {
			require.NoError(t, c.Close())
		}
	})
	hung := listening(t, func(c *net.TCPConn) { held = append(held, c) })
	ended := listening(t, func(c *net.TCPConn) {
		_, err := c.Read(make([]byte, 4096))
		require.NoError(t, err)
		require.NoError(t, c.Close())
	})
	impatient := to(t, "http://"+hung, nil)
	impatient.http.Timeout = 300 * time.Millisecond
	expired, trust := expiredServer(t)
	for name, test := range map[string]struct {
		server *server
		says   string
	}{
		"refused":          {to(t, "http://127.0.0.1:1", nil), "dial 127.0.0.1:1: connection refused"},
		"reset":            {to(t, "http://"+reset, nil), "it closed the connection without an answer"},
		"ended":            {to(t, "http://"+ended, nil), "it closed the connection without an answer"},
		"hung":             {impatient, "no answer in time"},
		"no such host":     {to(t, "http://shop.invalid", nil), "looking up shop.invalid: "},
		"expired":          {to(t, expired, trust), "its certificate is valid from 2020-01-01T00:00:00Z until 2020-01-02T00:00:00Z only"},
		"unknown signer":   {to(t, expired, nil), "certificate"},
		"plain, not HTTPS": {to(t, strings.Replace("http://"+reset, "http:", "ftp:", 1), nil), "unsupported protocol scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, first := test.server.get(t.Context(), "readyz")
			require.Error(t, first)
			require.Contains(t, cause(first), test.says)
			time.Sleep(1100 * time.Millisecond) // some errors tell the time, in seconds
			_, _, second := test.server.get(t.Context(), "readyz")
			require.Error(t, second)
			require.Equal(t, cause(first), cause(second))
			require.Equal(t, name == "expired" || name == "unknown signer", untrusted(second))
		})
	}
}

// listening serves connections one after the other.
func listening(t *testing.T, serve func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serve(c.(*net.TCPConn))
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-done
	})
	return l.Addr().String()
}

// expiredServer shows a certificate that was valid for a day in 2020.
func expiredServer(t *testing.T) (address string, trust *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "shop"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2020, 1, 2, 0, 0, 0, 0, time.UTC),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	return s.URL, &tls.Config{RootCAs: roots}
}

func TestVersion(t *testing.T) {
	for name, test := range map[string]struct {
		code             int
		body, want, says string
	}{
		"version":   {http.StatusOK, `{"major":"1","gitVersion":"v1.37.2"}`, "v1.37.2", ""},
		"refused":   {http.StatusForbidden, `{}`, "", "HTTP 403"},
		"a page":    {http.StatusOK, `<html>`, "", "is not a version"},
		"none":      {http.StatusOK, `{}`, "", "names no version"},
		"much":      {http.StatusOK, `{"gitVersion":"` + strings.Repeat("v", maxVersion+1) + `"}`, "", "names no version"},
		"very much": {http.StatusOK, strings.Repeat(" ", maxBody) + `{"gitVersion":"v1"}`, "", "is not a version"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/k8s/shop/version" {
					t.Errorf("%s was asked for", r.URL.Path)
				}
				w.WriteHeader(test.code)
				_, _ = io.WriteString(w, test.body) // the reader may stop early
			}))
			defer s.Close()
			got, err := to(t, s.URL+"/k8s/shop", nil).version(t.Context())
			require.Equal(t, test.want, got)
			if test.says == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.says)
			}
		})
	}
}

// An address can have a path; a name and a password in it would be told to
// everyone who may read the status.
func TestNewServerHidesWhatIsSecret(t *testing.T) {
	s, err := newServer(&rest.Config{Host: "https://user:hunter2@proxy.example/k8s/shop"}, http.DefaultClient)
	require.NoError(t, err)
	require.Equal(t, "https://proxy.example/k8s/shop/readyz", s.base.JoinPath("readyz").String())
	require.NotContains(t, s.base.String(), "hunter2")
	_, err = newServer(&rest.Config{Host: "https://exa mple"}, http.DefaultClient)
	require.Error(t, err)
}
