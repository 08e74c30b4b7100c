package promcfg

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/file"
	_ "github.com/prometheus/prometheus/discovery/http"       // so that config.Load knows http_sd_configs
	_ "github.com/prometheus/prometheus/discovery/kubernetes" // so that config.Load knows kubernetes_sd_configs
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"k8s.io/utils/lru"
)

// Validate loads the files the way Prometheus would and returns everything
// that is wrong with them, each with its file and place. What Validate accepts
// Prometheus starts with.
func Validate(files Files) error {
	raw, ok := files[ConfigFile]
	if !ok {
		return fmt.Errorf("%s: is missing", ConfigFile)
	}
	quiet := slog.New(slog.DiscardHandler)
	light := lighten(raw)
	cfg, err := config.Load(string(light.raw), quiet)
	if err != nil && len(light.raw) < len(raw) {
		cfg, err = config.Load(string(raw), quiet) // which tells of the right lines
	}
	if err != nil {
		return fmt.Errorf("%s: %w", ConfigFile, err)
	}
	scrapes, err := cfg.GetScrapeConfigs()
	if err != nil {
		return fmt.Errorf("%s: %w", ConfigFile, err)
	}
	accept(light.jobs...)
	errs := []error{validateTargets(files, scrapes)}
	for _, name := range cfg.RuleFiles {
		errs = append(errs, validateRules(files, name, quiet))
	}
	return errors.Join(errs...)
}

// validateTargets refuses a file of targets that is not there: Prometheus would
// wait for it, and read nobody meanwhile.
func validateTargets(files Files, scrapes []*config.ScrapeConfig) error {
	var errs []error
	for _, s := range scrapes {
		for _, sd := range s.ServiceDiscoveryConfigs {
			read, isFile := sd.(*file.SDConfig)
			if !isFile {
				continue
			}
			for _, name := range read.Files {
				if _, ok := files[name]; !ok {
					errs = append(errs, fmt.Errorf("%s: file_sd_configs of job %q names %q, which is missing", ConfigFile, s.JobName, name))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func validateRules(files Files, name string, log *slog.Logger) error {
	raw, ok := files[name]
	if !ok {
		return fmt.Errorf("%s: rule_files names %q, which is missing", ConfigFile, name)
	}
	digest := sha256.Sum256(raw)
	if isAccepted(digest) {
		return nil
	}
	_, errs := rulefmt.Parse(raw, false, model.UTF8Validation, parser.NewParser(parser.Options{}), log)
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", name, err)
	}
	if len(errs) == 0 {
		accept(digest)
	}
	return errors.Join(errs...)
}

// accepted are the digests of rule files and jobs that were found to be good:
// thousands of servers have the same, and reading them is most of the work of validating.
var accepted = lru.New(maxDigests)

// maxDigests is more than the rule files and the jobs of all tiers are.
const maxDigests = 10_000

func isAccepted(digest [sha256.Size]byte) bool {
	_, is := accepted.Get(digest)
	return is
}

func accept(digests ...[sha256.Size]byte) {
	for _, digest := range digests {
		accepted.Add(digest, nil)
	}
}
