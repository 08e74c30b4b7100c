package hint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"time"

	"github.com/cenkalti/backoff/v4"
	httpruntime "github.com/go-openapi/runtime/client"
	"github.com/go-openapi/strfmt"
	"github.com/prometheus/alertmanager/api/v2/client/alert"
	"github.com/prometheus/alertmanager/api/v2/models"
	"github.com/prometheus/common/model"
)

const (
	// pollTimeout bounds each question.
	pollTimeout = 5 * time.Second
	// maxAnswerBytes bounds each answer; ten thousand alerts are some ten megabytes.
	maxAnswerBytes = 32 << 20
	// maxBackoff is how long an Alertmanager that does not answer is left alone.
	maxBackoff = time.Minute
	// asked are alerts about something in a cluster.
	asked = `cluster=~".+"`
)

// poller asks one Alertmanager.
type poller struct {
	name     string
	interval time.Duration
	alerts   alert.ClientService
	// seen are the alerts of the last answer; nil before the first.
	seen map[string]bool
	// trouble is whether it did not answer the last time.
	trouble bool
}

func newPoller(name, address string, interval time.Duration) (*poller, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil || u.RawQuery != "" {
		return nil, fmt.Errorf("the URL of Alertmanager %q is not usable: want http://host:port or https://host:port, with its path prefix and without a user", name)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	web := &http.Client{Transport: bounded{transport}}
	r := httpruntime.NewWithClient(u.Host, path.Join("/", u.Path, "api/v2"), []string{u.Scheme}, web)
	r.SetDebug(false) // whatever is in the environment: it would print every answer
	return &poller{name: name, interval: interval, alerts: alert.New(r, strfmt.Default)}, nil
}

// run asks until the context ends. One that does not answer is asked again soon, and
// then less and less often.
func (p *poller) run(ctx context.Context, h *Hints) {
	steps := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(time.Second, p.interval)), backoff.WithMaxInterval(max(maxBackoff, p.interval)), backoff.WithMaxElapsedTime(0))
	p.seen = nil
	for {
		hint, err := p.ask(ctx)
		if ctx.Err() != nil {
			return
		}
		pause := p.interval
		if err == nil {
			steps.Reset()
		} else {
			pause = steps.NextBackOff()
			h.metrics.count(sourceAPI, failed)
		}
		p.tell(h.log, err)
		if hint.Alerts > 0 {
			h.metrics.count(sourceAPI, h.ring(hint))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// tell logs what has changed.
func (p *poller) tell(log *slog.Logger, err error) {
	switch {
	case err != nil && !p.trouble:
		log.Warn("Alertmanager gives no hints", slog.String("alertmanager", p.name), slog.Any("error", err))
	case err == nil && p.trouble:
		log.Info("Alertmanager gives hints again", slog.String("alertmanager", p.name))
	}
	p.trouble = err != nil
}

// ask gives the alerts that have come since the last answer. Those of the first are
// no news: a loop that begins to wait has just had a round.
func (p *poller) ask(ctx context.Context) (Hint, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	yes, no := true, false
	answer, err := p.alerts.GetAlerts(alert.NewGetAlertsParamsWithContext(ctx).
		WithActive(&yes).WithSilenced(&no).WithInhibited(&no).WithFilter([]string{asked}))
	if err != nil {
		return Hint{}, fmt.Errorf("asking Alertmanager %s for its alerts: %.*s", p.name, maxSaid, err.Error())
	}
	fresh, seen := Hint{Source: sourceAPI}, make(map[string]bool, len(answer.Payload))
	var names []string
	for _, a := range answer.Payload {
		key, err := episode(a)
		if err != nil {
			return Hint{}, fmt.Errorf("asking Alertmanager %s for its alerts: %w", p.name, err)
		}
		seen[key] = true
		if p.seen != nil && !p.seen[key] {
			fresh.Alerts++
			names = append(names, name(a))
		}
	}
	p.seen, fresh.Names = seen, some(names)
	return fresh, nil
}

// episode names one firing of one alert.
func episode(a *models.GettableAlert) (string, error) {
	if a == nil || a.Fingerprint == nil || a.StartsAt == nil {
		return "", errors.New("an alert of the answer has no fingerprint or no start")
	}
	return *a.Fingerprint + a.StartsAt.String(), nil
}

// name is that of an alert, if it can be shown.
func name(a *models.GettableAlert) string {
	n := a.Labels[model.AlertNameLabel]
	if len(n) > maxValueBytes || hostile(n) {
		return "unnamed"
	}
	return n
}

// bounded cuts answers that are too long with an error.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswerBytes)
	}
	return resp, err
}
