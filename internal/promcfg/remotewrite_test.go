package promcfg_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

func load(t testing.TB, c promcfg.Config) *config.Config {
	t.Helper()
	c.Global = mustGlobal(t)
	raw, err := c.Marshal()
	require.NoError(t, err)
	require.NoError(t, promcfg.Validate(promcfg.Files{promcfg.ConfigFile: raw}))
	cfg, err := config.Load(string(raw), promslog.NewNopLogger())
	require.NoError(t, err)
	return cfg
}

func TestRemoteWriteAsPrometheusReadsIt(t *testing.T) {
	stream := promcfg.Stream{
		Pass: promcfg.Pass("up", nil), Series: 100_000, Interval: 15 * time.Second,
		Credentials: promcfg.Credentials{CAFile: "ca.crt", CertFile: "tls.crt", KeyFile: "tls.key", ServerName: "central", BearerFile: "../token"},
	}
	cfg := load(t, promcfg.Config{
		RemoteWrite: stream.ToEach([]promcfg.Receiver{
			{Name: "central-a", URL: "https://a:9090" + promcfg.ReceivePath}, {Name: "central-b", URL: "https://b:9090" + promcfg.ReceivePath},
		}),
		Storage: promcfg.Receiving(),
	})
	require.Equal(t, model.Duration(4*time.Hour), cfg.StorageConfig.TSDBConfig.OutOfOrderTimeWindowFlag)
	require.Len(t, cfg.RemoteWriteConfigs, 2)
	got := cfg.RemoteWriteConfigs[1]
	require.Equal(t, "https://b:9090/api/v1/write", got.URL.String())
	require.Equal(t, "central-b", got.Name)
	require.EqualValues(t, promcfg.WriteV2, got.ProtobufMessage)
	require.True(t, got.SendNativeHistograms)
	require.False(t, got.MetadataConfig.Send)
	require.Equal(t, model.Duration(10*time.Second), got.RemoteTimeout)
	require.Equal(t, "tls.crt", got.HTTPClientConfig.TLSConfig.CertFile)
	require.Equal(t, "central", got.HTTPClientConfig.TLSConfig.ServerName)
	require.Equal(t, "../token", got.HTTPClientConfig.Authorization.CredentialsFile)
	require.Len(t, got.WriteRelabelConfigs, 2)
	require.Zero(t, got.QueueConfig.SampleAgeLimit, "nothing is too old to be sent")
	require.True(t, got.QueueConfig.RetryOnRateLimit)
}

func TestAStoreMayBeWrittenToInTheFirstVersion(t *testing.T) {
	w := promcfg.Stream{Message: promcfg.WriteV1, Interval: time.Second, Timeout: time.Minute}.To(promcfg.Receiver{Name: "store", URL: "http://store/write"})
	got := load(t, promcfg.Config{RemoteWrite: []promcfg.RemoteWrite{w}}).RemoteWriteConfigs[0]
	require.EqualValues(t, promcfg.WriteV1, got.ProtobufMessage)
	require.Equal(t, model.Duration(time.Minute), got.RemoteTimeout)
}

// What a queue can send is more than what comes in, and what it holds is bounded.
func TestQueueFitsTheSeries(t *testing.T) {
	for _, series := range []uint{0, 1, 60, 25_000, 100_000, 1_000_000, 1_000_000_000} {
		for _, interval := range []time.Duration{time.Second, 15 * time.Second, 40 * time.Second} {
			t.Run(fmt.Sprintf("%d in %s", series, interval), func(t *testing.T) {
				w := promcfg.Stream{Series: series, Interval: interval}.To(promcfg.Receiver{Name: "r", URL: "http://r/w"})
				q := load(t, promcfg.Config{RemoteWrite: []promcfg.RemoteWrite{w}}).RemoteWriteConfigs[0].QueueConfig
				require.GreaterOrEqual(t, q.MaxShards, 1)
				require.LessOrEqual(t, q.MaxShards*(q.Capacity+q.MaxSamplesPerSend), 600_000)
				require.LessOrEqual(t, time.Duration(q.BatchSendDeadline), interval/5, "a sample does not wait for the next ones")
				require.LessOrEqual(t, time.Duration(q.MaxBackoff), interval, "a receiver that is back is found within an interval")
				if series <= 1_000_000 && interval >= 15*time.Second {
					canSend := float64(q.MaxShards*q.MaxSamplesPerSend) * 2 // half a second for each request
					require.Greater(t, canSend, 2*float64(series)/interval.Seconds(), "it must catch up after a cut")
				}
			})
		}
	}
}

func TestFederationAsPrometheusReadsIt(t *testing.T) {
	link := promcfg.Link{Timeout: 900 * time.Millisecond, Credentials: promcfg.Credentials{HTTPS: true, CAFile: "ca.crt", BearerFile: "token"}}
	job := promcfg.Federation{
		Job: "federate-edge", Match: []string{"up"}, Pass: promcfg.Pass("up", nil), Samples: 30_000, Link: link, Interval: time.Second,
	}.Scrape()
	got := load(t, promcfg.Config{ScrapeConfigs: []promcfg.ScrapeConfig{job}}).ScrapeConfigs[0]
	require.Equal(t, "https", got.Scheme)
	require.Equal(t, model.Duration(900*time.Millisecond), got.ScrapeTimeout)
	require.Equal(t, "ca.crt", got.HTTPClientConfig.TLSConfig.CAFile)
	require.Equal(t, "token", got.HTTPClientConfig.Authorization.CredentialsFile)
	require.True(t, got.HonorLabels && got.HonorTimestamps && got.TrackTimestampsStaleness && got.ScrapeNativeHistogramsEnabled())
	require.Equal(t, uint(30_000), got.SampleLimit)
	require.Len(t, got.MetricRelabelConfigs, 2)

	plain := promcfg.Federation{Job: "j", Match: []string{"up"}, Samples: 1}.Scrape()
	got = load(t, promcfg.Config{ScrapeConfigs: []promcfg.ScrapeConfig{plain}}).ScrapeConfigs[0]
	require.Equal(t, "http", got.Scheme)
	require.Equal(t, got.ScrapeTimeout, mustGlobal(t).ScrapeTimeout)
}
