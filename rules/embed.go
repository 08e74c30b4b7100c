// Package rules holds the contract, which declares every series that may cross
// a tier, and the recording and alerting rules of each tier. It knows no
// topology: what depends on one, the tier packages render from their Options.
package rules

import "embed"

//go:generate go test -run TestReferenceIsCurrent . -update

//go:embed contract.yaml */*.rules.yaml
var files embed.FS

// MetaCluster is the value of the label cluster on series about the meta cluster
// of a cell itself. An underscore cannot be in a Kubernetes name, so no Cluster
// is ever called that. It is never counted among the business clusters.
const MetaCluster = "_meta"
