package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Cell is one meta cluster of the fleet: the control planes of business
// clusters run in it, and it feeds one geography's cascade. The operator runs
// in the cell what this resource describes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster
// +kubebuilder:printcolumn:name="Geography",type=string,JSONPath=`.spec.geography`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="Edge",type=string,JSONPath=`.spec.edge.mode`
// +kubebuilder:printcolumn:name="Size",type=string,JSONPath=`.spec.size`,priority=1
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Cell struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec CellSpec `json:"spec,omitzero"`
	// +optional
	Status CellStatus `json:"status,omitempty"`
}

// CellSpec places a cell and says how to reach it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.edge) || !has(self.edge.mode) || self.edge.mode != 'External' || (has(self.edge.endpoints) && size(self.edge.endpoints) > 0)",message="an External edge needs edge.endpoints: the host:port of each of its Prometheus servers"
// +kubebuilder:validation:XValidation:rule="!has(self.edge) || !has(self.edge.mode) || self.edge.mode != 'External' || !(has(self.edge.shards) && self.edge.shards > 1 || has(self.edge.replicas) || has(self.edge.staticTargets) || has(self.edge.resources))",message="an External edge is somebody else's: edge.shards, edge.replicas, edge.staticTargets and edge.resources are for a Managed one"
// +kubebuilder:validation:XValidation:rule="!has(self.edge) || !has(self.edge.intervalSeconds) || (has(self.edge.mode) && self.edge.mode == 'External')",message="edge.intervalSeconds is that of an External edge; a Managed one has the Federation's"
type CellSpec struct {
	// Geography is the name of one of the Federation's geographies.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Geography string `json:"geography,omitempty"`
	// Region of the provider, for example "eu-central-1".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region,omitempty"`
	// KubeconfigSecret is a Secret beside the operator whose key kubeconfig
	// lets the operator apply the cell's parts.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	KubeconfigSecret string `json:"kubeconfigSecret,omitempty"`
	// RemediatorKubeconfigSecret is a Secret beside the remediator whose key
	// kubeconfig lets it read Clusters and their observer Secrets and patch
	// Machines. Unset means that nothing in this cell is ever repaired.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RemediatorKubeconfigSecret string `json:"remediatorKubeconfigSecret,omitempty"`
	// Size says how much the cell hosts, and with it what its edge is given.
	// Unset means Medium.
	// +optional
	Size CellSize `json:"size,omitempty"`
	// Edge is the cell's Prometheus.
	// +optional
	Edge Edge `json:"edge,omitempty,omitzero"`
	// Capacity is what the cell has to give.
	// +optional
	Capacity Capacity `json:"capacity,omitempty,omitzero"`
	// Network says how pods in the cell reach Services and their API server.
	// +optional
	Network Network `json:"network,omitempty,omitzero"`
	// RepairJobConfigMap names a ConfigMap in the cell, in the namespace of
	// the node operator, whose key job.yaml is the site's Job for a repair of
	// a Machine. Unset means that the cell runs no node operator.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RepairJobConfigMap string `json:"repairJobConfigMap,omitempty"`
}

// CellSize is a step of what a cell hosts.
// +kubebuilder:validation:Enum=Small;Medium;Large
type CellSize string

const (
	// CellSmall is up to 20 business clusters and 200 nodes.
	CellSmall CellSize = "Small"
	// CellMedium is up to 60 business clusters and 1,000 nodes.
	CellMedium CellSize = "Medium"
	// CellLarge is up to 200 business clusters and 5,000 nodes.
	CellLarge CellSize = "Large"
)

// EdgeMode says who runs the cell's Prometheus.
// +kubebuilder:validation:Enum=Managed;External
type EdgeMode string

const (
	// EdgeManaged means that the operator runs it.
	EdgeManaged EdgeMode = "Managed"
	// EdgeExternal means that the cell has one already; Pharos only reads it.
	EdgeExternal EdgeMode = "External"
)

// ObjectStateSource is who tells an edge of the objects of a cluster.
// +kubebuilder:validation:Enum=Agent;KubeStateMetrics
type ObjectStateSource string

const (
	// ObjectStateAgent means that the edge agent does, under kube-state-metrics' names.
	ObjectStateAgent ObjectStateSource = "Agent"
	// ObjectStateKubeStateMetrics means that the kube-state-metrics of each cluster
	// does, and the agent only what that does not know.
	ObjectStateKubeStateMetrics ObjectStateSource = "KubeStateMetrics"
)

// Edge is the cell's Prometheus.
//
// +kubebuilder:validation:XValidation:rule="!has(self.staticTargets) || has(self.objectState) && self.objectState == 'KubeStateMetrics' || !self.staticTargets.exists(t, t.component == 'kube-state-metrics')",message="staticTargets of kube-state-metrics are read only where objectState is KubeStateMetrics"
// +kubebuilder:validation:XValidation:rule="!has(self.kubeStateMetricsNamespace) || has(self.objectState) && self.objectState == 'KubeStateMetrics'",message="kubeStateMetricsNamespace is read only where objectState is KubeStateMetrics"
type Edge struct {
	// Mode unset means Managed.
	// +optional
	Mode EdgeMode `json:"mode,omitempty"`
	// Endpoints are where the cascade reads the edge, host:port, one for each
	// server. Unset means the addresses of the edge's own pods.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=270
	Endpoints []string `json:"endpoints,omitempty"`
	// IntervalSeconds is how often the servers of an External edge evaluate their
	// rules. Unset means as often as the Federation says. What is so slow that its
	// samples would be stale when they have come up to the centrals is not read: at
	// most about twice the Federation's.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=140
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`
	// Resources override what each server of a Managed edge is given. Unset means
	// what the cell's size needs.
	// +optional
	Resources ServerResources `json:"resources,omitempty,omitzero"`
	// Shards divide the business clusters of the cell among so many edge
	// servers. Unset means 1, or 2 in a Large cell; an External edge is one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=16
	Shards *int32 `json:"shards,omitempty"`
	// Replicas of each shard, which watch the same. Unset means what the
	// Federation says for every cell.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2
	Replicas *int32 `json:"replicas,omitempty"`
	// StaticTargets are servers of control planes and hosts that nothing
	// discovers, because they are no pods of the cell.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	StaticTargets []StaticTarget `json:"staticTargets,omitempty"`
	// ObjectState says who tells of nodes and pods. Unset means Agent.
	// +optional
	ObjectState ObjectStateSource `json:"objectState,omitempty"`
	// KubeStateMetricsNamespace is where the pods of kube-state-metrics run that
	// tell of the cell itself: control planes that the cell hosts may run their own
	// under the same labels. Unset means kube-system.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	KubeStateMetricsNamespace string `json:"kubeStateMetricsNamespace,omitempty"`
	// Skip are components that the edge does not scrape, because the nodes do
	// not have them or the edge cannot reach them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=6
	// +kubebuilder:validation:XValidation:rule="!self.exists(c, c == 'kube-apiserver')",message="without kube-apiserver nothing could be said of a cluster"
	// +kubebuilder:validation:XValidation:rule="!self.exists(c, c == 'kube-state-metrics')",message="whether kube-state-metrics is read is said in objectState"
	Skip []TargetComponent `json:"skip,omitempty"`
	// Unverified are components of the meta cluster whose certificates its
	// authority has not signed. Their servers get the token of the edge's
	// account all the same, and so does whoever answers in their place.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	// +kubebuilder:validation:XValidation:rule="self.all(c, c in ['kubelet', 'kube-controller-manager', 'kube-scheduler'])",message="only of kubelet, kube-controller-manager and kube-scheduler the certificate may go unchecked"
	Unverified []TargetComponent `json:"unverified,omitempty"`
}

// TargetComponent is a kind of server that an edge knows how to read.
// +kubebuilder:validation:Enum=kube-apiserver;etcd;kube-controller-manager;kube-scheduler;kubelet;cadvisor;node-exporter;kube-state-metrics
type TargetComponent string

// ComponentKubeStateMetrics is read where objectState says so.
const ComponentKubeStateMetrics TargetComponent = "kube-state-metrics"

// TargetScheme is how a server is asked.
// +kubebuilder:validation:Enum=HTTP;HTTPS
type TargetScheme string

const (
	// SchemeHTTP is plain HTTP.
	SchemeHTTP TargetScheme = "HTTP"
	// SchemeHTTPS is HTTP over TLS: to servers of the meta cluster with the edge's
	// own token and authority, to others with neither.
	SchemeHTTPS TargetScheme = "HTTPS"
)

// StaticTarget is a set of servers that an edge scrapes at given addresses.
type StaticTarget struct {
	// Component that the servers are, and by which their series are known.
	// +required
	Component TargetComponent `json:"component,omitempty"`
	// Cluster that they belong to, by name. Unset means the meta cluster itself.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Cluster string `json:"cluster,omitempty"`
	// Addresses of the servers, host:port.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=270
	// +kubebuilder:validation:items:Pattern=`^[^\s/]+:[0-9]{1,5}$`
	Addresses []string `json:"addresses,omitempty"`
	// Scheme unset means HTTP for etcd, node-exporter and kube-state-metrics, HTTPS
	// for the others.
	// +optional
	Scheme TargetScheme `json:"scheme,omitempty"`
}

// Capacity is what a cell has to give of what the cell itself does not tell.
// Its CPU and memory are known from its nodes.
type Capacity struct {
	// Pools are what can run out, and how much of it there is.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Pools []CapacityPool `json:"pools,omitempty"`
}

// CapacityPoolName is what a pool holds.
// +kubebuilder:validation:Enum=addresses;clusters
type CapacityPoolName string

const (
	// PoolAddresses are network addresses for pods of the meta cluster.
	PoolAddresses CapacityPoolName = "addresses"
	// PoolClusters are places for business clusters.
	PoolClusters CapacityPoolName = "clusters"
)

// CapacityPool is how much of one thing a cell has.
//
// +kubebuilder:validation:XValidation:rule="!quantity(string(self.limit)).isLessThan(quantity('1'))",message="a pool without anything in it is no pool: limit must be at least 1"
type CapacityPool struct {
	// Name of what the pool holds.
	// +required
	Name CapacityPoolName `json:"name,omitempty"`
	// Limit is how much there is, for example 4096 addresses.
	// +required
	Limit resource.Quantity `json:"limit,omitzero"`
}

// CellStatus is what the operator last saw of the cell.
type CellStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Cluster is the one that the parts are in. It is not left for another one that a
	// kubeconfig leads to, unless a person says so.
	// +optional
	Cluster CellCluster `json:"cluster,omitzero"`
	// EdgeEndpoints are where the cascade reads the edge now. They are kept
	// while a pod is away, so that a dead edge stays a target that is down.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=270
	EdgeEndpoints []string `json:"edgeEndpoints,omitempty"`
	// EdgeServers say which of the endpoints is which server of a managed edge,
	// as long as its pods are where the cascade reads them.
	// +optional
	// +listType=map
	// +listMapKey=shard
	// +listMapKey=replica
	// +kubebuilder:validation:MaxItems=32
	EdgeServers []EdgeServer `json:"edgeServers,omitempty"`
	// Parts are the workloads in the cell.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Parts []PartStatus `json:"parts,omitempty"`
}

// CellCluster is a Kubernetes cluster as it is told from every other.
type CellCluster struct {
	// UID is that of its namespace kube-system, which lives as long as the cluster.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
	// KubeconfigSecret is the Secret beside the operator that led there last.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	KubeconfigSecret string `json:"kubeconfigSecret,omitempty"`
}

// EdgeServer is one Prometheus of a managed edge.
type EdgeServer struct {
	// Shard of the cell that it watches.
	// +required
	Shard int32 `json:"shard"`
	// Replica tells servers of one shard apart.
	// +required
	// +kubebuilder:validation:MaxLength=16
	Replica string `json:"replica"`
	// Endpoint at which it is read, host:port. It is kept while the pod is away.
	// +optional
	// +kubebuilder:validation:MaxLength=270
	Endpoint string `json:"endpoint,omitempty"`
}

// CellList is a list of Cells.
//
// +kubebuilder:object:root=true
type CellList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cell `json:"items"`
}
