package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/units"

// lastHop is the way from the centrals to people.
func lastHop() []panel {
	const perRobot = "{{robot}}"
	return []panel{
		{
			kind: graph, title: "Alertmanagers", unit: units.Short, width: 8, height: 8,
			description: "Alertmanagers that there should be, those that answer, how many each knows to be alive, and 1 or 0 for each way to people.",
			queries: []query{
				{"central:alertmanagers_expected:count", "expected", ""},
				{`count(up{job="alertmanager"} == 1) or vector(0)`, "answer", ""},
				{`min by (alertmanager) (alertmanager_cluster_members{job="alertmanager"})`, "known to {{alertmanager}}", ""},
				{"max by (by) (central:people_told:bool)", "{{by}} can tell people", ""},
			},
			runbook: "PharosAlertmanagerMissing",
		},
		{
			kind: graph, title: "Notifications given up", unit: units.Short, width: 8, height: 8,
			description: "Notifications that Alertmanagers could not hand over within ten minutes, for each receiver, and why.",
			queries: []query{{
				"sum by (receiver_name, integration, reason) (increase(alertmanager_notifications_failed_total[10m]))", "{{receiver_name}} {{integration}} {{reason}}", "",
			}},
			runbook: "PharosNotificationsFailing",
		},
		{
			kind: graph, title: "Oldest message", unit: units.Seconds, width: 8, height: 8,
			description: "Age of the oldest notification that waits for each robot. A robot that was sent too much is silent for ten minutes.",
			queries:     []query{{"max by (robot) (pharos_notify_queue_age_seconds)", perRobot, ""}},
			runbook:     "PharosMessagesWaiting",
		},
		{
			kind: graph, title: "Attempts to tell robots", unit: units.Short, width: 8, height: 8,
			description: "Messages within ten minutes, by how the provider of each robot answered.",
			queries:     []query{{"sum by (robot, verdict) (increase(pharos_notify_send_attempts_total[10m]))", perRobot + " {{verdict}}", ""}},
			runbook:     "PharosRobotRefuses",
		},
		{
			kind: graph, title: "Messages refused for good", unit: units.Short, width: 8, height: 8,
			description: "Notifications that were put aside and wait for a person, those refused within a quarter of an hour by the provider's code, and whether the newest was.",
			queries: []query{
				{"max by (robot) (pharos_notify_dead_letters)", perRobot + " wait", ""},
				{"sum by (robot, errcode) (increase(pharos_notify_refusals_total[15m]))", perRobot + " {{errcode}}", ""},
				{"max by (robot, errcode) (pharos_notify_refusing)", perRobot + " refuses {{errcode}}", ""},
			},
			runbook: "PharosMessagesDead",
		},
		{
			kind: graph, title: "Room of the relay", unit: units.PercentUnit, width: 8, height: 8,
			description: "Share that is taken of the notifications that may wait for each robot, and what is free on the relay's volume.",
			queries: []query{
				{"max by (robot) (pharos_notify_queue_fill_ratio)", perRobot, ""},
				{"min(pharos_notify_disk_free_bytes)", "free", units.BytesIEC},
			},
			runbook: "PharosSpoolFilling",
		},
	}
}
