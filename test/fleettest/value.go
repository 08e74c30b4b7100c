package fleettest

import (
	"math"
	"regexp"
	"strings"

	"github.com/pharos-fleet/pharos/rules"
)

// bad are names of what should not happen: 0 where all is well.
var bad = regexp.MustCompile(`fail|error|errs|drop|exceeded|oom|leader_changes|restarts|pressure|stalled|offset|pending|evict|missed|undeclared|_depth`)

// valueOf is what a series is worth over time. What the contract does not call a
// counter is one by its name. Other than a number between 0 and 1 is what rules
// take to be a fact: a state, a size, a time.
func (w *World) valueOf(raw rules.Raw, all map[string]string, target string, c *Cluster) func(int) float64 {
	key := raw.Name + all["cluster"] + all["node"] + all["pod"] + all["instance"]
	if fact := w.fact(raw.Name, all, c); fact != nil {
		return fact
	}
	isBad := bad.MatchString(raw.Name) || strings.HasPrefix(all["code"], "5") || all["result"] == "error"
	level := func() float64 {
		share := 0.1 + 0.8*w.share(raw.Name, target, all["mode"], all["code"], all["verb"], all["cpu"], all["name"], all["device"])
		if isBad && !w.sick(key, "bad") {
			return 0
		}
		return share
	}
	if raw.Kind == rules.Counter || strings.HasSuffix(raw.Name, "_total") {
		return w.counter(target, level)
	}
	return func(step int) float64 {
		wave := 1 + 0.1*math.Sin(float64(step)/7+10*w.share(key))
		return math.Floor(1000 * level() * wave)
	}
}

// fact is a series whose value has a meaning, or nil.
func (w *World) fact(name string, all map[string]string, c *Cluster) func(int) float64 {
	who := all["instance"] + "/" + all["node"] + all["pod"]
	always := func(v float64) func(int) float64 { return func(int) float64 { return v } }
	if v, ok := watchFact(name, c); ok {
		return always(v)
	}
	switch {
	case name == "kube_node_status_condition":
		return func(int) float64 { return w.condition(who, all["condition"], all["status"]) }
	case name == "kube_pod_status_phase":
		return w.onlyWhen(func() bool { return w.phase(who) == all["phase"] })
	case strings.HasSuffix(name, "_reason"):
		return w.onlyWhen(func() bool { return w.sick(who, all["reason"]) })
	case name == "kube_node_spec_unschedulable":
		return func(int) float64 { return truth(w.sick(who, "cordoned")) }
	case strings.HasSuffix(name, "_info"), strings.HasSuffix(name, "_has_leader"), strings.HasSuffix(name, "_labels"), strings.HasSuffix(name, "_state"):
		return always(1)
	case strings.Contains(name, "expiry_timestamp"):
		return always(float64(w.begun.AddDate(0, 10, 0).Unix()))
	case strings.Contains(name, "created"), strings.Contains(name, "boot_time"), strings.Contains(name, "start_time"):
		return always(float64(w.begun.AddDate(0, -1, 0).Unix()))
	}
	return w.size(name, all, who)
}

// watchFact is what the edge agent says of its watch of a cluster.
func watchFact(name string, c *Cluster) (float64, bool) {
	switch name {
	case "pharos_cluster_up":
		return truth(c == nil || !c.Unwatched), true
	case "pharos_cluster_answers":
		return 1, true
	case "pharos_cluster_nodes":
		return float64(c.Nodes), true
	}
	return 0, false
}

// size is a series that is the whole of which another is a part, or that part.
func (w *World) size(name string, all map[string]string, who string) func(int) float64 {
	whole := map[string]float64{"cpu": 16, "memory": 64 << 30, "pods": 110}
	always := func(v float64) func(int) float64 { return func(int) float64 { return v } }
	switch {
	case strings.HasSuffix(name, "_capacity"):
		return always(whole[all["resource"]])
	case strings.HasSuffix(name, "_allocatable"):
		return always(whole[all["resource"]] * 0.9375)
	case strings.HasSuffix(name, "resource_requests"):
		return always(whole[all["resource"]] / 16)
	case strings.Contains(name, "MemTotal"), strings.HasSuffix(name, "size_bytes"), strings.Contains(name, "quota"):
		return always(64 << 30)
	case strings.HasSuffix(name, "filesystem_files"):
		return always(1 << 20)
	case strings.HasPrefix(name, "etcd_mvcc_db"):
		return func(int) float64 { return 64<<30 - w.left(64<<30, who, "etcd_mvcc_db") }
	case strings.HasSuffix(name, "Available_bytes"), strings.HasSuffix(name, "avail_bytes"), strings.Contains(name, "in_bytes"):
		return func(int) float64 { return w.left(64<<30, who, name, all["mountpoint"]) }
	case strings.HasSuffix(name, "speed_bytes"): // counters rise by less than 1 a second
		return func(int) float64 {
			if w.sick(who, all["device"], "slow") {
				return 0.1
			}
			return 10
		}
	case strings.HasSuffix(name, "files_free"):
		return func(int) float64 { return w.left(1<<20, who, name, all["mountpoint"]) }
	}
	return nil
}

// left is what is left of a whole: enough, unless something is wrong.
func (w *World) left(whole float64, what ...string) float64 {
	share := 0.5 + 0.4*w.share(what...)
	if w.sick(what...) {
		share = 0.05
	}
	return math.Floor(whole * share)
}

// onlyWhen is a series that is 1 or not there.
func (w *World) onlyWhen(is func() bool) func(int) float64 {
	return func(int) float64 {
		if is() {
			return 1
		}
		return math.NaN()
	}
}

// condition is a node's condition of a name: true, false or unknown.
func (w *World) condition(node, condition, status string) float64 {
	is := "false"
	switch {
	case condition == "Ready" && w.sick(node, "unknown"):
		is = "unknown"
	case condition == "Ready" && w.sick(node, "unready"):
	case condition == "Ready", w.sick(node, condition):
		is = "true"
	}
	return truth(is == status)
}

func (w *World) phase(pod string) string {
	switch {
	case w.sick(pod, "pending"):
		return "Pending"
	case w.sick(pod, "failed"):
		return "Failed"
	}
	return "Running"
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
