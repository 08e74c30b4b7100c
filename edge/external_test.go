package edge

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/promcfg/promcfgtest"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

const somebodys = `
global: {scrape_interval: 1m}
rule_files: ["*.rules.yaml"]
scrape_config_files: ["*.scrape.yaml"]
scrape_configs:
  - {job_name: kubelet, static_configs: [{targets: ["a:1"]}]}
  - {job_name: etcd, static_configs: [{targets: ["a:1"]}]}
`

func external(t *testing.T) promcfg.Files {
	t.Helper()
	files, err := RenderExternal(options())
	require.NoError(t, err)
	return files
}

func TestExternalIsWhatAnothersPrometheusAccepts(t *testing.T) {
	o := options()
	o.Contract = declaring("kubelet", "kubelet_running_pods")
	files, err := RenderExternal(o)
	require.NoError(t, err)
	scrapes := promcfg.Files{AgentScrapeFile: files[AgentScrapeFile], MetaScrapeFile: files[MetaScrapeFile]}
	promcfgtest.Golden(t, "external", scrapes)
	again, err := RenderExternal(o)
	require.NoError(t, err)
	require.Equal(t, files, again)

	dir := t.TempDir()
	promcfgtest.Write(t, dir, files)
	promcfgtest.Write(t, dir, promcfg.Files{promcfg.ConfigFile: []byte(somebodys)})
	// Outside a pod there is no account; promtool wants to see its files.
	for name, content := range scrapes {
		content = bytes.ReplaceAll(content, []byte(accountDir), []byte(dir))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	promcfgtest.Write(t, dir, promcfg.Files{"token": []byte("token"), "ca.crt": nil})
	out, err := exec.Command(testkit.Binary(t, "promtool"), "check", "config", filepath.Join(dir, promcfg.ConfigFile)).CombinedOutput()
	require.NoError(t, err, "promtool check config:\n%s", out)

	cfg, err := config.LoadFile(filepath.Join(dir, promcfg.ConfigFile), false, promslog.NewNopLogger())
	require.NoError(t, err)
	jobs, err := cfg.GetScrapeConfigs()
	require.NoError(t, err)
	for _, job := range jobs[2:] {
		require.Regexp(t, "^pharos-", job.JobName)
		require.EqualValues(t, options().Interval, job.ScrapeInterval, job.JobName)
		require.NotZero(t, job.SampleLimit, job.JobName)
	}
}

func TestExternalRulesSeeOnlyTheFleet(t *testing.T) {
	contract, err := rules.Load()
	require.NoError(t, err)
	raw := map[string]bool{}
	for _, r := range contract.Raw {
		for _, name := range r.Kind.Names(r.Name) {
			raw[name] = true
		}
	}
	managed, err := Render(options())
	require.NoError(t, err)
	seen := 0
	for name, content := range external(t) {
		if !strings.HasSuffix(name, ".rules.yaml") {
			continue
		}
		require.Contains(t, managed, name, "the same rules as everywhere")
		for _, g := range parseGroups(t, content).Groups {
			require.EqualValues(t, options().Interval, g.Interval, "others' default is another's")
			for _, r := range g.Rules {
				expr, err := parser.NewParser(parser.Options{}).ParseExpr(r.Expr)
				require.NoError(t, err)
				parser.Inspect(expr, func(n parser.Node, _ []parser.Node) error {
					if s, ok := n.(*parser.VectorSelector); ok && raw[s.Name] {
						require.Contains(t, s.String(), "cluster", r.Record)
						seen++
					}
					return nil
				})
			}
		}
	}
	require.Greater(t, seen, 10)
}

func parseGroups(t *testing.T, content []byte) *rulefmt.RuleGroups {
	t.Helper()
	var groups rulefmt.RuleGroups
	require.NoError(t, yaml.Unmarshal(content, &groups))
	return &groups
}
