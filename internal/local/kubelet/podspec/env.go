package podspec

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Configs gives the ConfigMaps and Secrets of a pod's namespace. A missing one is a NotFound error of the API.
type Configs interface {
	ConfigMap(name string) (*corev1.ConfigMap, error)
	Secret(name string) (*corev1.Secret, error)
}

// Environment is a list of variables in order of definition.
type Environment struct {
	names  []string
	values map[string]string
}

// NewEnvironment returns an Environment that starts with the given variables.
func NewEnvironment(base map[string]string) *Environment {
	e := &Environment{values: map[string]string{}}
	for _, name := range slices.Sorted(maps.Keys(base)) {
		e.Set(name, base[name])
	}
	return e
}

// Set defines a variable, or defines it anew.
func (e *Environment) Set(name, value string) {
	if _, ok := e.values[name]; !ok {
		e.names = append(e.names, name)
	}
	e.values[name] = value
}

// Lookup returns a variable's value and whether it is defined.
func (e *Environment) Lookup(name string) (string, bool) {
	v, ok := e.values[name]
	return v, ok
}

// List returns the variables as NAME=value, each value passed through rewrite.
func (e *Environment) List(rewrite func(string) string) []string {
	out := make([]string, 0, len(e.names))
	for _, name := range e.names {
		out = append(out, name+"="+rewrite(e.values[name]))
	}
	return out
}

// AddContainer adds a container's envFrom and env. The pod must carry its address in its status. It returns an error that
// names the variable and the missing object.
func (e *Environment) AddContainer(pod *corev1.Pod, c *corev1.Container, configs Configs) error {
	for _, from := range c.EnvFrom {
		if err := e.addFrom(from, configs); err != nil {
			return err
		}
	}
	for _, v := range c.Env {
		value, ok, err := e.value(pod, v, configs)
		if err != nil {
			return fmt.Errorf("resolving variable %s: %w", v.Name, err)
		}
		if ok {
			e.Set(v.Name, value)
		}
	}
	return nil
}

func (e *Environment) value(pod *corev1.Pod, v corev1.EnvVar, configs Configs) (value string, ok bool, err error) {
	from := v.ValueFrom
	switch {
	case from == nil:
		return Expand(v.Value, e.Lookup), true, nil
	case from.FieldRef != nil:
		value, err = Field(pod, from.FieldRef.FieldPath)
		return value, err == nil, err
	case from.ConfigMapKeyRef != nil:
		return configMapKey(*from.ConfigMapKeyRef, configs)
	case from.SecretKeyRef != nil:
		return secretKey(*from.SecretKeyRef, configs)
	}
	return "", false, fmt.Errorf("this kind of valueFrom is not supported")
}

func configMapKey(ref corev1.ConfigMapKeySelector, configs Configs) (string, bool, error) {
	optional := ref.Optional != nil && *ref.Optional
	cm, err := configs.ConfigMap(ref.Name)
	if err != nil {
		return "", false, unlessOptional(err, optional)
	}
	if value, ok := cm.Data[ref.Key]; ok || optional {
		return value, ok, nil
	}
	return "", false, fmt.Errorf("configmap %q has no key %q", ref.Name, ref.Key)
}

func secretKey(ref corev1.SecretKeySelector, configs Configs) (string, bool, error) {
	optional := ref.Optional != nil && *ref.Optional
	s, err := configs.Secret(ref.Name)
	if err != nil {
		return "", false, unlessOptional(err, optional)
	}
	if value, ok := s.Data[ref.Key]; ok || optional {
		return string(value), ok, nil
	}
	return "", false, fmt.Errorf("secret %q has no key %q", ref.Name, ref.Key)
}

// unlessOptional forgives the absence of an optional object, and nothing else.
func unlessOptional(err error, optional bool) error {
	if optional && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (e *Environment) addFrom(from corev1.EnvFromSource, configs Configs) error {
	data, err := envFromData(from, configs)
	if err != nil {
		return fmt.Errorf("resolving envFrom: %w", err)
	}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		name := from.Prefix + key
		// Kubernetes leaves out keys that cannot be the name of a variable, and so do we.
		if len(validation.IsEnvVarName(name)) == 0 {
			e.Set(name, data[key])
		}
	}
	return nil
}

func envFromData(from corev1.EnvFromSource, configs Configs) (map[string]string, error) {
	switch {
	case from.ConfigMapRef != nil:
		cm, err := configs.ConfigMap(from.ConfigMapRef.Name)
		if err != nil {
			return nil, unlessOptional(err, from.ConfigMapRef.Optional != nil && *from.ConfigMapRef.Optional)
		}
		return cm.Data, nil
	case from.SecretRef != nil:
		s, err := configs.Secret(from.SecretRef.Name)
		if err != nil {
			return nil, unlessOptional(err, from.SecretRef.Optional != nil && *from.SecretRef.Optional)
		}
		data := make(map[string]string, len(s.Data))
		for k, v := range s.Data {
			data[k] = string(v)
		}
		return data, nil
	}
	return nil, fmt.Errorf("neither a ConfigMap nor a Secret is named")
}
