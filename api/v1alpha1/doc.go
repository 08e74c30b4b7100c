// Package v1alpha1 holds the custom resources of Pharos, group pharos.dev.
//
// Federation, Cell, RemediationPolicy, FleetDisruptionBudget and Remediation live
// in the hub. Cluster and Machine live in each cell. The package holds types, condition types,
// reasons and the defaults that the types leave out; it has no behaviour
// beyond resolving those defaults.
//
// +kubebuilder:object:generate=true
// +groupName=pharos.dev
package v1alpha1
