package cascade

import (
	"github.com/pharos-fleet/pharos/rules"
)

// Declaration is how a cell is described, as long as nobody has measured it.
type Declaration struct {
	// Clusters that the cell is to host.
	Clusters uint
	// Shards of its edge, and Replicas of each of them.
	Shards, Replicas uint
}

// Declared is how many series a cell brings by the contract: those of each
// cluster and those of the cell, from each replica. Exceptions are left out:
// they are there only where something is wrong, and the distance between a
// shard's limit and what its server can bear is for them.
func Declared(contract rules.Contract, d Declaration) uint {
	var ofCluster, ofCell uint
	for _, s := range contract.Crossing(rules.Cascade) {
		switch {
		case s.Exception:
		case s.Max.Per == "cluster":
			ofCluster += s.Max.Series
		case s.Max.Per == "cell":
			ofCell += s.Max.Series
		}
	}
	return (ofCluster*d.Clusters + ofCell*max(1, d.Shards)) * max(1, d.Replicas)
}
