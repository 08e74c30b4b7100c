package lint

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/pharos-fleet/pharos/rules"
)

// BuiltIn is the contract and the rules that are built in, named as in the repository.
func BuiltIn() (Input, error) {
	raw, err := rules.ContractSource()
	if err != nil {
		return Input{}, err
	}
	in := Input{Contract: File{Name: "rules/" + rules.ContractFile, Content: raw}, Rules: map[rules.Tier][]File{}}
	for _, tier := range rules.Tiers() {
		for _, subject := range rules.Subjects(tier) {
			raw, err := rules.Source(tier, subject)
			if err != nil {
				return Input{}, err
			}
			in.Rules[tier] = append(in.Rules[tier], File{Name: "rules/" + rules.SourcePath(tier, subject), Content: raw})
		}
	}
	return in, nil
}

// checkMeaning refuses a contract that says of what is built in that it is something
// else: sums, dashboards, policies and the rules of every server read it as it was. How
// many series there may be, and the help, are the contract's to say.
func (l *linter) checkMeaning(builtIn rules.Contract) {
	for _, is := range l.contract.Series {
		if i := slices.IndexFunc(builtIn.Series, func(s rules.Series) bool { return s.Name == is.Name }); i >= 0 {
			was := builtIn.Series[i]
			l.differs(is.Name, []trait{
				{"kind", is.Kind, was.Kind}, {"unit", is.Unit, was.Unit}, {"labels", sortedOf(is.Labels), sortedOf(was.Labels)},
				{"from", is.From, was.From}, {"to", is.To, was.To}, {"natural", is.Natural, was.Natural}, {"lesser", is.Lesser, was.Lesser},
				{"exception", is.Exception, was.Exception}, {"rendered", is.Rendered, was.Rendered},
			})
		}
	}
	for _, is := range l.contract.Raw {
		if i := slices.IndexFunc(builtIn.Raw, func(r rules.Raw) bool { return r.Name == is.Name }); i >= 0 {
			was := builtIn.Raw[i]
			l.differs(is.Name, []trait{
				{"kind", is.Kind, was.Kind}, {"tier", is.Tier, was.Tier}, {"source", is.Source, was.Source},
				{"labels", sortedOf(is.Labels), sortedOf(was.Labels)}, {"open", is.Open, was.Open},
			})
		}
	}
}

// trait is what two contracts say of the same.
type trait struct {
	name    string
	is, was any
}

func (l *linter) differs(name string, traits []trait) {
	for _, t := range traits {
		if !reflect.DeepEqual(t.is, t.was) {
			l.found(l.file, l.lines[name], fmt.Sprintf("series %q: %s is %v, and %v where it is built in, as everything reads it that is built in; "+
				"leave it as it was, and declare what you need under another name", name, t.name, t.is, t.was))
		}
	}
}

func sortedOf(names []string) []string { return slices.Sorted(slices.Values(names)) }
