package links_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/local/pki"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/internal/testkit/promtest"
)

// The cells of a secured fleet: one link is right, and with each of the others
// something is wrong. Their authority did not sign the certificate of who is asked,
// that certificate has expired, or the token is another.
const right, stranger, expired, token = "right", "stranger", "expired", "token"

func securedCells() []string { return []string{right, stranger, expired, token} }

// secured is a fleet of an edge for each cell, a cascade and a central. Between
// tiers there are only gates.
type secured struct {
	*fleet
	ca, other *pki.CA
	client    pki.Pair
}

const (
	peer   = "peer.example" // the name in certificates, which is not the address's
	sesame = "sesame"
)

// gate ends TLS in front of a server, which listens in plain, as what a site has for
// that does: it lets in who has a certificate of the fleet's authority and a token.
func (s *secured) gate(t *testing.T, host int, token, to string, signer *pki.CA, issued time.Time) string {
	t.Helper()
	own, err := signer.Serving("peer", issued, peer)
	require.NoError(t, err)
	inner := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
	address := s.address(host, 9443)
	testkit.ServeTLS(t, address, own, s.ca, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	return address
}

// gates lead to a server: of each cell its own, of which one is right.
func (s *secured) gates(t *testing.T, host int, to string) map[string]string {
	t.Helper()
	now := time.Now()
	return map[string]string{
		right:    s.gate(t, host, sesame, to, s.ca, now),
		stranger: s.gate(t, host+1, sesame, to, s.other, now),
		expired:  s.gate(t, host+2, sesame, to, s.ca, now.Add(-pki.Lifetime-24*time.Hour)),
		token:    s.gate(t, host+3, "another", to, s.ca, now),
	}
}

func (s *secured) link() promcfg.Link {
	return promcfg.Link{Kind: s.kind, Credentials: promcfg.Credentials{
		HTTPS: true, CAFile: "ca.crt", CertFile: "tls.crt", KeyFile: "tls.key", ServerName: peer, BearerFile: "token",
	}}
}

// start runs a server with the files and with what it shows to others.
func (s *secured) start(t *testing.T, host int, files promcfg.Files, flags ...string) *promtest.Server {
	t.Helper()
	maps.Copy(files, promcfg.Files{"ca.crt": s.ca.Cert, "tls.crt": s.client.Cert, "tls.key": s.client.Key, "token": []byte(sesame)})
	return promtest.Prometheus(t, s.address(host, 9090), files, flags...)
}

func newSecured(t *testing.T, kind promcfg.LinkKind, net byte) *secured {
	t.Helper()
	s := &secured{fleet: &fleet{kind: kind, net: net, servers: map[string]*promtest.Server{}}}
	var err error
	s.ca, err = pki.NewCA("links", time.Now())
	require.NoError(t, err)
	s.other, err = pki.NewCA("another", time.Now())
	require.NoError(t, err)
	s.client, err = s.ca.Client("fleet", time.Now())
	require.NoError(t, err)
	newExporter(t, s.exporter())
	return s
}

// Where the servers of a secured fleet are, and their gates.
const (
	cascadeHost, centralHost, edgeHost = 2, 3, 10
	upperGate, lowerGates              = 20, 30
)

func (s *secured) startTiers(t *testing.T) {
	t.Helper()
	cascadeAt, centralAt := s.address(cascadeHost, 9090), s.address(centralHost, 9090)
	middle := cascade.Options{Geography: geography, Replica: "a", Interval: interval, Contract: contract(t), Self: []string{cascadeAt}, Link: s.link()}
	upper := central.Options{
		Replica: "a", Replicas: []string{"a"}, Interval: interval, Contract: contract(t), Geographies: []string{geography},
		Static: &central.Static{Cascades: map[string][]string{geography: {cascadeAt}}}, Link: s.link(),
	}
	var lower map[string]string
	if s.kind == promcfg.Pull {
		// Every cell has the same edge, of which only one is let through to.
		lower = s.gates(t, lowerGates, s.address(edgeHost, 9090))
		upper.Static.Cascades[geography] = []string{s.gate(t, upperGate, sesame, cascadeAt, s.ca, time.Now())}
	} else {
		lower = s.gates(t, lowerGates, cascadeAt)
		middle.Receivers = secureReceiver(s.gate(t, upperGate, sesame, centralAt, s.ca, time.Now()))
	}
	for i, name := range securedCells() {
		c := cascade.Cell{Name: name, Region: region}
		if s.kind == promcfg.Pull {
			c.Endpoints = []string{lower[name]}
		}
		middle.Cells = append(middle.Cells, c)
		upper.Cells = append(upper.Cells, central.Cell{Geography: geography, Region: region, Name: name})
		if s.kind == promcfg.Push || name == right {
			s.startEdge(t, name, edgeHost+i, lower[name])
		}
	}
	files, err := cascade.Render(middle)
	require.NoError(t, err)
	s.servers["cascade"] = s.start(t, cascadeHost, files, middle.Flags()...)
	files, err = central.Render(upper)
	require.NoError(t, err)
	s.servers["central"] = s.start(t, centralHost, files, upper.Flags()...)
	for _, each := range s.servers {
		each.Ready(t)
	}
}

func secureReceiver(gate string) []promcfg.Receiver {
	return []promcfg.Receiver{{Name: "upper", URL: "https://" + gate + promcfg.ReceivePath}}
}

func (s *secured) startEdge(t *testing.T, cell string, host int, gate string) {
	t.Helper()
	o := edge.Options{
		Geography: geography, Region: region, Cell: cell, Replica: "a", Interval: interval, Contract: contract(t),
		Static: &edge.Static{Edges: []string{s.address(host, 9090)}},
	}
	if s.kind == promcfg.Push {
		o.Link, o.Receivers = s.link(), secureReceiver(gate)
	}
	files, err := edge.Render(o)
	require.NoError(t, err)
	s.servers[cell] = s.start(t, host, alsoScraping(t, files, s.exporter()), o.Flags()...)
}

// aLinkIsSecured has three tiers by https. The cell whose link is right is heard of
// at the central, of each other the central tells who it is, and where the connection
// was opened it is told why.
func aLinkIsSecured(t *testing.T, kind promcfg.LinkKind, net byte) {
	s := newSecured(t, kind, net)
	s.startTiers(t)
	top := s.servers["central"]
	testkit.Await(t, func() error {
		errs := []error{
			top.Gives(`fleet:cells_contributing:count`, 1),
			top.Gives(`fleet:cell_contributing:bool{cell="right"}`, 1),
			top.Gives(`count(test_value{cell="right"})`, 1),
		}
		for _, cell := range []string{stranger, expired, token} {
			errs = append(errs, top.Gives(fmt.Sprintf("count(ALERTS{alertname=\"PharosCellStale\", alertstate=\"firing\", cell=%q})", cell), 1))
			if kind == promcfg.Pull {
				errs = append(errs,
					s.servers["cascade"].Gives(fmt.Sprintf("up{job=\"federate-edge\", cell=%q}", cell), 0),
					top.Gives(fmt.Sprintf("count(ALERTS{alertname=\"PharosCellUnreachable\", alertstate=\"firing\", cell=%q})", cell), 1))
			}
		}
		return errors.Join(errs...)
	})
	require.NoError(t, top.Lacks(`ALERTS{alertstate="firing", cell="right"}`))
	require.NoError(t, top.Lacks(`test_value{cell!="right"}`))
	s.toldWhy(t)
}

// toldWhy looks at whoever opened the connections. A reader has the reason beside
// each target. A sender tries again and again what TLS refuses, and gives up what is
// answered with 401, which it counts.
func (s *secured) toldWhy(t *testing.T) {
	t.Helper()
	if s.kind == promcfg.Pull {
		reasons := s.servers["cascade"].Reasons(t, "cell")
		require.Contains(t, reasons[stranger], "certificate signed by unknown authority")
		require.Contains(t, reasons[expired], "certificate has expired")
		require.Contains(t, reasons[token], "401 Unauthorized")
		require.Empty(t, reasons[right])
		return
	}
	for cell, counter := range map[string]string{stranger: "retried", expired: "retried", token: "failed"} {
		// The first batch is tried for ever; it may have histograms alone.
		counted := regexp.MustCompile(`prometheus_remote_storage_(samples|histograms)_` + counter + `_total\{[^}]*\} [1-9]`)
		testkit.Await(t, func() error {
			page, err := s.servers[cell].Get("/metrics")
			if err == nil && !counted.Match(page) {
				err = fmt.Errorf("%s: nothing is counted as %s", cell, counter)
			}
			return err
		})
	}
}
