package ownrules

import (
	"context"
	"fmt"
	"maps"
	"regexp"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
	"github.com/pharos-fleet/pharos/rules/lint"
)

// contractPart stands for the contract in the name of a ConfigMap, where a tier stands
// for its rules.
const contractPart = "contract"

// keptName is what a ConfigMap with a part of an accepted set is called.
func keptName(digest, part string) string { return "own-rules-" + digest + "." + part }

var kept = regexp.MustCompile(fmt.Sprintf(`^ConfigMap own-rules-([0-9a-f]{%d})\.`, digestLength))

// Keep gives the ConfigMaps that keep a set as it is: nobody can edit them, and their
// name says what is in them.
func (s Set) Keep(p workload.Place) workload.Objects {
	digest := s.Digest()
	if digest == "" {
		return nil
	}
	files := map[string]map[string]string{}
	add := func(part string, name string, f lint.File) {
		if files[part] == nil {
			files[part] = map[string]string{}
		}
		files[part][name] = string(f.Content)
	}
	if s.Contract.Name != "" {
		add(contractPart, rules.ContractFile, s.Contract)
	}
	for _, tier := range rules.Tiers() {
		for _, f := range s.Rules[tier] {
			add(string(tier), serverName(f), f)
		}
	}
	labels := maps.Clone(p.Labels)
	labels[v1alpha1.LabelManagedBy] = "pharos"
	var objects workload.Objects
	for _, part := range sorted(files) {
		cm := corev1ac.ConfigMap(keptName(digest, part), p.Namespace).WithLabels(labels).WithData(files[part]).WithImmutable(true)
		if p.Owner != nil {
			cm.WithOwnerReferences(p.Owner)
		}
		objects = append(objects, cm)
	}
	return objects
}

// IsCopy tells whether a ConfigMap is what Set.Keep made it.
func IsCopy(cm *corev1.ConfigMap, made runtime.ApplyConfiguration) bool {
	as, is := made.(*corev1ac.ConfigMapApplyConfiguration)
	return is && ptr.Deref(cm.Immutable, false) && len(cm.BinaryData) == 0 && maps.Equal(cm.Data, as.Data)
}

// Copies are, of the objects that are known, told as workload.Identity does, those that
// keep the set of a digest.
func Copies(known map[string]bool, digest string) []string {
	var all []string
	for _, identity := range sorted(known) {
		if m := kept.FindStringSubmatch(identity); m != nil && m[1] == digest {
			all = append(all, identity)
		}
	}
	return all
}

// kept reads a set again. One that lacks a part is none: rules that run would go.
func (k *Keeper) kept(ctx context.Context, digest string) (Set, error) {
	s := Set{Rules: map[rules.Tier][]lint.File{}}
	for _, part := range []string{contractPart, string(rules.Edge), string(rules.Cascade), string(rules.Central)} {
		var cm corev1.ConfigMap
		at := keptName(digest, part)
		err := k.live.Get(ctx, client.ObjectKey{Namespace: k.namespace, Name: at}, &cm)
		if client.IgnoreNotFound(err) != nil {
			return Set{}, fmt.Errorf("reading rules of your own that were accepted, in ConfigMap %s: %w", at, err)
		}
		if apierrors.IsNotFound(err) {
			continue
		}
		for _, key := range sorted(cm.Data) {
			f := lint.File{Name: name(at, key), Content: []byte(cm.Data[key])}
			if part == contractPart {
				s.Contract = f
			} else {
				s.Rules[rules.Tier(part)] = append(s.Rules[rules.Tier(part)], f)
			}
		}
	}
	if s.Digest() != digest {
		return Set{}, workload.Invalidf("status.rulesDigest: rules of your own were accepted as %s, and the ConfigMaps own-rules-%[1]s.* in namespace %s are gone or not whole, so that nothing is changed: "+
			"put right what spec.rules of the Federation names, which then takes their place", digest, k.namespace)
	}
	return s, nil
}

// Left is the digest of the one set that objects, told as workload.Identity does, keep;
// empty if there is none, or more than one.
func Left(known map[string]bool) string {
	found := ""
	for identity := range known {
		m := kept.FindStringSubmatch(identity)
		switch {
		case m == nil || m[1] == found:
		case found != "":
			return ""
		default:
			found = m[1]
		}
	}
	return found
}
