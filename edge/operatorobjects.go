package edge

import (
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// The objects of prometheus-operator, as far as they are rendered here. They
// name no namespace: they belong beside the Prometheus.
type (
	operatorObject struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Metadata   metadata `yaml:"metadata"`
		Spec       any      `yaml:"spec"`
	}
	metadata struct {
		Name   string            `yaml:"name"`
		Labels map[string]string `yaml:"labels"`
	}
	prometheusRuleSpec struct {
		Groups []rulefmt.RuleGroup `yaml:"groups"`
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
	objects := []operatorObject{object("monitoring.coreos.com/v1", "PrometheusRule", "pharos-edge", prometheusRuleSpec{groups})}
	for _, job := range jobs {
		objects = append(objects, object("monitoring.coreos.com/v1alpha1", "ScrapeConfig", job.JobName, scrapeConfigOf(job)))
	}
	var all [][]byte
	for _, o := range objects {
		raw, err := promcfg.Marshal(o)
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return documents(all), nil
}

func object(apiVersion, kind, name string, spec any) operatorObject {
	return operatorObject{
		APIVersion: apiVersion, Kind: kind, Spec: spec,
		Metadata: metadata{Name: name, Labels: map[string]string{"app.kubernetes.io/part-of": "pharos"}},
	}
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
			SourceLabels: r.SourceLabels, Regex: r.Regex, TargetLabel: r.TargetLabel, Replacement: r.Replacement, Action: strings.ToLower(r.Action),
		})
	}
	return out
}
