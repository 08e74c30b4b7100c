package federation

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

const (
	// warmIntervals is how many heartbeats of a cell its next shard must have
	// had before it stands alone.
	warmIntervals = 6
	// lateIntervals is how many intervals more are looked at. A heartbeat waits for
	// the scrape of the cascade, then for that of the central, then for our
	// question: up to an interval each, and for the first two always as long, since
	// a server scrapes a target at the same part of every interval.
	lateIntervals = 3
	// measureIntervals is how often, in intervals, the cells' series are counted,
	// which costs a central as much as a large panel: every five minutes at an
	// interval of 15 s.
	measureIntervals = 20
	// listenTimeout bounds all questions of one reconciliation: the parts must not
	// wait for a central that hangs.
	listenTimeout = 20 * time.Second
)

// asker asks one server an instant question, and what it runs with.
type asker interface {
	Samples(ctx context.Context, selector string, at time.Time) (promapi.Answer, error)
	Loaded(ctx context.Context) (promapi.Loaded, error)
}

// ears ask the centrals about the cells. What they do not hear is unknown. They
// are used by one reconciliation at a time.
type ears struct {
	connect func(address string) (asker, error)
	now     func() time.Time
	log     *slog.Logger

	clients  map[string]asker
	measured time.Time
	peaks    peaks
}

func newEars(log *slog.Logger) *ears {
	return &ears{
		connect: func(address string) (asker, error) { return promapi.New(promapi.Options{URL: "http://" + address}) },
		now:     time.Now, log: log, clients: map[string]asker{}, peaks: peaks{},
	}
}

// listen asks what the next plan depends on. It fails for nobody: a plan that
// knows less changes less. The contract, unless it is nil, takes the place of the one
// that is built in.
func (e *ears) listen(ctx context.Context, f *v1alpha1.Federation, cells []v1alpha1.Cell, contract *rules.Contract) Heard {
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	centrals := e.centrals(f)
	heard := Heard{Contract: contract}
	if moving(f) && len(centrals) == len(replicas()) {
		beats, err := e.heartbeats(ctx, f, centrals)
		if err != nil {
			e.log.WarnContext(ctx, "asking for the heartbeats of moving cells, which stay with both of their shards", slog.Any("error", err))
		} else {
			heard.Warm, heard.Silent = judge(f, cells, beats)
		}
	}
	if cells := dividing(f, cells); len(cells) > 0 && len(centrals) == len(replicas()) {
		var err error
		if heard.Divided, err = e.divisions(ctx, f, cells, centrals); err != nil {
			e.log.WarnContext(ctx, "asking for the parts of cells whose edge is divided anew, which all their servers go on watching", slog.Any("error", err))
		}
	}
	heard.Crossed = e.cross(ctx, f, cells, centrals)
	if len(centrals) > 0 && e.now().Sub(e.measured) >= measureEvery(f) {
		if err := e.measure(ctx, f, centrals[0], contract); err != nil {
			e.log.WarnContext(ctx, "counting the series of cells, which are taken as before", slog.Any("error", err))
		}
		e.measured = e.now() // an answer that is not to be had is not asked for all the time
	}
	heard.Series = e.peaks.series(cells)
	return heard
}

func measureEvery(f *v1alpha1.Federation) time.Duration {
	return measureIntervals * workload.Interval(f)
}

// centrals are those that were ready when we last looked.
func (e *ears) centrals(f *v1alpha1.Federation) []asker {
	var all []asker
	used := map[string]asker{}
	for _, p := range f.Status.Parts {
		if !strings.HasPrefix(p.Name, centralPrefix) {
			continue
		}
		if c := e.at(p); c != nil {
			used[p.Addresses[0]] = c
			all = append(all, c)
		}
	}
	e.clients = used
	return all
}

// at is the server that a part is, nil where it is not ready.
func (e *ears) at(p v1alpha1.PartStatus) asker {
	if len(p.Addresses) == 0 {
		return nil
	}
	return e.of(p.Addresses[0])
}

// of is the server at an address, nil where there is none.
func (e *ears) of(address string) asker {
	if address == "" {
		return nil
	}
	c, known := e.clients[address]
	if !known {
		var err error
		if c, err = e.connect(address); err != nil {
			return nil // no address of a pod is wrong
		}
		e.clients[address] = c
	}
	return c
}

// heartbeats are how many heartbeats of late each central has at least.
func (e *ears) heartbeats(ctx context.Context, f *v1alpha1.Federation, centrals []asker) ([]map[spot]float64, error) {
	query := heartbeatQuery(workload.Interval(f))
	var all []map[spot]float64
	for _, c := range centrals {
		samples, err := e.ask(ctx, c, query)
		if err != nil {
			return nil, err
		}
		all = append(all, spots(samples))
	}
	return all, nil
}

// heartbeatQuery counts the newest heartbeats of each part of each cell by the
// cascade that passed them on. Replicas watch the same: one of them is enough.
func heartbeatQuery(interval time.Duration) string {
	return fmt.Sprintf("max by (cell, cascade_shard, edge_shard) (count_over_time(cell:heartbeat:timestamp_seconds[%ds]))", ofLate(interval)/time.Second)
}

// ofLate is how far a question about what was heard of late looks back.
func ofLate(interval time.Duration) time.Duration { return (warmIntervals + lateIntervals) * interval }

// seriesQuery counts what a cascade passes on of each contributing cell. A cell
// that moves is counted once. One whose edge is divided anew is not counted: as long as
// two of its parts tell of one cluster it brings nearly twice as much, which would have
// its shard split for what is gone in minutes.
func seriesQuery(contract rules.Contract, geography string) string {
	return fmt.Sprintf(`max by (cell) (count by (cell, cascade_shard) ({__name__=~%[1]q,geography=%[2]q,cell!="",cascade_shard!=""}))`+
		` and on (cell) (fleet:cell_contributing:bool == 1)`+
		` unless on (cell) (count by (cell, cluster, cascade_shard) (group by (cell, cluster, edge_shard, cascade_shard)`+
		` ({__name__=~"cluster:nodes:count|cluster:up:min",geography=%[2]q,cascade_shard!=""})) > 1)`, contract.Keep(rules.Central), geography)
}

// judge says which moving cells are warm and which are silent: both as every
// central says.
func judge(f *v1alpha1.Federation, cells []v1alpha1.Cell, beats []map[spot]float64) (warm, silent map[string]bool) {
	warm, silent = map[string]bool{}, map[string]bool{}
	shards := map[string]uint{}
	for _, c := range cells {
		shards[c.Name] = workload.EdgeDivision(f, &c).Shards
	}
	for _, g := range f.Status.Geographies {
		for _, c := range g.Cells {
			if c.MovingTo == nil || shards[c.Name] == 0 {
				continue
			}
			isWarm, isSilent := true, true
			for _, central := range beats {
				for edge := range shards[c.Name] {
					next := central[spot{cell: c.Name, cascade: int(*c.MovingTo), edgeShard: edge}]
					isWarm = isWarm && next >= warmIntervals
					isSilent = isSilent && next == 0 && central[spot{cell: c.Name, cascade: int(c.Shard), edgeShard: edge}] == 0
				}
			}
			warm[c.Name], silent[c.Name] = isWarm, isSilent
		}
	}
	return warm, silent
}

// measure counts what the cascades have of each contributing cell. One that is
// in part dark would be measured too small.
func (e *ears) measure(ctx context.Context, f *v1alpha1.Federation, central asker, contract *rules.Contract) error {
	declared, err := contract.OrBuiltIn()
	if err != nil {
		return err
	}
	for _, g := range f.Spec.Geographies {
		samples, err := e.ask(ctx, central, seriesQuery(declared, g.Name))
		if err != nil {
			return err // the next would most likely fail, too
		}
		known := series(f, g.Name)
		for _, s := range samples {
			if cell := s.Labels["cell"]; s.Value > 0 && s.Value < math.MaxInt32 {
				e.peaks.add(cell, uint(s.Value), known[cell], e.now())
			}
		}
	}
	return nil
}

// ask puts an instant question. An answer with warnings is none.
func (e *ears) ask(ctx context.Context, central asker, query string) ([]promapi.Sample, error) {
	return e.askAt(ctx, central, query, e.now())
}

// askAt asks what was at a moment.
func (*ears) askAt(ctx context.Context, central asker, query string, at time.Time) ([]promapi.Sample, error) {
	answer, err := central.Samples(ctx, query, at)
	if err != nil {
		return nil, err
	}
	if len(answer.Warnings) > 0 {
		return nil, fmt.Errorf("the answer is incomplete: %s", strings.Join(answer.Warnings, "; "))
	}
	return answer.Samples, nil
}

// peaks are how many series each cell brought at most: today, and the day
// before. What a cell grows by counts at once, what it shrinks by after a day,
// so that an outage makes no shard look empty.
type peaks map[string]peak

type peak struct {
	since       time.Time
	now, before uint
}

const day = 24 * time.Hour

// add takes up what was measured. What was known before we began counts as that
// of the day before.
func (p peaks) add(cell string, series, known uint, at time.Time) {
	k := p[cell]
	switch age := at.Sub(k.since); {
	case k.since.IsZero():
		k = peak{since: at, before: known}
	case age >= 2*day:
		k = peak{since: at}
	case age >= day:
		k = peak{since: at, before: k.now}
	}
	k.now = max(k.now, series)
	p[cell] = k
}

// series are the peaks of the cells that there are. Others are forgotten.
func (p peaks) series(cells []v1alpha1.Cell) map[string]uint {
	out := map[string]uint{}
	for _, c := range cells {
		if k, known := p[c.Name]; known {
			out[c.Name] = max(k.now, k.before)
		}
	}
	for name := range p {
		if _, exists := out[name]; !exists {
			delete(p, name)
		}
	}
	return out
}
