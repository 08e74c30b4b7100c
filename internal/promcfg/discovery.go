package promcfg

import (
	"cmp"
	"fmt"
	"strings"
)

// APIServer says where the API server of the cluster that Prometheus runs in
// is, and which namespace its neighbours run in.
type APIServer struct {
	// URL unset means https://kubernetes.default.svc.
	URL string
	// Namespace unset means pharos-system.
	Namespace string
}

// BaseURL is the URL, with the default filled in.
func (a APIServer) BaseURL() string { return cmp.Or(a.URL, "https://kubernetes.default.svc") }

// Pods discovers the pods beside Prometheus that bear all of the labels. The
// API server filters.
func (a APIServer) Pods(labels map[string]string) KubernetesSD {
	return a.PodsIn(cmp.Or(a.Namespace, "pharos-system"), selector(labels))
}

// PodsIn discovers the pods of a namespace that a label selector chooses. No
// namespace means all of them, and needs the right to list pods in all of them.
func (a APIServer) PodsIn(namespace, labels string) KubernetesSD {
	sd := a.discover("pod")
	if namespace != "" {
		sd.Namespaces = &Namespaces{Names: []string{namespace}}
	}
	sd.Selectors = []Selector{{Role: "pod", Label: labels}}
	return sd
}

// Nodes discovers every node, at the port of its kubelet.
func (a APIServer) Nodes() KubernetesSD { return a.discover("node") }

// Endpoints discovers what is behind one Service. Prometheus also looks at the
// Service and at the pods of the namespace; of those none is needed here, so
// that the API server is asked for none.
func (a APIServer) Endpoints(namespace, service string) KubernetesSD {
	sd := a.discover("endpointslice")
	sd.Namespaces = &Namespaces{Names: []string{namespace}}
	sd.Selectors = []Selector{
		{Role: "endpointslice", Label: "kubernetes.io/service-name=" + service},
		{Role: "service", Field: "metadata.name=" + service},
		{Role: "pod", Field: "metadata.name=" + service},
	}
	return sd
}

func (a APIServer) discover(role string) KubernetesSD {
	return KubernetesSD{
		Role:          role,
		APIServer:     a.BaseURL(),
		Authorization: &Authorization{CredentialsFile: TokenFile},
		TLS:           &TLS{CAFile: CAFile},
	}
}

// PodAddress makes one target of each pod, its address with the port, whatever
// container ports it declares, and leaves out pods that have ended.
func PodAddress(port int) []Relabel {
	v4, v6 := fmt.Sprintf("$1:%d", port), fmt.Sprintf("[$1]:%d", port)
	ip := []string{"__meta_kubernetes_pod_ip"}
	return []Relabel{
		{SourceLabels: []string{"__meta_kubernetes_pod_phase"}, Regex: "Failed|Succeeded", Action: "drop"},
		{SourceLabels: ip, Regex: `([^:]+)`, TargetLabel: "__address__", Replacement: &v4},
		{SourceLabels: ip, Regex: `(.*:.*)`, TargetLabel: "__address__", Replacement: &v6},
	}
}

// SetLabel gives every target or series a label, whatever it had.
func SetLabel(name, value string) Relabel {
	literal := strings.ReplaceAll(value, "$", "$$")
	return Relabel{TargetLabel: name, Replacement: &literal}
}

// CopyLabel gives a label the value of another one, unless that has none.
func CopyLabel(from, to string) Relabel {
	return Relabel{SourceLabels: []string{from}, Regex: "(.+)", TargetLabel: to}
}
