package edge

import (
	"bytes"
	"cmp"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// The objects of prometheus-operator, as far as they are rendered here. They
// name no namespace: they belong beside the Prometheus.
type (
	operatorObject struct {
		APIVersion string           `yaml:"apiVersion"`
		Kind       string           `yaml:"kind"`
		Metadata   metadata         `yaml:"metadata"`
		Spec       scrapeConfigSpec `yaml:"spec"`
	}
	metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	}
	scrapeConfigSpec struct {
		JobName                  string                `yaml:"jobName"`
		ScrapeInterval           string                `yaml:"scrapeInterval"`
		ScrapeTimeout            string                `yaml:"scrapeTimeout"`
		MetricsPath              string                `yaml:"metricsPath,omitempty"`
		HonorLabels              bool                  `yaml:"honorLabels,omitempty"`
		TrackTimestampsStaleness bool                  `yaml:"trackTimestampsStaleness,omitempty"`
		ScrapeProtocols          []string              `yaml:"scrapeProtocols,omitempty"`
		SampleLimit              uint                  `yaml:"sampleLimit,omitempty"`
		HTTP                     []operatorHTTPSD      `yaml:"httpSDConfigs,omitempty"`
		Static                   []promcfg.StaticGroup `yaml:"staticConfigs,omitempty"`
		Relabelings              []operatorRelabel     `yaml:"relabelings,omitempty"`
		MetricRelabelings        []operatorRelabel     `yaml:"metricRelabelings,omitempty"`
	}
	operatorHTTPSD struct {
		URL             string `yaml:"url"`
		RefreshInterval string `yaml:"refreshInterval,omitempty"`
	}
	operatorRelabel struct {
		SourceLabels []string `yaml:"sourceLabels,omitempty,flow"`
		Regex        string   `yaml:"regex,omitempty"`
		TargetLabel  string   `yaml:"targetLabel,omitempty"`
		Replacement  *string  `yaml:"replacement,omitempty"`
		Action       string   `yaml:"action,omitempty"`
	}
)

// operatorObjects are the rules and jobs for a Prometheus that
// prometheus-operator runs. Two things cannot be said in these objects: the
// limit of a body's size, and that native histograms are wanted; both are
// settings of the whole server there.
func operatorObjects(jobs []promcfg.ScrapeConfig, groups []rulefmt.RuleGroup) ([]byte, error) {
	labels := map[string]string{"app.kubernetes.io/part-of": "pharos"}
	ruleObjects, err := rules.RuleObjects(groups, rules.Export{Labels: labels})
	if err != nil {
		return nil, err
	}
	all := [][]byte{ruleObjects}
	for _, job := range jobs {
		raw, err := promcfg.Marshal(operatorObject{
			APIVersion: "monitoring.coreos.com/v1alpha1", Kind: "ScrapeConfig",
			Metadata: metadata{job.JobName, labels}, Spec: scrapeConfigOf(job),
		})
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return bytes.Join(all, []byte("---\n")), nil
}

func scrapeConfigOf(job promcfg.ScrapeConfig) scrapeConfigSpec {
	spec := scrapeConfigSpec{
		JobName: job.JobName, ScrapeInterval: job.ScrapeInterval.String(), ScrapeTimeout: job.ScrapeTimeout.String(),
		MetricsPath: job.MetricsPath, HonorLabels: job.HonorLabels, TrackTimestampsStaleness: job.TrackTimestampsStaleness,
		ScrapeProtocols: job.ScrapeProtocols, SampleLimit: job.SampleLimit, Static: job.Static,
		Relabelings: operatorRelabels(job.Relabel), MetricRelabelings: operatorRelabels(job.MetricRelabel),
	}
	for _, sd := range job.HTTP {
		spec.HTTP = append(spec.HTTP, operatorHTTPSD{URL: sd.URL, RefreshInterval: sd.RefreshInterval.String()})
	}
	return spec
}

func operatorRelabels(steps []promcfg.Relabel) []operatorRelabel {
	var out []operatorRelabel
	for _, r := range steps {
		out = append(out, operatorRelabel{
			SourceLabels: r.SourceLabels, Regex: r.Regex, TargetLabel: r.TargetLabel, Replacement: r.Replacement, Action: cmp.Or(r.Action, "replace"),
		})
	}
	return out
}
