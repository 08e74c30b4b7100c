package components

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

// leaseSeconds is how long the Lease of a worker node lasts; kwok renews it after
// a quarter of that. A kwok that was killed comes back under another name and
// waits until the old Leases have run out: that must be over well before
// graceSeconds, or all nodes would be lost for a moment.
const leaseSeconds = 20

// graceSeconds is how long after its last Lease a node becomes Unknown. It is
// what Kubernetes has by default.
const graceSeconds = 40

func (b builder) apiServer(c layout.Cluster) supervisor.Component {
	at := netip.MustParseAddrPort(b.Layout.APIServerAddress(c))
	url := b.Layout.APIServerURL(c)
	s := b.base(layout.APIServer(c), "kube-apiserver", "420MiB", phaseAPIServers, graceAPIServer,
		"--bind-address="+at.Addr().String(),
		"--advertise-address="+at.Addr().String(),
		"--secure-port="+strconv.Itoa(int(at.Port())),
		"--tls-cert-file="+b.pki(c.Name, "serving.crt"),
		"--tls-private-key-file="+b.pki(c.Name, "serving.key"),
		"--client-ca-file="+b.pki(c.Name, "ca.crt"),
		"--requestheader-client-ca-file="+b.pki(c.Name, "front-proxy-ca.crt"),
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--etcd-servers=https://"+b.Layout.EtcdAddress(),
		"--etcd-prefix=/"+c.Name,
		"--etcd-cafile="+b.pki("etcd", "ca.crt"),
		"--etcd-certfile="+b.pki("etcd", "client.crt"),
		"--etcd-keyfile="+b.pki("etcd", "client.key"),
		"--service-account-issuer="+url,
		"--service-account-key-file="+b.pki(c.Name, "service-account.key"),
		"--service-account-signing-key-file="+b.pki(c.Name, "service-account.key"),
		"--kubelet-certificate-authority="+b.pki(c.Name, "ca.crt"),
		"--kubelet-client-certificate="+b.pki(c.Name, "kubelet-client.crt"),
		"--kubelet-client-key="+b.pki(c.Name, "kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--authorization-mode=RBAC",
		"--anonymous-auth=false",
		// The address of the API server itself is a loopback one, which an
		// EndpointSlice refuses.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range="+b.Layout.ServiceCIDR(c).String(),
		"--profiling=false",
		"--event-ttl=1h",
	)
	s.After = []string{layout.Etcd}
	s.Ready = supervisor.Probe{
		URL:      url + "/readyz",
		CAFile:   b.pki(c.Name, "ca.crt"),
		CertFile: b.pki(c.Name, "admin.crt"),
		KeyFile:  b.pki(c.Name, "admin.key"),
	}
	return s
}

// controllers are those that the cluster's role needs. The endpoint controllers
// are left out: they would write loopback addresses, which the API refuses.
func controllers(c layout.Cluster) string {
	names := []string{
		"namespace-controller",
		"serviceaccount-controller",
		"serviceaccount-token-controller",
		"root-ca-certificate-publisher-controller",
		"clusterrole-aggregation-controller",
		"garbage-collector-controller",
		"node-lifecycle-controller",
	}
	if c.Role != layout.RoleBusiness {
		names = append(names,
			"statefulset-controller",
			"deployment-controller",
			"replicaset-controller",
			"job-controller",
			"ttl-after-finished-controller",
			// They take the finalizers off claims and volumes that are deleted.
			"persistentvolumeclaim-protection-controller",
			"persistentvolume-protection-controller",
		)
	}
	return strings.Join(names, ",")
}

func (b builder) controllerManager(c layout.Cluster) supervisor.Component {
	at := netip.MustParseAddrPort(b.Layout.ControllerManagerAddress(c))
	m := b.base(layout.ControllerManager(c), "kube-controller-manager", "160MiB", phaseControllers, graceController,
		append(b.secured(c, "controller-manager.yaml", at),
			"--controllers="+controllers(c),
			"--use-service-account-credentials",
			"--service-account-private-key-file="+b.pki(c.Name, "service-account.key"),
			"--root-ca-file="+b.pki(c.Name, "ca.crt"),
			"--node-monitor-period=1s",
			"--node-monitor-grace-period="+strconv.Itoa(graceSeconds)+"s",
			// The defaults are for a cluster that many share.
			"--kube-api-qps=100",
			"--kube-api-burst=200",
		)...)
	m.After = []string{layout.APIServer(c)}
	m.Ready = b.ownHealth(c, at)
	return m
}

func (b builder) scheduler(c layout.Cluster) supervisor.Component {
	at := netip.MustParseAddrPort(b.Layout.SchedulerAddress(c))
	s := b.base(layout.Scheduler(c), "kube-scheduler", "128MiB", phaseControllers, graceController,
		b.secured(c, "scheduler.yaml", at)...)
	s.After = []string{layout.APIServer(c)}
	s.Ready = b.ownHealth(c, at)
	return s
}

// secured are the arguments that controller-manager and scheduler share.
func (b builder) secured(c layout.Cluster, kubeconfig string, at netip.AddrPort) []string {
	path := b.pki(c.Name, kubeconfig)
	open := "/healthz,/readyz,/livez"
	if c.Role == layout.RoleBusiness {
		// The edge of its cell has no account here, and asks without one.
		open += ",/metrics"
	}
	return []string{
		"--kubeconfig=" + path,
		"--authentication-kubeconfig=" + path,
		"--authorization-kubeconfig=" + path,
		"--bind-address=" + at.Addr().String(),
		"--secure-port=" + strconv.Itoa(int(at.Port())),
		"--tls-cert-file=" + b.pki(c.Name, "serving.crt"),
		"--tls-private-key-file=" + b.pki(c.Name, "serving.key"),
		"--authorization-always-allow-paths=" + open,
		"--leader-elect=false",
		"--profiling=false",
	}
}

func (b builder) ownHealth(c layout.Cluster, at netip.AddrPort) supervisor.Probe {
	return supervisor.Probe{URL: "https://" + at.String() + "/healthz", CAFile: b.pki(c.Name, "ca.crt")}
}
