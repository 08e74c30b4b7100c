package v1alpha1

import "k8s.io/apimachinery/pkg/api/resource"

// HubResources are what the servers of the hub are given.
type HubResources struct {
	// Cascade is one cascade server.
	// +optional
	Cascade ServerResources `json:"cascade,omitempty,omitzero"`
	// Central is one of the two centrals.
	// +optional
	Central ServerResources `json:"central,omitempty,omitzero"`
}

// ServerResources are what one Prometheus is given. What is unset is reckoned.
//
// +kubebuilder:validation:XValidation:rule="!has(self.cpu) || quantity(string(self.cpu)).isGreaterThan(quantity('0'))",message="cpu must be above 0"
// +kubebuilder:validation:XValidation:rule="!has(self.memory) || quantity(string(self.memory)).compareTo(quantity('64Mi')) >= 0",message="memory must be at least 64Mi: a Prometheus does not start with less"
// +kubebuilder:validation:XValidation:rule="!has(self.memoryLimit) || quantity(string(self.memoryLimit)).compareTo(has(self.memory) ? quantity(string(self.memory)) : quantity('64Mi')) >= 0",message="memoryLimit must be at least memory, and at least 64Mi"
// +kubebuilder:validation:XValidation:rule="!has(self.volume) || quantity(string(self.volume)).compareTo(quantity('1Gi')) >= 0",message="volume must be at least 1Gi"
type ServerResources struct {
	// CPU that is asked for. There is no limit: a server that is throttled is late,
	// and what is late counts as stale.
	// +optional
	CPU *resource.Quantity `json:"cpu,omitempty"`
	// Memory that is asked for.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// MemoryLimit is where the server is ended. It is never below memory.
	// +optional
	MemoryLimit *resource.Quantity `json:"memoryLimit,omitempty"`
	// Volume is the size of the volume, of which blocks take four fifths. No
	// StatefulSet's volume can be changed: a server that has one keeps it, and its
	// blocks stay within it, until its StatefulSet is made anew.
	// +optional
	Volume *resource.Quantity `json:"volume,omitempty"`
}
