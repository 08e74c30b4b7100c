package kubelet

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// verdict counts a probe's results until a threshold is reached. The zero value has no verdict yet.
type verdict struct {
	known, healthy      bool
	successes, failures int32
}

// observe takes one result, and returns true when the verdict changed.
func (v *verdict) observe(ok bool, p *corev1.Probe) bool {
	if ok {
		v.successes, v.failures = v.successes+1, 0
	} else {
		v.successes, v.failures = 0, v.failures+1
	}
	before := *v
	switch {
	case ok && v.successes >= max(p.SuccessThreshold, 1):
		v.known, v.healthy = true, true
	case !ok && v.failures >= max(p.FailureThreshold, 1):
		v.known, v.healthy = true, false
	}
	return v.known != before.known || v.healthy != before.healthy
}

// startProbes begins to probe a container. Liveness and readiness wait for the startup probe. A container that is found
// dead is ended by way of cancel. The probes end with the context; the caller waits for them.
func (w *worker) startProbes(ctx context.Context, c *corev1.Container, isInit bool, cancel context.CancelCauseFunc) *sync.WaitGroup {
	var wg sync.WaitGroup
	if isInit {
		return &wg // init containers have no probes
	}
	unhealthy := func(err error) {
		w.warn("Unhealthy", err.Error())
		cancel(fmt.Errorf("%w: %w", errUnhealthy, err))
	}
	wg.Go(func() {
		if c.StartupProbe != nil && !w.untilStarted(ctx, c, unhealthy) {
			return
		}
		w.updateContainer(c.Name, func(s *containerState) { s.Started, s.Ready = true, c.ReadinessProbe == nil })
		if c.LivenessProbe != nil {
			wg.Go(func() {
				w.probe(ctx, c, c.LivenessProbe, func(ok bool, err error) bool {
					if !ok {
						unhealthy(err)
					}
					return ok
				})
			})
		}
		if c.ReadinessProbe != nil {
			wg.Go(func() { w.probe(ctx, c, c.ReadinessProbe, w.readiness(ctx, c.Name)) })
		}
	})
	return &wg
}

// untilStarted runs the startup probe to its verdict, and returns whether the container has started.
func (w *worker) untilStarted(ctx context.Context, c *corev1.Container, unhealthy func(error)) (started bool) {
	w.probe(ctx, c, c.StartupProbe, func(ok bool, err error) bool {
		if started = ok; !ok {
			unhealthy(err)
		}
		return false
	})
	return started
}

func (w *worker) readiness(ctx context.Context, name string) func(bool, error) bool {
	return func(ok bool, err error) bool {
		if ctx.Err() != nil {
			return false
		}
		if !ok {
			w.warn("Unhealthy", "Readiness probe failed: "+err.Error())
		}
		w.updateContainer(name, func(s *containerState) { s.Ready = ok && s.State.Running != nil })
		return true
	}
}

// probe runs a probe until the context ends or report, which is told each change of the verdict, returns false.
func (w *worker) probe(ctx context.Context, c *corev1.Container, p *corev1.Probe, report func(ok bool, err error) bool) {
	if !sleep(ctx, time.Duration(p.InitialDelaySeconds)*time.Second) {
		return
	}
	var v verdict
	address := w.snapshot().Address
	for {
		err := check(ctx, c, p, address)
		if ctx.Err() != nil {
			return
		}
		if v.observe(err == nil, p) && !report(v.healthy, err) {
			return
		}
		if !sleep(ctx, time.Duration(max(p.PeriodSeconds, 1))*time.Second) {
			return
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// check asks a container once, and returns what is wrong.
func check(ctx context.Context, c *corev1.Container, p *corev1.Probe, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(max(p.TimeoutSeconds, 1))*time.Second)
	defer cancel()
	if p.HTTPGet != nil {
		return checkHTTP(ctx, c, p.HTTPGet, address)
	}
	host, port, err := probeTarget(c, p.TCPSocket.Host, p.TCPSocket.Port, address)
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	return conn.Close()
}

func checkHTTP(ctx context.Context, c *corev1.Container, a *corev1.HTTPGetAction, address string) error {
	host, port, err := probeTarget(c, a.Host, a.Port, address)
	if err != nil {
		return err
	}
	pathQuery, err := url.Parse(a.Path)
	if err != nil {
		return fmt.Errorf("reading probe path: %w", err)
	}
	scheme := strings.ToLower(string(a.Scheme))
	if scheme == "" {
		scheme = "http"
	}
	u := url.URL{Scheme: scheme, Host: net.JoinHostPort(host, port), Path: pathQuery.Path, RawQuery: pathQuery.RawQuery}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("building probe request: %w", err)
	}
	setHeaders(req, a.HTTPHeaders)
	return send(req)
}

func setHeaders(req *http.Request, headers []corev1.HTTPHeader) {
	req.Header.Set("User-Agent", "kube-probe/pharos")
	for _, h := range headers {
		if http.CanonicalHeaderKey(h.Name) == "Host" {
			req.Host = h.Value
			continue
		}
		req.Header.Add(h.Name, h.Value)
	}
}

// send makes one request on a connection of its own. A probe asks whether somebody answers, not who, so certificates are
// not verified; Kubernetes does the same.
func send(req *http.Request) error {
	transport := &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // see above
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 10<<10))
	if resp.StatusCode < 200 || resp.StatusCode >= 400 {
		return fmt.Errorf("%s answered with status %d", req.URL, resp.StatusCode)
	}
	return nil
}

// probeTarget returns where to probe: the pod's own address unless the probe says otherwise.
func probeTarget(c *corev1.Container, host string, port intstr.IntOrString, address string) (string, string, error) {
	if host == "" {
		host = address
	}
	n, ok := portNumber(c.Ports, port)
	if !ok {
		return "", "", fmt.Errorf("container has no port named %q", port.StrVal)
	}
	return host, strconv.Itoa(int(n)), nil
}

// portNumber resolves a port that may be given by name.
func portNumber(ports []corev1.ContainerPort, port intstr.IntOrString) (int32, bool) {
	if port.Type == intstr.Int {
		return port.IntVal, true
	}
	for _, p := range ports {
		if p.Name == port.StrVal {
			return p.ContainerPort, true
		}
	}
	return 0, false
}
