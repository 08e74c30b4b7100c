package snapshot

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/crd"
)

// Terms are what people want of decisions: policies, and what bounds them.
type Terms struct {
	Policies []api.RemediationPolicy
	Budgets  []api.FleetDisruptionBudget
}

// Under is the snapshot with other terms. What they have of a kind takes the place of
// all that the snapshot has of it; a kind of which they have nothing stays. That budgets
// could not be read stays, too: others could not have been read either.
func (s Snapshot) Under(t Terms) Snapshot {
	if len(t.Policies) > 0 {
		s.Policies = t.Policies
	}
	if len(t.Budgets) > 0 {
		s.Budgets = t.Budgets
	}
	return s
}

// ReadTerms reads the RemediationPolicies and FleetDisruptionBudgets of a file, which
// has nothing else. It refuses what an API server would.
func ReadTerms(raw []byte) (Terms, error) {
	var t Terms
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return t, fmt.Errorf("reading policies: %w", err)
		}
		if err := t.add(document); err != nil {
			return t, fmt.Errorf("reading policies: document %d: %w", n, err)
		}
	}
	if len(t.Policies)+len(t.Budgets) == 0 {
		return t, errors.New("reading policies: there is none")
	}
	return t, nil
}

// add adds nothing for a document that has nothing but comments.
func (t *Terms) add(document []byte) error {
	raw, err := yaml.YAMLToJSONStrict(document)
	if err != nil || string(raw) == "null" {
		return err
	}
	var is metav1.PartialObjectMetadata
	if err := kjson.UnmarshalCaseSensitivePreserveInts(raw, &is); err != nil {
		return err
	}
	if is.APIVersion == api.GroupVersion.String() && is.Name != "" {
		switch is.Kind {
		case "RemediationPolicy":
			return object(raw, is.Kind, &t.Policies)
		case "FleetDisruptionBudget":
			return object(raw, is.Kind, &t.Budgets)
		}
	}
	return fmt.Errorf("it is %q of %q named %q, where a RemediationPolicy or a FleetDisruptionBudget of %q with a name is read",
		is.Kind, is.APIVersion, is.Name, api.GroupVersion)
}

func object[T any](raw []byte, kind string, all *[]T) error {
	var one T
	strict, err := kjson.UnmarshalStrict(raw, &one)
	if err := errors.Join(append(strict, err)...); err != nil {
		return err
	}
	found, err := crd.Check(kind, raw)
	for _, problem := range found {
		err = errors.Join(err, problem.Err)
	}
	*all = append(*all, one)
	return err
}
