package promcfg_test

import (
	"testing"
	"time"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/relabel"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

func TestLinkCheck(t *testing.T) {
	for name, tc := range map[string]struct {
		link promcfg.Link
		want string
	}{
		"nothing said":            {promcfg.Link{}, ""},
		"pushed":                  {promcfg.Link{Kind: promcfg.Push, Timeout: time.Minute}, ""},
		"as long as the interval": {promcfg.Link{Timeout: 15 * time.Second}, ""},
		"unknown kind":            {promcfg.Link{Kind: "Pigeon"}, `link: kind "Pigeon" is neither Federate nor RemoteWrite`},
		"timeout above interval":  {promcfg.Link{Timeout: 16 * time.Second}, "link: scrape timeout 16s is above the interval of 15s"},
		"timeout below nothing":   {promcfg.Link{Timeout: -1}, "link: timeout -1ns: must be whole milliseconds"},
		"part of a millisecond":   {promcfg.Link{Timeout: 1500 * time.Microsecond}, "link: timeout 1.5ms: must be whole milliseconds"},
		"absolute path":           {promcfg.Link{Credentials: promcfg.Credentials{CAFile: "/ca.crt"}}, `link: credentials: CA file "/ca.crt": must be relative`},
		"certificate without key": {promcfg.Link{Credentials: promcfg.Credentials{CertFile: "a"}}, `certificate file "a" and key file "": one does not work without the other`},
		"line break in a path":    {promcfg.Link{Credentials: promcfg.Credentials{BearerFile: "a\nb"}}, "bearer token file: \"a\\nb\" has control characters"},
		"all that may be given":   {promcfg.Link{Kind: promcfg.Push, Credentials: promcfg.Credentials{CAFile: "a", CertFile: "b", KeyFile: "c", ServerName: "d", BearerFile: "../e"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.link.Check("link", 15*time.Second)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

func TestPlainHTTPShowsNoCredentials(t *testing.T) {
	for name, tc := range map[string]struct {
		credentials promcfg.Credentials
		want        string
	}{
		"none":          {promcfg.Credentials{}, ""},
		"token":         {promcfg.Credentials{BearerFile: "token"}, `cell "a": would send the token in "token" over plain http`},
		"authority":     {promcfg.Credentials{CAFile: "ca.crt"}, `cell "a": has files or a name for TLS`},
		"token, https":  {promcfg.Credentials{HTTPS: true, BearerFile: "token"}, ""},
		"server's name": {promcfg.Credentials{ServerName: "edge"}, `cell "a": has files or a name for TLS`},
	} {
		t.Run(name, func(t *testing.T) {
			pull := promcfg.Link{Credentials: tc.credentials}.CheckPull(`cell "a"`)
			scheme := "http"
			if tc.credentials.HTTPS {
				scheme = "https"
			}
			push := promcfg.CheckReceivers("cell", []promcfg.Receiver{{Name: "a", URL: scheme + "://b:9090/api/v1/write"}}, tc.credentials)
			for _, err := range []error{pull, push} {
				if tc.want == "" {
					require.NoError(t, err)
					continue
				}
				require.ErrorContains(t, err, tc.want)
			}
		})
	}
}

func TestCheckReceivers(t *testing.T) {
	one := promcfg.Receiver{Name: "central-a", URL: "http://a:9090/api/v1/write"}
	for name, tc := range map[string]struct {
		receivers []promcfg.Receiver
		want      string
	}{
		"none":         {nil, ""},
		"two":          {[]promcfg.Receiver{one, {Name: "central-b", URL: "https://b/x"}}, ""},
		"no name":      {[]promcfg.Receiver{{URL: one.URL}}, "receiver: name: is empty"},
		"no URL":       {[]promcfg.Receiver{{Name: "a"}}, `receiver "a": "" is not an absolute URL`},
		"name twice":   {[]promcfg.Receiver{one, {Name: one.Name, URL: "http://b/x"}}, `receiver "central-a": its name or its URL "http://b/x" is there twice`},
		"URL twice":    {[]promcfg.Receiver{one, {Name: "b", URL: one.URL}}, `receiver "b": its name or its URL`},
		"a password":   {[]promcfg.Receiver{{Name: "a", URL: "https://me:secret@b/x"}}, `receiver "a": the URL has a password in it`},
		"other scheme": {[]promcfg.Receiver{{Name: "a", URL: "ftp://b/x"}}, "scheme http or https"},
	} {
		t.Run(name, func(t *testing.T) {
			err := promcfg.CheckReceivers("receiver", tc.receivers, promcfg.Credentials{})
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
			require.NotContains(t, err.Error(), "secret")
		})
	}
}

// An existing server in a cell may evaluate less often than Pharos does.
func TestCheckLag(t *testing.T) {
	const second = time.Second
	for name, tc := range map[string]struct {
		made, interval, timeout time.Duration
		want                    string
	}{
		"the usual":                {15 * second, 15 * second, 10 * second, ""},
		"the shortest":             {second, second, second, ""},
		"the longest":              {40 * second, 40 * second, 10 * second, ""},
		"a sender twice as slow":   {30 * second, 15 * second, 10 * second, ""},
		"a sender of a minute":     {60 * second, 15 * second, 10 * second, `cell "a": a sample may be 1m50s old when it has come up, and counts as stale after 1m30s (6 intervals)`},
		"beyond the look-back":     {5 * time.Minute, 40 * second, 10 * second, `cell "a": a sample may be 6m40s old when it has come up, which is beyond the look-back of 5m0s`},
		"exactly at the look-back": {200 * second, 40 * second, 10 * second, "beyond the look-back"},
	} {
		t.Run(name, func(t *testing.T) {
			err := promcfg.CheckLag(`cell "a"`, tc.made, tc.interval, tc.timeout, 2)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
	for s := range 40 {
		interval := time.Duration(s+1) * second
		require.NoError(t, promcfg.CheckLag("any interval of ours", interval, interval, promcfg.Link{}.Scrape(interval), 2), interval)
	}
}

// Pass and Replicas are tried with Prometheus' own relabelling.
func TestWhatPasses(t *testing.T) {
	const names = "cluster:up:min|cluster:latency:seconds(_bucket|_sum|_count)?"
	steps := append(promcfg.Replicas(promcfg.ForeignReplicaLabels()), promcfg.Pass(names, []string{
		"geography", "region", "cell", "cluster", "pool", "edge_shard", "edge_replica", "cascade_shard", "le",
	})...)
	raw, err := promcfg.Config{ScrapeConfigs: []promcfg.ScrapeConfig{{JobName: "j", MetricRelabel: steps}}, Global: mustGlobal(t)}.Marshal()
	require.NoError(t, err)
	cfg, err := config.Load(string(raw), promslog.NewNopLogger())
	require.NoError(t, err)
	place := []string{"geography", "asia", "region", "east", "cell", "asia-1"}
	for name, tc := range map[string]struct{ series, want []string }{
		"declared": {
			[]string{"__name__", "cluster:up:min", "cluster", "shop", "edge_shard", "0", "edge_replica", "a", "cascade_shard", "1"},
			[]string{"__name__", "cluster:up:min", "cluster", "shop", "edge_shard", "0", "edge_replica", "a", "cascade_shard", "1"},
		},
		"undeclared label": {
			[]string{"__name__", "cluster:up:min", "cluster", "shop", "job", "federate-edge", "environment", "prod", "prometheus", "monitoring/k8s"},
			[]string{"__name__", "cluster:up:min", "cluster", "shop"},
		},
		"bucket": {
			[]string{"__name__", "cluster:latency:seconds_bucket", "le", "+Inf"},
			[]string{"__name__", "cluster:latency:seconds_bucket", "le", "+Inf"},
		},
		"undeclared name":        {[]string{"__name__", "up"}, nil},
		"begins like a declared": {[]string{"__name__", "cluster:up:min_other"}, nil},
		"of the Prometheus operator": {
			[]string{"__name__", "cluster:up:min", "prometheus_replica", "k8s-1", "edge_replica", "10.0.0.1:9090"},
			[]string{"__name__", "cluster:up:min", "edge_replica", "k8s-1"},
		},
		"of two kinds": {
			[]string{"__name__", "cluster:up:min", "prometheus_replica", "k8s-1", "replica", "x", "__replica__", "y"},
			[]string{"__name__", "cluster:up:min", "edge_replica", "k8s-1"},
		},
		"of a store's kind": {
			[]string{"__name__", "cluster:up:min", "__replica__", "y"},
			[]string{"__name__", "cluster:up:min", "edge_replica", "y"},
		},
		"without": {
			[]string{"__name__", "cluster:up:min", "edge_replica", "10.0.0.1:9090"},
			[]string{"__name__", "cluster:up:min", "edge_replica", "10.0.0.1:9090"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := labels.NewBuilder(labels.FromStrings(append(tc.series, place...)...))
			kept := relabel.ProcessBuilder(b, cfg.ScrapeConfigs[0].MetricRelabelConfigs...)
			require.Equal(t, tc.want != nil, kept)
			if kept {
				require.Equal(t, labels.FromStrings(append(tc.want, place...)...), b.Labels())
			}
		})
	}
}
