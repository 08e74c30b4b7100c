package workload

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Pair are the names of two servers that watch the same, so that one of them must
// go on while the other is changed.
type Pair struct{ First, Second string }

// EdgePairs are the servers of a cell's edge that watch the same.
func EdgePairs(f *v1alpha1.Federation, c *v1alpha1.Cell) []Pair {
	var pairs []Pair
	for _, s := range EdgeServers(f, c) {
		if s.Replica == replicas[1] {
			pairs = append(pairs, Pair{First: EdgeServer{Shard: s.Shard, Replica: replicas[0]}.Name(), Second: s.Name()})
		}
	}
	return pairs
}

// Turns are the pairs of a place and how a change goes from one server of a pair to
// the other.
type Turns struct {
	Pairs []Pair
	// Lacks says of the first server of a pair, whose pod is ready, what it still needs
	// before the second may be changed, or nothing. It is asked on what is seen after
	// the first has been given its change. Nil means that a ready pod suffices.
	Lacks func(ctx context.Context, pair Pair, seen Observation) string
}

// ApplyInTurn is ApplyOwn, and lets no change reach both servers of a pair at once.
// The first one gets it, and the second when the first has been seen to be well
// with it; what is not known counts as not well. It keeps no record of how far it
// has come: what it sees says so, whoever looks. It says in words what is held.
//
// Two exceptions keep a change from waiting for ever. A second server that is down
// gets it at once, because nothing is lost by it. And what makes the first one well
// again always reaches it: of a first server that is well while the second is not
// only the pod is left alone, and its files are not.
func (p Place) ApplyInTurn(ctx context.Context, c client.Client, live client.Reader, known map[string]bool, objects Objects, turns Turns) (held []string, err error) {
	if len(turns.Pairs) == 0 {
		return nil, p.ApplyOwn(ctx, c, live, known, objects)
	}
	if err := p.checkOwn(ctx, live, known, objects); err != nil {
		return nil, err
	}
	seen, err := p.Observe(ctx, live)
	if err != nil {
		return nil, fmt.Errorf("looking whose turn it is: %w", err)
	}
	now, seconds := turns.part(objects, seen)
	if err := Apply(ctx, c, now); err != nil {
		return nil, err
	}
	if seen, err = p.Observe(ctx, live); err != nil {
		return nil, fmt.Errorf("looking whose turn it is: %w", err)
	}
	var next Objects
	for _, pair := range turns.Pairs {
		why := turns.holdsSecond(ctx, pair, seen)
		if why == "" {
			next = append(next, seconds[pair]...)
			continue
		}
		held = append(held, fmt.Sprintf("%s is left as it is until %s has taken up what it was given: %s. To change %[1]s without that: kubectl -n %[4]s scale statefulset %[1]s --replicas=0",
			pair.Second, pair.First, why, p.Namespace))
	}
	for _, pair := range turns.Pairs {
		if seen.holdsFirst(pair) {
			held = append(held, fmt.Sprintf("%s is not restarted while %s is not ready (kubectl -n %s describe pod %[2]s-0). To restart %[1]s all the same: kubectl -n %[3]s scale statefulset %[1]s --replicas=0",
				pair.First, pair.Second, p.Namespace))
		}
	}
	return held, Apply(ctx, c, next)
}

// part takes out of the objects those of the second servers, and what would restart
// a first one that must not be now.
func (t Turns) part(objects Objects, seen Observation) (now Objects, seconds map[Pair]Objects) {
	seconds = map[Pair]Objects{}
	for _, o := range objects {
		pair, second := t.of(o)
		_, restarts := o.(*appsv1ac.StatefulSetApplyConfiguration)
		switch {
		case second:
			seconds[pair] = append(seconds[pair], o)
		case restarts && seen.holdsFirst(pair):
		default:
			now = append(now, o)
		}
	}
	return now, seconds
}

// of is the pair that an object is of, and whether it is of its second server.
func (t Turns) of(o runtime.ApplyConfiguration) (pair Pair, second bool) {
	server, _, _ := strings.Cut(Name(o), ".") // a piece of its files is called as the server, with a dot
	for _, pair := range t.Pairs {
		if server == pair.First || server == pair.Second {
			return pair, server == pair.Second
		}
	}
	return Pair{}, false
}

// holdsFirst tells whether the first server of a pair is the only one that is well.
func (o Observation) holdsFirst(pair Pair) bool {
	return pair != Pair{} && o.ready(pair.First) && !o.ready(pair.Second)
}

// holdsSecond says why the second server of a pair may not be changed now, or
// nothing.
func (t Turns) holdsSecond(ctx context.Context, pair Pair, seen Observation) string {
	switch {
	case !seen.Serving[pair.Second]:
		return ""
	case !seen.ready(pair.First):
		return fmt.Sprintf("%s is not ready (kubectl describe pod %[1]s-0; if its node is gone for good, delete that Node)", pair.First)
	case t.Lacks != nil:
		return t.Lacks(ctx, pair, seen)
	}
	return ""
}

// ready tells whether a workload runs, all of it, as it was last written down.
func (o Observation) ready(name string) bool {
	part := o.Part(name)
	return part.Desired > 0 && part.Ready >= part.Desired
}

// Part is what was seen of a workload, nothing if there is none.
func (o Observation) Part(name string) v1alpha1.PartStatus {
	for _, p := range o.Parts {
		if p.Name == name {
			return p
		}
	}
	return v1alpha1.PartStatus{}
}
