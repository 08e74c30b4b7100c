package v1alpha1

// Condition types shared by the kinds of this package. All but Paused have
// positive polarity: True is good.
const (
	// ConditionReady says whether the object does what it is there for.
	ConditionReady = "Ready"
	// ConditionRemediationAllowed says, on a RemediationPolicy, whether it may act now.
	ConditionRemediationAllowed = "RemediationAllowed"
	// ConditionEvidenceAvailable says, on an Incident, whether all that it has is seen.
	ConditionEvidenceAvailable = "EvidenceAvailable"
	// ConditionPaused says whether Pharos is told to repair nothing of the object.
	ConditionPaused = "Paused"
)

// Reasons of the Ready condition.
const (
	// ReasonAvailable means that every part asked for runs and is ready.
	ReasonAvailable = "Available"
	// ReasonProgressing means that parts were applied and are not all ready yet.
	ReasonProgressing = "Progressing"
	// ReasonInvalid means that the spec cannot be rendered; the message names the field.
	ReasonInvalid = "Invalid"
	// ReasonUnreachable means that the cluster's API server did not answer.
	ReasonUnreachable = "Unreachable"
	// ReasonApplyFailed means that an object could not be applied; the message names it.
	ReasonApplyFailed = "ApplyFailed"
)

// Labels that Pharos sets on the objects it creates and reads on nodes.
const (
	// LabelComponent names the part of Pharos that a pod is: edge, cascade, central and so on.
	LabelComponent = "app.kubernetes.io/component"
	// LabelManagedBy is "pharos" on every object that the operator applies.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// LabelGeography names the geography that an object serves.
	LabelGeography = "pharos.dev/geography"
	// LabelCell names the cell that an object serves.
	LabelCell = "pharos.dev/cell"
	// LabelShard is the number of the part that a sharded server has of its whole.
	LabelShard = "pharos.dev/shard"
	// LabelReplica tells members of a highly available pair apart.
	LabelReplica = "pharos.dev/replica"
	// LabelRack is the node label that names its rack.
	LabelRack = "topology.pharos.dev/rack"
	// LabelPool is the node label that names its pool.
	LabelPool = "pharos.dev/pool"
)

// AnnotationPaused on a RemediationPolicy, a Cell, a Cluster or a Machine, with any
// value, keeps repairs from being begun. It is obeyed when deciding, again just
// before each write, and by the node operator.
const AnnotationPaused = "pharos.dev/paused"

// Values of LabelComponent.
const (
	ComponentEdge            = "edge"
	ComponentEdgeAgent       = "edge-agent"
	ComponentCascade         = "cascade"
	ComponentCentral         = "central"
	ComponentAlertmanager    = "alertmanager"
	ComponentNotify          = "notify"
	ComponentOperator        = "operator"
	ComponentRemediator      = "remediator"
	ComponentMachineOperator = "machine-operator"
)
