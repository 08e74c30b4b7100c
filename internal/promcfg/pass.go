package promcfg

import (
	"slices"
	"strings"
)

// Pass lets through the series whose names match the regular expression, with
// no labels but the given ones. Whatever else a sender has does not pass.
func Pass(names string, labels []string) []Relabel {
	return []Relabel{
		{SourceLabels: []string{"__name__"}, Regex: names, Action: "keep"},
		{Regex: strings.Join(slices.Concat([]string{"__name__"}, labels), "|"), Action: "labelkeep"},
	}
}

// Replicas makes edge_replica of the labels by which existing servers tell
// their replicas apart, of the first that a series has.
func Replicas(foreign []string) []Relabel {
	var out []Relabel
	// The last to be applied wins.
	for _, label := range slices.Backward(foreign) {
		out = append(out, Relabel{SourceLabels: []string{label}, Regex: "(.+)", TargetLabel: "edge_replica"})
	}
	return out
}

// ForeignReplicaLabels are the labels by which servers that Pharos does not run
// usually tell their replicas apart: those of the Prometheus operator, of
// stores that remove duplicates, and of hand-written configurations.
func ForeignReplicaLabels() []string { return []string{"prometheus_replica", "__replica__", "replica"} }
