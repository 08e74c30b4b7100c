package rules_test

// worldOfNodes is what an edge scrapes of nodes, hosts and workloads of the
// cluster of world: all of them are in trouble.
const worldOfNodes = `
load 15s
	kube_node_spec_unschedulable{job="state", instance="i", cluster="shop", node="n1"} 0xN
	kube_node_status_condition{job="state", instance="i", cluster="shop", node="n1", condition="DiskPressure", status="true"} 1xN
	kube_node_status_capacity{job="state", instance="i", cluster="shop", node="n1", resource="cpu", unit="core"} 4xN
	kube_node_status_capacity{job="state", instance="i", cluster="shop", node="n1", resource="memory", unit="byte"} 8xN
	kube_node_status_allocatable{job="state", instance="i", cluster="shop", node="n1", resource="cpu", unit="core"} 3xN
	kube_node_status_allocatable{job="state", instance="i", cluster="shop", node="n1", resource="memory", unit="byte"} 7xN
	kube_pod_info{job="state", instance="i", cluster="shop", namespace="web", pod="p", node="n1"} 1xN
	kube_pod_status_phase{job="state", instance="i", cluster="shop", namespace="web", pod="p", phase="Pending"} 1xN
	kube_pod_container_status_waiting_reason{job="state", instance="i", cluster="shop", namespace="web", pod="p", container="c", reason="CrashLoopBackOff"} 1xN
	kube_pod_container_status_last_terminated_reason{job="state", instance="i", cluster="shop", namespace="web", pod="p", container="c", reason="OOMKilled"} 1xN
	kube_pod_container_status_restarts_total{job="state", instance="i", cluster="shop", namespace="web", pod="p", container="c"} 0+1xN
	kube_pod_container_resource_requests{job="state", instance="i", cluster="shop", namespace="web", pod="p", container="c", node="n1", resource="cpu", unit="core"} 1xN
	kube_pod_container_resource_requests{job="state", instance="i", cluster="shop", namespace="web", pod="p", container="c", node="n1", resource="memory", unit="byte"} 1xN
	node_memory_MemTotal_bytes{job="node-exporter", instance="i", cluster="shop", node="n1"} 8xN
	node_memory_MemAvailable_bytes{job="node-exporter", instance="i", cluster="shop", node="n1"} 1xN
	node_cpu_seconds_total{job="node-exporter", instance="i", cluster="shop", node="n1", cpu="0", mode="idle"} 0+3xN
	node_filesystem_size_bytes{job="node-exporter", instance="i", cluster="shop", node="n1", mountpoint="/", device="d", fstype="ext4"} 2000xN
	node_filesystem_avail_bytes{job="node-exporter", instance="i", cluster="shop", node="n1", mountpoint="/", device="d", fstype="ext4"} 1900-1xN
	node_filesystem_files{job="node-exporter", instance="i", cluster="shop", node="n1", mountpoint="/", device="d", fstype="ext4"} 100xN
	node_filesystem_files_free{job="node-exporter", instance="i", cluster="shop", node="n1", mountpoint="/", device="d", fstype="ext4"} 10xN
	node_network_receive_bytes_total{job="node-exporter", instance="i", cluster="shop", node="n1", device="eth0"} 0+1425xN
	node_network_transmit_bytes_total{job="node-exporter", instance="i", cluster="shop", node="n1", device="eth0"} 0+1425xN
	node_network_speed_bytes{job="node-exporter", instance="i", cluster="shop", node="n1", device="eth0"} 100xN
	node_network_receive_errs_total{job="node-exporter", instance="i", cluster="shop", node="n1", device="eth0"} 0+60xN
	node_network_transmit_errs_total{job="node-exporter", instance="i", cluster="shop", node="n1", device="eth0"} 0+60xN
	node_network_receive_drop_total{job="node-exporter", instance="i", cluster="shop", node="n1", device="eth0"} 0+60xN
	node_network_transmit_drop_total{job="node-exporter", instance="i", cluster="shop", node="n1", device="eth0"} 0+60xN
	node_pressure_cpu_waiting_seconds_total{job="node-exporter", instance="i", cluster="shop", node="n1"} 0+12xN
	node_pressure_memory_stalled_seconds_total{job="node-exporter", instance="i", cluster="shop", node="n1"} 0+12xN
	node_pressure_io_stalled_seconds_total{job="node-exporter", instance="i", cluster="shop", node="n1"} 0+12xN
	node_timex_offset_seconds{job="node-exporter", instance="i", cluster="shop", node="n1"} 1xN
`
