package rules

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strconv"
	"strings"
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
//
// A for that is written longer than patientFor is lengthened in proportion, so
// that a cause, which is to mute what follows from it, still comes first.
const (
	patience   = 10 * time.Second
	patientFor = 90 * time.Second
)

// FileSuffix is the end of every rule file's name.
const FileSuffix = ".rules.yaml"

// FileName is the name of the rule file of one subject in the flat folder of a
// server. The group in it is called the same without the ending.
func FileName(t Tier, subject string) string { return string(t) + "-" + subject + FileSuffix }

// TopologyFileName is the name of the rule file that a tier renders from its topology.
const TopologyFileName = "topology" + FileSuffix

// Subjects are what a tier has rules about, sorted.
func Subjects(t Tier) []string {
	entries, err := files.ReadDir(string(t))
	if err != nil {
		return nil // there is no such tier, and so no rules of it
	}
	out := make([]string, 0, len(entries))
	for _, e := range entries {
		out = append(out, strings.TrimSuffix(e.Name(), FileSuffix))
	}
	return out
}

// Groups reads a tier's rules as they are written: one group for each of its
// Subjects, in their order.
func Groups(t Tier) (*rulefmt.RuleGroups, error) {
	all := &rulefmt.RuleGroups{}
	for _, subject := range Subjects(t) {
		group, err := readGroup(t, subject)
		if err != nil {
			return nil, err
		}
		all.Groups = append(all.Groups, group)
	}
	if len(all.Groups) == 0 {
		return nil, fmt.Errorf("reading the rules of tier %q: it has none", t)
	}
	return all, nil
}

// SourcePath is where the rules of a tier about a subject are written, from the
// folder of the rules on.
func SourcePath(t Tier, subject string) string { return string(t) + "/" + subject + FileSuffix }

// Source is a rule file as it is written.
func Source(t Tier, subject string) ([]byte, error) {
	raw, err := files.ReadFile(SourcePath(t, subject))
	if err != nil {
		return nil, fmt.Errorf("reading the rules of tier %q about %q: %w", t, subject, err)
	}
	return raw, nil
}

func readGroup(t Tier, subject string) (rulefmt.RuleGroup, error) {
	raw, err := Source(t, subject)
	if err != nil {
		return rulefmt.RuleGroup{}, err
	}
	path := SourcePath(t, subject)
	quiet := slog.New(slog.DiscardHandler)
	groups, errs := rulefmt.Parse(raw, false, model.UTF8Validation, parser.NewParser(parser.Options{}), quiet)
	if len(errs) > 0 {
		return rulefmt.RuleGroup{}, fmt.Errorf("%s: %w", path, errors.Join(errs...))
	}
	want := strings.TrimSuffix(FileName(t, subject), FileSuffix)
	if len(groups.Groups) != 1 || groups.Groups[0].Name != want {
		return rulefmt.RuleGroup{}, fmt.Errorf("%s: has other groups than %q alone", path, want)
	}
	return groups.Groups[0], nil
}

// Render gives a tier's rule files for an interval, by name: their for and
// keep_firing_for hold as many intervals as the rules are written for, and a for
// of more than one interval, or a keep_firing_for of more than two, is at least
// 10 s. An interval at which a window of a rule holds too few samples is refused.
func Render(t Tier, interval time.Duration) (map[string][]byte, error) {
	rendered, err := once(t, interval)
	return maps.Clone(rendered), err
}

func render(t Tier, interval time.Duration) (map[string][]byte, error) {
	groups, err := Groups(t)
	if err != nil {
		return nil, err
	}
	if err := checkWindows(groups, interval); err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(groups.Groups))
	for _, g := range groups.Groups {
		stretch(g, interval)
		if out[g.Name+FileSuffix], err = marshal(&rulefmt.RuleGroups{Groups: []rulefmt.RuleGroup{g}}); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// stretch scales the durations of a group's rules to an interval.
func stretch(g rulefmt.RuleGroup, interval time.Duration) {
	for i, r := range g.Rules {
		g.Rules[i].KeepFiringFor = scale(r.KeepFiringFor, interval)
		g.Rules[i].For = scale(r.For, interval)
		if time.Duration(r.For) > WrittenFor {
			floor := max(time.Duration(r.For), patientFor) / (patientFor / patience)
			g.Rules[i].For = max(g.Rules[i].For, model.Duration(floor.Truncate(time.Millisecond)))
		}
		if time.Duration(r.KeepFiringFor) > 2*WrittenFor {
			g.Rules[i].KeepFiringFor = max(g.Rules[i].KeepFiringFor, model.Duration(patience))
		}
	}
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

// FileNames are the rule files of a tier whose topology fits into one file, in
// the order in which its server loads them. RuleFiles are those of any server.
func FileNames(t Tier) []string {
	out := []string{TopologyFileName}
	for _, subject := range Subjects(t) {
		out = append(out, FileName(t, subject))
	}
	return out
}

// Files renders the rule files of a tier: its rules for an interval, the
// constants of its topology, and with them what counts series that reach the
// tier undeclared. A topology that is too large for one file is several.
func Files(t Tier, interval time.Duration, constants []Constant) (map[string][]byte, error) {
	contract, err := Load()
	if err != nil {
		return nil, err
	}
	return contract.Files(t, interval, constants)
}

// Files renders the files of a tier where this contract says what is declared.
func (c Contract) Files(t Tier, interval time.Duration, constants []Constant) (map[string][]byte, error) {
	out, err := Render(t, interval)
	if err != nil {
		return nil, err
	}
	topology, err := c.topology(t, constants)
	maps.Copy(out, topology)
	c.addOwn(t, out)
	return out, err
}

// topologyGroup records the constants, so that rules can tell what is missing
// from what should be there.
func topologyGroup(constants []Constant) rulefmt.RuleGroup {
	group := rulefmt.RuleGroup{Name: "topology", Rules: make([]rulefmt.Rule, 0, len(constants))}
	for _, c := range constants {
		value := strconv.FormatFloat(c.Value, 'f', -1, 64)
		group.Rules = append(group.Rules, rulefmt.Rule{Record: c.Record, Expr: "vector(" + value + ")", Labels: c.Labels})
	}
	return group
}

// renderedBy is the first line of every rendered file.
const renderedBy = "# Rendered by Pharos. Edits are overwritten.\n"

func marshal(groups *rulefmt.RuleGroups) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(renderedBy)
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(groups); err != nil {
		return nil, fmt.Errorf("encoding rules: %w", err)
	}
	return out.Bytes(), nil
}
