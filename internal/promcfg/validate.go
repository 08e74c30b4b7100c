package promcfg

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/file"
	_ "github.com/prometheus/prometheus/discovery/http"       // so that config.Load knows http_sd_configs
	_ "github.com/prometheus/prometheus/discovery/kubernetes" // so that config.Load knows kubernetes_sd_configs
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
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
	accepted.add(light.jobs...)
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
	if accepted.has(digest) {
		return nil
	}
	_, errs := rulefmt.Parse(raw, false, model.UTF8Validation, parser.NewParser(parser.Options{}), log)
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", name, err)
	}
	if len(errs) == 0 {
		accepted.add(digest)
	}
	return errors.Join(errs...)
}

// accepted are rule files and jobs that were found to be good: thousands of
// servers have the same, and reading them is most of the work of validating.
var accepted digests

// digests remembers some files. It is bounded by forgetting all.
type digests struct {
	mu   sync.Mutex
	seen map[[sha256.Size]byte]bool
}

// maxDigests is more than the rule files and the jobs of all tiers are.
const maxDigests = 10_000

func (d *digests) has(digest [sha256.Size]byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[digest]
}

func (d *digests) add(some ...[sha256.Size]byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, digest := range some {
		if d.seen == nil || len(d.seen) >= maxDigests {
			d.seen = map[[sha256.Size]byte]bool{}
		}
		d.seen[digest] = true
	}
}
