package proxy_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/proxy"
)

const address = "127.90.120.1:19051"

// echo answers each connection with its name and what it was sent, once the client has sent all.
func echo(t *testing.T, name string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.90.120.2:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			data, _ := io.ReadAll(conn)
			_, _ = io.WriteString(conn, name+":"+string(data))
			_ = conn.Close()
		}
	}()
	return l.Addr().String()
}

func ask(text string) (string, error) {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, text); err != nil {
		return "", err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return "", err
	}
	data, err := io.ReadAll(conn)
	return string(data), err
}

func newProxy(t *testing.T) (*proxy.Proxy, *prometheus.Registry, *bytes.Buffer) {
	t.Helper()
	reg, log := prometheus.NewRegistry(), &bytes.Buffer{}
	p, err := proxy.New(slog.New(slog.NewTextHandler(log, nil)), reg)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p, reg, log
}

func TestForwarding(t *testing.T) {
	p, reg, _ := newProxy(t)
	a, b := echo(t, "a"), echo(t, "b")
	before := goleak.IgnoreCurrent()
	dead := "127.90.120.3:1"
	p.Sync(map[string][]string{address: {a, b, dead}})
	seen := map[string]int{}
	for range 6 {
		answer, err := ask("hello")
		require.NoError(t, err)
		seen[answer]++
	}
	require.Len(t, seen, 2, "round robin, and past the dead: %v", seen)

	p.Sync(map[string][]string{address: {b}})
	answer, err := ask("again")
	require.NoError(t, err)
	require.Equal(t, "b:again", answer)

	p.Sync(map[string][]string{address: nil})
	_, err = ask("nobody")
	require.Error(t, err, "no backend is a refusal, not an empty answer")
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP pharos_kubelet_proxy_connections_total Connections to addresses of Services, by whether a ready pod was there to take them.
# TYPE pharos_kubelet_proxy_connections_total counter
pharos_kubelet_proxy_connections_total{result="forwarded"} 7
pharos_kubelet_proxy_connections_total{result="no_backend"} 1
`)))

	p.Sync(nil)
	_, err = ask("gone")
	require.Error(t, err)
	goleak.VerifyNone(t, before)
}

func TestOpenConnectionsAreCutWithTheirService(t *testing.T) {
	p, _, _ := newProxy(t)
	p.Sync(map[string][]string{address: {echo(t, "a")}})
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	_, err = io.WriteString(conn, "x")
	require.NoError(t, err)
	time.Sleep(50 * time.Millisecond)
	p.Sync(nil) // returns, because it does not wait for the client
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	data, _ := io.ReadAll(conn)
	require.Empty(t, data)
}

func TestTakenAddressIsToldOnceAndTriedAgain(t *testing.T) {
	p, _, log := newProxy(t)
	other, err := net.Listen("tcp", address)
	require.NoError(t, err)
	want := map[string][]string{address: {echo(t, "a")}}
	p.Sync(want)
	p.Sync(want)
	require.Equal(t, 1, strings.Count(log.String(), "level=WARN"), log.String())
	require.NoError(t, other.Close())
	p.Sync(want)
	answer, err := ask("x")
	require.NoError(t, err)
	require.Equal(t, "a:x", answer)
}
