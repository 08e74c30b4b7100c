package promcfg

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/config"
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
	cfg, err := config.Load(string(raw), quiet)
	if err != nil {
		return fmt.Errorf("%s: %w", ConfigFile, err)
	}
	if _, err := cfg.GetScrapeConfigs(); err != nil {
		return fmt.Errorf("%s: %w", ConfigFile, err)
	}
	var errs []error
	for _, name := range cfg.RuleFiles {
		errs = append(errs, validateRules(files, name, quiet))
	}
	return errors.Join(errs...)
}

func validateRules(files Files, name string, log *slog.Logger) error {
	raw, ok := files[name]
	if !ok {
		return fmt.Errorf("%s: rule_files names %q, which is missing", ConfigFile, name)
	}
	_, errs := rulefmt.Parse(raw, false, model.UTF8Validation, parser.NewParser(parser.Options{}), log)
	for i, err := range errs {
		errs[i] = fmt.Errorf("%s: %w", name, err)
	}
	return errors.Join(errs...)
}
