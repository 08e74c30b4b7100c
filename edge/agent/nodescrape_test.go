package agent

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// bench is an agent that serves and does not run: what it knows, a test tells it.
type bench struct {
	agent *Agent
	shop  *member
	url   string
	log   *testkit.Said
}

func startBench(t *testing.T, secret map[string][]byte) *bench {
	t.Helper()
	b := &bench{log: &testkit.Said{}}
	var err error
	b.agent, err = New(Options{Cell: restConfig("http://" + loopback + ":1"), Listen: loopback + ":0", Log: slog.New(slog.NewTextHandler(b.log, nil))})
	require.NoError(t, err)
	server := httptest.NewServer(b.agent.handler())
	t.Cleanup(server.Close)
	b.url = server.URL
	if secret[kube.SecretKeyKubeconfig] == nil {
		secret[kube.SecretKeyKubeconfig] = kubeconfig("https://"+loopback+":1", "the-token")
	}
	b.shop = adopt(t, b.agent, "shop", connectedBy(t, &corev1.Secret{Data: secret}))
	b.shop.good(time.Now())
	return b
}

// knows makes nodes known, and no others.
func (b *bench) knows(t *testing.T, nodes ...*corev1.Node) {
	t.Helper()
	list := make([]any, 0, len(nodes))
	for _, n := range nodes {
		list = append(list, n)
	}
	require.NoError(t, b.shop.conn.nodes.Replace(list, "1"))
}

type answer struct {
	code int
	body string
	err  error
}

func (b *bench) scrape(ctx context.Context, node, component string, timeout time.Duration) answer {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+"/proxy/fleet/shop/nodes/"+node+"/"+component+"/metrics", nil)
	if err != nil {
		return answer{err: err}
	}
	req.Header.Set(scrapeTimeoutHeader, fmt.Sprint(timeout.Seconds()))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, string(body), err}
}

func (b *bench) failures(component string, reason scrapeReason) int {
	return b.shop.scrapes.totals()[scrapeFailure{component, reason}]
}

func TestNodesAreScraped(t *testing.T) {
	ca := newAuthority(t)
	host := startMachine(t, ca, tells("m"))
	b := startBench(t, map[string][]byte{secretKeyKubeletCA: ca.pem})
	b.knows(t, host.node("n1"))
	for component, want := range map[string]string{
		"kubelet": "/metrics", "cadvisor": "/metrics/cadvisor", "node-exporter": "/metrics",
	} {
		got := b.scrape(t.Context(), "n1", component, time.Second)
		require.Equal(t, answer{code: http.StatusOK, body: fmt.Sprintf("m{path=%q} 1\n", want)}, got, component)
	}
	require.Equal(t, []string{"Bearer the-token", "Bearer the-token"}, host.shown("Authorization"), "kubelets, and no node exporter, see who asks")

	t.Run("only what is known", func(t *testing.T) {
		before := host.asked.Load()
		for _, node := range []string{"n2", host.address, "n1.example.org", "..", "n1%2F..%2Fn1"} {
			require.Equal(t, http.StatusNotFound, b.scrape(t.Context(), node, "kubelet", time.Second).code, node)
		}
		for _, component := range []string{"exec", "pods", "kubelet/metrics/../../exec"} {
			require.Equal(t, http.StatusNotFound, b.scrape(t.Context(), "n1", component, time.Second).code, component)
		}
		resp, err := http.Post(b.url+"/proxy/fleet/shop/nodes/n1/kubelet/metrics", "text/plain", nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
		require.Equal(t, before, host.asked.Load())
	})
	t.Run("a node that moves, and goes", func(t *testing.T) {
		moved := startMachine(t, ca, tells("moved"))
		require.NoError(t, b.shop.conn.nodes.Update(moved.node("n1")))
		require.Contains(t, b.scrape(t.Context(), "n1", "kubelet", time.Second).body, "moved")
		require.NoError(t, b.shop.conn.nodes.Delete(moved.node("n1")))
		require.Equal(t, http.StatusNotFound, b.scrape(t.Context(), "n1", "kubelet", time.Second).code)
	})
	t.Run("nodes of a cluster that is not watched are not known", func(t *testing.T) {
		b.knows(t, host.node("n1"))
		b.shop.doubt()
		require.Equal(t, http.StatusNotFound, b.scrape(t.Context(), "n1", "kubelet", time.Second).code)
		targets, ok := b.agent.targets(componentKubelet)
		require.True(t, ok)
		require.Empty(t, targets)
	})
}

// The observer's token is shown only to who proves to be a kubelet, unless the
// Secret says otherwise.
func TestWhichKubeletsAreTrusted(t *testing.T) {
	ca, stranger := newAuthority(t), newAuthority(t)
	withCA := func(server string) []byte {
		return replaced(kubeconfig(server, "the-token"), "insecure-skip-tls-verify: true",
			"certificate-authority-data: "+base64Of(ca.pem)+`, tls-server-name: "api.example.org"`)
	}
	for name, c := range map[string]struct {
		secret  map[string][]byte
		trusted bool
	}{
		"signed by the authority of the kubeconfig": {map[string][]byte{kube.SecretKeyKubeconfig: withCA("https://api.example.org")}, true},
		"signed by the authority for kubelets":      {map[string][]byte{secretKeyKubeletCA: ca.pem}, true},
		"for kubelets goes before":                  {map[string][]byte{kube.SecretKeyKubeconfig: withCA("https://api.example.org"), secretKeyKubeletCA: stranger.pem}, false},
		"signed by another":                         {map[string][]byte{secretKeyKubeletCA: stranger.pem}, false},
		"an API server that is not verified":        {map[string][]byte{}, false},
		"whoever answers":                           {map[string][]byte{secretKeyKubeletUnverified: []byte("true")}, true},
		"whoever answers, with an authority":        {map[string][]byte{secretKeyKubeletUnverified: []byte("true"), secretKeyKubeletCA: stranger.pem}, true},
		"not quite whoever answers":                 {map[string][]byte{secretKeyKubeletUnverified: []byte("yes")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := startMachine(t, ca, tells("m"))
			b := startBench(t, c.secret)
			b.knows(t, host.node("n1"))
			got := b.scrape(t.Context(), "n1", "kubelet", time.Second)
			if c.trusted {
				require.Equal(t, http.StatusOK, got.code, got.body)
				return
			}
			require.Equal(t, http.StatusBadGateway, got.code)
			require.Contains(t, got.body, "scraping kubelet of node n1")
			require.Contains(t, got.body, "serverTLSBootstrap")
			require.Zero(t, host.asked.Load())
			require.Equal(t, 1, b.failures("kubelet", scrapeUntrusted))
			require.Equal(t, http.StatusBadGateway, b.scrape(t.Context(), "n1", "kubelet", time.Second).code)
			require.Equal(t, 1, b.log.Count("level=WARN"), "a thousand nodes of one fault are one line")
			require.Equal(t, http.StatusOK, b.scrape(t.Context(), "n1", "node-exporter", time.Second).code)
		})
	}
}

func TestAddressesThatAreNoNodes(t *testing.T) {
	for address, says := range map[string]string{
		"":                       "no address of type InternalIP",
		"metadata.example.org":   "reading its InternalIP",
		"169.254.169.254":        "is no address of a node",
		"::ffff:169.254.169.254": "is no address of a node",
		"fe80::1%eth0":           "is no address of a node",
		"0.0.0.0":                "is no address of a node",
		"127.0.0.1":              "is no address of a node",
		"::1":                    "is no address of a node",
		"224.0.0.1":              "is no address of a node",
		"10.1.0.1":               "",
		"fd00::1":                "",
	} {
		got, err := (&nodeScraper{}).address(&nodeOutline{internalIP: address})
		if says == "" {
			require.NoError(t, err)
			require.Equal(t, address, got)
			continue
		}
		require.ErrorContains(t, err, says, address)
	}
	got, err := (&nodeScraper{loopback: true}).address(&nodeOutline{internalIP: "127.0.0.1"})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", got)
	for advertise, want := range map[string]bool{"127.0.0.1:9096": true, "localhost:9096": true, "10.0.0.1:9096": false, "edge-agent:9096": false} {
		require.Equal(t, want, isLoopback(advertise), advertise)
	}
}

// A kubelet that hangs takes no more than its share: of goroutines, and of time
// that others could have.
func TestKubeletsThatHang(t *testing.T) {
	leaks := goleak.IgnoreCurrent()
	t.Run("hang", func(t *testing.T) {
		ca := newAuthority(t)
		entered, left := make(chan struct{}, 100), make(chan struct{}, 100)
		hangs := startMachine(t, ca, func(_ http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			<-r.Context().Done()
			left <- struct{}{}
		})
		healthy := startMachine(t, ca, tells("m"))
		b := startBench(t, map[string][]byte{secretKeyKubeletCA: ca.pem})
		b.knows(t, hangs.node("bad"), healthy.node("good"))

		begin := time.Now()
		require.Equal(t, http.StatusBadGateway, b.scrape(t.Context(), "bad", "kubelet", 300*time.Millisecond).code)
		require.Less(t, time.Since(begin), 2*time.Second)
		require.Equal(t, 1, b.failures("kubelet", scrapeTimeout))
		<-entered
		<-left

		ctx, cancel := context.WithCancel(t.Context())
		var asking sync.WaitGroup
		for range maxInFlight {
			asking.Go(func() { b.scrape(ctx, "bad", "kubelet", time.Minute) })
			<-entered
		}
		busy := b.scrape(t.Context(), "bad", "kubelet", time.Minute)
		require.Equal(t, http.StatusBadGateway, busy.code)
		require.Contains(t, busy.body, "4 scrapes of it are under way already")
		require.Equal(t, 1, b.failures("kubelet", scrapeBusy))
		require.Equal(t, http.StatusOK, b.scrape(t.Context(), "good", "kubelet", time.Second).code, "others go on")

		cancel() // the scrapers go away
		asking.Wait()
		for range maxInFlight {
			<-left
		}
		require.True(t, waitFor(5*time.Second, func() bool { return b.failures("kubelet", scrapeCancelled) == maxInFlight }))
		require.Empty(t, b.shop.conn.scraper.inFlight)
	})
	http.DefaultClient.CloseIdleConnections()
	goleak.VerifyNone(t, leaks)
}

// What a node says is bounded, and what breaks off looks broken.
func TestAnswersThatAreNotWhole(t *testing.T) {
	ca := newAuthority(t)
	line := []byte(strings.Repeat("#", 1<<20-1) + "\n")
	host := startMachine(t, ca, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics/cadvisor" {
			_, _ = w.Write(line)
			<-r.Context().Done()
			return
		}
		for range maxOfNode>>20 + 1 {
			_, _ = w.Write(line)
		}
	})
	b := startBench(t, map[string][]byte{secretKeyKubeletCA: ca.pem})
	b.knows(t, host.node("n1"))

	huge := b.scrape(t.Context(), "n1", "kubelet", 10*time.Second)
	require.ErrorIs(t, huge.err, io.ErrUnexpectedEOF)
	require.LessOrEqual(t, len(huge.body), maxOfNode)
	require.Equal(t, 1, b.failures("kubelet", scrapeTooLarge))

	// A busy machine may need longer than this to begin with the answer: what has not
	// begun is refused as a whole.
	var half answer
	for patience := 500 * time.Millisecond; patience < proxyTimeout && half.err == nil; patience *= 2 {
		half = b.scrape(t.Context(), "n1", "cadvisor", patience)
	}
	require.ErrorIs(t, half.err, io.ErrUnexpectedEOF)
	require.Positive(t, b.failures("cadvisor", scrapeTimeout))
}

// A node keeps one connection between scrapes, whatever is scraped of its kubelet.
func TestConnectionsAreKept(t *testing.T) {
	ca := newAuthority(t)
	b := startBench(t, map[string][]byte{secretKeyKubeletCA: ca.pem})
	hosts := make([]*machine, 0, 30)
	nodes := make([]*corev1.Node, 0, 30)
	for i := range cap(hosts) {
		hosts = append(hosts, startMachine(t, ca, tells("m")))
		nodes = append(nodes, hosts[i].node(fmt.Sprint("n", i)))
	}
	b.knows(t, nodes...)
	for range 5 {
		for _, n := range nodes {
			for _, e := range endpoints() {
				require.Equal(t, http.StatusOK, b.scrape(t.Context(), n.Name, e.name, time.Second).code)
			}
		}
	}
	// One that is asked again before its connection is known to be idle gets another, which
	// is kept as well: on a busy machine that is one here and there.
	opened := int32(0)
	for _, host := range hosts {
		require.EqualValues(t, 15, host.asked.Load())
		require.GreaterOrEqual(t, host.opened.Load(), int32(2), "one of its kubelet, one of its node exporter")
		opened += host.opened.Load()
	}
	require.LessOrEqual(t, opened, int32(2*len(hosts)+len(hosts)/5), "and as good as no more")
}
