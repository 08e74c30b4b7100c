package policy

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// AnnotationAcknowledged with the value "true" on a Remediation that failed says
// that a person has looked: its hardware may be repaired automatically again.
const AnnotationAcknowledged = "pharos.dev/acknowledged"

// Snapshot is all that a decision may rest on. Absent parts are unknown, never
// healthy and never unhealthy.
type Snapshot struct {
	Cells    []Cell    `json:"cells"`
	Centrals []Central `json:"centrals"`
	// Budgets bound repairs beside the built-in figures of every level.
	Budgets []api.FleetDisruptionBudget `json:"budgets,omitempty"`
	// BudgetsErr says why they could not be read; then nothing begins.
	BudgetsErr string `json:"budgetsErr,omitempty"`
	// Incidents are those that are not closed, and those that closed of late.
	Incidents []api.Incident `json:"incidents,omitempty"`
	// IncidentsErr says why they could not be read; then nothing begins.
	IncidentsErr string `json:"incidentsErr,omitempty"`
	// Clusters are live reads of business clusters, for those with suspects only.
	Clusters     []LiveCluster     `json:"clusters"`
	Remediations []api.Remediation `json:"remediations"`
	// Reservations are places in budgets that were taken of late.
	Reservations []Reservation `json:"reservations,omitempty"`
	// Refusals are the repairs that the hub did not let be written down of late.
	Refusals []Refusal `json:"refusals,omitempty"`
	// NodeChecks are the pods of repairs that asked for a check, see CheckReads.
	NodeChecks []NodeChecks `json:"nodeChecks,omitempty"`
	// CheckAccess are the answers to CheckProbes.
	CheckAccess []CheckAccess `json:"checkAccess,omitempty"`
}

// Cell is the inventory of one cell.
type Cell struct {
	Name      string `json:"name"`
	Geography string `json:"geography,omitempty"`
	Region    string `json:"region,omitempty"`
	Paused    bool   `json:"paused,omitempty"`
	// Err says why the inventory could not be read; empty means that it is whole.
	Err            string   `json:"err,omitempty"`
	PausedClusters []string `json:"pausedClusters,omitempty"`
	// CheckedClusters are those whose nodes can be checked: the Cluster names a
	// kubeconfig for it.
	CheckedClusters []string `json:"checkedClusters,omitempty"`
	// DrainableClusters are those whose nodes can be drained, likewise.
	DrainableClusters []string `json:"drainableClusters,omitempty"`
	// Upgrades say, by cluster, from which version to which it is on its way.
	Upgrades map[string]string `json:"upgrades,omitempty"`
	Machines []Machine         `json:"machines,omitempty"`
}

// Machine is what a decision needs to know of a Machine.
type Machine struct {
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Cluster    string `json:"cluster"`
	Node       string `json:"node,omitempty"`
	Pool       string `json:"pool,omitempty"`
	HardwareID string `json:"hardwareID,omitempty"`
	ProviderID string `json:"providerID,omitempty"`
	Zone       string `json:"zone,omitempty"`
	Rack       string `json:"rack,omitempty"`
	Switch     string `json:"switch,omitempty"`
	Power      string `json:"power,omitempty"`
	InUse      bool   `json:"inUse,omitempty"`
	// ControlPlane means that the machine is part of its cluster's control plane.
	ControlPlane bool `json:"controlPlane,omitempty"`
	Paused       bool `json:"paused,omitempty"`
	// ClaimedBy names the repair that takes this machine to replace another, and
	// Quarantined the one after which people must look at it.
	ClaimedBy   string `json:"claimedBy,omitempty"`
	Quarantined string `json:"quarantined,omitempty"`
	Deleting    bool   `json:"deleting,omitempty"`
	// PowerSeen is what the site's provider saw last of its power.
	PowerSeen *api.PowerStatus         `json:"powerSeen,omitempty"`
	Request   *api.RemediationRequest  `json:"request,omitempty"`
	Response  *api.RemediationResponse `json:"response,omitempty"`
}

// FromMachine takes from a Machine what decisions rest on.
func FromMachine(m *api.Machine) Machine {
	_, paused := m.Annotations[api.AnnotationPaused]
	return Machine{
		Namespace: m.Namespace, Name: m.Name, UID: string(m.UID),
		Cluster: m.Spec.ClusterName, Node: m.Spec.NodeName, Pool: m.Spec.Pool,
		HardwareID: m.Spec.HardwareID, ProviderID: m.Spec.ProviderID,
		Zone: m.Spec.FailureDomain.Zone, Rack: m.Spec.FailureDomain.Rack,
		Switch: m.Spec.FailureDomain.Switch, Power: m.Spec.FailureDomain.Power,
		InUse:        m.Spec.State != api.MachineStandby,
		ControlPlane: slices.ContainsFunc(m.Spec.Roles, ControlPlaneRole),
		ClaimedBy:    m.Annotations[api.AnnotationClaimedBy], Quarantined: m.Annotations[api.AnnotationQuarantined],
		Paused: paused, Deleting: m.DeletionTimestamp != nil,
		PowerSeen: m.Status.Power, Request: m.Spec.Remediation, Response: m.Status.Remediation,
	}
}

// ControlPlaneRole says whether a role is part of a control plane, of a Machine as of a Node.
func ControlPlaneRole(role string) bool {
	return role == "control-plane" || role == "master" || role == "etcd"
}

// bears says whether the name of a repair stands on the machine, asked for or answered.
func (m *Machine) bears(name string) bool {
	return m.Request != nil && m.Request.ID == name || m.Response != nil && m.Response.ID == name
}

// Central is the answer of one central Prometheus.
type Central struct {
	Name string `json:"name"`
	// Err says why there is no answer; empty means that every query was answered.
	Err string `json:"err,omitempty"`
	// Replica is what the server itself says that it is called. Two of one name
	// are one server, under whatever URLs.
	Replica string `json:"replica,omitempty"`
	// ClockSkew is how far the server's clock is ahead of ours.
	ClockSkew metav1.Duration `json:"clockSkew,omitzero"`
	// Warnings make the whole answer partial.
	Warnings []string `json:"warnings,omitempty"`
	// Partial are warnings that bear on one cell only.
	Partial    []CellWarning   `json:"partial,omitempty"`
	Heartbeats []CellSample    `json:"heartbeats,omitempty"`
	ClustersUp []ClusterSample `json:"clustersUp,omitempty"`
	Unhealthy  []NodeSample    `json:"unhealthy,omitempty"`
}

// CellWarning says that what a central knows of a cell is not whole.
type CellWarning struct {
	Cell    string `json:"cell"`
	Message string `json:"message"`
}

// CellSample is the heartbeat of a cell: when its edge last evaluated its rules.
type CellSample struct {
	Cell string    `json:"cell"`
	At   time.Time `json:"at"`
}

// ClusterSample says whether a cell sees its business cluster.
type ClusterSample struct {
	Cell    string    `json:"cell"`
	Cluster string    `json:"cluster"`
	Up      bool      `json:"up"`
	At      time.Time `json:"at"`
}

// NodeSample lists one node as unhealthy.
type NodeSample struct {
	Cell    string    `json:"cell"`
	Cluster string    `json:"cluster"`
	Node    string    `json:"node"`
	Zone    string    `json:"zone,omitempty"`
	Rack    string    `json:"rack,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	At      time.Time `json:"at"`
	// Unready is for how long of the last UnreadyWindow the central saw the node not to be
	// ready. Zero means that it is not known, or little.
	Unready metav1.Duration `json:"unready,omitzero"`
}

// NodeRef names a node of the fleet.
type NodeRef struct {
	Cell    string `json:"cell"`
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
}

// LiveCluster is what a business cluster's own API server says.
type LiveCluster struct {
	Cell    string `json:"cell"`
	Cluster string `json:"cluster"`
	// Err says why the cluster could not be read; empty means that Leases are complete.
	Err    string    `json:"err,omitempty"`
	ReadAt time.Time `json:"readAt"`
	// ClockSkew is how far the API server's clock is ahead of ours.
	ClockSkew metav1.Duration `json:"clockSkew,omitzero"`
	Leases    []Lease         `json:"leases,omitempty"`
	Nodes     []LiveNode      `json:"nodes,omitempty"`
}

// Lease is the sign of life of a node's kubelet.
type Lease struct {
	Node     string          `json:"node"`
	Renewed  time.Time       `json:"renewed"`
	Duration metav1.Duration `json:"duration,omitzero"`
}

// LiveNode is a Node as its API server has it.
type LiveNode struct {
	Name string `json:"name"`
	// Err says why the Node could not be read.
	Err string `json:"err,omitempty"`
	// Absent means that the API server answered that there is no such Node.
	Absent        bool      `json:"absent,omitempty"`
	Ready         string    `json:"ready,omitempty"`
	Since         time.Time `json:"since"`
	Heartbeat     time.Time `json:"heartbeat"`
	UID           string    `json:"uid,omitempty"`
	BootID        string    `json:"bootID,omitempty"`
	ProviderID    string    `json:"providerID,omitempty"`
	Unschedulable bool      `json:"unschedulable,omitempty"`
	// CordonedBy names the repair that cordoned it. Empty means that nobody did, or
	// somebody else.
	CordonedBy string `json:"cordonedBy,omitempty"`
	Deleting   bool   `json:"deleting,omitempty"`
	// Unready is for how long of the last UnreadyWindow the remediator itself saw the node
	// not to be ready, by its API server. One that was started anew has seen nothing.
	Unready metav1.Duration `json:"unready,omitzero"`
	// Owner says which other controller works on the node, and by what it shows.
	Owner string `json:"owner,omitempty"`
	// ControlPlane means that the node is part of its cluster's control plane.
	ControlPlane bool `json:"controlPlane,omitempty"`
}

// NodeChecks are the pods that check the node of one repair, of every attempt.
type NodeChecks struct {
	// Remediation is the name of the repair.
	Remediation string `json:"remediation"`
	// Err says why the pods could not be read; empty means that they are all there.
	Err  string     `json:"err,omitempty"`
	Pods []CheckPod `json:"pods,omitempty"`
}

// CheckPod is the pod of a node check as its API server has it.
type CheckPod struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// NodeUID and BootID are what the pod was made to check.
	NodeUID string `json:"nodeUID"`
	BootID  string `json:"bootID"`
	// Node, Image, Command and Args are what runs, and where.
	Node    string   `json:"node"`
	Image   string   `json:"image"`
	Command []string `json:"command,omitempty"`
	Args    []string `json:"args,omitempty"`
	// Result is Running for a pod that has not ended; it is never Pending.
	Result   api.NodeCheckResult `json:"result"`
	Reason   string              `json:"reason,omitempty"`
	Message  string              `json:"message,omitempty"`
	ExitCode *int32              `json:"exitCode,omitempty"`
	Created  time.Time           `json:"created"`
	// Started is zero for a container that never began.
	Started  time.Time `json:"started"`
	Finished time.Time `json:"finished"`
	Deleting bool      `json:"deleting,omitempty"`
}
