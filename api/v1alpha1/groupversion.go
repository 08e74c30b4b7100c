package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of every type in this package.
var GroupVersion = schema.GroupVersion{Group: "pharos.dev", Version: "v1alpha1"}

// AddToScheme registers the types of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&Federation{}, &FederationList{},
		&Cell{}, &CellList{},
		&Cluster{}, &ClusterList{},
		&Machine{}, &MachineList{},
		&RemediationPolicy{}, &RemediationPolicyList{},
		&Remediation{}, &RemediationList{},
		&FleetDisruptionBudget{}, &FleetDisruptionBudgetList{},
		&Incident{}, &IncidentList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
