package rules

import (
	"bytes"
	"fmt"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"
)

// Export says how rules become objects that the Prometheus Operator reads.
type Export struct {
	// Interval that the durations of rules are scaled to.
	Interval time.Duration
	// Namespace of the objects. Unset leaves it to who applies them.
	Namespace string
	// Labels of the objects, by which a Prometheus resource selects them.
	Labels map[string]string
}

// prometheusRule is an object of monitoring.coreos.com/v1. Its groups are
// written as in Prometheus' own files.
type prometheusRule struct {
	APIVersion string              `yaml:"apiVersion"`
	Kind       string              `yaml:"kind"`
	Metadata   metadata            `yaml:"metadata"`
	Spec       *rulefmt.RuleGroups `yaml:"spec"`
}

type metadata struct {
	Name      string            `yaml:"name"`
	Namespace string            `yaml:"namespace,omitempty"`
	Labels    map[string]string `yaml:"labels,omitempty"`
}

// PrometheusRules gives the rules of a tier as PrometheusRule objects, one for
// each subject, in one YAML stream. The same input gives the same bytes. What an
// edge's rules read of its topology is among them; what a cascade's and a
// central's read depends on the fleet, and is rendered with their configuration.
func PrometheusRules(t Tier, e Export) ([]byte, error) {
	groups, err := Groups(t)
	if err != nil {
		return nil, err
	}
	if t == Edge {
		topology := topologyGroup([]Constant{{Record: "edge:interval:seconds", Value: e.Interval.Seconds()}})
		topology.Name = string(t) + "-" + topology.Name
		groups.Groups = append(groups.Groups, topology)
	}
	for _, g := range groups.Groups {
		stretch(g, e.Interval)
	}
	return RuleObjects(groups.Groups, e)
}

// RuleObjects gives groups as PrometheusRule objects, one for each, in one YAML
// stream. They are taken as they are, so that the interval means nothing here.
func RuleObjects(groups []rulefmt.RuleGroup, e Export) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(renderedBy)
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	for _, g := range groups {
		if err := enc.Encode(prometheusRule{
			APIVersion: "monitoring.coreos.com/v1",
			Kind:       "PrometheusRule",
			Metadata:   metadata{Name: "pharos-" + g.Name, Namespace: e.Namespace, Labels: e.Labels},
			Spec:       &rulefmt.RuleGroups{Groups: []rulefmt.RuleGroup{g}},
		}); err != nil {
			return nil, fmt.Errorf("encoding the PrometheusRule of group %q: %w", g.Name, err)
		}
	}
	return out.Bytes(), nil
}
