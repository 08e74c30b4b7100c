package rules_test

// worldOfNodes is what an edge scrapes of nodes, hosts and workloads of the
// cluster of world.
const worldOfNodes = `
load 15s
	kube_node_spec_unschedulable{job="state", instance="i", cluster="shop", node="n1"} 0xN
`
