package agent

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// authority signs serving certificates.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	var der []byte
	a.cert, a.key, der = issue(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotAfter: time.Now().Add(time.Hour),
	})
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return a
}

// serving makes a certificate for an address that ends when it is told to.
func (a *authority) serving(t *testing.T, address string, until time.Time) tls.Certificate {
	t.Helper()
	_, key, der := issue(t, a, &x509.Certificate{
		Subject: pkix.Name{CommonName: "serving"}, IPAddresses: []net.IP{net.ParseIP(address)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}, NotAfter: until,
	})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func issue(t *testing.T, by *authority, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-24 * time.Hour)
	parent, signer := template, key
	if by != nil {
		parent, signer = by.cert, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert, key, der
}

// nodes counts the nodes of the tests, each of which has an address of its own.
var nodes atomic.Int32

// nodeAddress takes an address of this machine where nobody is a node exporter:
// the tests may run twice at a time.
func nodeAddress(t *testing.T) (address string, exporter net.Listener) {
	t.Helper()
	for range 1000 {
		n := nodes.Add(1)
		address = fmt.Sprintf("127.92.%d.%d", 10+n/250, 1+n%250)
		exporter, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(nodeExporterPort)))
		if err == nil {
			return address, exporter
		}
	}
	require.FailNow(t, "no address is free for a node")
	return "", nil
}

func listen(t *testing.T, address string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	require.NoError(t, err)
	return l
}

// machine is a host that serves as kubelet and as node exporter.
type machine struct {
	address string
	port    int // of its kubelet
	opened  atomic.Int32
	asked   atomic.Int32

	mu      sync.Mutex
	headers []http.Header // of what came in
}

// startMachine runs a host whose two servers answer with handle.
func startMachine(t *testing.T, by *authority, handle http.HandlerFunc) *machine {
	t.Helper()
	m := &machine{}
	var exporter net.Listener
	m.address, exporter = nodeAddress(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.asked.Add(1)
		m.mu.Lock()
		m.headers = append(m.headers, r.Header.Clone())
		m.mu.Unlock()
		handle(w, r)
	})
	kubelet := m.serve(t, handler, listen(t, m.address), &tls.Config{Certificates: []tls.Certificate{by.serving(t, m.address, time.Now().Add(time.Hour))}})
	m.port = kubelet.Listener.Addr().(*net.TCPAddr).Port
	m.serve(t, handler, exporter, nil)
	return m
}

func (m *machine) serve(t *testing.T, h http.Handler, at net.Listener, config *tls.Config) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	require.NoError(t, s.Listener.Close())
	s.Listener = at
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo) // handshakes are refused on purpose
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			m.opened.Add(1)
		}
	}
	if config == nil {
		s.Start()
	} else {
		s.TLS = config
		s.StartTLS()
	}
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	return s
}

// shown are the values of a header that came in.
func (m *machine) shown(header string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for _, h := range m.headers {
		out = append(out, h.Values(header)...)
	}
	return out
}

// node is the Node of the machine.
func (m *machine) node(name string) *corev1.Node {
	n := nodeNamed(name)
	n.Status.Addresses[0].Address = m.address
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(m.port)
	return n
}

func tells(metric string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		_, _ = fmt.Fprintf(w, "%s{path=%q} 1\n", metric, r.URL.Path)
	}
}

// asKubelet lets in whom the API server lets read a node's metrics, as a kubelet
// does that leaves both questions to it.
func asKubelet(api client.Client, node string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			h(w, r)
			return
		}
		who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}}
		if err := api.Create(r.Context(), who); err != nil || !who.Status.Authenticated {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		may := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: who.Status.User.Username, Groups: who.Status.User.Groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "nodes", Subresource: "metrics", Name: node},
		}}
		if err := api.Create(r.Context(), may); err != nil || !may.Status.Allowed {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		h(w, r)
	}
}
