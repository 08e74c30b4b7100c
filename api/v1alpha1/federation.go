package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Federation is the one resource that describes the three tiers of a fleet:
// its geographies, centrals, images and alerting. The operator runs in the hub
// what it describes.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=fed
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Cells",type=integer,JSONPath=`.status.cells`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Federation struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`
	// +required
	Spec FederationSpec `json:"spec,omitzero"`
	// +optional
	Status FederationStatus `json:"status,omitempty"`
}

// FederationSpec is what the operator runs in the hub and renders for every cell.
type FederationSpec struct {
	// Geographies are the domains of the cascades. A Cell names one of them.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Geographies []Geography `json:"geographies,omitempty"`

	// IntervalSeconds is the scrape and evaluation interval of every tier, in
	// seconds. Unset means 15. It is at most 40, so that a cell can be called
	// stale while its last heartbeat is still within Prometheus' look-back of
	// five minutes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=40
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`

	// Retention is how long each tier keeps samples, in Prometheus' notation.
	// Unset means 24h.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]+(h|d|w)$`
	Retention string `json:"retention,omitempty"`

	// Images override the images of the stock servers and of Pharos itself.
	// +optional
	Images Images `json:"images,omitempty,omitzero"`

	// Network says how the parts in the hub reach each other.
	// +optional
	Network Network `json:"network,omitempty,omitzero"`

	// Alerting says who is told.
	// +optional
	Alerting Alerting `json:"alerting,omitempty,omitzero"`
}

// Geography is the domain of one cascade.
type Geography struct {
	// Name of the geography, for example "europe". It becomes the label
	// geography of every series from its cells.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
}

// Images are container images, each with its tag or digest. An unset one means
// the release that this version of Pharos was tested with.
type Images struct {
	// Prometheus serves every tier.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Prometheus string `json:"prometheus,omitempty"`
	// Alertmanager serves the hub.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Alertmanager string `json:"alertmanager,omitempty"`
	// Pharos holds the pharos binary, for the agents and controllers.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Pharos string `json:"pharos,omitempty"`
}

// ServiceAddressing says by what a rendered configuration names a Service.
// +kubebuilder:validation:Enum=DNSName;ClusterIP
type ServiceAddressing string

const (
	// ServiceDNSName names a Service as name.namespace.svc.
	ServiceDNSName ServiceAddressing = "DNSName"
	// ServiceClusterIP names a Service by its cluster IP, for clusters without DNS.
	ServiceClusterIP ServiceAddressing = "ClusterIP"
)

// Network says how rendered configurations reach Services and the API server of
// the cluster they run in. The defaults fit every ordinary cluster.
type Network struct {
	// ServiceAddressing unset means DNSName.
	// +optional
	ServiceAddressing ServiceAddressing `json:"serviceAddressing,omitempty"`
	// APIServerURL is where pods find the API server of their own cluster.
	// Unset means https://kubernetes.default.svc.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https://[^\s]+$`
	APIServerURL string `json:"apiServerURL,omitempty"`
}

// Alerting says who is told of an alert, and how soon.
type Alerting struct {
	// GroupWaitSeconds is how long Alertmanager waits for more alerts of a
	// group before it tells of the first. Unset means 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3600
	GroupWaitSeconds *int32 `json:"groupWaitSeconds,omitempty"`
	// GroupIntervalSeconds is how long Alertmanager waits before it tells of a
	// change in a group. Unset means 300.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	GroupIntervalSeconds *int32 `json:"groupIntervalSeconds,omitempty"`
	// DingTalk robots that every alert goes to.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	DingTalk []DingTalkRobot `json:"dingTalk,omitempty"`
}

// DingTalkRobot is one custom robot of a DingTalk group.
type DingTalkRobot struct {
	// Name of the robot: Alertmanager's receiver and the relay's queue bear it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// URL of the robot endpoint without token. Unset means https://oapi.dingtalk.com/robot/send.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^\s]+$`
	URL string `json:"url,omitempty"`
	// SecretName is a Secret beside the operator with the keys accessToken and
	// secret (the robot's signing key).
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// FederationStatus is what the operator last saw.
type FederationStatus struct {
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Cells is how many cells feed this federation.
	// +optional
	Cells int32 `json:"cells,omitempty"`
	// Parts are the workloads in the hub.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=256
	Parts []PartStatus `json:"parts,omitempty"`
}

// PartStatus is one workload that the operator runs.
type PartStatus struct {
	// Name of the workload.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Ready counts its ready replicas.
	// +optional
	Ready int32 `json:"ready"`
	// Desired counts the replicas asked for.
	// +optional
	Desired int32 `json:"desired"`
	// Addresses of its ready pods, host:port.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=270
	Addresses []string `json:"addresses,omitempty"`
}

// FederationList is a list of Federations.
//
// +kubebuilder:object:root=true
type FederationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Federation `json:"items"`
}
