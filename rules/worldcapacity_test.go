package rules_test

// worldOfCapacity is what an edge scrapes of the meta cluster of its cell, which
// gives away addresses, cores and memory, and hosts the cluster of world.
const worldOfCapacity = `
load 15s
	pharos_cell_addresses_used{job="state", instance="i"} 40xN
	pharos_cluster_info{job="state", instance="i", cluster="shop", size="Small", version="v1.37.2", profile="default"} 1xN
	kube_node_status_allocatable{job="state", instance="i", cluster="_meta", node="m1", resource="cpu", unit="core"} 8xN
	kube_node_status_allocatable{job="state", instance="i", cluster="_meta", node="m1", resource="memory", unit="byte"} 1000xN
	kube_pod_container_resource_requests{job="state", instance="i", cluster="_meta", namespace="ns", pod="p", container="c", node="m1", resource="cpu", unit="core"} 2xN
	kube_pod_container_resource_requests{job="state", instance="i", cluster="_meta", namespace="ns", pod="p", container="c", node="m1", resource="memory", unit="byte"} 300xN
`
