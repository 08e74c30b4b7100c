// Package ownrules is what a team has of its own beside the rules and the contract
// that are built in: given as files or named by a Federation, checked in one way for
// both, and kept under its digest once it was accepted, so that it goes on whatever
// becomes of what it was read from. How rules are given to servers is not its business.
package ownrules

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/rules/lint"
)

// Set is everything that a team has of its own. Its files bear the names that a person
// knows them by, which end in what servers call them.
type Set struct {
	// Contract takes the place of the one that is built in; without a name there is none.
	Contract lint.File
	// Rules are the rule files of each tier.
	Rules map[rules.Tier][]lint.File
}

// MaxBytes is how much the rule files of a tier may have together. They go into one
// ConfigMap with the configuration of a server and the rules that are built in, and
// none of those holds more than 1 MiB.
const MaxBytes = 512 << 10

// Names are the files, named as in the folders of "pharos render --rules", sorted.
func (s Set) Names() []string {
	var all []string
	for name := range s.each() {
		all = append(all, name)
	}
	return all
}

// each gives the files by their names in the order of these.
func (s Set) each() func(yield func(string, lint.File) bool) {
	files := map[string]lint.File{}
	for _, tier := range rules.Tiers() {
		for _, f := range s.Rules[tier] {
			files[inFolder(tier, f)] = f
		}
	}
	if s.Contract.Name != "" {
		files[rules.ContractFile] = s.Contract
	}
	return func(yield func(string, lint.File) bool) {
		for _, name := range sorted(files) {
			if !yield(name, files[name]) {
				return
			}
		}
	}
}

func inFolder(tier rules.Tier, f lint.File) string { return path.Join(string(tier), serverName(f)) }

// serverName is what a server calls a file, but for what marks it as a team's own.
func serverName(f lint.File) string { return path.Base(f.Name) }

// digestLength is how many hexadecimal digits of a digest name a set: enough that no
// two sets of a fleet have one name, and few enough for the name of an object.
const digestLength = 20

// Digest is of what is in the files, and of what servers call them, whatever they were
// read from. That of nothing is empty.
func (s Set) Digest() string {
	sum := sha256.New()
	found := false
	for name, f := range s.each() {
		found = true
		_, _ = fmt.Fprintf(sum, "%q %q\n", name, f.Content) // a hash takes everything
	}
	if !found {
		return ""
	}
	return hex.EncodeToString(sum.Sum(nil))[:digestLength]
}

// Check gives the contract with the rules, as every tier is rendered from it, or tells
// all that is wrong, by file and line. It is nil where a team has nothing of its own.
func (s Set) Check(f *v1alpha1.Federation) (*rules.Contract, error) {
	contract, err := s.fit()
	if err != nil {
		return nil, err
	}
	return contract, s.suits(f, contract)
}

// fit is what does not depend on any Federation.
func (s Set) fit() (*rules.Contract, error) {
	if s.Digest() == "" {
		return nil, nil
	}
	if err := s.distinct().Err(); err != nil {
		return nil, err
	}
	in, err := lint.BuiltIn()
	if err != nil {
		return nil, err
	}
	if s.Contract.Name != "" {
		in.Contract = s.Contract
	}
	in.Own = s.Rules
	contract, err := lint.Own(in)
	if err != nil {
		return nil, err
	}
	return &contract, nil
}

// suits refuses what a Federation has no samples for.
func (s Set) suits(f *v1alpha1.Federation, contract *rules.Contract) error {
	err := workload.CheckOwnWindows(f, contract)
	problems, is := errors.AsType[rules.Problems](err)
	if !is {
		return err
	}
	for name, file := range s.each() {
		for i := range problems {
			if problems[i].File == name {
				problems[i].File = file.Name
			}
		}
	}
	return problems.Err()
}

// distinct refuses files of one tier that a server would call alike, and more than it
// can be given.
func (s Set) distinct() rules.Problems {
	var problems rules.Problems
	for _, tier := range rules.Tiers() {
		first, total := map[string]string{}, 0
		for _, f := range s.Rules[tier] {
			name := serverName(f)
			if at, twice := first[name]; twice {
				problems = append(problems, rules.Problem{File: f.Name, Text: fmt.Sprintf("%s has the same name, and a server of the %s has one file of a name; give one of them another", at, tier)})
			}
			first[name] = f.Name
			total += len(f.Content)
		}
		if total > MaxBytes {
			largest := slices.MaxFunc(s.Rules[tier], func(a, b lint.File) int { return len(a.Content) - len(b.Content) })
			problems = append(problems, rules.Problem{File: largest.Name, Text: fmt.Sprintf("is the largest of the %s's own rules, which have %d bytes together; "+
				"%d at most fit into a server's ConfigMap beside what is built in: write less of them", tier, total, MaxBytes)})
		}
	}
	return problems
}
