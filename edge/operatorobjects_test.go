package edge

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	configutil "github.com/prometheus/common/config"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/kubernetes"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

// What is rendered for the Prometheus Operator is taken, strictly, by a real API
// server that has the operator's own definitions, and what a real operator makes of
// it for its Prometheus is, job by job, what the scrape files say.
func TestOperatorMakesOfTheObjectsWhatTheScrapeFilesSay(t *testing.T) {
	o := options()
	o.ObjectState = v1alpha1.ObjectStateKubeStateMetrics // so that there is every job that can be
	o.Unverified = []v1alpha1.TargetComponent{"kube-scheduler"}
	files, err := RenderExternal(o)
	require.NoError(t, err)

	api := testkit.APIServer(t)
	var definitions []string
	for _, plural := range []string{"prometheusrules", "scrapeconfigs", "prometheuses", "servicemonitors", "podmonitors", "probes"} {
		definitions = append(definitions, testkit.OperatorCRD(t, plural))
	}
	_, err = envtest.InstallCRDs(api, envtest.CRDInstallOptions{Paths: definitions})
	require.NoError(t, err)
	c, err := client.New(api, client.Options{})
	require.NoError(t, err)
	inNamespace := client.NewNamespacedClient(c, "default")

	kinds := apply(t, inNamespace, files[OperatorFile])
	require.Equal(t, len(rules.FileNames(rules.Edge)), kinds["PrometheusRule"])
	require.Equal(t, 1, kinds["Secret"])
	fillToken(t, inNamespace, api.CAData)
	require.NoError(t, inNamespace.Create(t.Context(), prometheus()))
	spawnOperator(t, api)

	made := jobsOf(t, generated(t, inNamespace))
	said := jobsOf(t, files[AgentScrapeFile], files[MetaScrapeFile])
	require.Len(t, said, kinds["ScrapeConfig"])
	require.ElementsMatch(t, slices.Collect(maps.Keys(said)), slices.Collect(maps.Keys(made)))
	for name, job := range said {
		t.Run(name, func(t *testing.T) { requireSameJob(t, job, made[name]) })
	}
}

// apply creates the objects of a file, none of whose fields may be unknown or be
// changed, and counts them by kind.
func apply(t *testing.T, c client.Client, file []byte) map[string]int {
	t.Helper()
	strict := client.WithFieldValidation(c, "Strict")
	kinds := map[string]int{}
	documents := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(file), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return kinds
		}
		require.NoError(t, err)
		sent := o.DeepCopy()
		require.NoError(t, strict.Create(t.Context(), o), o.GetName())
		want, err := json.Marshal(sent.Object["spec"])
		require.NoError(t, err)
		got, err := json.Marshal(o.Object["spec"])
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), "nothing was pruned or changed")
		kinds[o.GetKind()]++
	}
}

// fillToken does what a controller-manager does, of which there is none here.
func fillToken(t *testing.T, c client.Client, authority []byte) {
	t.Helper()
	secret := object("v1", "Secret", tokenSecret)
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	require.Equal(t, "kubernetes.io/service-account-token", secret.Object["type"])
	secret.Object["stringData"] = map[string]any{"token": "the-token", "ca.crt": string(authority)}
	require.NoError(t, c.Update(t.Context(), secret))
}

func object(apiVersion, kind, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	return o
}

// prometheus is one that chooses Pharos' objects by their label.
func prometheus() *unstructured.Unstructured {
	o := object("monitoring.coreos.com/v1", "Prometheus", "cell")
	ours := map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/part-of": "pharos"}}
	o.Object["spec"] = map[string]any{"version": "v3.5.0", "scrapeConfigSelector": ours, "ruleSelector": ours}
	return o
}

// spawnOperator runs a Prometheus Operator until the test ends.
func spawnOperator(t *testing.T, api *rest.Config) {
	t.Helper()
	dir := t.TempDir()
	at := map[string]string{}
	for name, data := range map[string][]byte{"ca": api.CAData, "cert": api.CertData, "key": api.KeyData} {
		at[name] = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(at[name], data, 0o600))
	}
	testkit.Spawn(t, "prometheus-operator", "--apiserver="+api.Host, "--ca-file="+at["ca"], "--cert-file="+at["cert"], "--key-file="+at["key"],
		"--web.listen-address=127.0.0.1:0", "--namespaces=default")
}

// generated is the configuration that the operator has made with all that there is.
func generated(t *testing.T, c client.Client) []byte {
	t.Helper()
	secret := object("v1", "Secret", "prometheus-cell")
	var text []byte
	require.Eventually(t, func() bool {
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			return false
		}
		raw, err := json.Marshal(secret.Object["data"])
		require.NoError(t, err)
		var data map[string][]byte
		require.NoError(t, json.Unmarshal(raw, &data))
		zipped, err := gzip.NewReader(bytes.NewReader(data["prometheus.yaml.gz"]))
		if err != nil {
			return false
		}
		text, err = io.ReadAll(zipped)
		return err == nil && bytes.Contains(text, []byte("scrapeConfig/default/"))
	}, time.Minute, 200*time.Millisecond, "the operator makes no configuration with our jobs")
	return text
}

// jobsOf loads configurations as Prometheus does, and gives their jobs by the names that
// the scrape files have.
func jobsOf(t *testing.T, texts ...[]byte) map[string]*config.ScrapeConfig {
	t.Helper()
	all := map[string]*config.ScrapeConfig{}
	for _, text := range texts {
		cfg, err := config.Load(string(text), promslog.NewNopLogger())
		require.NoError(t, err)
		jobs, err := cfg.GetScrapeConfigs()
		require.NoError(t, err)
		for _, job := range jobs {
			all[path.Base(job.JobName)] = job
		}
	}
	return all
}

// requireSameJob compares all that there is of a job, but for its name, where its
// secrets lie, and the two settings that are the whole server's with an operator.
// Relabelling of targets is compared by what comes of it.
func requireSameJob(t *testing.T, want, got *config.ScrapeConfig) {
	t.Helper()
	for _, job := range []*config.ScrapeConfig{want, got} {
		unplaced(t, &job.HTTPClientConfig)
		for _, sd := range job.ServiceDiscoveryConfigs {
			if sd, is := sd.(*kubernetes.SDConfig); is {
				unplaced(t, &sd.HTTPClientConfig)
			}
		}
		job.JobName = "job" // which is a label of its targets where nothing else is said
	}
	for _, found := range []map[string]string{
		pod("10.0.2.1", "label_pharos_dev_cluster", "shop", "node_name", "m1"), pod("10.0.2.1", "phase", "Failed"),
		pod("fd00::2", "label_pharos_dev_cluster", "shop", "annotation_pharos_dev_metrics_port", "80", "annotation_pharos_dev_metrics_scheme", "http"),
		node("10.0.1.1:0"), node("[fd00::1]:10250"), fromSD("/p", "shop", ""), fromSD("/p", "shop", "n1"),
		{"__address__": "10.0.1.1:6443", "__meta_kubernetes_endpointslice_port_name": "https"},
		{"__address__": "10.0.1.1:6443", "__meta_kubernetes_endpointslice_port_name": "dns"},
	} {
		require.Equal(t, relabelled(t, want, found), relabelled(t, got, found), found)
	}
	want.RelabelConfigs, want.BodySizeLimit, want.ScrapeNativeHistograms = got.RelabelConfigs, got.BodySizeLimit, got.ScrapeNativeHistograms
	require.Equal(t, want, got)
}

func relabelled(t *testing.T, job *config.ScrapeConfig, found map[string]string) *scraped {
	t.Helper()
	return server{map[string]*config.ScrapeConfig{"": job}}.target(t, "", found)
}

// unplaced takes off where the token and the authority of the edge's account lie, after
// it has made sure that it is these.
func unplaced(t *testing.T, c *configutil.HTTPClientConfig) {
	t.Helper()
	if a := c.Authorization; a != nil {
		require.True(t, a.CredentialsFile == accountDir+"/token" || a.Credentials == "the-token", a)
		c.Authorization = &configutil.Authorization{Type: a.Type}
	}
	if c.TLSConfig.CAFile != "" {
		require.Regexp(t, `(/|_)ca\.crt$`, c.TLSConfig.CAFile)
		c.TLSConfig.CAFile = "ca.crt"
	}
}
