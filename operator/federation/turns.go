package federation

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promapi"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// contributing are the cells that a central hears of, all their parts.
const contributing = "fleet:cell_contributing:bool == 1"

// turns let a change of the centrals reach one after the other. Wanted is the
// digest by which the files that they are to have are marked, given the one of
// those that the second was given last.
func (r *Reconciler) turns(f *v1alpha1.Federation, wanted, given string) workload.Turns {
	return workload.Turns{
		Pairs: []workload.Pair{{First: centralPrefix + replicas()[0], Second: centralPrefix + replicas()[1]}},
		Lacks: func(ctx context.Context, pair workload.Pair, seen workload.Observation) string {
			ctx, cancel := context.WithTimeout(ctx, listenTimeout)
			defer cancel()
			first, second := r.ears.at(seen.Part(pair.First)), r.ears.at(seen.Part(pair.Second))
			why, err := r.ears.lacks(ctx, f, turn{pair: pair, first: first, second: second, wanted: wanted, given: given})
			if err != nil {
				r.Log.WarnContext(ctx, "asking whether the second central may be changed, which stays as it is", slog.Any("error", err))
				return fmt.Sprintf("not known, because a central does not answer the operator: %v", err)
			}
			return why
		},
	}
}

// given is the digest by which the files are marked that the second central was given
// last, nothing where it was given none.
func (r *Reconciler) given(ctx context.Context) (string, error) {
	var files corev1.ConfigMap
	name := client.ObjectKey{Namespace: r.Namespace, Name: centralPrefix + replicas()[1]}
	if err := r.Live.Get(ctx, name, &files); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading what %s was given: %w", name.Name, err)
	}
	return markIn(files.Data[promcfg.ConfigFile]), nil
}

// turn is what is known of two centrals of which the second is to be changed.
type turn struct {
	pair          workload.Pair
	first, second asker
	wanted, given string
}

// lacks says what the first central still needs before the second one may be
// changed, or nothing: its files, an evaluation of its rules since it has those, and
// every cell that the other hears of.
//
// While one change follows another so quickly that the first central never has the
// newest files, it suffices that it has taken newer ones than the second was given.
// So a fleet that grows all the time holds nothing for ever; the second is then at
// most one change ahead.
func (e *ears) lacks(ctx context.Context, f *v1alpha1.Federation, t turn) (string, error) {
	if t.first == nil {
		return "its address is not known", nil
	}
	now, err := t.first.Loaded(ctx)
	if err != nil {
		return "", err
	}
	has := markIn(now.Config)
	switch {
	case now.Refused:
		return "it refuses its newest configuration, and goes on with the one before; its log says why", nil
	case has != t.wanted && (has == "" || has == t.given):
		return "it has not loaded its newest files yet", nil
	}
	beats, err := e.ask(ctx, t.first, "fleet:interval:seconds")
	if err != nil {
		return "", err
	}
	if !slices.ContainsFunc(beats, func(s promapi.Sample) bool { return s.At.After(now.Since) }) {
		return "it has not evaluated its rules since it loaded them", nil
	}
	return e.missing(ctx, f, t)
}

// missing names the cells that the second central hears of and the first one does
// not, but for those that left the fleet.
func (e *ears) missing(ctx context.Context, f *v1alpha1.Federation, t turn) (string, error) {
	if t.second == nil {
		return "", nil // it is not ready as it was last written down, and cannot be compared with
	}
	by, err := e.cells(ctx, t.first)
	if err != nil {
		return "", err
	}
	others, err := e.cells(ctx, t.second)
	if err != nil {
		return "", err
	}
	var lacks []string
	for cell := range others {
		if !by[cell] && isPlaced(f, cell) {
			lacks = append(lacks, cell)
		}
	}
	if slices.Sort(lacks); len(lacks) > 0 {
		return fmt.Sprintf("it does not hear of Cells %s, and %s does", list(lacks), t.pair.Second), nil
	}
	return "", nil
}

// cells are those that a central hears of.
func (e *ears) cells(ctx context.Context, central asker) (map[string]bool, error) {
	samples, err := e.ask(ctx, central, contributing)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, s := range samples {
		out[s.Labels["cell"]] = true
	}
	return out, nil
}
