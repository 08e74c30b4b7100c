package agent

import (
	"net/http"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// newDurations has native buckets for who reads those, and classic ones.
func newDurations() *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "pharos_edge_agent_request_duration_seconds",
		Help:    "Time that a request took, by what was asked for and by the status of the answer. Answers that broke off are not in it; the proxy counts them as failed scrapes.",
		Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10},

		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  100,
		NativeHistogramMinResetDuration: time.Hour,
	}, []string{"handler", "code"})
}

func (a *Agent) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /state/"+metaCluster+"/metrics", a.measured(componentState, compressed(a.serveMeta)))
	mux.Handle("GET /state/{namespace}/{cluster}/metrics", a.measured(componentState, compressed(a.serveCluster)))
	mux.Handle("GET /sd/{component}", a.measured("discovery", compressed(a.serveDiscovery)))
	scraped := map[string]http.Handler{
		"/proxy/{namespace}/{cluster}/apiserver/metrics": a.measured(componentAPIServer, http.HandlerFunc(a.serveAPIServer)),
	}
	for _, e := range endpoints() {
		scraped["/proxy/{namespace}/{cluster}/nodes/{node}/"+e.name+"/metrics"] = a.measured(e.name, a.serveNode(e))
	}
	for path, handler := range scraped {
		mux.Handle("GET "+path, handler)
		// GET would take HEAD along, and scrape for nobody.
		mux.HandleFunc("HEAD "+path, refuseHead)
	}
	return mux
}

// measured observes how long answers take.
func (a *Agent) measured(name string, h http.Handler) http.Handler {
	return promhttp.InstrumentHandlerDuration(a.durations.MustCurryWith(prometheus.Labels{"handler": name}), h)
}

func refuseHead(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Allow", http.MethodGet)
	w.WriteHeader(http.StatusMethodNotAllowed)
}

// compressed lets a reader have a response by gzip, at the level that costs
// little: the way is short.
func compressed(h http.HandlerFunc) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		panic(err) // a constant level is valid or it is not
	}
	return wrap(h)
}
