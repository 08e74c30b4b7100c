package rules

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// Tier is one of the three tiers of the federation.
type Tier string

// The tiers, from the bottom to the top.
const (
	Edge    Tier = "edge"
	Cascade Tier = "cascade"
	Central Tier = "central"
)

func (t Tier) rank() int { return slices.Index([]Tier{Edge, Cascade, Central}, t) }

// Contract declares every series that rules record and every raw series that
// they may read.
type Contract struct {
	Series []Series `yaml:"series"`
	Raw    []Raw    `yaml:"raw"`
}

// Series is one recorded series.
type Series struct {
	Name string `yaml:"name"`
	// Kind is gauge, counter or info (always 1; the labels say it).
	Kind string `yaml:"kind"`
	Unit string `yaml:"unit"`
	Help string `yaml:"help"`
	// Labels are all that the series has above the tier that records it, save
	// the replica labels, which are there beside them and mean nothing.
	Labels []string `yaml:"labels"`
	// From is the tier that records it, To the highest tier it reaches.
	From Tier `yaml:"from"`
	To   Tier `yaml:"to"`
	Max  Max  `yaml:"max"`
}

// Max is the most series of one name at one source.
type Max struct {
	// Per is cluster, cell, geography or fleet.
	Per    string `yaml:"per"`
	Series uint   `yaml:"series"`
}

// Raw is one scraped series that rules may read.
type Raw struct {
	Name string `yaml:"name"`
	// Tier that scrapes it: edge, cascade, central, or every.
	Tier   Tier     `yaml:"tier"`
	Source string   `yaml:"source"`
	Help   string   `yaml:"help"`
	Labels []string `yaml:"labels"`
}

// everyTier is the tier of raw series that each Prometheus has by itself.
const everyTier Tier = "every"

// Load reads the contract that is built in.
func Load() (Contract, error) {
	raw, err := files.ReadFile("contract.yaml")
	if err != nil {
		return Contract{}, fmt.Errorf("reading the contract: %w", err)
	}
	return Parse(raw)
}

// Parse reads a contract, refuses unknown fields, and returns everything that
// is wrong with it, each with the name of the series.
func Parse(raw []byte) (Contract, error) {
	var c Contract
	dec := yaml.NewDecoder(bytes.NewReader(raw))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil {
		return Contract{}, fmt.Errorf("contract.yaml: %w", err)
	}
	var errs []error
	seen := map[string]bool{}
	for i, s := range c.Series {
		errs = append(errs, prefix(fmt.Sprintf("contract.yaml: series[%d] %q", i, s.Name), s.check(seen))...)
	}
	for i, r := range c.Raw {
		errs = append(errs, prefix(fmt.Sprintf("contract.yaml: raw[%d] %q", i, r.Name), r.check(seen))...)
	}
	if err := errors.Join(errs...); err != nil {
		return Contract{}, err
	}
	return c, nil
}

func prefix(place string, problems []string) []error {
	errs := make([]error, len(problems))
	for i, p := range problems {
		errs[i] = fmt.Errorf("%s: %s", place, p)
	}
	return errs
}

func (s Series) check(seen map[string]bool) []string {
	p := checkCommon(s.Name, s.Help, s.Labels, seen)
	p = append(p, oneOf("kind", s.Kind, "gauge", "counter", "info")...)
	p = append(p, oneOf("max.per", s.Max.Per, "cluster", "cell", "geography", "fleet")...)
	if s.Unit == "" {
		p = append(p, "unit: is empty")
	}
	if s.Max.Series == 0 {
		p = append(p, "max.series: is 0, so the link would break on the first")
	}
	if s.From.rank() < 0 || s.To.rank() < 0 || s.To.rank() < s.From.rank() {
		p = append(p, fmt.Sprintf("from %q to %q: must be edge, cascade or central, upwards", s.From, s.To))
	}
	return p
}

func (r Raw) check(seen map[string]bool) []string {
	p := checkCommon(r.Name, r.Help, r.Labels, seen)
	if r.Source == "" {
		p = append(p, "source: is empty")
	}
	return append(p, oneOf("tier", string(r.Tier), string(Edge), string(Cascade), string(Central), string(everyTier))...)
}

func checkCommon(name, help string, labels []string, seen map[string]bool) []string {
	var p []string
	if !model.LegacyValidation.IsValidMetricName(name) {
		p = append(p, "name: is no metric name")
	}
	if seen[name] {
		p = append(p, "name: is declared twice")
	}
	seen[name] = true
	if help == "" {
		p = append(p, "help: is empty")
	}
	for i, l := range labels {
		if !model.LegacyValidation.IsValidLabelName(l) || slices.Contains(labels[:i], l) {
			p = append(p, fmt.Sprintf("labels[%d] %q: is no label name, or is there twice", i, l))
		}
	}
	return p
}

func oneOf(field, got string, want ...string) []string {
	if slices.Contains(want, got) {
		return nil
	}
	return []string{fmt.Sprintf("%s: %q is none of %v", field, got, want)}
}
