package edge

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// Files of an External edge, beside its rule files.
const (
	// AgentScrapeFile has the jobs that ask the edge agent. They need no rights.
	AgentScrapeFile = "agent.scrape.yaml"
	// MetaScrapeFile has the jobs that discover the meta cluster's own servers,
	// with the service account that Prometheus runs as.
	MetaScrapeFile = "meta.scrape.yaml"
	// OperatorFile has, for a Prometheus that prometheus-operator runs, the rules
	// and the jobs of both files as its objects.
	OperatorFile = "prometheus-operator.yaml"
)

// accountDir is where a pod has the files of its service account. What else is
// rendered for an External edge has no paths: nobody knows where it will lie.
const accountDir = "/var/run/secrets/kubernetes.io/serviceaccount"

// ownAddress is where a Prometheus most often finds itself.
const ownAddress = "localhost:9090"

// scrapeFile is one of Prometheus' scrape_config_files.
type scrapeFile struct {
	ScrapeConfigs []promcfg.ScrapeConfig `yaml:"scrape_configs"`
}

// RenderExternal gives what a Prometheus that the cell has already, with a
// configuration of its own, needs to be the cell's edge: rules and jobs to
// include. It adds no external labels and no servers to send to; the cascade
// reads it, and says where it is.
//
// The rules look only at series with the label cluster, which every job here
// sets and hardly another does: a Prometheus that scrapes its own cluster by
// kube-prometheus has series of the same names, which are not the fleet's.
func RenderExternal(o Options) (promcfg.Files, error) {
	o.Static, o.Targets = nil, nil
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	if err := promcfg.CheckInterval(o.Interval); err != nil {
		return nil, fmt.Errorf("edge of cell %q: %w", o.Cell, err)
	}
	contract, err := o.Contract.OrBuiltIn()
	if err != nil {
		return nil, err
	}
	files, groups, err := narrowRules(o, contract)
	if err != nil {
		return nil, err
	}
	asked := o.included(contract, append([]source{externalSelf(), o.externalAgent()}, fromAgent(o)...))
	found := o.included(contract, discovered(o))
	if err := loads(files, append(slices.Clone(asked), found...)); err != nil {
		return nil, fmt.Errorf("edge of cell %q: %w", o.Cell, err)
	}
	for name, jobs := range map[string][]promcfg.ScrapeConfig{AgentScrapeFile: asked, MetaScrapeFile: found} {
		if files[name], err = promcfg.Marshal(scrapeFile{jobs}); err != nil {
			return nil, err
		}
	}
	files[OperatorFile], err = operatorObjects(append(asked, found...), groups)
	return files, err
}

// loads makes sure that a Prometheus would start with the rules and jobs, in a
// configuration that has nothing else.
func loads(ruleFiles promcfg.Files, jobs []promcfg.ScrapeConfig) error {
	global, err := promcfg.NewGlobal(time.Second, nil)
	if err != nil {
		return err
	}
	config := promcfg.Config{Global: global, RuleFiles: slices.Sorted(maps.Keys(ruleFiles)), ScrapeConfigs: jobs}
	files, err := config.With(maps.Clone(ruleFiles))
	if err != nil {
		return err
	}
	return promcfg.Validate(files)
}

// externalSelf is the server's view of itself. A server that is not found there
// shows as down, and its owner puts the address right.
func externalSelf() source {
	s := source{component: componentEdge}
	s.job.Static = []promcfg.StaticGroup{{Targets: []string{ownAddress}, Labels: map[string]string{"cluster": MetaCluster}}}
	return s
}

// externalAgent is the agent at its Service: who has no rights in the cell
// cannot look for pods, and there is one.
func (o Options) externalAgent() source {
	s := source{component: componentAgent, job: nativeHistograms(promcfg.ScrapeConfig{})}
	s.job.Static = []promcfg.StaticGroup{{Targets: []string{hostPort(o.AgentURL)}, Labels: map[string]string{"cluster": MetaCluster}}}
	return s
}

// included are the sources as jobs of a configuration that has other jobs, and
// other defaults: their names are not likely to be there already, and they say
// how often they scrape.
func (o Options) included(contract rules.Contract, sources []source) []promcfg.ScrapeConfig {
	var out []promcfg.ScrapeConfig
	for _, s := range o.wanted(sources) {
		s.job.JobName = "pharos-" + cmp.Or(s.job.JobName, s.component)
		job := s.finish(o, contract, false)
		job.ScrapeInterval = promcfg.Duration(o.Interval)
		job.ScrapeTimeout = promcfg.Duration(promcfg.Timeout(o.Interval))
		out = append(out, o.inPod(job))
	}
	return out
}

// inPod has the job find the API server and the account's files as every pod
// does, wherever the configuration lies.
func (o Options) inPod(job promcfg.ScrapeConfig) promcfg.ScrapeConfig {
	if job.Authorization != nil {
		job.Authorization = &promcfg.Authorization{CredentialsFile: inAccount(job.Authorization.CredentialsFile)}
	}
	if job.TLS != nil && job.TLS.CAFile != "" {
		tls := *job.TLS
		tls.CAFile = inAccount(tls.CAFile)
		job.TLS = &tls
	}
	for i, sd := range job.Kubernetes {
		sd.Authorization = &promcfg.Authorization{CredentialsFile: inAccount(sd.Authorization.CredentialsFile)}
		sd.TLS = &promcfg.TLS{CAFile: inAccount(sd.TLS.CAFile)}
		job.Kubernetes[i] = sd
	}
	return job
}

func inAccount(file string) string { return path.Join(accountDir, path.Base(file)) }
