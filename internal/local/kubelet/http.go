package kubelet

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	vkapi "github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/cert"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/logs"
)

// shutdownTimeout bounds how long log readers may hold up the end.
const shutdownTimeout = time.Second

// serveHTTP serves logs to the API server, and the kubelet's own health and metrics, until the context ends.
func (k *Kubelet) serveHTTP(ctx context.Context, listener net.Listener) error {
	config, err := k.tlsConfig()
	if err != nil {
		_ = listener.Close()
		return err
	}
	server := &http.Server{
		Handler:           k.routes(),
		ReadHeaderTimeout: 10 * time.Second,
		BaseContext:       func(net.Listener) context.Context { return ctx },
		ErrorLog:          slog.NewLogLogger(k.log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(tls.NewListener(listener, config)) }()
	select {
	case err := <-served:
		return ended(ctx, "log server", err)
	case <-ctx.Done():
	}
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(stopCtx); err != nil {
		_ = server.Close()
	}
	return ended(ctx, "log server", <-served)
}

func (k *Kubelet) tlsConfig() (*tls.Config, error) {
	pair, err := k.servingPair()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if k.opts.ClientCAFile == "" {
		return config, nil
	}
	pem, err := os.ReadFile(k.opts.ClientCAFile)
	if err != nil {
		return nil, fmt.Errorf("reading client authorities: %w", err)
	}
	config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
	if !config.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("reading client authorities: no certificate in %s", k.opts.ClientCAFile)
	}
	return config, nil
}

func (k *Kubelet) servingPair() (tls.Certificate, error) {
	if k.opts.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(k.opts.CertFile, k.opts.KeyFile)
		if err != nil {
			return pair, fmt.Errorf("reading serving certificate: %w", err)
		}
		return pair, nil
	}
	certPEM, keyPEM, err := cert.GenerateSelfSignedCertKey(k.hostAddress(), nil, nil)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making serving certificate: %w", err)
	}
	return tls.X509KeyPair(certPEM, keyPEM)
}

func (k *Kubelet) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", k.serveReady)
	mux.Handle("GET /metrics", promhttp.HandlerFor(k.opts.Registry, promhttp.HandlerOpts{}))
	mux.Handle("GET /containerLogs/", vkapi.PodHandler(vkapi.PodHandlerConfig{GetContainerLogs: k.containerLogs}, false))
	return mux
}

// serveReady says whether the node is registered.
func (k *Kubelet) serveReady(w http.ResponseWriter, _ *http.Request) {
	if nc := k.registered.Load(); nc != nil {
		select {
		case <-nc.Ready():
			_, _ = io.WriteString(w, "ok\n")
			return
		default:
		}
	}
	http.Error(w, "the node is not registered yet", http.StatusServiceUnavailable)
}

// containerLogs answers `kubectl logs`.
func (k *Kubelet) containerLogs(ctx context.Context, namespace, name, container string, o vkapi.ContainerLogOpts) (io.ReadCloser, error) {
	pod, err := k.caches.nodePods.Lister().Pods(namespace).Get(name)
	if err != nil {
		return nil, errdefs.NotFoundf("pod %s/%s is not on this node", namespace, name)
	}
	run, err := k.lastRun(pod, container)
	if err != nil {
		return nil, err
	}
	if o.Previous {
		run--
	}
	complete := func() bool {
		w := k.worker(pod.UID)
		return w == nil || w.ctx.Err() != nil || w.container(container).Runs != run+1 || w.container(container).State.Running == nil
	}
	in, err := logs.Open(ctx, k.logPath(pod.UID, container, run), logQuery(o), complete)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errdefs.NotFoundf("container %q of pod %s/%s has no such log", container, namespace, name)
	}
	return in, err
}

// lastRun returns the number of a container's current or last run: from its worker, else from the files of a pod that ended
// before this kubelet began.
func (k *Kubelet) lastRun(pod *corev1.Pod, container string) (int32, error) {
	if findContainer(pod, container) == nil {
		return 0, errdefs.NotFoundf("pod %s/%s has no container %q", pod.Namespace, pod.Name, container)
	}
	if w := k.worker(pod.UID); w != nil {
		return w.container(container).Runs - 1, nil
	}
	files, _ := filepath.Glob(filepath.Join(k.podDir(pod.UID), "logs", container, "*.log")) // the pattern is well formed
	last := -1
	for _, f := range files {
		if n, err := strconv.Atoi(trimLog(f)); err == nil {
			last = max(last, n)
		}
	}
	return int32(last), nil
}

func trimLog(file string) string {
	base := filepath.Base(file)
	return base[:len(base)-len(filepath.Ext(base))]
}

func logQuery(o vkapi.ContainerLogOpts) logs.Query {
	q := logs.Query{Tail: o.Tail, LimitBytes: o.LimitBytes, Timestamps: o.Timestamps, Since: o.SinceTime, Follow: o.Follow}
	if o.SinceSeconds > 0 {
		q.Since = time.Now().Add(-time.Duration(o.SinceSeconds) * time.Second)
	}
	return q
}

// dropOldLog removes the log of the run before the last but one; two are kept, as `kubectl logs --previous` knows no more.
func (w *worker) dropOldLog(container string, run int32) {
	path := w.k.logPath(w.uid, container, run-2)
	_ = os.Remove(path)
	_ = os.Remove(path + ".1")
}
