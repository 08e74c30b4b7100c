package fleettest

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
	"github.com/stretchr/testify/require"
)

// Receive takes an answer as it came over the wire: parsed, relabelled and stored
// as one of the server's jobs does with one of its targets. It returns how many
// samples were in it.
func (s *Server) Receive(tb testing.TB, job, address, contentType string, body []byte, at time.Time) int {
	tb.Helper()
	cfg := s.job(tb, job)
	parser, err := textparse.New(body, contentType, labels.NewSymbolTable(), textparse.ParserOptions{ConvertClassicHistogramsToNHCB: true, KeepClassicOnClassicAndNativeHistograms: true})
	require.NoError(tb, err)
	var samples []Sample
	for {
		entry, err := parser.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(tb, err)
		if sample, ok := parsed(parser, entry, at); ok {
			samples = append(samples, sample)
		}
	}
	s.Scrape(tb, address, at, passed(samples, cfg.MetricRelabelConfigs, targetLabels(tb, cfg, address)))
	return len(samples)
}

// parsed is the sample that a parser is at, if it is at one. What tells no time is
// of now.
func parsed(parser textparse.Parser, entry textparse.Entry, now time.Time) (Sample, bool) {
	sample := Sample{At: now}
	var told *int64
	switch entry {
	case textparse.EntrySeries:
		_, told, sample.Value = parser.Series()
	case textparse.EntryHistogram:
		_, at, whole, float := parser.Histogram()
		told, sample.Histogram = at, float
		if whole != nil {
			sample.Histogram = whole.ToFloat(nil)
		}
	default:
		return Sample{}, false
	}
	if told != nil {
		sample.At = time.UnixMilli(*told)
	}
	parser.Labels(&sample.Labels)
	return sample, true
}
