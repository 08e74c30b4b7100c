// Package promapi asks a Prometheus server instant questions within bounds of
// time and size, and says of each sample when the server itself took it, and of
// each answer how far the server's clock is from ours. It does not interpret
// answers and does not retry.
package promapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	promclient "github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/pharos-fleet/pharos/internal/skew"
)

// Limits that hold where Options leave them unset.
const (
	DefaultTimeout  = 5 * time.Second
	DefaultMaxBytes = 64 << 20
)

// ErrTooLarge means that an answer was longer than the client reads.
var ErrTooLarge = errors.New("answer is too large")

// Options describe one server.
type Options struct {
	// URL of the server, with its path prefix if it has one.
	URL string
	// Timeout bounds each question, in the client and in the server.
	Timeout time.Duration
	// MaxBytes bounds the body of each answer.
	MaxBytes int64
	// Transport unset means one of its own with the ordinary settings.
	Transport http.RoundTripper
	// Now unset means time.Now.
	Now func() time.Time
}

// Client asks one server.
type Client struct {
	url     string
	timeout time.Duration
	api     promv1.API
}

// New checks the options; it does not reach out to the server.
func New(o Options) (*Client, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("reading Prometheus URL %q: want http://host:port or https://host:port", o.URL)
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultMaxBytes
	}
	if o.Transport == nil {
		o.Transport = http.DefaultTransport.(*http.Transport).Clone()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	transport := skew.Transport{Next: bounded{o.Transport, o.MaxBytes}, Now: o.Now}
	c, err := promclient.NewClient(promclient.Config{Address: o.URL, RoundTripper: transport})
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", u.Redacted(), err)
	}
	return &Client{url: u.Redacted(), timeout: o.Timeout, api: promv1.NewAPI(c)}, nil
}

// Sample is one series of an answer.
type Sample struct {
	Labels map[string]string
	Value  float64
	// At is when the sample was taken, not when the question was evaluated.
	At time.Time
}

// Answer is what the server said to one question.
type Answer struct {
	Samples []Sample
	// Warnings are the server's own, and make the whole answer incomplete.
	Warnings []string
	// Unusable are the series whose value or time cannot be used. They leave
	// what other series say complete.
	Unusable []Unusable
	// Infos are remarks that leave the answer complete.
	Infos []string
	// Skew is how far the server's clock is ahead of ours, by the time at which
	// it says to have answered. It is exact to about a second.
	Skew time.Duration
}

// Unusable is a series that was left out of an answer.
type Unusable struct {
	Labels map[string]string
	Why    string
}

// Samples evaluates an instant selector at the given time and joins to every
// series the timestamp of its own newest sample. Series that are not finite
// numbers, or came without a timestamp, are left out and named as unusable.
func (c *Client) Samples(ctx context.Context, selector string, at time.Time) (Answer, error) {
	values, err := c.query(ctx, selector, at)
	if err != nil {
		return Answer{}, err
	}
	times, err := c.query(ctx, "timestamp("+selector+")", at)
	if err != nil {
		return Answer{}, err
	}
	a := join(selector, values, times)
	a.Skew = skew.Worse(values.skew, times.skew)
	return a, nil
}

type result struct {
	vector   model.Vector
	warnings []string
	infos    []string
	skew     time.Duration
}

func (c *Client) query(ctx context.Context, expr string, at time.Time) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	ctx, clocks := skew.Measure(ctx)
	value, warnings, infos, err := c.api.Query(ctx, expr, at, promv1.WithTimeout(c.timeout))
	if err != nil {
		return result{}, fmt.Errorf("asking %s for %s: %w", c.url, expr, err)
	}
	vector, ok := value.(model.Vector)
	if !ok {
		return result{}, fmt.Errorf("asking %s for %s: the answer is no instant vector", c.url, expr)
	}
	ahead, err := clocks.Skew()
	if err != nil {
		return result{}, fmt.Errorf("asking %s for %s: %w", c.url, expr, err)
	}
	return result{vector, warnings, infos, ahead}, nil
}

// join pairs values with timestamps by their labels.
func join(selector string, values, times result) Answer {
	a := Answer{Warnings: append(values.warnings, times.warnings...), Infos: append(values.infos, times.infos...)}
	taken := make(map[model.Fingerprint]*model.Sample, len(times.vector))
	for _, s := range times.vector {
		if s != nil {
			taken[identity(s.Metric)] = s
		}
	}
	for _, s := range values.vector {
		if s == nil {
			a.Warnings = append(a.Warnings, selector+": a series is empty")
			continue
		}
		sample, unusable := usable(s, taken[identity(s.Metric)])
		if unusable != "" {
			a.Unusable = append(a.Unusable, Unusable{labels(s.Metric), fmt.Sprintf("%s: series %s %s", selector, s.Metric, unusable)})
			continue
		}
		a.Samples = append(a.Samples, sample)
	}
	return a
}

// identity leaves out the name, which timestamp() drops.
func identity(m model.Metric) model.Fingerprint {
	set := make(model.LabelSet, len(m))
	for k, v := range m {
		if k != model.MetricNameLabel {
			set[k] = v
		}
	}
	return set.Fingerprint()
}

// maxSeconds bounds timestamps to what a time can hold with nanoseconds.
const maxSeconds = float64(math.MaxInt64 / int64(time.Second))

func usable(s, taken *model.Sample) (Sample, string) {
	if s.Histogram != nil {
		return Sample{}, "is a histogram"
	}
	if v := float64(s.Value); math.IsNaN(v) || math.IsInf(v, 0) {
		return Sample{}, "is no finite number"
	}
	if taken == nil || taken.Histogram != nil {
		return Sample{}, "came without a timestamp"
	}
	at := float64(taken.Value)
	if math.IsNaN(at) || at < 0 || at > maxSeconds {
		return Sample{}, "came with an impossible timestamp"
	}
	return Sample{Labels: labels(s.Metric), Value: float64(s.Value), At: Time(at)}, ""
}

func labels(m model.Metric) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[string(k)] = string(v)
	}
	return out
}

// Time turns seconds since the epoch, as Prometheus writes them, into a time
// with the millisecond that Prometheus keeps.
func Time(seconds float64) time.Time {
	return time.UnixMilli(int64(math.Round(seconds * 1000))).UTC()
}

// bounded cuts bodies that are too long with an error.
type bounded struct {
	next http.RoundTripper
	max  int64
}

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = &boundedBody{ReadCloser: resp.Body, left: b.max}
	return resp, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

// Read gives out one byte more than allowed at most, to tell a body of exactly
// the allowed length from a longer one.
func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, ErrTooLarge
	}
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n, ErrTooLarge
	}
	return n, err
}
