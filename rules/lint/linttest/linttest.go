// Package linttest holds rules of a team's own that are right, for the tests of
// whoever checks or deploys such.
package linttest

const (
	// Series declares what Record records, as a contract does.
	Series = `series:
  - name: cluster:pods_without_image:count
    kind: gauge
    unit: pods
    help: Containers that wait because their image cannot be had.
    labels: [geography, region, cell, cluster]
    from: edge
    to: central
    max: {per: cluster, series: 1}
`
	// Record is a rule file for edges.
	Record = `groups:
  - name: images
    rules:
      - record: cluster:pods_without_image:count
        expr: count by (cluster) (kube_pod_container_status_waiting_reason{reason="ImagePullBackOff"})
`
)
