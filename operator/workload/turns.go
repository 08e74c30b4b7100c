package workload

import (
	"context"
	"fmt"
	"slices"
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
	// Lacks says what a server, whose pod is ready, still needs before the other of its
	// pair may be changed, or nothing. Nil means that a server suffices which has been
	// ready for as long as its StatefulSet asks for.
	Lacks func(ctx context.Context, server, other string, seen Observation) string
}

// Turned is how far a change has come.
type Turned struct {
	// Seen is what runs, of what is wanted, after everything was written.
	Seen Observation
	// Held are the servers that do not have all of their change yet. What they were
	// given before must stay.
	Held []string
	// Notes say in words what is held, why, and what a person can do.
	Notes []string
}

// turner applies the changes of one place.
type turner struct {
	Turns
	place  Place
	client client.Client
	seen   Observation
	out    Turned
	wrote  bool
}

// ApplyInTurn is ApplyOwn, and lets no change reach both servers of a pair at once.
// The first one gets it, and the second when the first has been seen to be well
// with it; what is not known counts as not well. Nor is the first one restarted while
// it is the only one that is well. What runs says how far a change has come, whoever
// looks.
func (p Place) ApplyInTurn(ctx context.Context, c client.Client, live client.Reader, known map[string]bool, objects Objects, turns Turns) (Turned, error) {
	if err := p.checkOwn(ctx, live, known, objects); err != nil {
		return Turned{}, err
	}
	others, servers := turns.part(objects)
	if err := Apply(ctx, c, others); err != nil {
		return Turned{}, err
	}
	seen, err := p.Observe(ctx, live)
	if err != nil {
		return Turned{}, fmt.Errorf("looking whose turn it is: %w", err)
	}
	t := turner{Turns: turns, place: p, client: c, seen: seen}
	for _, pair := range turns.Pairs {
		if err := t.change(ctx, pair, servers[pair.First], servers[pair.Second]); err != nil {
			return Turned{}, err
		}
	}
	if t.wrote {
		if seen, err = p.Observe(ctx, live); err != nil {
			return Turned{}, fmt.Errorf("looking at what was changed: %w", err)
		}
	}
	t.out.Seen = seen.of(objects)
	return t.out, nil
}

// part takes the objects of each server of a pair out of all.
func (t Turns) part(objects Objects) (others Objects, servers map[string]Objects) {
	servers = map[string]Objects{}
	for _, o := range objects {
		server := OwnerOf(Name(o))
		if slices.ContainsFunc(t.Pairs, func(p Pair) bool { return server == p.First || server == p.Second }) {
			servers[server] = append(servers[server], o)
		} else {
			others = append(others, o)
		}
	}
	return others, servers
}

// OwnerOf is the part that an object is of: a piece of its files is called as the
// part, with a dot.
func OwnerOf(name string) string {
	part, _, _ := strings.Cut(name, ".")
	return part
}

// Spared are, among the objects that are known, those of the parts named.
func Spared(known map[string]bool, parts []string) []string {
	var all []string
	for identity := range known {
		_, name, _ := strings.Cut(identity, " ")
		if slices.Contains(parts, OwnerOf(name)) {
			all = append(all, identity)
		}
	}
	return all
}

// change gives each server of a pair what it may have now of what would change it.
func (t *turner) change(ctx context.Context, pair Pair, first, second Objects) error {
	if err := t.remember(ctx, pair.Second); err != nil {
		return err
	}
	toFirst, err := t.pending(ctx, first)
	if err != nil {
		return err
	}
	toSecond, err := t.pending(ctx, second)
	if err != nil {
		return err
	}
	kept := t.keepsFirst(ctx, pair, toFirst)
	if kept != "" {
		toFirst = slices.DeleteFunc(toFirst, restarts)
		t.hold(pair.First, fmt.Sprintf("%s is not restarted while %s is not well: %s. To restart %[1]s all the same: kubectl -n %[4]s scale statefulset %[1]s --replicas=0",
			pair.First, pair.Second, kept, t.place.Namespace))
	}
	if err := t.write(ctx, toFirst); err != nil || len(toSecond) == 0 {
		return err
	}
	if why := t.holdsSecond(ctx, pair, len(toFirst) > 0); why != "" {
		t.hold(pair.Second, fmt.Sprintf("%s is left as it is until %s has taken up what it was given: %s. To change %[1]s without that: kubectl -n %[4]s scale statefulset %[1]s --replicas=0",
			pair.Second, pair.First, why, t.place.Namespace))
		return nil
	}
	return t.write(ctx, toSecond)
}

func (t *turner) hold(server, note string) {
	t.out.Held, t.out.Notes = append(t.out.Held, server), append(t.out.Notes, note)
}

func (t *turner) write(ctx context.Context, objects Objects) error {
	t.wrote = t.wrote || len(objects) > 0
	return Apply(ctx, t.client, objects)
}

// keepsFirst says why a change that restarts the first server must wait, or nothing.
// One that serves nobody has nothing to lose.
func (t *turner) keepsFirst(ctx context.Context, pair Pair, change Objects) string {
	if t.seen.Serving[pair.First] == "" || !slices.ContainsFunc(change, restarts) {
		return ""
	}
	return t.ails(ctx, pair.Second, pair.First)
}

// holdsSecond says why the second server may not be changed now, or nothing. One that
// has never served anybody, or that a person scaled to nought, has nothing to lose.
// Where the first waits to be restarted, and is well as it is, the change may mend the
// second.
func (t *turner) holdsSecond(ctx context.Context, pair Pair, firstIsChanged bool) string {
	switch {
	case !t.seen.Served[pair.Second] || t.seen.Part(pair.Second).Desired == 0:
		return ""
	case firstIsChanged:
		return fmt.Sprintf("%s was changed just now", pair.First)
	}
	return t.ails(ctx, pair.First, pair.Second)
}

// ails says what a server lacks of being well, or nothing.
func (t *turner) ails(ctx context.Context, server, other string) string {
	part := t.seen.Part(server)
	switch {
	case part.Desired == 0 || part.Ready < part.Desired:
		return fmt.Sprintf("%s is not ready (kubectl -n %s describe pod %[1]s-0; if its node is gone for good, delete that Node)", server, t.place.Namespace)
	case t.Lacks != nil:
		return t.Lacks(ctx, server, other, t.seen)
	case !t.seen.Settled[server]:
		return fmt.Sprintf("%s has not been ready for long enough (minReadySeconds of its StatefulSet)", server)
	}
	return ""
}

// restarts tells whether a change of an object changes the pod.
func restarts(o runtime.ApplyConfiguration) bool {
	_, is := o.(*appsv1ac.StatefulSetApplyConfiguration)
	return is
}
