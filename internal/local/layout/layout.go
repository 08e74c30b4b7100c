// Package layout says where everything of a local fleet is: its clusters and
// nodes, its ports and addresses, its files. It is pure: it computes names and
// looks at nothing.
package layout

import (
	"fmt"
	"net/netip"
	"path/filepath"
)

// SchemaVersion is the version of the state folder that this program writes
// and reads. It grows when an older folder can no longer be used.
const SchemaVersion = 1

// MaxInstance is the highest instance number.
const MaxInstance = 9

// FleetEnv is the environment variable that marks every process of a fleet; its
// value is the fleet's state folder.
const FleetEnv = "PHAROS_FLEET"

// Layout is one local fleet: where it lives and on which ports. Two fleets with
// different instance numbers share no port, address or file.
type Layout struct {
	// Instance is the number that every port and address derives from.
	Instance int
	// Dir is the state folder, absolute.
	Dir string
}

// New checks the instance number and the state folder.
func New(instance int, dir string) (Layout, error) {
	if instance < 0 || instance > MaxInstance {
		return Layout{}, fmt.Errorf("instance %d does not exist: use 0 to %d", instance, MaxInstance)
	}
	if !filepath.IsAbs(dir) {
		return Layout{}, fmt.Errorf("state folder %q is not absolute", dir)
	}
	return Layout{Instance: instance, Dir: filepath.Clean(dir)}, nil
}

func (l Layout) port(offset int) int { return 16000 + 100*l.Instance + offset }

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// EtcdAddress is where etcd serves clients, host:port.
func (l Layout) EtcdAddress() string { return loopback(l.port(0)) }

// EtcdPeerAddress is where etcd would serve its peers, host:port.
func (l Layout) EtcdPeerAddress() string { return loopback(l.port(1)) }

// EtcdMetricsAddress is where etcd serves its metrics, and nothing else, to
// whoever asks, host:port.
func (l Layout) EtcdMetricsAddress() string { return loopback(l.port(2)) }

// APIServerAddress is the secure port of the cluster's API server, host:port.
func (l Layout) APIServerAddress(c Cluster) string { return loopback(l.port(10 + c.index)) }

// APIServerURL is where clients find the cluster's API server.
func (l Layout) APIServerURL(c Cluster) string { return "https://" + l.APIServerAddress(c) }

// ControllerManagerAddress is the secure port of the cluster's controller-manager.
func (l Layout) ControllerManagerAddress(c Cluster) string { return loopback(l.port(20 + c.index)) }

// SchedulerAddress is the secure port of the cluster's scheduler.
func (l Layout) SchedulerAddress(c Cluster) string { return loopback(l.port(30 + c.index)) }

// KwokAddress is where the kwok of a business cluster serves its health.
func (l Layout) KwokAddress(c Cluster) string { return loopback(l.port(40 + c.index)) }

// KubeletAddress is where the process kubelet of the hub or a cell serves logs.
func (l Layout) KubeletAddress(c Cluster) string { return loopback(l.port(50 + c.index)) }

// DingTalkAddress is where the sink behaves like a DingTalk robot.
func (l Layout) DingTalkAddress() string { return loopback(l.port(60)) }

// FaultsAddress is where the player of faults serves its health and metrics.
func (l Layout) FaultsAddress() string { return loopback(l.port(61)) }

// PodCIDR holds the addresses of the pods of the hub or a cell.
func (l Layout) PodCIDR(c Cluster) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(64 + l.Instance), byte(1 + c.index), 0}), 24)
}

// ServiceCIDR holds the addresses of the cluster's Services.
func (l Layout) ServiceCIDR(c Cluster) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127, byte(64 + l.Instance), byte(128 + 16*c.index), 0}), 20)
}

// Listeners are the addresses that the fleet listens on, with the component
// that does, in the order of their ports.
func (l Layout) Listeners() []Listener {
	all := []Listener{{"etcd", l.EtcdAddress()}, {"etcd", l.EtcdPeerAddress()}, {"etcd", l.EtcdMetricsAddress()}}
	for _, c := range Clusters() {
		all = append(all, Listener{APIServer(c), l.APIServerAddress(c)})
	}
	for _, c := range Clusters() {
		all = append(all, Listener{ControllerManager(c), l.ControllerManagerAddress(c)})
	}
	for _, c := range Clusters() {
		all = append(all, Listener{Scheduler(c), l.SchedulerAddress(c)})
	}
	for _, c := range BusinessClusters() {
		all = append(all, Listener{Kwok(c), l.KwokAddress(c)})
	}
	for _, c := range MetaClusters() {
		all = append(all, Listener{Kubelet(c), l.KubeletAddress(c)})
	}
	return append(all, Listener{DingTalk, l.DingTalkAddress()}, Listener{Faults, l.FaultsAddress()})
}

// Listener is one address that a component of the fleet listens on.
type Listener struct {
	Component string
	// Address is host:port.
	Address string
}

// Names of components. Those of a cluster bear its name.
const (
	Etcd     = "etcd"
	DingTalk = "dingtalk"
	Faults   = "faults"
)

// APIServer names the component that is the cluster's API server.
func APIServer(c Cluster) string { return "kube-apiserver-" + c.Name }

// ControllerManager names the component that is the cluster's controller-manager.
func ControllerManager(c Cluster) string { return "kube-controller-manager-" + c.Name }

// Scheduler names the component that is the cluster's scheduler.
func Scheduler(c Cluster) string { return "kube-scheduler-" + c.Name }

// Kwok names the component that plays the cluster's worker nodes.
func Kwok(c Cluster) string { return "kwok-" + c.Name }

// Kubelet names the component that runs the cluster's pods as processes.
func Kubelet(c Cluster) string { return "kubelet-" + c.Name }
