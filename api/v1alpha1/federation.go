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
// +kubebuilder:printcolumn:name="Rules",type=string,JSONPath=`.status.conditions[?(@.type=="RulesAccepted")].reason`,priority=1
// +kubebuilder:printcolumn:name="Link",type=string,JSONPath=`.spec.link.type`,priority=1
// +kubebuilder:printcolumn:name="Shards",type=string,JSONPath=`.status.geographies[*].shards`,priority=1
// +kubebuilder:printcolumn:name="Moving",type=string,JSONPath=`.status.geographies[*].moving`,priority=1
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
//
// +kubebuilder:validation:XValidation:rule="!has(self.alerting) || !has(self.alerting.replicas) || self.alerting.replicas < 2 || !has(self.network) || !has(self.network.serviceAddressing) || self.network.serviceAddressing != 'ClusterIP'",message="alerting.replicas above 1 needs DNS in the hub: Alertmanagers find each other by a name that stands for all of them, which no ClusterIP does"
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
	// Unset means 48h.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]+(h|d|w)$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(0*([0-9]|1[0-9]|2[0-5])h|0*[01]d|0*w)$')",message="a central needs at least 26h, as an edge does: forecasts look back over a day, and a block of two hours is dropped at once"
	Retention string `json:"retention,omitempty"`

	// Link says how one tier feeds the next.
	// +optional
	Link Link `json:"link,omitempty,omitzero"`

	// Edge says how the managed edges of all cells are, where a Cell does not
	// say otherwise.
	// +optional
	Edge EdgeDefaults `json:"edge,omitempty,omitzero"`

	// LongTerm are stores that both centrals write what they record to, for
	// longer than retention.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	LongTerm []LongTermStore `json:"longTerm,omitempty"`

	// Resources override what each server of the hub is given. Unset means what the
	// series need that the cells are declared to bring.
	// +optional
	Resources HubResources `json:"resources,omitempty,omitzero"`

	// Images override the images of the stock servers and of Pharos itself.
	// +optional
	Images Images `json:"images,omitempty,omitzero"`

	// Network says how the parts in the hub reach each other.
	// +optional
	Network Network `json:"network,omitempty,omitzero"`

	// Alerting says who is told.
	// +optional
	Alerting Alerting `json:"alerting,omitempty,omitzero"`

	// Rules are those of your own beside those that are built in. Unset means none.
	// +optional
	Rules *OwnRules `json:"rules,omitempty"`
}

// Geography is the domain of a cascade, which is sharded as the geography grows.
type Geography struct {
	// Name of the geography, for example "europe". It becomes the label
	// geography of every series from its cells.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// MaxSeriesPerShard is how many series one cascade server should have from
	// its cells. A shard that has more is split. Unset means 100000.
	// +optional
	// +kubebuilder:validation:Minimum=1000
	// +kubebuilder:validation:Maximum=10000000
	MaxSeriesPerShard *int32 `json:"maxSeriesPerShard,omitempty"`
}

// LinkType says which end of a link opens the connection.
// +kubebuilder:validation:Enum=Federate;RemoteWrite
type LinkType string

const (
	// LinkFederate means that each tier scrapes the one below it.
	LinkFederate LinkType = "Federate"
	// LinkRemoteWrite means that each tier writes to the one above it.
	LinkRemoteWrite LinkType = "RemoteWrite"
)

// Link says how one tier feeds the next. What crosses is the same either way.
//
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'RemoteWrite' || has(self.receiveURL)",message="a RemoteWrite link needs receiveURL: the address at which edges reach the cascades"
// +kubebuilder:validation:XValidation:rule="!has(self.credentials) || !has(self.receiveURL) || !has(self.type) || self.type != 'RemoteWrite' || self.receiveURL.startsWith('https://')",message="credentials need an https receiveURL: over plain http they would not be used, or everybody on the way could read them"
type Link struct {
	// Type unset means Federate.
	// +optional
	Type LinkType `json:"type,omitempty"`
	// ReceiveURL is where an edge reaches a cascade when the link is
	// RemoteWrite, for example
	// "https://cascade-{geography}-{shard}.hub.example.org/api/v1/write". In it
	// {geography} and {shard} stand for those of the cascade; {shard} must be
	// there, because a geography may be divided at any time.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^\s/]+(/[^\s]*)?$`
	// +kubebuilder:validation:XValidation:rule="self.contains('{shard}') && self.contains('{geography}')",message="receiveURL must contain {geography} and {shard}: each cascade shard is a server of its own"
	ReceiveURL string `json:"receiveURL,omitempty"`
	// Credentials are what a server that opens a connection between a cell and
	// the hub shows, and knows the other end by: a cascade that reads edges when
	// the link is Federate, which are then asked by https, and an edge that writes
	// to cascades when it is RemoteWrite. Unset means neither, and that edges are
	// read by plain http. Between cascades and centrals, which are in one cluster,
	// there are none.
	// +optional
	Credentials *LinkCredentials `json:"credentials,omitempty"`
}

// LinkKey says what a Secret of a link is used for.
// +kubebuilder:validation:Enum=Authority;Certificate;Token
type LinkKey string

const (
	// LinkAuthority is the key ca.crt: who signed the certificate of the other end.
	LinkAuthority LinkKey = "Authority"
	// LinkCertificate is the keys tls.crt and tls.key: the certificate that is shown.
	LinkCertificate LinkKey = "Certificate"
	// LinkToken is the key token: the bearer token that is sent.
	LinkToken LinkKey = "Token"
)

// LinkCredentials are files of a Secret, which are read anew when they change.
type LinkCredentials struct {
	// SecretName is a Secret in the namespace of the parts: of the hub when the
	// link is Federate, of every cell when it is RemoteWrite.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	SecretName string `json:"secretName,omitempty"`
	// Use says which of its keys are there: ca.crt for Authority, tls.crt and
	// tls.key for Certificate, token for Token. Without Authority, the other end's
	// certificate must be of an authority that the image of the server knows.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=3
	Use []LinkKey `json:"use,omitempty"`
	// ServerName is the name in the other end's certificate. Unset means that of
	// the address.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-.A-Za-z0-9]*[A-Za-z0-9])?$`
	ServerName string `json:"serverName,omitempty"`
}

// EdgeDefaults say how managed edges are.
type EdgeDefaults struct {
	// Replicas of each edge server, which watch the same. Unset means 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2
	Replicas *int32 `json:"replicas,omitempty"`
	// Retention is how long an edge keeps samples, in Prometheus' notation.
	// Unset means that of the Federation.
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[0-9]+(h|d|w)$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^(0*([0-9]|1[0-9]|2[0-5])h|0*[01]d|0*w)$')",message="an edge needs at least 26h: the error ratio over a day, which alerts on a slow burn of the error budget read, is made from its samples"
	Retention string `json:"retention,omitempty"`
}

// LongTermStore is a receiver of remote write.
//
// +kubebuilder:validation:XValidation:rule="!has(self.bearerTokenSecret) || self.url.startsWith('https://')",message="a token needs an https url: over plain http everybody on the way could read it"
type LongTermStore struct {
	// Name of the store, for its metrics.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// URL that the centrals write to.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^\s]+$`
	URL string `json:"url,omitempty"`
	// BearerTokenSecret is a Secret beside the operator whose key token is sent
	// along. Unset means that nothing is.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	BearerTokenSecret string `json:"bearerTokenSecret,omitempty"`
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
//
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas > 0 || (has(self.alertmanagers) && size(self.alertmanagers) > 0)",message="replicas 0 needs alertmanagers: without any Alertmanager nobody is told of anything"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || self.replicas > 0 || !(has(self.heartbeat) || has(self.groupWaitSeconds) || has(self.groupIntervalSeconds))",message="heartbeat, groupWaitSeconds and groupIntervalSeconds are of the Alertmanagers that Pharos runs: with replicas 0 set them in your own"
type Alerting struct {
	// Replicas is how many Alertmanagers run in the hub, which gossip what was told
	// and what is silenced. Every central sends to each. 0 means that there are
	// others, in alertmanagers. Unset means 2, or 1 where serviceAddressing is
	// ClusterIP.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=3
	Replicas *int32 `json:"replicas,omitempty"`
	// Alertmanagers are those that exist already. Every central sends to each of
	// them, too. Whom they tell, and what silences what, is in their own
	// configuration.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Alertmanagers []ExistingAlertmanager `json:"alertmanagers,omitempty"`
	// Heartbeat is an outside service that calls somebody when it hears nothing
	// more. Unset means that nobody notices when alerts cannot be sent.
	// +optional
	Heartbeat *Heartbeat `json:"heartbeat,omitempty"`
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

// Heartbeat is a web hook that PharosWatchdog, which always fires, is sent to for
// as long as alerts flow and people can be told.
type Heartbeat struct {
	// SecretName is a Secret beside the operator whose key url has the address,
	// because whoever knows it can keep the service quiet.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	SecretName string `json:"secretName,omitempty"`
	// IntervalSeconds is how often it is sent. Let the service wait for several of
	// them, and five minutes at least. Unset means 60.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	IntervalSeconds *int32 `json:"intervalSeconds,omitempty"`
}

// ExistingAlertmanager is one that somebody else runs.
//
// +kubebuilder:validation:XValidation:rule="!has(self.bearerTokenSecret) || self.url.startsWith('https://')",message="a token needs an https url: over plain http everybody on the way could read it"
// +kubebuilder:validation:XValidation:rule="!self.url.matches('//.*(//|/[.][.]?(/|$)|%)')",message="the path of url must be that of the Alertmanager itself, written plainly: without .., ., an empty step or a percent sign, which a proxy may read otherwise than it is meant"
type ExistingAlertmanager struct {
	// Name of the Alertmanager, for alerts about it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`
	// URL of one Alertmanager, for example http://alertmanager-0.example.org:9093.
	// Each member of a cluster is listed: what balances between them loses alerts.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^https?://[^\s/?#@]+(/[^\s?#]*)?$`
	URL string `json:"url,omitempty"`
	// BearerTokenSecret is a Secret beside the operator whose key token is sent
	// along. Unset means that nothing is.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	BearerTokenSecret string `json:"bearerTokenSecret,omitempty"`
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

// FederationList is a list of Federations.
//
// +kubebuilder:object:root=true
type FederationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Federation `json:"items"`
}
