package edge

import (
	"regexp"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// cut keeps of some series of a component only those with certain labels.
type cut struct {
	// names match, anchored, the series that it is about.
	names string
	// values match, anchored, the values of the component's cut labels, joined by ";".
	values string
}

// cutLabels are the labels by which the series of a component are cut, beside
// their name.
func cutLabels(component string) []string {
	switch component {
	case componentAPIServer:
		return []string{"le"}
	case componentCadvisor:
		return []string{"container", "image", "pod"}
	case componentNodeExporter:
		return []string{"mountpoint"}
	}
	return nil
}

func cutsOf(component string) []cut {
	switch component {
	case componentAPIServer:
		// The thresholds of the objectives, 1 s and 30 s, and enough around them
		// to draw a picture, out of 23 for each kind of request. Older servers
		// write 1, newer ones 1.0.
		return []cut{{names: "apiserver_request_duration_seconds_bucket", values: `0\.1|0\.4|1(?:\.0)?|5(?:\.0)?|30(?:\.0)?|\+Inf`}}
	case componentCadvisor:
		return []cut{
			// Out of memory is told of the container; of a pod it stays 0.
			{names: "container_oom_events_total", values: `[^;]+;[^;]*;[^;]+`},
			// The pod as a whole, without its pause container, which has an image.
			{names: "container_.+", values: `;;[^;]+`},
		}
	case componentNodeExporter:
		// The file systems that a node stops working without.
		return []cut{{names: "node_filesystem_.+", values: "/|/var/lib/kubelet|/var/lib/containerd|/var/lib/etcd"}}
	}
	return nil
}

// virtualDevices are network devices whose traffic is counted by a real one, too.
const virtualDevices = "lo|(?:veth|cali|cilium|lxc|flannel|cni|docker|br-|virbr|tun|tap|wg|vxlan|geneve|kube-|nodelocaldns|dummy|ifb|sit|gre|nerdctl|podman).*"

// keep drops every series that the contract does not declare for the component:
// an API server alone exports tens of thousands, and an edge reads many.
func (o Options) keep(contract rules.Contract, component string) []promcfg.Relabel {
	names := o.rawOf(contract, component)
	if len(names) == 0 {
		return []promcfg.Relabel{{SourceLabels: []string{"__name__"}, Regex: ".*", Action: "drop"}}
	}
	var drop []promcfg.Relabel
	if component == componentNodeExporter {
		drop = []promcfg.Relabel{{
			SourceLabels: []string{"__name__", "device"}, Regex: "node_network_.+;(?:" + virtualDevices + ")", Action: "drop",
		}}
	}
	return append(drop, promcfg.Relabel{
		SourceLabels: append([]string{"__name__"}, cutLabels(component)...),
		Regex:        kept(component, names),
		Action:       "keep",
	})
}

// ofEveryPrometheus is the contract's source of what each server says of itself.
const ofEveryPrometheus = "prometheus itself"

func namesOf(contract rules.Contract, component string) []string {
	names := contract.RawFrom(component)
	if component == componentEdge {
		names = append(names, contract.RawFrom(ofEveryPrometheus)...)
	}
	return names
}

// kept matches the names, and for those that are cut the labels that they may have.
func kept(component string, names []string) string {
	cuts := cutsOf(component)
	if len(cuts) == 0 {
		return strings.Join(names, "|")
	}
	byCut := make([][]string, len(cuts))
	matches := make([]*regexp.Regexp, len(cuts))
	for i, c := range cuts {
		matches[i] = regexp.MustCompile("^(?:" + c.names + ")$")
	}
	var whole []string
	for _, name := range names {
		i := slices.IndexFunc(matches, func(r *regexp.Regexp) bool { return r.MatchString(name) })
		if i < 0 {
			whole = append(whole, name)
			continue
		}
		byCut[i] = append(byCut[i], name)
	}
	var out []string
	if len(whole) > 0 {
		out = append(out, "(?:"+strings.Join(whole, "|")+");.*")
	}
	for i, c := range cuts {
		if len(byCut[i]) > 0 {
			out = append(out, "(?:"+strings.Join(byCut[i], "|")+");(?:"+c.values+")")
		}
	}
	return strings.Join(out, "|")
}
