package tree

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// schemas check objects by kind, with the API server's own code and the
// definitions that are installed.
type schemas map[string]checker

// checker is what the API server keeps of one definition.
type checker struct {
	structural *schema.Structural
	values     validation.SchemaValidator
	rules      *cel.Validator
}

// problem is one thing that an API server would refuse, and the field.
type problem struct {
	path string
	err  error
}

func newSchemas() (schemas, error) {
	crds, err := deploy.CRDs()
	if err != nil {
		return nil, err
	}
	s := schemas{}
	for _, raw := range crds {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &crd); err != nil {
			return nil, fmt.Errorf("reading the definition %s: %w", raw.GetName(), err)
		}
		if kind := crd.Spec.Names.Kind; kind == "Federation" || kind == "Cell" {
			if s[kind], err = newChecker(crd); err != nil {
				return nil, fmt.Errorf("reading the definition of %s: %w", kind, err)
			}
		}
	}
	return s, nil
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

// problems are what the API server would refuse in an object, in its own words.
func (s schemas) problems(kind string, raw []byte) []problem {
	var object unstructured.Unstructured
	if err := json.Unmarshal(raw, &object.Object); err != nil {
		return []problem{{"", err}}
	}
	c := s[kind]
	errs := apivalidation.ValidateObjectMetaAccessor(&object, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validation.ValidateCustomResource(nil, object.Object, c.values)...)
	errs = append(errs, listtype.ValidateListSetsAndMaps(nil, c.structural, object.Object)...)
	unseen := slices.ContainsFunc(errs, misshapen)
	if !unseen {
		broken, _ := c.rules.Validate(context.Background(), nil, c.structural, object.Object, nil, celconfig.RuntimeCELCostBudget)
		errs = append(errs, broken...)
	}
	var all []problem
	for _, err := range errs {
		all = append(all, problem{err.Field, errors.New(err.Error())})
	}
	if unseen {
		all = append(all, problem{"", errors.New("rules over several fields could not be looked at before that is mended")})
	}
	return all
}

// misshapen tells of mistakes that leave an object without the shape, or the
// size, that rules are written for, as the API server does.
func misshapen(err *field.Error) bool {
	return slices.Contains([]field.ErrorType{
		field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid,
	}, err.Type)
}
