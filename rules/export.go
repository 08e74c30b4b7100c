package rules

import (
	"bytes"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"go.yaml.in/yaml/v3"
)

// Export says how rules become objects that the Prometheus Operator reads.
type Export struct {
	// Interval at which the rules are evaluated, whatever the server's own is, and
	// which their durations are scaled to.
	Interval time.Duration
	// Topology is what the rules read and cannot measure.
	Topology []Constant
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
// each subject and one for the topology, if any is given, in one YAML stream. The
// same input gives the same bytes.
//
// An edge's rules are narrow: a Prometheus that takes its rules from objects has
// work of its own, and scrapes what is not the fleet's under the same names.
func PrometheusRules(t Tier, e Export) ([]byte, error) {
	groups, err := Groups(t)
	if err != nil {
		return nil, err
	}
	if len(e.Topology) > 0 {
		topology := topologyGroup(e.Topology)
		topology.Name = string(t) + "-" + topology.Name
		groups.Groups = append(groups.Groups, topology)
	}
	if t == Edge {
		contract, err := Load()
		if err != nil {
			return nil, err
		}
		if err := contract.Narrow(groups.Groups); err != nil {
			return nil, err
		}
	}
	for i, g := range groups.Groups {
		stretch(g, e.Interval)
		groups.Groups[i].Interval = model.Duration(e.Interval)
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
