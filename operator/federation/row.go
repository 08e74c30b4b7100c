package federation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// backWithin is how long after it was started a cascade is asked for what it was heard of
// before: what is lost later has another reason.
const backWithin = time.Hour

// row are the cascades in the order in which a change restarts them. The one that the
// fewest cells would miss tries it for all.
func (h hub) row() []string {
	all := h.shards()
	slices.SortStableFunc(all, func(a, b shard) int {
		reads := func(s shard) int { return len(h.layouts[s.geography].ReadBy(s.number)) }
		return cmp.Or(cmp.Compare(reads(a), reads(b)), cmp.Compare(cascadeName(a), cascadeName(b)))
	})
	var names []string
	for _, s := range all {
		names = append(names, cascadeName(s))
	}
	return names
}

// unheard says what a cascade lacks of being heard of as it was before its pod was made,
// or nothing. One central that hears it is enough: the other may be the one that is
// being changed.
func (e *ears) unheard(ctx context.Context, f *v1alpha1.Federation, server string, seen workload.Observation) (workload.Lack, error) {
	lack, problem := workload.Lack{Reason: workload.HeldUnknown, What: "no central serves, which would tell what is heard of " + server}, error(nil)
	for _, replica := range replicas() {
		central := e.serving(centralPrefix+replica, seen.Serving)
		if central == nil {
			continue
		}
		said, err := e.hears(ctx, f, central, server, seen.Since[server])
		switch {
		case err != nil:
			problem = central.failed(err)
		case said.Nothing():
			return said, nil
		default:
			lack, problem = said, nil
		}
	}
	return lack, problem
}

// hears asks one central whether it hears of a cascade, that this one took its newest
// files, and every part of a cell that it was heard of from it just before its pod was made.
func (e *ears) hears(ctx context.Context, f *v1alpha1.Federation, central *informant, server string, since time.Time) (workload.Lack, error) {
	s, is := cascadeOf(server)
	if !is {
		return workload.Lack{}, fmt.Errorf("%s is called like no cascade", server)
	}
	of := fmt.Sprintf(`{geography=%q,cascade_shard="%d"}`, s.geography, s.number)
	beats, err := e.ask(ctx, central, "max(timestamp(cascade:heartbeat:timestamp_seconds"+of+"))")
	if err != nil {
		return workload.Lack{}, err
	}
	refused, err := e.ask(ctx, central, "max(cascade:config_refused:bool"+of+")")
	if err != nil {
		return workload.Lack{}, err
	}
	late := e.now().Add(-time.Duration(ofLate(workload.Interval(f))) * time.Second)
	isNew := func(b promapi.Sample) bool {
		return promapi.Time(b.Value).After(since) && promapi.Time(b.Value).After(late)
	}
	switch {
	case !slices.ContainsFunc(beats, isNew) || len(refused) == 0:
		return workload.Lack{Reason: workload.HeldUnheard, What: fmt.Sprintf("%s has not heard of %s since its pod was made", central.name, server)}, nil
	case refused[0].Value != 0:
		return workload.Lack{Reason: workload.HeldRefused, What: server + " refuses its newest configuration, and goes on with the one before; its log says why"}, nil
	}
	lost, err := e.lost(ctx, f, central, s, since)
	if err != nil || len(lost) == 0 {
		return workload.Lack{}, err
	}
	return workload.Lack{Reason: workload.HeldUnheard, What: fmt.Sprintf("%s has not heard of Cells %s from %s since its pod was made, and did before", central.name, list(lost), server)}, nil
}

// lost are the cells of a cascade that a central heard of from it just before a time,
// and not within an hour since then.
func (e *ears) lost(ctx context.Context, f *v1alpha1.Federation, central *informant, s shard, since time.Time) ([]string, error) {
	late := time.Duration(ofLate(workload.Interval(f))) * time.Second
	before, err := e.heardWithin(ctx, central, s, since, late)
	if err != nil || len(before) == 0 {
		return nil, err
	}
	until := e.now()
	if until.Sub(since) > backWithin {
		until = since.Add(backWithin)
	}
	after, err := e.heardWithin(ctx, central, s, until, until.Sub(since))
	if err != nil {
		return nil, err
	}
	var lost []string
	for p := range before {
		if !after[p] && readBy(f, s, p.cell) {
			lost = append(lost, p.cell)
		}
	}
	slices.Sort(lost)
	return slices.Compact(lost), nil
}

// heardWithin are the parts of cells of which a cascade has brought a heartbeat that was
// made within a time before another.
func (e *ears) heardWithin(ctx context.Context, central *informant, s shard, until time.Time, within time.Duration) (map[part]bool, error) {
	query := fmt.Sprintf(`max by (cell, edge_shard) (count_over_time(cell:heartbeat:timestamp_seconds{geography=%q,cascade_shard="%d"}[%ds]))`,
		s.geography, s.number, max(1, int(within/time.Second)))
	answer, err := central.Samples(ctx, query, until)
	if err == nil && len(answer.Warnings) > 0 {
		err = fmt.Errorf("the answer is incomplete: %q", answer.Warnings)
	}
	if err != nil {
		return nil, err
	}
	heard := map[part]bool{}
	for _, sample := range answer.Samples {
		heard[part{sample.Labels["cell"], sample.Labels[rules.LabelEdgeShard]}] = true
	}
	return heard, nil
}

// readBy tells whether a cascade reads a cell, by the plan that was written down last.
func readBy(f *v1alpha1.Federation, s shard, cell string) bool {
	g := geography(f, s.geography)
	return g != nil && slices.ContainsFunc(previous(g.Cells), func(p cascade.Placement) bool {
		return p.Cell == cell && (p.Shard == s.number || p.Next == s.number)
	})
}
