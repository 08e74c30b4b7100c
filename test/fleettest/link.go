package fleettest

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery"
	"github.com/prometheus/prometheus/discovery/file"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// Read is a scrape of a lower server's /federate by one of this server's jobs:
// the selectors, the labels and the dropping are those of the configuration, and
// address says which of the job's targets the lower server is. A server that does
// not answer is nil.
func (s *Server) Read(tb testing.TB, job, address string, from *Server, at time.Time) {
	tb.Helper()
	cfg := s.job(tb, job)
	target := targetLabels(tb, cfg, address)
	if from == nil {
		s.Scrape(tb, address, at, nil)
		return
	}
	s.Scrape(tb, address, at, passed(from.Federate(tb, cfg, at), cfg.MetricRelabelConfigs, target))
}

// targetLabels are what a job says of a target. A series that lacks one of them
// gets it.
func targetLabels(tb testing.TB, job *config.ScrapeConfig, address string) map[string]string {
	tb.Helper()
	for _, group := range targetGroups(tb, job) {
		for _, target := range group.Targets {
			if string(target[model.AddressLabel]) != address {
				continue
			}
			out := map[string]string{"job": job.JobName, "instance": address}
			for name, v := range group.Labels {
				out[string(name)] = string(v)
			}
			return out
		}
	}
	tb.Fatalf("job %q does not scrape %s", job.JobName, address)
	return nil
}

// targetGroups are the targets that the job's configuration has, or files beside it.
func targetGroups(tb testing.TB, job *config.ScrapeConfig) []*targetgroup.Group {
	tb.Helper()
	var out []*targetgroup.Group
	for _, sd := range job.ServiceDiscoveryConfigs {
		switch sd := sd.(type) {
		case discovery.StaticConfig:
			out = append(out, sd...)
		case *file.SDConfig:
			for _, name := range sd.Files {
				raw, err := os.ReadFile(name)
				require.NoError(tb, err)
				var groups []*targetgroup.Group
				require.NoError(tb, yaml.Unmarshal(raw, &groups))
				out = append(out, groups...)
			}
		}
	}
	return out
}

func (s *Server) job(tb testing.TB, name string) *config.ScrapeConfig {
	tb.Helper()
	for _, cfg := range s.Config.ScrapeConfigs {
		if cfg.JobName == name {
			return cfg
		}
	}
	tb.Fatalf("the server has no job %q", name)
	return nil
}

// Federate is what the server answers to a job that reads it: the newest sample
// of each series, with its own time, if the series has not ended.
func (s *Server) Federate(tb testing.TB, job *config.ScrapeConfig, at time.Time) []Sample {
	tb.Helper()
	querier, err := s.Storage.Querier(at.Add(-LookBack).UnixMilli(), at.UnixMilli())
	require.NoError(tb, err)
	defer func() { require.NoError(tb, querier.Close()) }()
	var out []Sample
	for _, matchers := range selectors(tb, job) {
		set := querier.Select(tb.Context(), false, nil, matchers...)
		for set.Next() {
			series := set.At()
			sample, ok := newest(tb, series.Iterator(nil))
			if !ok {
				continue
			}
			sample.Labels = filledIn(series.Labels(), s.Config.GlobalConfig.ExternalLabels.Map())
			out = append(out, sample)
		}
		require.NoError(tb, set.Err())
	}
	return out
}

// newest is the last sample of a series, unless it says that the series ended.
func newest(tb testing.TB, it chunkenc.Iterator) (Sample, bool) {
	tb.Helper()
	var out Sample
	found := false
	for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
		found = true
		out = Sample{At: time.UnixMilli(it.AtT())}
		switch kind {
		case chunkenc.ValFloat:
			_, out.Value = it.At()
		default:
			_, out.Histogram = it.AtFloatHistogram(&histogram.FloatHistogram{})
		}
	}
	require.NoError(tb, it.Err())
	ended := value.IsStaleNaN(out.Value) || out.Histogram != nil && value.IsStaleNaN(out.Histogram.Sum)
	return out, found && !ended
}

// passed is what a job keeps of an answer.
func passed(samples []Sample, relabels []*relabel.Config, target map[string]string) []Sample {
	out := samples[:0]
	for _, sample := range samples {
		b := labels.NewBuilder(filledIn(sample.Labels, target))
		if !relabel.ProcessBuilder(b, relabels...) {
			continue
		}
		sample.Labels = b.Labels()
		out = append(out, sample)
	}
	return out
}

func filledIn(own labels.Labels, more map[string]string) labels.Labels {
	b := labels.NewBuilder(own)
	for name, v := range more {
		if !own.Has(name) {
			b.Set(name, v)
		}
	}
	return b.Labels()
}

func stale(series labels.Labels, at time.Time) Sample {
	return Sample{Labels: series, At: at, Value: math.Float64frombits(value.StaleNaN)}
}
