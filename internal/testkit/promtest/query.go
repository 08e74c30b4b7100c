package promtest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/testkit"
)

// answerWithin bounds one question. A server that hangs, as some tests have it,
// never answers.
const answerWithin = 20 * time.Second

// API is the server's own, with all that it can be asked.
func (s *Server) API() (promv1.API, error) {
	client, err := api.NewClient(api.Config{Address: "http://" + s.Address})
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", s.Address, err)
	}
	return promv1.NewAPI(client), nil
}

// question puts one to the server, about what is named for its error.
func (s *Server) question(about string, put func(context.Context, promv1.API) error) error {
	asked, err := s.API()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	if err := put(ctx, asked); err != nil {
		return fmt.Errorf("%s: %s: %w", s.Address, about, err)
	}
	return nil
}

// Ask has the server answer a query as of a moment.
func (s *Server) Ask(expr string, at time.Time) (result model.Value, err error) {
	err = s.question(expr, func(ctx context.Context, asked promv1.API) error {
		var warnings promv1.Warnings
		var err error
		result, warnings, _, err = asked.Query(ctx, expr, at)
		if err == nil && len(warnings) > 0 {
			err = fmt.Errorf("warns of %q", warnings)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// Now is the answer to a query as of now.
func (s *Server) Now(expr string) (model.Vector, error) {
	result, err := s.Ask(expr, time.Now())
	if err != nil {
		return nil, err
	}
	return result.(model.Vector), nil
}

// At is the answer to a query as of a moment, for which it waits: a server that
// has just started answers with 503.
func (s *Server) At(t testing.TB, expr string, at time.Time) model.Value {
	t.Helper()
	var result model.Value
	testkit.Await(t, func() (err error) {
		result, err = s.Ask(expr, at)
		return err
	})
	return result
}

// Vector is the answer as of now, for which it waits.
func (s *Server) Vector(t testing.TB, expr string) model.Vector {
	t.Helper()
	return s.At(t, expr, time.Now()).(model.Vector)
}

// Raw is every sample of a selector in the time up to now, as it is stored.
func (s *Server) Raw(t testing.TB, selector string, since time.Time) model.Matrix {
	t.Helper()
	now := time.Now()
	window := max(1, now.Sub(since).Milliseconds())
	return s.At(t, fmt.Sprintf("%s[%dms]", selector, window), now).(model.Matrix)
}

// Gives checks that a query has exactly one result, of the value.
func (s *Server) Gives(expr string, want float64) error {
	got, err := s.Now(expr)
	if err == nil && (len(got) != 1 || float64(got[0].Value) != want) {
		err = fmt.Errorf("%s: %s gives %v, want %v", s.Address, expr, got, want)
	}
	return err
}

// Lacks checks that a query has no result.
func (s *Server) Lacks(expr string) error {
	got, err := s.Now(expr)
	if err == nil && len(got) > 0 {
		err = fmt.Errorf("%s: %s gives %v, want nothing", s.Address, expr, got)
	}
	return err
}

// Tick is how fine the moments are that are looked up.
const Tick = 100 * time.Millisecond

// Over is an expression as it was at every tick since a moment, by what is stored.
func (s *Server) Over(t testing.TB, expr string, since time.Time) model.Matrix {
	t.Helper()
	var result model.Value
	testkit.Await(t, func() error {
		return s.question(expr, func(ctx context.Context, asked promv1.API) (err error) {
			result, _, _, err = asked.QueryRange(ctx, expr, promv1.Range{Start: since.Truncate(Tick), End: time.Now(), Step: Tick})
			return err
		})
	})
	return result.(model.Matrix)
}

// Series are those of a selector that the server has had since a moment, by their
// labels.
func (s *Server) Series(t testing.TB, selector string, since time.Time) []model.LabelSet {
	t.Helper()
	var found []model.LabelSet
	testkit.Await(t, func() error {
		return s.question(selector, func(ctx context.Context, asked promv1.API) (err error) {
			found, _, _, err = asked.Series(ctx, []string{selector}, since, time.Now())
			return err
		})
	})
	return found
}

// Targets are all that the server scrapes.
func (s *Server) Targets() ([]promv1.ActiveTarget, error) {
	var found promv1.TargetsResult
	err := s.question("listing targets", func(ctx context.Context, asked promv1.API) (err error) {
		found, err = asked.Targets(ctx)
		return err
	})
	return found.Active, err
}

// Reasons are why targets could not be read the last time, by one of their labels.
func (s *Server) Reasons(t testing.TB, by model.LabelName) map[string]string {
	t.Helper()
	targets, err := s.Targets()
	require.NoError(t, err)
	out := map[string]string{}
	for _, target := range targets {
		out[string(target.Labels[by])] = target.LastError
	}
	return out
}
