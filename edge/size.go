package edge

import "github.com/pharos-fleet/pharos/api/v1alpha1"

// Sizing is what each server of an edge needs. Quantities are in Kubernetes'
// notation, the bound of the disk in Prometheus'.
type Sizing struct {
	// Series is how many active series the rest is reckoned for.
	Series uint
	// StateSamples is the most that the state of one cluster may have.
	StateSamples uint
	// CPU and Memory are asked for, and MemoryLimit is where the server is ended.
	// CPU has no limit: a server that is throttled is late, and late is stale.
	CPU, Memory, MemoryLimit string
	// Volume is the disk.
	Volume string
}

// SizingOf is what each server of an edge needs in a cell of a size, with the
// number of shards that the size has when the cell says nothing.
// docs/reference/edge.md says how it is reckoned. An unknown size is a Medium one.
func SizingOf(size v1alpha1.CellSize) Sizing {
	switch size {
	case v1alpha1.CellSmall:
		return Sizing{
			Series: 250_000, StateSamples: 150_000,
			CPU: "250m", Memory: "2Gi", MemoryLimit: "4Gi", Volume: "20Gi",
		}
	case v1alpha1.CellLarge:
		return Sizing{
			Series: 2_500_000, StateSamples: 1_500_000,
			CPU: "2500m", Memory: "20Gi", MemoryLimit: "32Gi", Volume: "150Gi",
		}
	}
	return Sizing{
		Series: 1_000_000, StateSamples: 500_000,
		CPU: "1", Memory: "8Gi", MemoryLimit: "14Gi", Volume: "60Gi",
	}
}
