package edge

import (
	"bytes"
	"cmp"
	"path"
	"strings"

	"github.com/prometheus/prometheus/model/rulefmt"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// tokenSecret is the Secret with the token of the edge's account, which
// prometheus-operator reads because its objects name no files. The API server fills
// it in.
const tokenSecret = "pharos-edge-token"

// operatorObjects are the rules and jobs for a Prometheus that
// prometheus-operator runs, from the jobs of the scrape files as they are. Two things
// cannot be said in these objects: the limit of a body's size, and that native
// histograms are wanted; both are settings of the whole server there.
func operatorObjects(jobs []promcfg.ScrapeConfig, groups []rulefmt.RuleGroup) ([]byte, error) {
	labels := map[string]string{"app.kubernetes.io/part-of": "pharos"}
	ruleObjects, err := rules.RuleObjects(groups, rules.Export{Labels: labels})
	if err != nil {
		return nil, err
	}
	objects := []any{secretObject{
		APIVersion: "v1", Kind: "Secret", Type: "kubernetes.io/service-account-token",
		Metadata: metadata{tokenSecret, labels, map[string]string{"kubernetes.io/service-account.name": "edge"}},
	}}
	for _, job := range jobs {
		objects = append(objects, scrapeObject{
			APIVersion: "monitoring.coreos.com/v1alpha1", Kind: "ScrapeConfig",
			Metadata: metadata{Name: job.JobName, Labels: labels}, Spec: scrapeConfigOf(job),
		})
	}
	all := [][]byte{ruleObjects}
	for _, o := range objects {
		raw, err := promcfg.Marshal(o)
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
		MetricsPath: job.MetricsPath, Params: job.Params, Scheme: strings.ToUpper(job.Scheme),
		Authorization: tokenOf(job.Authorization), TLS: tlsOf(job.TLS),
		HonorLabels: job.HonorLabels, TrackTimestampsStaleness: job.TrackTimestampsStaleness,
		ScrapeProtocols: job.ScrapeProtocols, SampleLimit: job.SampleLimit, Static: job.Static,
		Relabelings: operatorRelabels(job.Relabel), MetricRelabelings: operatorRelabels(job.MetricRelabel),
	}
	for _, sd := range job.HTTP {
		spec.HTTP = append(spec.HTTP, operatorHTTPSD{URL: sd.URL, RefreshInterval: sd.RefreshInterval.String()})
	}
	for _, sd := range job.Kubernetes {
		spec.Kubernetes = append(spec.Kubernetes, operatorKubernetesSD{
			APIServer: sd.APIServer, Role: roles[sd.Role], Namespaces: sd.Namespaces, Selectors: selectorsOf(sd.Selectors),
			Authorization: tokenOf(sd.Authorization), TLS: tlsOf(sd.TLS),
		})
	}
	return spec
}

// roles are what Prometheus discovers, in the operator's spelling.
var roles = map[string]string{"pod": "Pod", "node": "Node", "service": "Service", "endpointslice": "EndpointSlice"}

func selectorsOf(selectors []promcfg.Selector) []promcfg.Selector {
	var out []promcfg.Selector
	for _, s := range selectors {
		out = append(out, promcfg.Selector{Role: roles[s.Role], Label: s.Label, Field: s.Field})
	}
	return out
}

// tokenOf is the account's token, which is the only one that a job shows.
func tokenOf(a *promcfg.Authorization) *operatorAuthorization {
	if a == nil {
		return nil
	}
	return &operatorAuthorization{secretKey{tokenSecret, path.Base(a.CredentialsFile)}}
}

func tlsOf(t *promcfg.TLS) *operatorTLS {
	if t == nil {
		return nil
	}
	out := &operatorTLS{ServerName: t.ServerName, SkipVerify: t.SkipVerify}
	if t.CAFile != "" {
		out.CA = &operatorCA{secretKey{tokenSecret, path.Base(t.CAFile)}}
	}
	return out
}

func operatorRelabels(steps []promcfg.Relabel) []operatorRelabel {
	var out []operatorRelabel
	for _, r := range steps {
		out = append(out, operatorRelabel{
			SourceLabels: r.SourceLabels, Regex: r.Regex, TargetLabel: r.TargetLabel, Modulus: r.Modulus, Replacement: r.Replacement,
			Action: cmp.Or(r.Action, "replace"),
		})
	}
	return out
}

// The objects of prometheus-operator, as far as they are rendered here. They
// name no namespace: whoever applies them chooses it.
type (
	secretObject struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Metadata   metadata `yaml:"metadata"`
		Type       string   `yaml:"type"`
	}
	scrapeObject struct {
		APIVersion string           `yaml:"apiVersion"`
		Kind       string           `yaml:"kind"`
		Metadata   metadata         `yaml:"metadata"`
		Spec       scrapeConfigSpec `yaml:"spec"`
	}
	metadata struct {
		Name        string            `yaml:"name"`
		Labels      map[string]string `yaml:"labels"`
		Annotations map[string]string `yaml:"annotations,omitempty"`
	}
	scrapeConfigSpec struct {
		JobName                  string                 `yaml:"jobName"`
		ScrapeInterval           string                 `yaml:"scrapeInterval"`
		ScrapeTimeout            string                 `yaml:"scrapeTimeout"`
		MetricsPath              string                 `yaml:"metricsPath,omitempty"`
		Params                   map[string][]string    `yaml:"params,omitempty"`
		Scheme                   string                 `yaml:"scheme,omitempty"`
		Authorization            *operatorAuthorization `yaml:"authorization,omitempty"`
		TLS                      *operatorTLS           `yaml:"tlsConfig,omitempty"`
		HonorLabels              bool                   `yaml:"honorLabels,omitempty"`
		TrackTimestampsStaleness bool                   `yaml:"trackTimestampsStaleness,omitempty"`
		ScrapeProtocols          []string               `yaml:"scrapeProtocols,omitempty"`
		SampleLimit              uint                   `yaml:"sampleLimit,omitempty"`
		Kubernetes               []operatorKubernetesSD `yaml:"kubernetesSDConfigs,omitempty"`
		HTTP                     []operatorHTTPSD       `yaml:"httpSDConfigs,omitempty"`
		Static                   []promcfg.StaticGroup  `yaml:"staticConfigs,omitempty"`
		Relabelings              []operatorRelabel      `yaml:"relabelings,omitempty"`
		MetricRelabelings        []operatorRelabel      `yaml:"metricRelabelings,omitempty"`
	}
	secretKey struct {
		Name string `yaml:"name"`
		Key  string `yaml:"key"`
	}
	operatorAuthorization struct {
		Credentials secretKey `yaml:"credentials"`
	}
	operatorTLS struct {
		CA         *operatorCA `yaml:"ca,omitempty"`
		ServerName string      `yaml:"serverName,omitempty"`
		SkipVerify bool        `yaml:"insecureSkipVerify,omitempty"`
	}
	operatorCA struct {
		Secret secretKey `yaml:"secret"`
	}
	operatorKubernetesSD struct {
		APIServer     string                 `yaml:"apiServer"`
		Role          string                 `yaml:"role"`
		Authorization *operatorAuthorization `yaml:"authorization,omitempty"`
		TLS           *operatorTLS           `yaml:"tlsConfig,omitempty"`
		Namespaces    *promcfg.Namespaces    `yaml:"namespaces,omitempty"`
		Selectors     []promcfg.Selector     `yaml:"selectors,omitempty"`
	}
	operatorHTTPSD struct {
		URL             string `yaml:"url"`
		RefreshInterval string `yaml:"refreshInterval,omitempty"`
	}
	operatorRelabel struct {
		SourceLabels []string `yaml:"sourceLabels,omitempty,flow"`
		Regex        string   `yaml:"regex,omitempty"`
		TargetLabel  string   `yaml:"targetLabel,omitempty"`
		Modulus      uint     `yaml:"modulus,omitempty"`
		Replacement  *string  `yaml:"replacement,omitempty"`
		Action       string   `yaml:"action,omitempty"`
	}
)
