package dashboards

import "github.com/grafana/grafana-foundation-sdk/go/units"

// effect is what the remediator has done for the fleet. Counts are of a day: repairs are
// rare, and a remediator that is started anew has series of its own.
func effect() []panel {
	quantile := func(q, of string) string {
		return "histogram_quantile(" + q + ", sum by (le) (increase(" + of + "_bucket[1d])))"
	}
	const toDetect, toRepair = "pharos_remediator_time_to_detect_seconds", "pharos_remediator_time_to_repair_seconds"
	return []panel{
		{
			kind: graph, title: "Findings and repairs of a day", unit: units.Short, width: 8, height: 8,
			description: "Within a day: machines that some source began to call unhealthy and those that got well by themselves; and of the repairs how many were recorded, asked for (acted), " +
				"verified, failed, handed to people (escalated), not needed before (recovered) or after (false) they were asked for, and cancelled.",
			queries: []query{
				{"sum by (became) (increase(pharos_remediator_findings_total[1d]))", "finding {{became}}", ""},
				{"sum by (became) (increase(pharos_remediator_repairs_total[1d]))", "repair {{became}}", ""},
			},
			runbook: "PharosRemediationFailed",
		},
		{
			kind: graph, title: "Machines held", unit: units.Short, width: 8, height: 8,
			description: "Unhealthy machines that are not being repaired, by reason.",
			queries:     []query{{"max by (reason) (pharos_remediator_machines_held) > 0", "{{reason}}", ""}},
			runbook:     "PharosRepairsStopped",
		},
		{
			kind: graph, title: "Time to detect and to repair", unit: units.Seconds, width: 8, height: 8,
			description: "Of the findings and the verified repairs of a day: how soon a round knew of a node that was not ready, and how long it was until a node that was not heard of was verified to be well. Half of them, and nine of ten.",
			queries: []query{
				{quantile("0.5", toDetect), "detect half", ""},
				{quantile("0.9", toDetect), "detect 90 %", ""},
				{quantile("0.5", toRepair), "repair half", ""},
				{quantile("0.9", toRepair), "repair 90 %", ""},
			},
			runbook: "PharosRemediationFailed",
		},
	}
}
