package fleettest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pharos-fleet/pharos/rules"
)

func (c Cluster) nodes() []string {
	out := make([]string, c.Nodes)
	for i := range out {
		out[i] = c.Name + "-n" + strconv.Itoa(i)
	}
	return out
}

// podsEach is how many pods each node of a world has, unless the world says more.
const podsEach = 3

// entities are what the series of one name are about: the pods, the nodes, or
// the cluster itself, each with all labels that say where it is.
func (w *World) entities(c Cluster, raw rules.Raw) []map[string]string {
	var out []map[string]string
	switch {
	case slices.Contains(raw.Labels, "pod"):
		for i, node := range c.nodes() {
			for p := range max(podsEach, w.PodsEach) {
				pod := w.place(c, node, i)
				pod["namespace"], pod["pod"], pod["container"] = "ns-"+strconv.Itoa(p%2), fmt.Sprintf("%s-p%d", node, p), "main"
				pod["host_ip"], pod["pod_ip"], pod["uid"] = "10.0.0."+strconv.Itoa(i), fmt.Sprintf("10.1.%d.%d", i, p), pod["pod"]
				out = append(out, pod)
			}
		}
	case slices.Contains(raw.Labels, "node"):
		for i, node := range c.nodes() {
			out = append(out, w.place(c, node, i))
		}
	default:
		out = append(out, map[string]string{"cluster": c.Name})
	}
	return out
}

// place are all labels of a node.
func (w *World) place(c Cluster, node string, i int) map[string]string {
	version := "v1.37.0"
	if w.Trouble.Sick > 0 {
		version = "v1.37." + strconv.Itoa(i%2) // as in the midst of an upgrade
	}
	zone, rack, pool := "z"+strconv.Itoa(i%2), "r"+strconv.Itoa(i%3), "p"+strconv.Itoa(i%2)
	return map[string]string{
		"cluster": c.Name, "node": node, "machine": node,
		"zone": zone, "rack": rack, "pool": pool,
		"label_topology_kubernetes_io_zone": zone, "label_topology_pharos_dev_rack": rack, "label_pharos_dev_pool": pool,
		"kubelet_version": version, "kernel_version": "6.12", "os_image": "linux", "container_runtime_version": "containerd://2",
	}
}

// values are what a label of a raw series can be, of those labels where rules
// ask for the value. Others have two values each.
func values(label string, raw rules.Raw) []string {
	if label == "resource" && raw.Source == stateSource {
		return []string{"cpu", "memory", "pods"}
	}
	known := map[string][]string{
		"condition":    {"Ready", "MemoryPressure", "DiskPressure"},
		"status":       {"true", "false", "unknown"},
		"verb":         {"GET", "LIST", "WATCH"},
		"code":         {"200", "404", "500"},
		"subresource":  {""},
		"scope":        {"resource"},
		"queue":        {"active", "backoff", "unschedulable", "gated"},
		"result":       {"scheduled", "unschedulable", "error"},
		"request_kind": {"mutating", "readOnly"},
		"mode":         {"idle", "iowait", "user"},
		"phase":        {"Running", "Pending", "Failed"},
		"mountpoint":   {"/", "/var/lib/kubelet"},
		"resource":     {"pods"},
		"reason":       {"CrashLoopBackOff", "OOMKilled", "ImagePullBackOff", "Error"},
		"size":         {"Small"},
	}
	if of, ok := known[label]; ok {
		return of
	}
	if slices.Contains([]string{"profile", "version", "state", "unit", "rule_group", "component", "host_network", "created_by_kind"}, label) {
		return []string{"one"}
	}
	return []string{label + "-0", label + "-1"}
}

// combinations are all values of the labels that do not say what a series is
// about.
func combinations(raw rules.Raw, entity map[string]string) []map[string]string {
	out := []map[string]string{{}}
	for _, label := range raw.Labels {
		if _, ok := entity[label]; ok || slices.Contains([]string{"job", "instance", "cluster", "central", "geography", "region", "cell"}, label) {
			continue
		}
		var next []map[string]string
		for _, set := range out {
			for _, v := range values(label, raw) {
				with := maps.Clone(set)
				with[label] = v
				next = append(next, with)
			}
		}
		out = next
	}
	return out
}
