package cascade

import (
	"github.com/prometheus/common/model"

	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/rules"
)

// placed makes sure that what an edge tells is told of its own cell. Where
// labels are not honoured, those of the target stand in every series, whatever
// the series says, and what it said itself is beside them under another name.
// So the place is always the one that the Cell has: a wrong region cannot make
// a cell vanish, and no label of a series can make one cell's numbers count as
// another's. What says that it is of another cell is dropped all the same: an
// address was given to the wrong cell, or labels were copied, and the numbers
// would be counted twice. The cell that the address was given to then has no
// heartbeat, and counts as stale.
//
// Which shard and which replica it is the edge knows best, where it says so.
func placed(foreign []string) []promcfg.Relabel {
	out := []promcfg.Relabel{own(rules.LabelEdgeShard), own(rules.LabelEdgeReplica)}
	out = append(out, promcfg.Replicas(foreign)...)
	return append(out,
		promcfg.Relabel{SourceLabels: []string{said("cell"), "cell"}, Regex: ";(.+)", TargetLabel: said("cell")},
		promcfg.Relabel{SourceLabels: []string{said("cell")}, TargetLabel: "cell", Action: "keepequal"},
	)
}

// said is what Prometheus calls a label of a series whose name a label of its
// target has, too.
func said(label string) string { return model.ExportedLabelPrefix + label }

// own takes what the series says where it says something.
func own(label string) promcfg.Relabel {
	return promcfg.Relabel{SourceLabels: []string{said(label)}, Regex: "(.+)", TargetLabel: label}
}
