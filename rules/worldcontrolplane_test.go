package rules_test

// worldOfControlPlanes is what an edge scrapes of the control plane of the
// cluster of world, in which everything is wrong that has a series of its own.
const worldOfControlPlanes = `
load 15s
	apiserver_request_total{job="kube-apiserver", instance="i", cluster="shop", verb="GET", code="200"} 0+10xN
	apiserver_request_total{job="kube-apiserver", instance="i", cluster="shop", verb="GET", code="500"} 0+1xN
	apiserver_request_duration_seconds_bucket{job="kube-apiserver", instance="i", cluster="shop", verb="GET", le="0.1"} 0+5xN
	apiserver_request_duration_seconds_bucket{job="kube-apiserver", instance="i", cluster="shop", verb="GET", le="1.0"} 0+10xN
	apiserver_request_duration_seconds_bucket{job="kube-apiserver", instance="i", cluster="shop", verb="GET", le="+Inf"} 0+11xN
	apiserver_request_duration_seconds_count{job="kube-apiserver", instance="i", cluster="shop", verb="GET"} 0+11xN
	apiserver_request_duration_seconds_sum{job="kube-apiserver", instance="i", cluster="shop", verb="GET"} 0+4xN
	apiserver_current_inflight_requests{job="kube-apiserver", instance="i", cluster="shop", request_kind="readOnly"} 2xN
	up{job="etcd", instance="e1", cluster="shop"} 1xN
	etcd_server_has_leader{job="etcd", instance="e1", cluster="shop"} 0xN
	etcd_server_leader_changes_seen_total{job="etcd", instance="e1", cluster="shop"} 0+1xN
	etcd_server_proposals_pending{job="etcd", instance="e1", cluster="shop"} 9xN
	etcd_server_proposals_failed_total{job="etcd", instance="e1", cluster="shop"} 0+1xN
	etcd_server_quota_backend_bytes{job="etcd", instance="e1", cluster="shop"} 100xN
	etcd_mvcc_db_total_size_in_bytes{job="etcd", instance="e1", cluster="shop"} 90xN
	etcd_disk_wal_fsync_duration_seconds_bucket{job="etcd", instance="e1", cluster="shop", le="0.008"} 0+5xN
	etcd_disk_wal_fsync_duration_seconds_bucket{job="etcd", instance="e1", cluster="shop", le="+Inf"} 0+5xN
	etcd_disk_backend_commit_duration_seconds_bucket{job="etcd", instance="e1", cluster="shop", le="0.008"} 0+5xN
	etcd_disk_backend_commit_duration_seconds_bucket{job="etcd", instance="e1", cluster="shop", le="+Inf"} 0+5xN
	etcd_network_peer_round_trip_time_seconds_count{job="etcd", instance="e1", cluster="shop", To="e2"} 0+1xN
	etcd_network_peer_round_trip_time_seconds_bucket{job="etcd", instance="e1", cluster="shop", To="e2", le="0.1024"} 0xN
	etcd_network_peer_round_trip_time_seconds_bucket{job="etcd", instance="e1", cluster="shop", To="e2", le="0.2048"} 0+1xN
	etcd_network_peer_round_trip_time_seconds_bucket{job="etcd", instance="e1", cluster="shop", To="e2", le="+Inf"} 0+1xN
	scheduler_pending_pods{job="kube-scheduler", instance="i", cluster="shop", queue="active"} 3xN
	scheduler_schedule_attempts_total{job="kube-scheduler", instance="i", cluster="shop", result="error", profile="p"} 0+1xN
	workqueue_depth{job="kube-controller-manager", instance="i", cluster="shop", name="deployment"} 4xN
	workqueue_queue_duration_seconds_bucket{job="kube-controller-manager", instance="i", cluster="shop", name="deployment", le="1.0"} 0+1xN
	workqueue_queue_duration_seconds_bucket{job="kube-controller-manager", instance="i", cluster="shop", name="deployment", le="+Inf"} 0+1xN
	pharos_cluster_certificate_expiry_timestamp_seconds{job="state", instance="i", cluster="shop"} 90000xN
`
