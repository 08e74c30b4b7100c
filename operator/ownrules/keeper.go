package ownrules

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/rules/lint"
)

// Keeper reads the ConfigMaps of a Federation's own rules. It checks the same files
// once: a check takes tenths of a second, and thousands of cells ask for it.
type Keeper struct {
	live      client.Reader
	namespace string

	// reading has one read what others wait for.
	reading singleflight.Group
	// checked are by what they were named and had, accepted by digest.
	checked, accepted *lru.Cache
}

type checked struct {
	set      Set
	contract *rules.Contract
	err      error
}

// NewKeeper reads in a namespace from the API server itself: what was edited just now
// must not be taken for what it was before.
func NewKeeper(live client.Reader, namespace string) *Keeper {
	const few = 4 // a Federation has two, what it names and what it goes on with
	return &Keeper{live: live, namespace: namespace, checked: lru.New(few), accepted: lru.New(few)}
}

// readTimeout bounds one reading of a set, whoever waits for it.
const readTimeout = 10 * time.Second

// Named reads what a Federation names. What is not there, or cannot be a file, is told
// as rules.Problems; every other error says that it is not known.
func (k *Keeper) Named(ctx context.Context, named *v1alpha1.OwnRules) (Set, error) {
	s := Set{Rules: map[rules.Tier][]lint.File{}}
	if named == nil {
		return s, nil
	}
	var problems rules.Problems
	for _, source := range sources(named) {
		files, wrong, err := k.read(ctx, source)
		if err != nil {
			return Set{}, err
		}
		problems = append(problems, wrong...)
		if source.tier != "" {
			s.Rules[source.tier] = append(s.Rules[source.tier], files...)
		} else if len(files) > 0 {
			s.Contract = files[0]
		}
	}
	return s, problems.Err()
}

// Names tells whether a Federation names a ConfigMap.
func Names(f *v1alpha1.Federation, configMap string) bool {
	return f.Spec.Rules != nil && slices.ContainsFunc(sources(f.Spec.Rules), func(s source) bool { return s.name == configMap })
}

// source is one ConfigMap, and what its files are for: a tier, or the contract.
type source struct {
	field, name string
	tier        rules.Tier
}

func sources(named *v1alpha1.OwnRules) []source {
	var all []source
	if named.ContractConfigMap != "" {
		all = append(all, source{field: "spec.rules.contractConfigMap", name: named.ContractConfigMap})
	}
	for _, tier := range rules.Tiers() {
		of := map[rules.Tier][]string{rules.Edge: named.EdgeConfigMaps, rules.Cascade: named.CascadeConfigMaps, rules.Central: named.CentralConfigMaps}
		for _, name := range of[tier] {
			all = append(all, source{field: fmt.Sprintf("spec.rules.%sConfigMaps", tier), name: name, tier: tier})
		}
	}
	return all
}

func (k *Keeper) read(ctx context.Context, s source) ([]lint.File, rules.Problems, error) {
	var cm corev1.ConfigMap
	err := k.live.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: s.name}, &cm)
	switch {
	case apierrors.IsNotFound(err):
		return nil, rules.Problems{{File: s.field, Text: fmt.Sprintf("there is no ConfigMap %s in namespace %s", s.name, k.namespace)}}, nil
	case err != nil:
		return nil, nil, fmt.Errorf("reading ConfigMap %s of %s: %w", s.name, s.field, err)
	case len(cm.Data)+len(cm.BinaryData) == 0:
		return nil, rules.Problems{{File: "ConfigMap " + s.name, Text: "has no files, but " + s.field + " names it; one that says nothing is taken for a mistake"}}, nil
	}
	var files []lint.File
	var problems rules.Problems
	for _, key := range slices.Sorted(maps.Keys(cm.BinaryData)) {
		problems = append(problems, rules.Problem{File: name(s.name, key), Text: "is no text (binaryData), which no rule file and no contract is"})
	}
	for _, key := range sorted(cm.Data) {
		if wrong := s.refuses(key); wrong != "" {
			problems = append(problems, rules.Problem{File: name(s.name, key), Text: wrong})
			continue
		}
		files = append(files, lint.File{Name: name(s.name, key), Content: []byte(cm.Data[key])})
	}
	return files, problems, nil
}

// name is how a person finds a file: by ConfigMap and key.
func name(configMap, key string) string { return "ConfigMap " + configMap + "/" + key }

// refuses says why a key is none of what the ConfigMap is for, or nothing: what is
// passed over is what nobody checks.
func (s source) refuses(key string) string {
	switch {
	case s.tier == "" && key != rules.ContractFile:
		return fmt.Sprintf("is not read: %s is a ConfigMap with the key %s alone", s.field, rules.ContractFile)
	case s.tier != "" && !strings.HasSuffix(key, rules.FileSuffix):
		return fmt.Sprintf("is no rule file: every key of a ConfigMap in %s ends in %s", s.field, rules.FileSuffix)
	}
	return ""
}

// Check is Set.Check, once for the same files.
func (k *Keeper) Check(f *v1alpha1.Federation, s Set) (*rules.Contract, error) {
	c := k.fit(s)
	if c.err != nil {
		return nil, c.err
	}
	return c.contract, s.suits(f, c.contract)
}

func (k *Keeper) fit(s Set) checked {
	names := []string{s.Digest()}
	for _, f := range s.each() {
		names = append(names, f.Name) // by which it is told what is wrong
	}
	key := strings.Join(names, " ")
	if c, known := k.checked.Get(key); known {
		return c.(checked)
	}
	c := checked{set: s}
	c.contract, c.err = s.fit()
	k.checked.Add(key, c)
	return c
}

// Accepted is what was accepted under a digest, out of the ConfigMaps that Set.Keep
// makes. Whoever asks while another reads it waits for that one, as long as he likes.
func (k *Keeper) Accepted(ctx context.Context, digest string) (Set, *rules.Contract, error) {
	if digest == "" {
		return Set{}, nil, nil
	}
	if known, is := k.accepted.Get(digest); is {
		c := known.(checked)
		return c.set, c.contract, c.err
	}
	// One who gives up must not take the answer from the others.
	reading := k.reading.DoChan(digest, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		return k.accept(ctx, digest)
	})
	select {
	case <-ctx.Done():
		return Set{}, nil, fmt.Errorf("reading rules of your own that were accepted as %s: %w", digest, ctx.Err())
	case read := <-reading:
		if read.Err != nil {
			return Set{}, nil, read.Err
		}
		c := read.Val.(checked)
		return c.set, c.contract, c.err
	}
}

func (k *Keeper) accept(ctx context.Context, digest string) (checked, error) {
	s, err := k.kept(ctx, digest)
	if err != nil {
		return checked{}, err
	}
	c := k.fit(s)
	if c.err != nil {
		c.err = workload.Invalidf("rules of your own that were accepted before do not fit this version of Pharos, so that nothing is changed: "+
			"put right what spec.rules of the Federation names, or take that out\n%w", c.err)
	}
	k.accepted.Add(digest, c)
	return c, nil
}

// Running is what a Federation has accepted, for its cells. A Federation that was
// never looked at has not said yet what that is; in a cell it may run already.
func (k *Keeper) Running(ctx context.Context, f *v1alpha1.Federation) (*rules.Contract, error) {
	if f.Spec.Rules != nil && f.Status.RulesDigest == "" && f.Status.ObservedGeneration == 0 {
		return nil, &workload.Problem{Reason: v1alpha1.ReasonProgressing, Err: fmt.Errorf("waiting for Federation %s to say which of its spec.rules are accepted", f.Name)}
	}
	_, contract, err := k.Accepted(ctx, f.Status.RulesDigest)
	return contract, err
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
