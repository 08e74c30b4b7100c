package federation

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// divide takes a cell one step from the division that its edge has towards the
// one that it asks for. It is pure.
//
//	at rest:            every server watches what is its own, and the centrals expect so many parts;
//	another beside it:  every server watches what is its own by either, and the old parts are expected;
//	the other expected: still by either, and now the new parts are expected;
//	at rest again.
//
// The second step waits until both centrals have heard of every cluster from the
// part that it goes to, the third until both expect the new parts: so no cluster
// is without a server that has been heard, and no part is missed that has gone.
// What is beside and no longer asked for goes as in the last step.
func divide(c *v1alpha1.Cell, now workload.Division, heard divided) workload.Division {
	want := workload.EdgeShards(c)
	switch {
	case c.Spec.Edge.Mode == v1alpha1.EdgeExternal:
		return workload.Division{Shards: want} // the servers are not ours to keep
	case now.Beside == 0 && now.Shards != want:
		return workload.Division{Shards: now.Shards, Beside: want}
	case now.Beside == want && now.Shards != want && heard.ready:
		return workload.Division{Shards: want, Beside: now.Shards}
	case now.Beside != 0 && now.Beside != want && heard.expected:
		return workload.Division{Shards: now.Shards}
	}
	return now
}

// divided is what both centrals say of a cell whose edge is being divided anew.
// What is not known is false.
type divided struct {
	// ready says that every part of the division that takes the other's place has
	// known the state of its clusters for long enough, and that every cluster has
	// been heard of from the part that it goes to.
	ready bool
	// expected says that they expect the parts that they should, and no others.
	expected bool
}

// dividing are the cells of which two divisions are watched, by name.
func dividing(f *v1alpha1.Federation, cells []v1alpha1.Cell) map[string]workload.Division {
	out := map[string]workload.Division{}
	for _, c := range cells {
		if d := workload.EdgeDivision(f, &c); d.Beside != 0 {
			out[c.Name] = d
		}
	}
	return out
}

// number is one that every edge tells of a cluster.
type number struct{ cluster, name string }

// witnessed is what one central has heard of the parts of a cell.
type witnessed struct {
	// parts counts how often of late each was heard to know the state of its clusters.
	parts map[uint]float64
	// numbers counts how often each part told each number of late.
	numbers map[number]map[uint]float64
	// expected are the parts that the central waits for.
	expected []uint
}

// divisionQueries are what a central is asked about cells that are being divided.
// Of a cluster, or of the cell itself, that has no API server to be asked or whose
// state is not known, there is one of the two numbers, and it goes on as it was.
func divisionQueries(cells []string, interval time.Duration) [3]string {
	for i, c := range cells {
		cells[i] = regexp.QuoteMeta(c)
	}
	of := fmt.Sprintf("cell=~%q", strings.Join(cells, "|"))
	late := ofLate(interval) / time.Second
	return [3]string{
		fmt.Sprintf("max by (cell, edge_shard) (sum_over_time(cell:state_known:bool{%s}[%ds]))", of, late),
		fmt.Sprintf(`label_replace(max by (cell, cluster, edge_shard) (count_over_time(cluster:nodes:count{%[1]s}[%[2]ds])), "number", "nodes", "", "")`+
			` or label_replace(max by (cell, cluster, edge_shard) (count_over_time(cluster:up:min{%[1]s}[%[2]ds])), "number", "up", "", "")`, of, late),
		fmt.Sprintf("fleet:edge_expected:info{%s}", of),
	}
}

// divisions asks both centrals about the cells that are being divided.
func (e *ears) divisions(ctx context.Context, f *v1alpha1.Federation, cells map[string]workload.Division, centrals []asker) (map[string]divided, error) {
	out := map[string]divided{}
	for name := range cells {
		out[name] = divided{ready: true, expected: true}
	}
	for _, central := range centrals {
		heard, err := e.parts(ctx, f, cells, central)
		if err != nil {
			return nil, err
		}
		for name, d := range cells {
			ready, err := heard[name].ready(d.Beside)
			if err != nil {
				return nil, err
			}
			out[name] = divided{ready: out[name].ready && ready, expected: out[name].expected && heard[name].expects(d.Shards)}
		}
	}
	return out, nil
}

// parts is what one central has heard of each of the cells.
func (e *ears) parts(ctx context.Context, f *v1alpha1.Federation, cells map[string]workload.Division, central asker) (map[string]witnessed, error) {
	heard := map[string]witnessed{}
	var names []string
	for name := range cells {
		heard[name] = witnessed{parts: map[uint]float64{}, numbers: map[number]map[uint]float64{}}
		names = append(names, name)
	}
	slices.Sort(names)
	for i, query := range divisionQueries(names, workload.Interval(f)) {
		samples, err := e.ask(ctx, central, query)
		if err != nil {
			return nil, err
		}
		for _, s := range samples {
			take(heard, i, s)
		}
	}
	return heard, nil
}

// take adds one sample of the answer to one of the divisionQueries.
func take(heard map[string]witnessed, query int, s promapi.Sample) {
	cell, known := heard[s.Labels["cell"]]
	part, err := strconv.ParseUint(s.Labels["edge_shard"], 10, 16)
	if !known || err != nil {
		return // of no part that could be ours
	}
	switch query {
	case 0:
		cell.parts[uint(part)] = s.Value
	case 1:
		cell.hear(number{s.Labels["cluster"], s.Labels["number"]}, uint(part), s.Value)
	case 2:
		cell.expected = append(cell.expected, uint(part))
		heard[s.Labels["cell"]] = cell
	}
}

func (w witnessed) hear(what number, part uint, times float64) {
	if w.numbers[what] == nil {
		w.numbers[what] = map[uint]float64{}
	}
	w.numbers[what][part] = times
}

// ready says whether, if the cell were divided among so many parts and nothing
// else, everything that is heard of it now would go on being heard of.
func (w witnessed) ready(parts uint) (bool, error) {
	for part := range parts {
		if w.parts[part] < warmIntervals {
			return false, nil
		}
	}
	for what, by := range w.numbers {
		part, err := edge.ShardOf(what.cluster, parts)
		if err != nil || by[part] < warmIntervals {
			return false, err
		}
	}
	return len(w.numbers) > 0, nil
}

// expects says whether the central waits for so many parts and no others.
func (w witnessed) expects(parts uint) bool {
	slices.Sort(w.expected)
	for i, part := range w.expected {
		if uint(i) != part {
			return false
		}
	}
	return uint(len(w.expected)) == parts
}

// record writes a division into the placement of its cell.
func record(p *v1alpha1.CellPlacement, d workload.Division) {
	p.EdgeShards = int32(min(d.Shards, 1<<15))
	if d.Beside != 0 {
		p.EdgeShardsBeside = ptr.To(int32(min(d.Beside, 1<<15)))
	}
}
