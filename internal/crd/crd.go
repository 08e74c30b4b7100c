// Package crd checks objects of Pharos as an API server does that has its
// definitions, without one.
package crd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
)

// checker is what the API server keeps of one definition.
type checker struct {
	structural *schema.Structural
	values     validation.SchemaValidator
	rules      *cel.Validator
}

// Problem is one thing that an API server would refuse.
type Problem struct {
	// Path is that of the field, such as spec.size; empty is the object itself.
	Path string
	Err  error
}

// checkers are those of every kind. They are made once, because to read the
// definitions takes longer than to check a small fleet.
var checkers = sync.OnceValues(newCheckers)

func newCheckers() (map[string]checker, error) {
	crds, err := deploy.CRDs()
	if err != nil {
		return nil, err
	}
	all := map[string]checker{}
	for _, raw := range crds {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &crd); err != nil {
			return nil, fmt.Errorf("reading the definition %s: %w", raw.GetName(), err)
		}
		kind := crd.Spec.Names.Kind
		if all[kind], err = newChecker(crd); err != nil {
			return nil, fmt.Errorf("reading the definition of %s: %w", kind, err)
		}
	}
	return all, nil
}

func newChecker(crd apiextensionsv1.CustomResourceDefinition) (checker, error) {
	for _, v := range crd.Spec.Versions {
		if v.Name != v1alpha1.GroupVersion.Version {
			continue
		}
		var props apiextensions.JSONSchemaProps
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(v.Schema.OpenAPIV3Schema, &props, nil); err != nil {
			return checker{}, err
		}
		structural, err := schema.NewStructural(&props)
		if err != nil {
			return checker{}, err
		}
		values, _, err := validation.NewSchemaValidator(&props)
		return checker{structural, values, cel.NewValidator(structural, true, celconfig.PerCallLimit)}, err
	}
	return checker{}, fmt.Errorf("it has no version %s", v1alpha1.GroupVersion.Version)
}

// Check says what an API server would refuse in an object of a kind of Pharos, in
// its own words. Its error is of another kind, of what is no object, or of a
// definition that cannot be read.
func Check(kind string, raw []byte) ([]Problem, error) {
	all, err := checkers()
	if err != nil {
		return nil, err
	}
	c, known := all[kind]
	if !known {
		return nil, fmt.Errorf("checking an object: %q is no kind of Pharos", kind)
	}
	var object unstructured.Unstructured
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return nil, fmt.Errorf("reading an object: %w", err)
	}
	errs := apivalidation.ValidateObjectMetaAccessor(&object, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, object.Object, c.values)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, object.Object)...)
	unseen := slices.ContainsFunc(errs, misshapen)
	if !unseen {
		broken, _ := c.rules.Validate(context.Background(), nil, c.structural, object.Object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	var found []Problem
	for _, err := range errs {
		found = append(found, Problem{err.Field, errors.New(err.Error())})
	}
	if unseen {
		found = append(found, Problem{"", errors.New("rules over several fields could not be looked at before that is mended")})
	}
	return found, nil
}

// misshapen tells of mistakes that leave an object without the shape, or the
// size, that rules are written for, as the API server does.
func misshapen(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}, err.Type)
}
