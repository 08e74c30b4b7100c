package lint

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"

	"github.com/pharos-fleet/pharos/rules"
)

// checkRules checks the rule files of every tier, and that what is declared is
// recorded.
func (l *linter) checkRules(in Input) {
	for _, tier := range rules.Tiers() {
		seen := map[string]string{}
		for _, f := range in.Rules[tier] {
			l.checkRuleFile(&ruleFile{linter: l, tier: tier, seen: seen}, f)
		}
		for _, f := range in.Own[tier] {
			l.checkRuleFile(&ruleFile{linter: l, tier: tier, seen: seen, own: true}, f)
		}
	}
	for _, s := range l.contract.Series {
		if s.Rendered {
			continue
		}
		for _, name := range s.Kind.Names(s.Name) {
			if !l.recorded[name] {
				l.found(l.file, l.lines[s.Name], fmt.Sprintf("series %q: no rule of the %s records it; "+
					"write one, take it out, or mark it with rendered: true if it comes from the topology", name, s.From))
			}
		}
	}
}

// ruleFile is one rule file that is being checked.
type ruleFile struct {
	*linter
	tier rules.Tier
	name string
	text []string // its lines
	// seen are the records of the tier so far, and where each is.
	seen map[string]string
	// own is a file of a team's.
	own bool
}

// checkRuleFile checks one file of a tier.
func (l *linter) checkRuleFile(rf *ruleFile, f File) {
	if l.tooLarge(f) || l.severalDocuments(f) {
		return
	}
	quiet := slog.New(slog.DiscardHandler)
	groups, errs := rulefmt.Parse(f.Content, false, model.UTF8Validation, newParser(), quiet)
	var doc yaml.Node
	if groups == nil || yaml.Unmarshal(f.Content, &doc) != nil {
		for _, err := range errs {
			l.problems = append(l.problems, rules.DecodeProblems(f.Name, err)...)
		}
		return
	}
	for _, err := range errs {
		if _, unparsed := errors.AsType[parser.ParseErrors](err); !unparsed { // those are told with their place below
			l.ruleError(f.Name, err)
		}
	}
	rf.name, rf.text = f.Name, strings.Split(string(f.Content), "\n")
	count := 0
	for g, group := range groups.Groups {
		at := rules.Descend(&doc, "groups", g)
		rf.checkGroup(group, at)
		for r, rule := range group.Rules {
			rf.checkStatic(rule.Labels, rules.Descend(at, "rules", r, "labels"))
			rule.Labels = merged(group.Labels, rule.Labels)
			rf.checkRule(rule, rules.Descend(at, "rules", r))
			count++
		}
	}
	if count == 0 {
		l.found(f.Name, 0, "has no rules; a file that says nothing is taken for a mistake")
	}
}

// severalDocuments refuses what Prometheus itself does not read.
func (l *linter) severalDocuments(f File) bool {
	dec := yaml.NewDecoder(bytes.NewReader(f.Content))
	var first, second yaml.Node
	if dec.Decode(&first) != nil || errors.Is(dec.Decode(&second), io.EOF) {
		return false
	}
	l.found(f.Name, second.Line, "begins a second document, which Prometheus does not read; put its groups into the first")
	return true
}

func merged(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	if out == nil {
		out = map[string]string{}
	}
	maps.Copy(out, b)
	return out
}

// lineFirst is how Prometheus begins what it says of a place in a rule file.
var lineFirst = regexp.MustCompile(`^(\d+):\d+: (.*)$`)

func (l *linter) ruleError(file string, err error) {
	line, text := 0, err.Error()
	if m := lineFirst.FindStringSubmatch(text); m != nil {
		line, _ = strconv.Atoi(m[1]) // digits
		text = m[2]
	}
	l.found(file, line, text)
}

func newParser() parser.Parser { return parser.NewParser(parser.Options{}) }

// checkRule checks one rule, at its node.
func (f *ruleFile) checkRule(r rulefmt.Rule, node *yaml.Node) {
	at := rules.Descend(node, "expr")
	s, ok := f.query(f.tier, f.name, r.Expr, lineIn(at))
	if !ok {
		return
	}
	if f.own {
		f.checkOwnRule(r, node)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Labels)) {
		if r.Labels[name] == "" {
			s = s.without(name)
		} else if !strings.Contains(r.Labels[name], "{{") {
			s = s.with(name)
			s.must[name] = true
		} else {
			s = s.with(name)
		}
	}
	if r.Alert != "" {
		f.checkAlert(r, node, s)
		return
	}
	f.checkRecord(r, node, s)
}

// lineIn says in which line of the file an offset of a scalar's text is.
func lineIn(node *yaml.Node) func(offset int) int {
	return func(offset int) int {
		switch {
		case node.Style&yaml.LiteralStyle != 0:
			return node.Line + 1 + strings.Count(node.Value[:min(offset, len(node.Value))], "\n")
		case node.Style&yaml.FoldedStyle != 0:
			return node.Line + 1
		default:
			return node.Line
		}
	}
}

// query parses and infers a query, and tells what is wrong with it.
func (l *linter) query(tier rules.Tier, file, text string, line func(offset int) int) (shape, bool) {
	l.queries++
	expr, err := newParser().ParseExpr(text)
	if err != nil {
		if several, ok := errors.AsType[parser.ParseErrors](err); ok {
			for _, e := range several {
				l.found(file, line(int(e.PositionRange.Start)), "cannot be parsed: "+e.Err.Error())
			}
		} else if text == "" {
			l.found(file, line(0), "is empty")
		}
		return unknown(), false
	}
	s, problems := infer(l.contract, tier, expr)
	for _, p := range problems {
		l.found(file, line(p.offset), p.text)
	}
	return s, true
}

// checkRecord checks that a recording rule gives a declared series with its labels.
func (f *ruleFile) checkRecord(r rulefmt.Rule, node *yaml.Node, s shape) {
	line := rules.Descend(node, "record").Line
	declared, labels, ok := declaredAs(f.contract, r.Record)
	switch {
	case !ok:
		f.found(f.name, line, fmt.Sprintf("records %q, which is not declared in the contract; declare it from the %s", r.Record, f.tier))
		return
	case declared.From != f.tier:
		f.found(f.name, line, fmt.Sprintf("records %q at the %s, but the contract says that the %s records it", r.Record, f.tier, declared.From))
		return
	case declared.Rendered:
		f.found(f.name, line, fmt.Sprintf("records %q, but the contract says that it comes from the topology", r.Record))
	}
	f.recorded[r.Record] = true
	id := fmt.Sprintf("%q with labels %v", r.Record, r.Labels)
	if first, twice := f.seen[id]; twice {
		f.found(f.name, line, fmt.Sprintf("records %q, as %s does already", r.Record, first))
	}
	f.seen[id] = fmt.Sprintf("%s:%d", f.name, line)
	f.compare(r.Record, line, s, labels)
}

// compare checks the labels of what a rule gives, with those that its servers
// add, against the declared ones.
func (f *ruleFile) compare(record string, line int, s shape, declared []string) {
	// What the servers add need not be asked for.
	advice := "aggregate by " + list(slices.DeleteFunc(slices.Clone(declared), func(n string) bool {
		return slices.Contains(external(f.tier), n) && !s.may[n]
	}))
	switch {
	case s.unknown:
		return
	case s.scalar:
		f.found(f.name, line, fmt.Sprintf("records %q from a number that is no vector; put it into vector(…)", record))
		return
	case s.open:
		f.found(f.name, line, fmt.Sprintf("records %q with labels that depend on what it is about; %s", record, advice))
		return
	case len(s.carried) > 0:
		f.found(f.name, line, fmt.Sprintf("records %q with labels %s, which say who told it or where it was scraped; %s", record, list(s.beside()), advice))
		return
	}
	have := union(s.may, minus(set(external(f.tier)), rules.Tellers()...))
	want := set(declared)
	for _, teller := range rules.Tellers() {
		if want[teller] && slices.Contains(external(f.tier), teller) {
			have[teller] = true
		}
	}
	missing := slices.Sorted(maps.Keys(minus(want, slices.Collect(maps.Keys(have))...)))
	extra := slices.Sorted(maps.Keys(minus(have, declared...)))
	if len(missing) > 0 {
		f.found(f.name, line, fmt.Sprintf("records %q without its declared labels %s; %s", record, list(missing), advice))
	}
	if len(extra) > 0 {
		f.found(f.name, line, fmt.Sprintf("records %q with labels %s, which are not declared; %s, or declare them", record, list(extra), advice))
	}
}

// declaredAs finds a recorded series, and the labels that the contract gives it.
func declaredAs(c rules.Contract, name string) (rules.Series, []string, bool) {
	for _, s := range c.Series {
		if slices.Contains(s.Kind.Names(s.Name), name) {
			return s, withLe(s.Kind, s.Name, name, s.Labels), true
		}
	}
	return rules.Series{}, nil, false
}

// lineOf finds the line at or below one where a text begins.
func (f *ruleFile) lineOf(from int, text string) int {
	begin, _, _ := strings.Cut(text, " ") // the rest may be in the line after
	for i := max(0, from-1); i < len(f.text); i++ {
		if strings.Contains(f.text[i], begin) {
			return i + 1
		}
	}
	return from
}
