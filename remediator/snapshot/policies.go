package snapshot

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/crd"
)

// ReadPolicies reads the RemediationPolicies of a file, which has nothing else. It
// refuses what an API server would.
func ReadPolicies(raw []byte) ([]api.RemediationPolicy, error) {
	var all []api.RemediationPolicy
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(raw)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading policies: %w", err)
		}
		p, err := readPolicy(document)
		if err != nil {
			return nil, fmt.Errorf("reading policies: document %d: %w", n, err)
		}
		if p != nil {
			all = append(all, *p)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("reading policies: there is none")
	}
	return all, nil
}

// readPolicy is nil for a document that has nothing but comments.
func readPolicy(document []byte) (*api.RemediationPolicy, error) {
	raw, err := yaml.YAMLToJSONStrict(document)
	if err != nil || string(raw) == "null" {
		return nil, err
	}
	var p api.RemediationPolicy
	strict, err := kjson.UnmarshalStrict(raw, &p)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, err
	}
	if p.APIVersion != api.GroupVersion.String() || p.Kind != "RemediationPolicy" || p.Name == "" {
		return nil, fmt.Errorf("it is %q of %q named %q, where a RemediationPolicy of %q with a name is read", p.Kind, p.APIVersion, p.Name, api.GroupVersion)
	}
	found, err := crd.Check(p.Kind, raw)
	for _, problem := range found {
		err = errors.Join(err, problem.Err)
	}
	return &p, err
}
