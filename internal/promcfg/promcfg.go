// Package promcfg is the part of Prometheus' configuration that Pharos renders,
// as typed structs that marshal to the same bytes for the same input. It knows
// no tier: what a tier scrapes and records is decided where the tier is.
package promcfg

import (
	"bytes"
	"fmt"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"
)

// ConfigFile is the name of Prometheus' own file among rendered Files.
const ConfigFile = "prometheus.yml"

// Files are rendered files by name. Names hold no folder, so that a tree fits
// one ConfigMap, and files name each other relatively.
type Files map[string][]byte

// Config is a Prometheus configuration.
type Config struct {
	Global        Global         `yaml:"global"`
	RuleFiles     []string       `yaml:"rule_files,omitempty"`
	Alerting      *Alerting      `yaml:"alerting,omitempty"`
	ScrapeConfigs []ScrapeConfig `yaml:"scrape_configs"`
	RemoteWrite   []RemoteWrite  `yaml:"remote_write,omitempty"`
	Storage       *Storage       `yaml:"storage,omitempty"`
}

// Global holds the defaults of every job and rule group.
type Global struct {
	ScrapeInterval     model.Duration    `yaml:"scrape_interval"`
	ScrapeTimeout      model.Duration    `yaml:"scrape_timeout"`
	EvaluationInterval model.Duration    `yaml:"evaluation_interval"`
	ExternalLabels     map[string]string `yaml:"external_labels,omitempty"`
}

// Alerting says where alerts are sent and what is taken off them before.
type Alerting struct {
	AlertRelabelConfigs []Relabel      `yaml:"alert_relabel_configs,omitempty"`
	Alertmanagers       []Alertmanager `yaml:"alertmanagers"`
}

// Alertmanager is one set of Alertmanagers. Prometheus sends to each of them.
type Alertmanager struct {
	Timeout       model.Duration `yaml:"timeout,omitempty"`
	Scheme        string         `yaml:"scheme,omitempty"`
	PathPrefix    string         `yaml:"path_prefix,omitempty"`
	Authorization *Authorization `yaml:"authorization,omitempty"`
	Kubernetes    []KubernetesSD `yaml:"kubernetes_sd_configs,omitempty"`
	Static        []StaticGroup  `yaml:"static_configs,omitempty"`
	Relabel       []Relabel      `yaml:"relabel_configs,omitempty"`
}

// ScrapeConfig is one job.
type ScrapeConfig struct {
	JobName                  string              `yaml:"job_name"`
	HonorLabels              bool                `yaml:"honor_labels,omitempty"`
	HonorTimestamps          *bool               `yaml:"honor_timestamps,omitempty"`
	TrackTimestampsStaleness bool                `yaml:"track_timestamps_staleness,omitempty"`
	ScrapeInterval           model.Duration      `yaml:"scrape_interval,omitempty"`
	ScrapeTimeout            model.Duration      `yaml:"scrape_timeout,omitempty"`
	ScrapeProtocols          []string            `yaml:"scrape_protocols,omitempty"`
	ScrapeNativeHistograms   *bool               `yaml:"scrape_native_histograms,omitempty"`
	ConvertClassicHistograms bool                `yaml:"convert_classic_histograms_to_nhcb,omitempty"`
	MetricsPath              string              `yaml:"metrics_path,omitempty"`
	Params                   map[string][]string `yaml:"params,omitempty"`
	Scheme                   string              `yaml:"scheme,omitempty"`
	Authorization            *Authorization      `yaml:"authorization,omitempty"`
	TLS                      *TLS                `yaml:"tls_config,omitempty"`
	SampleLimit              uint                `yaml:"sample_limit,omitempty"`
	BodySizeLimit            string              `yaml:"body_size_limit,omitempty"`
	ExtraScrapeMetrics       *bool               `yaml:"extra_scrape_metrics,omitempty"`
	Kubernetes               []KubernetesSD      `yaml:"kubernetes_sd_configs,omitempty"`
	HTTP                     []HTTPSD            `yaml:"http_sd_configs,omitempty"`
	File                     []FileSD            `yaml:"file_sd_configs,omitempty"`
	Static                   []StaticGroup       `yaml:"static_configs,omitempty"`
	Relabel                  []Relabel           `yaml:"relabel_configs,omitempty"`
	MetricRelabel            []Relabel           `yaml:"metric_relabel_configs,omitempty"`
}

// Authorization is a bearer token in a file.
type Authorization struct {
	CredentialsFile string `yaml:"credentials_file"`
}

// TLS is the authority that a server's certificate is checked against, the name
// in it, and the certificate that is shown to the server. All are files.
type TLS struct {
	CAFile     string `yaml:"ca_file,omitempty"`
	CertFile   string `yaml:"cert_file,omitempty"`
	KeyFile    string `yaml:"key_file,omitempty"`
	ServerName string `yaml:"server_name,omitempty"`
	// SkipVerify takes whatever certificate the server shows.
	SkipVerify bool `yaml:"insecure_skip_verify,omitempty"`
}

// KubernetesSD discovers objects of one role at one API server.
type KubernetesSD struct {
	Role          string         `yaml:"role"`
	APIServer     string         `yaml:"api_server,omitempty"`
	Authorization *Authorization `yaml:"authorization,omitempty"`
	TLS           *TLS           `yaml:"tls_config,omitempty"`
	Namespaces    *Namespaces    `yaml:"namespaces,omitempty"`
	Selectors     []Selector     `yaml:"selectors,omitempty"`
}

// Namespaces bounds discovery, and with it the rights that it needs.
type Namespaces struct {
	Names []string `yaml:"names"`
}

// Selector lets the API server filter, instead of relabelling afterwards.
type Selector struct {
	Role  string `yaml:"role"`
	Label string `yaml:"label,omitempty"`
	Field string `yaml:"field,omitempty"`
}

// HTTPSD discovers targets by asking a URL.
type HTTPSD struct {
	URL             string         `yaml:"url"`
	RefreshInterval model.Duration `yaml:"refresh_interval,omitempty"`
}

// FileSD reads targets from files, each a list of StaticGroups, and follows them.
type FileSD struct {
	Files []string `yaml:"files"`
}

// StaticGroup is a set of targets that share labels.
type StaticGroup struct {
	Targets []string          `yaml:"targets"`
	Labels  map[string]string `yaml:"labels,omitempty"`
}

// Relabel is one relabelling step.
type Relabel struct {
	SourceLabels []string `yaml:"source_labels,omitempty,flow"`
	Regex        string   `yaml:"regex,omitempty"`
	TargetLabel  string   `yaml:"target_label,omitempty"`
	Modulus      uint     `yaml:"modulus,omitempty"`
	Replacement  *string  `yaml:"replacement,omitempty"`
	Action       string   `yaml:"action,omitempty"`
}

// With renders the configuration and puts it among the files that it names,
// which it takes over.
func (c Config) With(files Files) (Files, error) {
	config, err := c.Marshal()
	if err != nil {
		return nil, err
	}
	files[ConfigFile] = config
	return files, nil
}

// renderedBy is the first line of every rendered file.
const renderedBy = "# Rendered by Pharos. Edits are overwritten.\n"

// Marshal renders v as YAML under a line that says who wrote the file.
func Marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString(renderedBy)
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding yaml: %w", err)
	}
	return out.Bytes(), nil
}

// Duration converts to the notation that Prometheus' files use.
func Duration(d time.Duration) model.Duration { return model.Duration(d) }
