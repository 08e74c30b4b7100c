package dashboards_test

import (
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/pharos-fleet/pharos/test/fleettest"
)

// lastHop is what an Alertmanager and the relay say of themselves when the provider of
// a robot takes some messages and refuses others, and what a remediator says that finds,
// repairs and holds. Counters grow by the second.
func lastHop(at time.Time) []fleettest.Sample {
	var out []fleettest.Sample
	add := func(value float64, name string, more ...string) {
		out = append(out, fleettest.Sample{Labels: labels.FromStrings(append([]string{"__name__", name}, more...)...), At: at, Value: value})
	}
	grown := float64(at.Unix() % 1_000_000)
	manager := []string{"job", "alertmanager", "instance", "alertmanager:9093", "alertmanager", "alertmanager-0"}
	add(1, "up", manager...)
	add(2, "alertmanager_cluster_members", manager...)
	add(grown, "alertmanager_notifications_failed_total", append(manager, "integration", "webhook", "receiver_name", "heartbeat", "reason", "serverError")...)
	add(1, "up", "job", "alertmanager-old", "instance", "old:9093", "alertmanager", "old")
	add(60, "pharos_notify_queue_age_seconds", "robot", "oncall")
	add(0.1, "pharos_notify_queue_fill_ratio", "robot", "oncall")
	add(1e9, "pharos_notify_disk_free_bytes")
	add(3, "pharos_notify_dead_letters", "robot", "oncall")
	add(grown, "pharos_notify_send_attempts_total", "robot", "oncall", "verdict", "sent")
	add(grown, "pharos_notify_refusals_total", "robot", "oncall", "errcode", "310000")
	add(1, "pharos_notify_refusing", "robot", "oncall", "errcode", "310000")
	add(grown, "pharos_remediator_findings_total", "became", "detected")
	add(grown, "pharos_remediator_repairs_total", "became", "verified", "since", "1")
	add(2, "pharos_remediator_machines_held", "reason", "InFlight")
	for _, le := range []string{"60", "300", "+Inf"} {
		add(grown, "pharos_remediator_time_to_detect_seconds_bucket", "le", le)
		add(grown, "pharos_remediator_time_to_repair_seconds_bucket", "le", le, "since", "1")
	}
	return out
}
