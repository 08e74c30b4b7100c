package federation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// backWithin is how long after it was started a cascade is to be heard of as before.
// What is lost for longer holds nothing any more: people are told by then, and it may
// have another reason.
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
func (e *ears) unheard(ctx context.Context, f *v1alpha1.Federation, server string, seen workload.Observation, look map[string]*rowTold) (workload.Lack, error) {
	lack, problem := workload.Lack{Reason: workload.HeldUnknown, What: "no central serves, which would tell what is heard of " + server}, error(nil)
	for _, replica := range replicas() {
		central := e.serving(centralPrefix+replica, seen.Serving)
		if central == nil {
			continue
		}
		if look[central.name] == nil {
			look[central.name] = e.tells(ctx, central)
		}
		said, err := e.hears(ctx, f, central, server, seen.Since[server], look[central.name])
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

// rowTold is what a central tells of all cascades, asked once in a look. One that does not
// answer is not asked again.
type rowTold struct {
	beats   map[shard]time.Time
	refused map[shard]bool
	err     error
}

func (e *ears) tells(ctx context.Context, central *informant) *rowTold {
	t := &rowTold{beats: map[shard]time.Time{}, refused: map[shard]bool{}}
	beats, err := e.ask(ctx, central, beatsOfCascades)
	if err != nil {
		t.err = err
		return t
	}
	refused, err := e.ask(ctx, central, refusedByCascades)
	t.err = err
	for _, s := range beats {
		t.beats[cascadeIn(s)] = promapi.Time(s.Value)
	}
	for _, s := range refused {
		t.refused[cascadeIn(s)] = s.Value != 0
	}
	return t
}

// The questions about all cascades.
const (
	beatsOfCascades   = "max by (geography, cascade_shard) (timestamp(cascade:heartbeat:timestamp_seconds))"
	refusedByCascades = "max by (geography, cascade_shard) (cascade:config_refused:bool)"
)

// cascadeIn is the cascade that a sample is about, none that there is where its labels say
// nothing.
func cascadeIn(s promapi.Sample) shard {
	number, err := strconv.Atoi(s.Labels["cascade_shard"])
	if err != nil {
		return shard{number: -1}
	}
	return shard{s.Labels["geography"], number}
}

// hears says whether a central hears of a cascade, that this one took its newest
// files, and every part of a cell that it was heard of from it just before its pod was made.
func (e *ears) hears(ctx context.Context, f *v1alpha1.Federation, central *informant, server string, since time.Time, t *rowTold) (workload.Lack, error) {
	s, is := cascadeOf(server)
	if !is || t.err != nil {
		return workload.Lack{}, cmp.Or(t.err, fmt.Errorf("%s is called like no cascade", server))
	}
	late := e.now().Add(-ofLate(workload.Interval(f)))
	refuses, known := t.refused[s]
	switch beat := t.beats[s]; {
	case !beat.After(since) || !beat.After(late) || !known:
		return workload.Lack{Reason: workload.HeldUnheard, What: fmt.Sprintf("%s has not heard of %s since its pod was made", central.name, server)}, nil
	case refuses:
		return workload.Lack{Reason: workload.HeldRefused, What: server + " refuses its newest configuration, and goes on with the one before; its log says why"}, nil
	}
	lost, err := e.lost(ctx, f, central, s, since)
	if err != nil || len(lost) == 0 {
		t.err = err
		return workload.Lack{}, err
	}
	return workload.Lack{Reason: workload.HeldUnheard, What: fmt.Sprintf("%s has not heard of Cells %s from %s since its pod was made, and did before", central.name, list(lost), server)}, nil
}

// lost are the cells of a cascade that a central heard of from it just before a time,
// and not since then; none once that is backWithin ago.
func (e *ears) lost(ctx context.Context, f *v1alpha1.Federation, central *informant, s shard, since time.Time) ([]string, error) {
	until := e.now()
	if until.Sub(since) > backWithin {
		return nil, nil
	}
	before, err := e.heardWithin(ctx, central, s, since, ofLate(workload.Interval(f)))
	if err != nil || len(before) == 0 {
		return nil, err
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
	samples, err := e.askAt(ctx, central, query, until)
	if err != nil {
		return nil, err
	}
	heard := map[part]bool{}
	for _, sample := range samples {
		heard[part{sample.Labels["cell"], sample.Labels[rules.LabelEdgeShard]}] = true
	}
	return heard, nil
}

// readBy tells whether a cascade reads a cell, by the plan that was written down last.
func readBy(f *v1alpha1.Federation, s shard, cell string) bool {
	at, is := placementIn(f, s.geography, cell)
	return is && (at.Shard == s.number || at.Next == s.number)
}
