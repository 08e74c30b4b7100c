package binaries

import (
	_ "embed"
	"fmt"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/tools/txtar"
)

// serversModule is the module of deploy/local/servers as one file, because an
// embedding cannot cross the boundary of a module.
//
//go:generate go test -run ^TestServersModuleIsCurrent$ . -update
//go:embed servers.txtar
var serversModule []byte

// operatorSource is the module in which the Prometheus Operator is built, because its
// own replaces others, which go install refuses.
//
//go:embed operator.txtar
var operatorSource []byte

// Modules of the components, which double as the proof of what a binary is.
const (
	kubernetesModule   = "k8s.io/kubernetes"
	etcdModule         = "go.etcd.io/etcd/server/v3"
	prometheusModule   = "github.com/prometheus/prometheus"
	alertmanagerModule = "github.com/prometheus/alertmanager"
	kwokModule         = "sigs.k8s.io/kwok"
	storeModule        = "github.com/VictoriaMetrics/VictoriaMetrics"
	hostModule         = "github.com/prometheus/node_exporter"
	operatorModule     = "github.com/prometheus-operator/prometheus-operator"
)

// Versions of the components that build without a module of ours. Prometheus
// numbers its module apart from its program.
const (
	prometheusVersion   = "v0.316.0"
	prometheusReports   = "3.16.0"
	alertmanagerVersion = "v0.31.1"
	kwokVersion         = "v0.8.0"
	storeVersion        = "v1.148.9"
	hostVersion         = "v1.12.1"
	operatorVersion     = "v0.85.0"
)

// commonVersion is where programs of the Prometheus project keep their version.
const commonVersion = "github.com/prometheus/common/version.Version="

// Component is one server binary of the local fleet.
type Component struct {
	// Name is the file name of the binary.
	Name string
	// Version is the version of its Go module, with the leading v.
	Version string

	module  string   // module of the main package
	pkg     string   // import path of the main package
	source  []byte   // module to build in, as txtar; none means go install
	linking []string // extra flags for the linker
	reports string   // version in the answer to --version, without v
}

// Components returns every server binary that the local fleet needs, in the
// order in which they are built. It fails when the embedded module is damaged.
func Components() ([]Component, error) {
	pins, err := pinned(serversModule)
	if err != nil {
		return nil, err
	}
	kubernetes, etcd := pins[kubernetesModule], pins[etcdModule]
	return []Component{
		server("etcd", etcdModule, "", etcd),
		server("kube-apiserver", kubernetesModule, "/cmd/kube-apiserver", kubernetes),
		server("kube-controller-manager", kubernetesModule, "/cmd/kube-controller-manager", kubernetes),
		server("kube-scheduler", kubernetesModule, "/cmd/kube-scheduler", kubernetes),
		installed("prometheus", prometheusModule, prometheusVersion, prometheusReports),
		installed("promtool", prometheusModule, prometheusVersion, prometheusReports),
		installed("alertmanager", alertmanagerModule, alertmanagerVersion, strings.TrimPrefix(alertmanagerVersion, "v")),
		installed("amtool", alertmanagerModule, alertmanagerVersion, strings.TrimPrefix(alertmanagerVersion, "v")),
		installed("kwok", kwokModule, kwokVersion, strings.TrimPrefix(kwokVersion, "v")),
	}, nil
}

// ForTests returns the server binaries that only tests run, against which the
// fleet's own servers are tried.
func ForTests() []Component {
	return []Component{
		// A long-term store that speaks remote write.
		{
			Name: "victoria-metrics", Version: storeVersion, module: storeModule, pkg: storeModule + "/app/victoria-metrics",
			linking: []string{"-X", storeModule + "/lib/buildinfo.Version=" + storeVersion}, reports: strings.TrimPrefix(storeVersion, "v"),
		},
		// What tells of a host.
		{
			Name: "node_exporter", Version: hostVersion, module: hostModule, pkg: hostModule,
			linking: []string{"-X", commonVersion + strings.TrimPrefix(hostVersion, "v")}, reports: strings.TrimPrefix(hostVersion, "v"),
		},
		// What other Prometheus servers are run by.
		{
			Name: "prometheus-operator", Version: operatorVersion, module: operatorModule, pkg: operatorModule + "/cmd/operator", source: operatorSource,
			linking: []string{"-X", commonVersion + strings.TrimPrefix(operatorVersion, "v")}, reports: strings.TrimPrefix(operatorVersion, "v"),
		},
	}
}

// server is a component that is built inside the embedded module.
func server(name, module, dir, version string) Component {
	c := Component{
		Name: name, Version: version, module: module, pkg: module + dir,
		source: serversModule, reports: strings.TrimPrefix(version, "v"),
	}
	if module == kubernetesModule {
		c.linking = kubernetesVersionFlags(version)
	}
	return c
}

// installed is a component that builds as its authors published it.
func installed(name, module, version, reports string) Component {
	c := Component{Name: name, Version: version, module: module, pkg: module + "/cmd/" + name, reports: reports}
	if module == prometheusModule || module == alertmanagerModule {
		c.linking = []string{"-X", commonVersion + reports}
	}
	return c
}

// kubernetesVersionFlags tells the servers their version, which decides feature
// gates and which Kubernetes' own builds set in the same way.
func kubernetesVersionFlags(version string) []string {
	const base, client = "k8s.io/component-base/version.", "k8s.io/client-go/pkg/version."
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return []string{
		"-X", base + "gitVersion=" + version,
		"-X", base + "gitMajor=" + major,
		"-X", base + "gitMinor=" + minor,
		"-X", client + "gitVersion=" + version,
	}
}

// pinned reads the required versions out of a module packed as txtar.
func pinned(module []byte) (map[string]string, error) {
	for _, file := range txtar.Parse(module).Files {
		if file.Name != "go.mod" {
			continue
		}
		parsed, err := modfile.Parse(file.Name, file.Data, nil)
		if err != nil {
			return nil, fmt.Errorf("reading the pinned versions of the servers: %w", err)
		}
		versions := make(map[string]string, len(parsed.Require))
		for _, r := range parsed.Require {
			versions[r.Mod.Path] = r.Mod.Version
		}
		return versions, nil
	}
	return nil, fmt.Errorf("reading the pinned versions of the servers: the embedded module has no go.mod")
}
