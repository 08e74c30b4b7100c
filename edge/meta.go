package edge

import (
	"regexp"

	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// Labels and annotations by which an edge knows the pods that it is to scrape.
const (
	// LabelCluster names, on a pod of a hosted control plane, its business cluster.
	LabelCluster = "pharos.dev/cluster"
	// LabelControlPlane names, on such a pod, what it is: etcd,
	// kube-controller-manager or kube-scheduler.
	LabelControlPlane = "pharos.dev/component"
	// AnnotationPort and AnnotationScheme say where such a pod serves its
	// metrics, where that is not the component's usual port and scheme.
	AnnotationPort   = "pharos.dev/metrics-port"
	AnnotationScheme = "pharos.dev/metrics-scheme"
)

// sanitized is what Prometheus replaces by an underscore in names of labels.
var sanitized = regexp.MustCompile(`[^a-zA-Z0-9_]`)

const kubeSystem = "kube-system"

// metaJob is the job for the component of the meta cluster, where the business
// clusters' is reached in another way.
func metaJob(component string) string { return component + "-meta" }

// withToken shows the edge's own token, over TLS. The token goes to nobody whose
// certificate the cluster's authority has not signed, unless the cell says of
// the component that its certificate cannot be checked.
func (o Options) withToken(job promcfg.ScrapeConfig, component, serverName string) promcfg.ScrapeConfig {
	job.Scheme = "https"
	job.Authorization = &promcfg.Authorization{CredentialsFile: promcfg.TokenFile}
	job.TLS = &promcfg.TLS{CAFile: promcfg.CAFile, ServerName: serverName}
	if o.unverified(component) {
		job.TLS = &promcfg.TLS{SkipVerify: true}
	}
	return job
}

// metaNodes are what runs on every node of the meta cluster.
func metaNodes(o Options) []source {
	node := func(component, path string) source {
		s := source{component: component}
		s.job = o.withToken(promcfg.ScrapeConfig{
			JobName: metaJob(component), MetricsPath: path,
			Kubernetes: []promcfg.KubernetesSD{o.APIServer.Nodes()},
			Static:     o.named(component, meta),
			Relabel: []promcfg.Relabel{
				// A node that does not say where its kubelet listens has port 0.
				{SourceLabels: []string{"__address__"}, Regex: "(.*):0", TargetLabel: "__address__", Replacement: ptr("$1:10250")},
				promcfg.CopyLabel("__meta_kubernetes_node_name", "node"),
				promcfg.SetLabel("cluster", MetaCluster),
			},
		}, componentKubelet, "")
		return s.spoken()
	}
	exporter := source{component: componentNodeExporter, job: promcfg.ScrapeConfig{
		JobName: metaJob(componentNodeExporter),
		Static:  o.named(componentNodeExporter, meta),
		// The names that the two usual ways to install it give.
		Kubernetes: []promcfg.KubernetesSD{o.APIServer.PodsIn("", "app.kubernetes.io/name in (node-exporter,prometheus-node-exporter)")},
		Relabel: append(promcfg.PodAddress(9100),
			promcfg.CopyLabel("__meta_kubernetes_pod_node_name", "node"),
			promcfg.SetLabel("cluster", MetaCluster),
		),
	}}
	return []source{node(componentKubelet, ""), node(componentCadvisor, "/metrics/cadvisor"), exporter}
}

// metaAPIServer is each API server of the meta cluster by itself: behind one
// address, a counter would jump between them. Where the cell names a URL, that
// is what there is, unless its servers are among the targets that it names.
func metaAPIServer(o Options) source {
	s := source{component: componentAPIServer, job: promcfg.ScrapeConfig{JobName: metaJob(componentAPIServer)}}
	name := ""
	switch named := o.named(componentAPIServer, meta); {
	case len(named) > 0:
		s.job.Static = named
	case o.APIServer.URL != "":
		s.job.Static = []promcfg.StaticGroup{{
			Targets: []string{hostPort(o.APIServer.BaseURL())}, Labels: map[string]string{"cluster": MetaCluster},
		}}
	default:
		name = "kubernetes.default.svc" // in the certificate of each, whatever its address is
		s.job.Kubernetes = []promcfg.KubernetesSD{o.APIServer.Endpoints("default", "kubernetes")}
		s.job.Relabel = []promcfg.Relabel{
			{SourceLabels: []string{"__meta_kubernetes_endpointslice_port_name"}, Regex: "https", Action: "keep"},
			promcfg.SetLabel("cluster", MetaCluster),
		}
	}
	s.job = o.withToken(s.job, componentAPIServer, name)
	return s
}

// controlPlane are the other servers of control planes: the meta cluster's, by
// the labels that kubeadm gives their pods, those of hosted clusters, by ours,
// and what the cell names. A hosted server would not know the edge's token, so
// that it is asked without one; and whoever is shown no secret may have any
// certificate.
func controlPlane(o Options) []source {
	var out []source
	for _, c := range []struct {
		component, scheme string
		port              int
	}{
		// etcd's port of metrics only. A client's certificate would let its holder
		// read and write everything, and is nothing to give to a Prometheus.
		{componentEtcd, "http", 2381},
		{componentControllers, "https", 10257},
		{componentScheduler, "https", 10259},
	} {
		own := source{component: c.component, job: o.metaPods(c.component, c.port)}
		hosted := source{component: c.component, job: o.hostedPods(c.component, c.scheme, c.port)}
		if c.scheme == "https" {
			own.job = o.withToken(own.job, c.component, "")
			hosted.job.TLS = &promcfg.TLS{SkipVerify: true}
		}
		for _, s := range []source{own, hosted} {
			if len(s.job.Static)+len(s.job.Kubernetes) > 0 {
				out = append(out, s)
			}
		}
	}
	return out
}

func (o Options) metaPods(component string, port int) promcfg.ScrapeConfig {
	job := promcfg.ScrapeConfig{JobName: metaJob(component), Static: o.named(component, meta)}
	if o.Static == nil {
		job.Kubernetes = []promcfg.KubernetesSD{o.APIServer.PodsIn(kubeSystem, "component="+component)}
		job.Relabel = append(promcfg.PodAddress(port), promcfg.SetLabel("cluster", MetaCluster))
	}
	return job
}

// hostedPods may say their port and scheme: to them goes no token.
func (o Options) hostedPods(component, scheme string, port int) promcfg.ScrapeConfig {
	job := promcfg.ScrapeConfig{Scheme: scheme, Static: o.named(component, business)}
	if o.Static == nil {
		job.Kubernetes = []promcfg.KubernetesSD{o.APIServer.PodsIn("", LabelCluster+","+LabelControlPlane+"="+component)}
		at := []string{"__meta_kubernetes_pod_ip", podAnnotation(AnnotationPort)}
		job.Relabel = append(promcfg.PodAddress(port),
			promcfg.Relabel{SourceLabels: at, Regex: `([^:;]+);(\d+)`, TargetLabel: "__address__", Replacement: ptr("$1:$2")},
			promcfg.Relabel{SourceLabels: at, Regex: `([^;]*:[^;]*);(\d+)`, TargetLabel: "__address__", Replacement: ptr("[$1]:$2")},
			promcfg.Relabel{SourceLabels: []string{podAnnotation(AnnotationScheme)}, Regex: "(https?)", TargetLabel: "__scheme__"},
			promcfg.CopyLabel(podLabel(LabelCluster), "cluster"),
		)
	}
	return job
}

func ptr(s string) *string { return &s }
