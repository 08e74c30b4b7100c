package layout

import "fmt"

// Role says what a cluster is in the fleet.
type Role string

const (
	// RoleHub is the management cluster.
	RoleHub Role = "hub"
	// RoleCell is a meta cluster, which hosts business clusters.
	RoleCell Role = "cell"
	// RoleBusiness is a business cluster.
	RoleBusiness Role = "business"
)

// Shape of every business cluster of the local fleet.
const (
	// NodesPerCluster is how many worker nodes each business cluster has.
	NodesPerCluster = 20
	// NodesPerRack is how many of them share a rack.
	NodesPerRack = 5
	// RacksPerZone is how many racks share a zone.
	RacksPerZone = 2
	// Pool is the pool of every worker.
	Pool = "workers"
)

// Label and annotation by which faults are played.
const (
	// LabelKubelet is "running" on a worker node whose kubelet is alive.
	LabelKubelet = "local.pharos.dev/kubelet"
	// KubeletRunning is the value of LabelKubelet.
	KubeletRunning = "running"
	// AnnotationFault names, on a Node or a Pod, the fault injected into it.
	AnnotationFault = "local.pharos.dev/fault"
	// FaultStopped is the value of AnnotationFault that stops a pod's containers.
	FaultStopped = "stopped"
	// FaultFailed is the value of AnnotationFault that makes a pod on a worker
	// node, which runs to its end, fail.
	FaultFailed = "failed"
)

// Cluster is one cluster of the local fleet.
type Cluster struct {
	Name string
	Role Role
	// Cell hosts the cluster; empty for hub and cells.
	Cell string
	// Geography and Region place a cell; empty for others.
	Geography, Region string
	// subnet is the first three numbers of the addresses of its machines.
	subnet string
	index  int
}

// Clusters are the clusters of the local fleet, in the order of their ports.
func Clusters() []Cluster {
	return []Cluster{
		{Name: "hub", Role: RoleHub, index: 0},
		{Name: "asia-1", Role: RoleCell, Geography: "asia", Region: "asia-east", index: 1},
		{Name: "europe-1", Role: RoleCell, Geography: "europe", Region: "europe-west", index: 2},
		// The machines have addresses reserved for documentation: nothing is there.
		{Name: "shop", Role: RoleBusiness, Cell: "asia-1", subnet: "192.0.2", index: 3},
		{Name: "bank", Role: RoleBusiness, Cell: "europe-1", subnet: "198.51.100", index: 4},
	}
}

// Hub is the management cluster.
func Hub() Cluster { return Clusters()[0] }

// Cells are the meta clusters.
func Cells() []Cluster { return withRole(RoleCell) }

// MetaClusters are the hub and the cells: those whose pods really run.
func MetaClusters() []Cluster { return append([]Cluster{Hub()}, Cells()...) }

// BusinessClusters are those with worker nodes.
func BusinessClusters() []Cluster { return withRole(RoleBusiness) }

// HostedBy are the business clusters of a cell.
func HostedBy(cell Cluster) []Cluster {
	var hosted []Cluster
	for _, c := range BusinessClusters() {
		if c.Cell == cell.Name {
			hosted = append(hosted, c)
		}
	}
	return hosted
}

// ClusterByName finds a cluster; the error names those there are.
func ClusterByName(name string) (Cluster, error) {
	var names []string
	for _, c := range Clusters() {
		if c.Name == name {
			return c, nil
		}
		names = append(names, c.Name)
	}
	return Cluster{}, fmt.Errorf("no cluster %q in the local fleet: there are %v", name, names)
}

func withRole(r Role) []Cluster {
	var found []Cluster
	for _, c := range Clusters() {
		if c.Role == r {
			found = append(found, c)
		}
	}
	return found
}

// Node is one worker node of a business cluster, and the machine under it.
type Node struct {
	Name, Rack, Zone, Address, ProviderID, HardwareID string
}

// Nodes are the cluster's worker nodes; none unless it is a business cluster.
func (c Cluster) Nodes() []Node {
	if c.Role != RoleBusiness {
		return nil
	}
	nodes := make([]Node, NodesPerCluster)
	for i := range nodes {
		name := fmt.Sprintf("%s-node-%02d", c.Name, i)
		rack := i / NodesPerRack
		nodes[i] = Node{
			Name:       name,
			Rack:       fmt.Sprintf("rack-%d", rack+1),
			Zone:       fmt.Sprintf("zone-%c", 'a'+rack/RacksPerZone),
			Address:    fmt.Sprintf("%s.%d", c.subnet, 10+i),
			ProviderID: "local://" + c.Name + "/" + name,
			HardwareID: fmt.Sprintf("serial-%s-%04d", c.Name, i),
		}
	}
	return nodes
}

// ClusterOfNode finds the business cluster that a worker node belongs to.
func ClusterOfNode(node string) (Cluster, error) {
	for _, c := range BusinessClusters() {
		for _, n := range c.Nodes() {
			if n.Name == node {
				return c, nil
			}
		}
	}
	return Cluster{}, fmt.Errorf("no node %q in the local fleet: nodes are named like %s", node, BusinessClusters()[0].Nodes()[7].Name)
}

// ProcessNode names the node of the hub or a cell, whose pods are processes.
func (c Cluster) ProcessNode() string { return c.Name + "-node" }
