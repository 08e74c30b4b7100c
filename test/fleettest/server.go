// Package fleettest keeps a fleet's Prometheus servers in the process of a test:
// Prometheus' own storage, rules and engine, set up by what the tiers render, on
// the test's clock. A whole day of a fleet passes in seconds, and every tier is at
// the same moment. What a server does over the network is tested elsewhere.
package fleettest

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	promrules "github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/teststorage"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// LookBack is how long Prometheus takes the newest sample of a series for what
// the series is now.
const LookBack = 5 * time.Minute

// Sample is one value of one series at a moment.
type Sample struct {
	Labels labels.Labels
	At     time.Time
	Value  float64
	// Histogram is set instead of Value for native histograms.
	Histogram *histogram.FloatHistogram
}

// Server is one Prometheus without network and clock.
type Server struct {
	Storage *teststorage.TestStorage
	Config  *config.Config
	// Groups are its rule groups, in the order in which Round evaluates them.
	Groups []*promrules.Group

	engine *promql.Engine
	links  map[string]map[uint64]labels.Labels // what each target told last
}

// New sets a server up by rendered files. It ends with the test.
func New(tb testing.TB, files promcfg.Files) *Server {
	tb.Helper()
	s := Bare(tb)
	dir := tb.TempDir()
	write(tb, dir, files)
	cfg, err := config.LoadFile(filepath.Join(dir, promcfg.ConfigFile), false, slog.New(slog.DiscardHandler))
	require.NoError(tb, err)
	s.Config = cfg
	manager := promrules.NewManager(&promrules.ManagerOptions{
		NameValidationScheme: model.UTF8Validation,
		QueryFunc:            promrules.EngineQueryFunc(s.engine, s.Storage),
		NotifyFunc:           func(context.Context, string, ...*promrules.Alert) {},
		Context:              tb.Context(),
		AppendableV2:         s.Storage,
		Queryable:            s.Storage,
		Logger:               slog.New(slog.DiscardHandler),
		ExternalURL:          &url.URL{Scheme: "http", Host: "test"},
	})
	for _, name := range cfg.RuleFiles {
		groups, errs := manager.LoadGroups(time.Duration(cfg.GlobalConfig.EvaluationInterval),
			cfg.GlobalConfig.ExternalLabels, "http://test", nil, false, name)
		require.Empty(tb, errs)
		for _, g := range groups {
			s.Groups = append(s.Groups, g)
			for _, r := range g.AlertingRules() {
				// Nothing is restored here, and ALERTS begins only after it is.
				r.SetRestored(true)
			}
		}
	}
	return s
}

// Bare is a server without configuration and rules: a place to keep samples and
// ask about them.
func Bare(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{Storage: teststorage.New(tb), links: map[string]map[uint64]labels.Labels{}}
	s.engine = promql.NewEngine(promql.EngineOpts{
		Logger: slog.New(slog.DiscardHandler), MaxSamples: 50e6, Timeout: 5 * time.Minute, LookbackDelta: LookBack,
		EnableAtModifier: true, EnableNegativeOffset: true,
		// A subquery without a step has the server's evaluation interval, which is a
		// minute where nothing says otherwise.
		NoStepSubqueryIntervalFn: func(int64) int64 {
			if s.Config == nil {
				return time.Minute.Milliseconds()
			}
			return time.Duration(s.Config.GlobalConfig.EvaluationInterval).Milliseconds()
		},
	})
	return s
}

// Scrape takes what a target tells, and ends the series that it no longer tells.
// A target that tells nothing did not answer.
func (s *Server) Scrape(tb testing.TB, target string, at time.Time, samples []Sample) {
	tb.Helper()
	told := make(map[uint64]labels.Labels, len(samples))
	for _, sample := range samples {
		told[sample.Labels.Hash()] = sample.Labels
	}
	for hash, ended := range s.links[target] {
		if _, ok := told[hash]; !ok {
			samples = append(samples, stale(ended, at))
		}
	}
	s.links[target] = told
	s.Append(tb, samples)
}

// Append stores samples.
func (s *Server) Append(tb testing.TB, samples []Sample) {
	tb.Helper()
	app := s.Storage.AppenderV2(tb.Context())
	for _, sample := range samples {
		_, err := app.Append(0, sample.Labels, 0, sample.At.UnixMilli(), sample.Value, nil, sample.Histogram, storage.AppendV2Options{})
		require.NoError(tb, err, "storing %s", sample.Labels)
	}
	require.NoError(tb, app.Commit())
}

// Round evaluates every rule once. A rule that fails fails the test.
func (s *Server) Round(tb testing.TB, at time.Time) {
	tb.Helper()
	for _, g := range s.Groups {
		g.Eval(tb.Context(), at)
		for _, r := range g.Rules() {
			require.NoError(tb, r.LastError(), "evaluating %s of %s at %s", r.Name(), g.Name(), at)
		}
	}
}

// Query asks for what an expression is at a moment.
func (s *Server) Query(tb testing.TB, expr string, at time.Time) promql.Vector {
	tb.Helper()
	query, err := s.engine.NewInstantQuery(tb.Context(), s.Storage, nil, expr, at)
	require.NoError(tb, err, expr)
	defer query.Close()
	result := query.Exec(tb.Context())
	require.NoError(tb, result.Err, expr)
	if scalar, ok := result.Value.(promql.Scalar); ok {
		return promql.Vector{{T: scalar.T, F: scalar.V}}
	}
	vector, err := result.Vector()
	require.NoError(tb, err, expr)
	return slices.Clone(vector)
}

// selectors are the parsed match[] parameters of a job.
func selectors(tb testing.TB, job *config.ScrapeConfig) [][]*labels.Matcher {
	tb.Helper()
	sets, err := parser.NewParser(parser.Options{}).ParseMetricSelectors(job.Params["match[]"])
	require.NoError(tb, err)
	return sets
}

func write(tb testing.TB, dir string, files promcfg.Files) {
	tb.Helper()
	for name, raw := range files {
		require.NoError(tb, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
}
