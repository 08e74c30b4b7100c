package bench_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/util/compression"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/test/fleettest"
)

// server is a real Prometheus whose use of the machine is measured.
type server struct {
	address string
	process procfs.Proc
}

// start runs a Prometheus with the files until the benchmark ends.
func start(b *testing.B, address string, files promcfg.Files) *server {
	b.Helper()
	dir := b.TempDir()
	for name, raw := range files {
		require.NoError(b, os.WriteFile(filepath.Join(dir, name), raw, 0o600))
	}
	cmd := testkit.Spawn(b, "prometheus",
		"--config.file="+filepath.Join(dir, promcfg.ConfigFile), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--web.enable-remote-write-receiver", "--log.level=warn")
	process, err := procfs.NewProc(cmd.Process.Pid)
	require.NoError(b, err)
	s := &server{address: address, process: process}
	require.Eventually(b, s.ready, time.Minute, 50*time.Millisecond)
	return s
}

func (s *server) ready() bool {
	resp, err := http.Get("http://" + s.address + "/-/ready")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

// used is the processor time of the process since its start.
func (s *server) used(b *testing.B) time.Duration {
	b.Helper()
	stat, err := s.process.Stat()
	require.NoError(b, err)
	return time.Duration(stat.CPUTime() * float64(time.Second))
}

// resident is the memory that the process has.
func (s *server) resident(b *testing.B) float64 {
	b.Helper()
	stat, err := s.process.Stat()
	require.NoError(b, err)
	return float64(stat.ResidentMemory())
}

// hold has the server hold the samples, as if its rules had recorded them.
func (s *server) hold(b *testing.B, samples []fleettest.Sample) {
	b.Helper()
	const most = 5000
	for begin := 0; begin < len(samples); begin += most {
		var req prompb.WriteRequest
		for _, sample := range samples[begin:min(begin+most, len(samples))] {
			series := prompb.TimeSeries{Samples: []prompb.Sample{{Value: sample.Value, Timestamp: sample.At.UnixMilli()}}}
			sample.Labels.Range(func(l labels.Label) {
				series.Labels = append(series.Labels, prompb.Label{Name: l.Name, Value: l.Value})
			})
			req.Timeseries = append(req.Timeseries, series)
		}
		raw, err := req.Marshal()
		require.NoError(b, err)
		packed, err := compression.Encode(compression.Snappy, raw, nil)
		require.NoError(b, err)
		resp, err := http.Post("http://"+s.address+promcfg.ReceivePath, "application/x-protobuf", bytes.NewReader(packed))
		require.NoError(b, err)
		require.NoError(b, resp.Body.Close())
		require.Equal(b, http.StatusNoContent, resp.StatusCode, fmt.Sprint(begin))
	}
}
