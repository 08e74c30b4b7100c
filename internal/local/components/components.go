// Package components says which processes make up the local fleet, with what
// arguments, and what each needs on disk. It starts nothing.
package components

import (
	"encoding/csv"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

// Phases of the end, first to last: what runs pods and plays nodes, then what
// speaks to API servers, then the API servers, then their store.
const (
	phasePods = iota
	phaseControllers
	phaseAPIServers
	phaseStore
)

// How long each phase may take to end by itself, in milliseconds. Together they
// stay below the ten seconds in which a fleet is to be gone.
const (
	gracePods       = 3800
	graceController = 800
	graceAPIServer  = 1500
	graceStore      = 1000
)

// Images of the stock servers, as the process kubelets know them.
const (
	ImagePrometheus   = "quay.io/prometheus/prometheus:v3.16.0"
	ImageAlertmanager = "quay.io/prometheus/alertmanager:v0.31.1"
)

// Options say what a plan is made from.
type Options struct {
	Layout layout.Layout
	// Binaries are the paths of the servers by name.
	Binaries map[string]string
	// PharosImage is the image reference under which pods run this program.
	PharosImage string
	// Robot is the access token and signing key of the DingTalk sink, as files.
	Robot RobotFiles
}

// RobotFiles hold the secrets of the DingTalk sink.
type RobotFiles struct {
	AccessToken, Secret string
}

// Plan lists the processes of the fleet.
func Plan(o Options) supervisor.Plan {
	b := builder{Options: o}
	plan := []supervisor.Component{b.etcd()}
	for _, c := range layout.Clusters() {
		plan = append(plan, b.apiServer(c), b.controllerManager(c), b.scheduler(c))
	}
	for _, c := range layout.BusinessClusters() {
		plan = append(plan, b.kwok(c))
	}
	for _, c := range layout.MetaClusters() {
		plan = append(plan, b.kubelet(c))
	}
	return supervisor.Plan{Components: append(plan, b.dingTalk(), b.faults())}
}

type builder struct{ Options }

// base is a component with the environment that all have. The limit on memory
// is soft: it makes the collector work harder before it lets the heap grow.
func (b builder) base(name, program, memory string, phase, grace int, args ...string) supervisor.Component {
	path := b.Binaries[program]
	if program == "pharos" {
		path = b.Layout.Pharos()
	}
	return supervisor.Component{
		Name: name,
		Path: path,
		Args: args,
		Env: []string{
			layout.FleetEnv + "=" + b.Layout.Dir,
			"HOME=" + b.Layout.HomeDir(),
			"PATH=/usr/local/bin:/usr/bin:/bin",
			"TMPDIR=" + b.Layout.HomeDir(),
			"GOMEMLIMIT=" + memory,
		},
		StopPhase:       phase,
		StopGraceMillis: grace,
	}
}

func (b builder) pki(cluster, file string) string {
	return filepath.Join(b.Layout.PKIDir(cluster), file)
}

func (b builder) etcd() supervisor.Component {
	l := b.Layout
	client, peer := "https://"+l.EtcdAddress(), "https://"+l.EtcdPeerAddress()
	c := b.base(layout.Etcd, "etcd", "256MiB", phaseStore, graceStore,
		"--name=local",
		"--data-dir="+l.EtcdDir(),
		"--listen-client-urls="+client,
		"--advertise-client-urls="+client,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster=local="+peer,
		"--listen-metrics-urls=http://"+l.EtcdMetricsAddress(),
		"--client-cert-auth",
		"--trusted-ca-file="+b.pki("etcd", "ca.crt"),
		"--cert-file="+b.pki("etcd", "server.crt"),
		"--key-file="+b.pki("etcd", "server.key"),
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file="+b.pki("etcd", "ca.crt"),
		"--peer-cert-file="+b.pki("etcd", "server.crt"),
		"--peer-key-file="+b.pki("etcd", "server.key"),
		"--auto-compaction-retention=5m",
		"--logger=zap", "--log-level=warn",
	)
	c.Ready = supervisor.Probe{
		URL:      client + "/health",
		CAFile:   b.pki("etcd", "ca.crt"),
		CertFile: b.pki("etcd", "client.crt"),
		KeyFile:  b.pki("etcd", "client.key"),
	}
	return c
}

func (b builder) kwok(c layout.Cluster) supervisor.Component {
	address := b.Layout.KwokAddress(c)
	k := b.base(layout.Kwok(c), "kwok", "128MiB", phasePods, graceController,
		"--kubeconfig="+b.pki(c.Name, "kwok.yaml"),
		"--config="+asCSV(b.Layout.StagesFile()),
		"--manage-nodes-with-label-selector="+layout.LabelKubelet+"="+layout.KubeletRunning,
		"--node-lease-duration-seconds="+strconv.Itoa(leaseSeconds),
		"--server-address="+address,
	)
	k.AfterFile = b.Layout.PreparedFile(c)
	k.Ready = supervisor.Probe{URL: "http://" + address + "/healthz"}
	return k
}

// asCSV makes one value of a flag that takes several, parted by commas: a path
// may hold commas and quotes itself.
func asCSV(value string) string {
	var line strings.Builder
	w := csv.NewWriter(&line)
	// A strings.Builder takes whatever is written.
	_ = w.Write([]string{value})
	w.Flush()
	return strings.TrimSuffix(line.String(), "\n")
}

func (b builder) kubelet(c layout.Cluster) supervisor.Component {
	address := b.Layout.KubeletAddress(c)
	k := b.base(layout.Kubelet(c), "pharos", "192MiB", phasePods, gracePods,
		"local", "kubelet",
		"--kubeconfig="+b.pki(c.Name, "kubelet.yaml"),
		"--node-name="+c.ProcessNode(),
		"--root="+b.Layout.PodsDir(c),
		"--pod-cidr="+b.Layout.PodCIDR(c).String(),
		"--listen="+address,
		"--tls-cert-file="+b.pki(c.Name, "serving.crt"),
		"--tls-key-file="+b.pki(c.Name, "serving.key"),
		"--client-ca-file="+b.pki(c.Name, "ca.crt"),
		"--image="+ImagePrometheus+"="+b.Binaries["prometheus"],
		"--image="+ImageAlertmanager+"="+b.Binaries["alertmanager"],
		"--image="+b.PharosImage+"="+b.Layout.Pharos(),
	)
	k.AfterFile = b.Layout.PreparedFile(c)
	k.Ready = supervisor.Probe{
		URL:      "https://" + address + "/readyz",
		CAFile:   b.pki(c.Name, "ca.crt"),
		CertFile: b.pki(c.Name, "kubelet-client.crt"),
		KeyFile:  b.pki(c.Name, "kubelet-client.key"),
	}
	return k
}

func (b builder) dingTalk() supervisor.Component {
	address := b.Layout.DingTalkAddress()
	c := b.base(layout.DingTalk, "pharos", "64MiB", phaseControllers, graceController,
		"local", "dingtalk",
		"--listen="+address,
		"--dir="+b.Layout.DingTalkDir(),
		"--access-token-file="+b.Robot.AccessToken,
		"--secret-file="+b.Robot.Secret,
	)
	c.Ready = supervisor.Probe{URL: "http://" + address + "/messages"}
	return c
}

func (b builder) faults() supervisor.Component {
	address := b.Layout.FaultsAddress()
	c := b.base(layout.Faults, "pharos", "64MiB", phasePods, graceController,
		"local", "faults",
		"--instance="+strconv.Itoa(b.Layout.Instance),
		"--state-dir="+b.Layout.Dir,
		"--listen="+address,
	)
	for _, business := range layout.BusinessClusters() {
		c.After = append(c.After, layout.APIServer(business))
	}
	c.Ready = supervisor.Probe{URL: fmt.Sprintf("http://%s/healthz", address)}
	return c
}
