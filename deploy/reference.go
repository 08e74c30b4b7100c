package deploy

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

//go:generate go test -run TestReferenceIsCurrent . -update

// Reference is a page of documentation, in Markdown, with every field that a
// person writes of the given kinds, and what the API server refuses.
func Reference(kinds ...string) (string, error) {
	crds, err := CRDs()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("<!-- Generated from deploy/crds by go generate ./deploy. DO NOT EDIT. -->\n# " + strings.Join(kinds, " and ") +
		"\n\nThe fields of `spec`. What is not required may be left out; its description says what that means.\n")
	for _, kind := range kinds {
		for _, raw := range crds {
			var crd apiextensionsv1.CustomResourceDefinition
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(raw.Object, &crd); err != nil {
				return "", fmt.Errorf("reading the definition %s: %w", raw.GetName(), err)
			}
			if crd.Spec.Names.Kind == kind {
				root := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
				fmt.Fprintf(&b, "\n## %s\n%s\n\n", kind, sentence(root.Description))
				fields(&b, "spec", root.Properties["spec"])
			}
		}
	}
	return b.String(), nil
}

// fields lists the fields of an object, and of the objects in it.
func fields(b *strings.Builder, path string, object apiextensionsv1.JSONSchemaProps) {
	refusals(b, object)
	for _, name := range slices.Sorted(maps.Keys(object.Properties)) {
		field, at := object.Properties[name], path+"."+name
		required := ""
		if slices.Contains(object.Required, name) {
			required = ", required"
		}
		fmt.Fprintf(b, "- `%s` (%s%s): %s\n", at, kindOf(field), required, sentence(field.Description))
		inner := field
		if field.Items != nil {
			inner, at = *field.Items.Schema, at+"[]"
			refusals(b, field)
		}
		fields(b, at, inner)
	}
}

// refusals are what rules over fields say.
func refusals(b *strings.Builder, of apiextensionsv1.JSONSchemaProps) {
	for _, rule := range of.XValidations {
		fmt.Fprintf(b, "  - refused otherwise: %s\n", sentence(rule.Message))
	}
}

// kindOf says what a value must be.
func kindOf(f apiextensionsv1.JSONSchemaProps) string {
	kind := f.Type
	if f.XIntOrString {
		kind = "quantity"
	}
	if f.Items != nil {
		kind = "list of " + kindOf(*f.Items.Schema)
	}
	var values []string
	for _, v := range f.Enum {
		values = append(values, strings.Trim(string(v.Raw), `"`))
	}
	if len(values) > 0 {
		kind = "one of " + strings.Join(values, ", ")
	}
	if f.Minimum != nil && f.Maximum != nil {
		kind += fmt.Sprintf(" from %.0f to %.0f", *f.Minimum, *f.Maximum)
	}
	if f.MaxItems != nil {
		kind += fmt.Sprintf(", at most %d", *f.MaxItems)
	}
	return kind
}

func sentence(description string) string { return strings.Join(strings.Fields(description), " ") }
