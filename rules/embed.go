// Package rules holds the contract, which declares every series that may cross
// a tier, and the recording and alerting rules of each tier. It knows no
// topology: what depends on one, the tier packages render from their Options.
package rules

import "embed"

//go:generate go test -run TestReferenceIsCurrent . -update

//go:embed contract.yaml edge.rules.yaml cascade.rules.yaml central.rules.yaml
var files embed.FS
