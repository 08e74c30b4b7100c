package v1alpha1

// OwnRules are a team's own rules and contract, as ConfigMaps beside the operator: one
// for each folder that "pharos render --rules" has, with the files of that folder as keys.
//
// +kubebuilder:validation:MinProperties=1
type OwnRules struct {
	// ContractConfigMap is a ConfigMap whose only key, contract.yaml, takes the
	// place of the contract that is built in: that one, with series of your own.
	// Unset means the one that is built in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	ContractConfigMap string `json:"contractConfigMap,omitempty"`
	// EdgeConfigMaps have rule files of edges: every key ends in .rules.yaml.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	EdgeConfigMaps []string `json:"edgeConfigMaps,omitempty"`
	// CascadeConfigMaps have rule files of cascades, in the same way.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	CascadeConfigMaps []string `json:"cascadeConfigMaps,omitempty"`
	// CentralConfigMaps have rule files of centrals, in the same way.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	CentralConfigMaps []string `json:"centralConfigMaps,omitempty"`
}

// ConditionRulesAccepted says, on a Federation with spec.rules, whether what that
// names is what runs. While it is False, what was accepted before goes on.
const ConditionRulesAccepted = "RulesAccepted"

// Reasons of the RulesAccepted condition.
const (
	// ReasonAccepted means that the rules that are named are given to every server.
	ReasonAccepted = "Accepted"
	// ReasonRefused means that they do not fit, or are not there; the message names
	// ConfigMap, key and line.
	ReasonRefused = "Refused"
)
