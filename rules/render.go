package rules

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// WrittenFor is the interval that the durations in the rule files are written
// for. Render scales them to another.
const WrittenFor = 15 * time.Second

// patience is the shortest for of an alert that waits longer than one interval,
// and the shortest keep_firing_for of one that keeps longer than two. Such an
// alert is about something that should be there, and a Prometheus that just
// started cannot see it yet: it begins to scrape what it discovers after 5 s,
// whatever the interval.
const patience = 10 * time.Second

// FileName is the name of a tier's rule file.
func FileName(t Tier) string { return string(t) + ".rules.yaml" }

// TopologyFileName is the name of the rule file that a tier renders from its topology.
const TopologyFileName = "topology.rules.yaml"

// Groups reads a tier's rules as they are written.
func Groups(t Tier) (*rulefmt.RuleGroups, error) {
	raw, err := files.ReadFile(FileName(t))
	if err != nil {
		return nil, fmt.Errorf("reading the rules of tier %q: %w", t, err)
	}
	quiet := slog.New(slog.DiscardHandler)
	groups, errs := rulefmt.Parse(raw, false, model.UTF8Validation, parser.NewParser(parser.Options{}), quiet)
	if len(errs) > 0 {
		return nil, fmt.Errorf("%s: %w", FileName(t), errors.Join(errs...))
	}
	return groups, nil
}

// Render gives a tier's rule file for an interval: its for and keep_firing_for
// hold as many intervals as the rules are written for, and a for of more than
// one interval, or a keep_firing_for of more than two, is at least 10 s.
func Render(t Tier, interval time.Duration) ([]byte, error) {
	groups, err := Groups(t)
	if err != nil {
		return nil, err
	}
	for _, g := range groups.Groups {
		for i, r := range g.Rules {
			g.Rules[i].KeepFiringFor = scale(r.KeepFiringFor, interval)
			g.Rules[i].For = scale(r.For, interval)
			if time.Duration(r.For) > WrittenFor {
				g.Rules[i].For = max(g.Rules[i].For, model.Duration(patience))
			}
			if time.Duration(r.KeepFiringFor) > 2*WrittenFor {
				g.Rules[i].KeepFiringFor = max(g.Rules[i].KeepFiringFor, model.Duration(patience))
			}
		}
	}
	return marshal(groups)
}

func scale(d model.Duration, interval time.Duration) model.Duration {
	return model.Duration(time.Duration(d) * (interval / time.Millisecond) / (WrittenFor / time.Millisecond))
}

// Constant is a series that always has the same value: a fact that is known
// when a configuration is rendered.
type Constant struct {
	Record string
	Labels map[string]string
	Value  float64
}

// FileNames are the rule files of a tier, in the order in which its server
// loads them.
func FileNames(t Tier) []string { return []string{TopologyFileName, FileName(t)} }

// Files renders the files of FileNames: the tier's rules for an interval, and the
// constants of its topology.
func Files(t Tier, interval time.Duration, constants []Constant) (map[string][]byte, error) {
	recorded, err := Render(t, interval)
	if err != nil {
		return nil, err
	}
	topology, err := RenderConstants(constants)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{TopologyFileName: topology, FileName(t): recorded}, nil
}

// RenderConstants gives a rule file that records the constants, so that rules
// can tell what is missing from what should be there.
func RenderConstants(constants []Constant) ([]byte, error) {
	group := rulefmt.RuleGroup{Name: "topology", Rules: make([]rulefmt.Rule, 0, len(constants))}
	for _, c := range constants {
		value := strconv.FormatFloat(c.Value, 'f', -1, 64)
		group.Rules = append(group.Rules, rulefmt.Rule{Record: c.Record, Expr: "vector(" + value + ")", Labels: c.Labels})
	}
	return marshal(&rulefmt.RuleGroups{Groups: []rulefmt.RuleGroup{group}})
}

func marshal(groups *rulefmt.RuleGroups) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("# Rendered by Pharos. Edits are overwritten.\n")
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(groups); err != nil {
		return nil, fmt.Errorf("encoding rules: %w", err)
	}
	return out.Bytes(), nil
}
