package promcfg_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// strange are texts that YAML has to write with care.
func strange() []string {
	return []string{"", "a", "no", "1e3", `quo"te`, "a: b", "- x", "  - job_name: y", "#", "scrape_configs:\n  - job_name: z\n", "two\n\nlines", "中国", "{{ $labels.x }}", "\t"}
}

func job(name string, change ...func(*promcfg.ScrapeConfig)) promcfg.ScrapeConfig {
	j := promcfg.ScrapeConfig{JobName: name, Static: []promcfg.StaticGroup{{Targets: []string{"a:1"}}}}
	for _, c := range change {
		c(&j)
	}
	return j
}

func configOf(t *testing.T, interval time.Duration, cell string, jobs ...promcfg.ScrapeConfig) promcfg.Config {
	t.Helper()
	global, err := promcfg.NewGlobal(interval, map[string]string{"cell": cell, "geography": "asia"})
	require.NoError(t, err)
	return promcfg.Config{Global: global, ScrapeConfigs: jobs, Storage: promcfg.Receiving()}
}

func validate(t *testing.T, c promcfg.Config) error {
	t.Helper()
	raw, err := c.Marshal()
	require.NoError(t, err)
	return promcfg.Validate(promcfg.Files{promcfg.ConfigFile: raw})
}

// Jobs that are written one by one make the same bytes as all at once, the first
// time and every other.
func TestJobsAreWrittenAsTheyWereAllAtOnce(t *testing.T) {
	var jobs []promcfg.ScrapeConfig
	for i, s := range strange() {
		jobs = append(jobs, job(fmt.Sprint(i, s), func(j *promcfg.ScrapeConfig) {
			j.Static[0].Labels = map[string]string{"x": s}
			j.Params = map[string][]string{"match[]": {s, `{__name__=~"a|b"}`}}
			j.MetricRelabel = []promcfg.Relabel{{Regex: s, Replacement: &s, SourceLabels: []string{"a", "b"}}}
		}))
	}
	for n := range len(jobs) + 1 {
		c := configOf(t, time.Second, "c", jobs[:n]...)
		if n == 0 {
			c.ScrapeConfigs = []promcfg.ScrapeConfig{}
		}
		want, err := promcfg.Marshal(c)
		require.NoError(t, err)
		for range 2 {
			got, err := c.Marshal()
			require.NoError(t, err)
			require.Equal(t, string(want), string(got))
		}
	}
}

// A job that was good in one server is not looked at again in another, but what
// is wrong is found however many good ones are around it.
func TestWhatWasGoodOnceHidesNothing(t *testing.T) {
	slow := func(j *promcfg.ScrapeConfig) { j.ScrapeTimeout = promcfg.Duration(4 * time.Second) }
	good := []promcfg.ScrapeConfig{job("one"), job("two", slow), job("three")}
	for _, cell := range []string{"c1", "c2", "    - job_name: one", `scrape_configs:`} {
		require.NoError(t, validate(t, configOf(t, 5*time.Second, cell, good...)))
	}
	require.ErrorContains(t, validate(t, configOf(t, 3*time.Second, "c1", good...)), `scrape timeout greater than scrape interval for scrape config with job name "two"`,
		"beside another interval it is another job")
	require.ErrorContains(t, validate(t, configOf(t, 5*time.Second, "c3", append(good, job("two", slow))...)), `multiple scrape configs with job name "two"`)
	require.ErrorContains(t, validate(t, configOf(t, 5*time.Second, "c3", append(good, job("two"))...)), `multiple scrape configs with job name "two"`)
	bad := job("four", func(j *promcfg.ScrapeConfig) { j.MetricRelabel = []promcfg.Relabel{{Action: "dance"}} })
	for range 2 {
		require.ErrorContains(t, validate(t, configOf(t, 5*time.Second, "c1", append(good, bad)...)), `unknown relabel action "dance"`)
	}
	writes := configOf(t, 5*time.Second, "c1", good...)
	writes.RemoteWrite = []promcfg.RemoteWrite{{Name: "x"}}
	require.ErrorContains(t, validate(t, writes), "unknown type for remote write protobuf message", "what comes after jobs that are all known is looked at")
}

// The line that is told is that of the file, not of what was left of it.
func TestAProblemIsToldByItsLine(t *testing.T) {
	first, last := job("before"), job("after", func(j *promcfg.ScrapeConfig) { j.MetricRelabel = []promcfg.Relabel{{Action: "dance"}} })
	require.NoError(t, validate(t, configOf(t, 5*time.Second, "c1", first)))
	alone := validate(t, configOf(t, 5*time.Second, "c1", last))
	require.ErrorContains(t, alone, `unknown relabel action "dance"`)
	raw, err := configOf(t, 5*time.Second, "c1", first, last).Marshal()
	require.NoError(t, err)
	text := string(raw)
	text = strings.Replace(text, "action: dance", "gibberish: 1", 1)
	line := 1 + strings.Count(text[:strings.Index(text, "gibberish")], "\n")
	err = promcfg.Validate(promcfg.Files{promcfg.ConfigFile: []byte(text)})
	require.ErrorContains(t, err, fmt.Sprintf("line %d", line))
	require.ErrorContains(t, err, "gibberish")
}

// A configuration of another make is loaded as it is.
func TestAStrangersConfigurationIsLoadedWhole(t *testing.T) {
	const text = "scrape_configs:\n- job_name: x\n  static_configs: [{targets: ['a:1']}]\n- job_name: x\n"
	for range 2 {
		require.ErrorContains(t, promcfg.Validate(promcfg.Files{promcfg.ConfigFile: []byte("global: {}\n" + text)}), `multiple scrape configs with job name "x"`)
	}
}
