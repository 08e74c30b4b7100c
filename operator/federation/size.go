package federation

import (
	"cmp"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// sizes are what the servers of the hub are given. They follow from what the
// cells declare and not from what is measured, which changes by the hour: a new
// size is a new pod.
type sizes struct {
	cascades map[shard]workload.Size
	central  workload.Size
}

func (h hub) sizes() (sizes, error) {
	contract, err := h.contract.OrBuiltIn()
	if err != nil {
		return sizes{}, err
	}
	var all uint
	declared := map[string]uint{}
	for _, c := range h.cells {
		declared[c.Name] = load(h.f, &c, contract, 0, 0)
		all += declared[c.Name]
	}
	out := sizes{
		cascades: map[shard]workload.Size{},
		central:  workload.SizeFor(h.f, all).Override(h.f.Spec.Resources.Central),
	}
	for _, s := range h.shards() {
		reads := cmp.Or(maxSeries(h.f, s.geography), cascade.DefaultMaxSeriesPerShard)
		for _, name := range h.layouts[s.geography].ReadBy(s.number) {
			reads = max(reads, declared[name]) // a cell may be more than a shard should have
		}
		out.cascades[s] = workload.SizeFor(h.f, reads).Override(h.f.Spec.Resources.Cascade)
	}
	return out, nil
}

// SetsVolume tells whether the Federation says itself how large the volume of a
// server of the hub is.
func SetsVolume(f *v1alpha1.Federation, server string) bool {
	if strings.HasPrefix(server, centralPrefix) {
		return f.Spec.Resources.Central.Volume != nil
	}
	return f.Spec.Resources.Cascade.Volume != nil
}

// Volumes are those that the servers of the hub ask for.
func Volumes(f *v1alpha1.Federation, cells []v1alpha1.Cell, layouts Layouts, contract *rules.Contract) (workload.Volumes, error) {
	h := hub{f: f, cells: cells, layouts: layouts, contract: contract}
	s, err := h.sizes()
	if err != nil {
		return nil, err
	}
	out := workload.Volumes{}
	for shard, size := range s.cascades {
		out[cascadeName(shard)] = size.Volume
	}
	for _, replica := range replicas() {
		out[centralPrefix+replica] = s.central.Volume
	}
	return out, nil
}
