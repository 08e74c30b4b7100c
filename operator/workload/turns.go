package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Pair are the names of two servers that watch the same, so that one of them must
// go on while the other is changed.
type Pair struct{ First, Second string }

// EdgePairs are the servers of a cell's edge that watch the same, those among them
// whose second one is known in the cell and is to go.
func EdgePairs(f *v1alpha1.Federation, c *v1alpha1.Cell, known map[string]bool) []Pair {
	if c.Spec.Edge.Mode == v1alpha1.EdgeExternal {
		return nil
	}
	var pairs []Pair
	for _, s := range EdgeServers(f, c) {
		second := EdgeServer{Shard: s.Shard, Replica: replicas[1]}.Name()
		if s.Replica == replicas[0] && (EdgeReplicas(f, c) > 1 || known["StatefulSet "+second]) {
			pairs = append(pairs, Pair{First: s.Name(), Second: second})
		}
	}
	return pairs
}

// Turns are the pairs of a place, and the servers that stand in for nobody, and how a
// change goes from one server to the next.
type Turns struct {
	Pairs []Pair
	// Lacks says what a server of a pair, whose pod is ready, still needs before the
	// other one may be changed, or nothing. Nil means that a server suffices which has
	// been ready for as long as its StatefulSet asks for.
	Lacks func(ctx context.Context, asked Asked) Lack
	// Row are the servers that stand in for nobody, the one that is to be changed
	// first in front.
	Row []string
	// RowLacks says what a server of the row, whose pod is ready, still needs before
	// another may be restarted, or nothing.
	RowLacks func(ctx context.Context, server string, seen Observation) Lack
	// Apart is the file, divided into pieces, that needs nothing which a restart brings: the
	// addresses of targets. It reaches a server of the row also while its other files wait.
	Apart string
	// Of is the object that the place is made for. A person lets a change pass by an
	// annotation of it.
	Of client.Object
}

// Asked is a server of a pair that has to be well before the other is changed.
type Asked struct {
	Server, Other string
	// Behind is set where the server was not given its newest files, because they need
	// a restart that has to wait.
	Behind bool
	Seen   Observation
}

// Turned is how far a change has come.
type Turned struct {
	// Seen is what runs, of what is wanted, after everything was written.
	Seen Observation
	// Holds are the servers that do not have all of their change yet. What they were
	// given before must stay.
	Holds Holds
}

// turner applies the changes of one place.
type turner struct {
	Turns
	place  Place
	client client.Client
	seen   Observation
	out    Turned
	wrote  bool
	// brings are the StatefulSets that are to have what they lack as they are, and
	// that new files may need: a flag, a mount, a ConfigMap that is mounted.
	brings map[string]bool
	// same are the ConfigMaps that are to have the files that they have, with other content.
	same map[string]bool
	// failed are the servers of the row that could not be looked at or written.
	failed map[string]error
}

// ApplyInTurn is ApplyOwn, and lets no change reach both servers of a pair at once,
// nor restart two servers of the row. Of a pair the first one gets it, and the second when
// the first has been seen to be well with it; what is not known counts as not well. Nor
// is the first one restarted while it is the only one that is well. What runs says how
// far a change has come, whoever looks. What goes wrong with one server keeps nothing
// from those that do not wait for it.
func (p Place) ApplyInTurn(ctx context.Context, c client.Client, live client.Reader, known map[string]bool, objects Objects, turns Turns) (Turned, error) {
	if err := p.checkOwn(ctx, live, known, objects); err != nil {
		return Turned{}, err
	}
	others, servers := turns.part(objects)
	failed := []error{Apply(ctx, c, others)}
	seen, err := p.Observe(ctx, live)
	if err != nil {
		return Turned{}, errors.Join(append(failed, fmt.Errorf("looking whose turn it is: %w", err))...)
	}
	t := turner{Turns: turns, place: p, client: c, seen: seen, brings: map[string]bool{}, same: map[string]bool{}, failed: map[string]error{}}
	failed = append(failed, t.changeRow(ctx, servers))
	for _, pair := range turns.Pairs {
		failed = append(failed, t.change(ctx, pair, servers[pair.First], servers[pair.Second]))
	}
	if err := errors.Join(failed...); err != nil {
		return Turned{}, err
	}
	if t.wrote {
		if seen, err = p.Observe(ctx, live); err != nil {
			return Turned{}, fmt.Errorf("looking at what was changed: %w", err)
		}
	}
	t.out.Seen = seen.of(objects)
	return t.out, nil
}

// part takes the objects of each server that is changed in turn out of all.
func (t Turns) part(objects Objects) (others Objects, servers map[string]Objects) {
	servers = map[string]Objects{}
	for _, o := range objects {
		server := OwnerOf(Name(o))
		if slices.Contains(t.Row, server) || slices.ContainsFunc(t.Pairs, func(p Pair) bool { return server == p.First || server == p.Second }) {
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

// change gives each server of a pair what it may have now of what would change it. A
// second one without objects is to go.
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
	behind := false
	if kept := t.keepsFirst(ctx, pair, toFirst); !kept.Nothing() && len(second) > 0 {
		var held Objects
		toFirst, held = t.withoutRestart(pair.First, toFirst)
		behind = len(held) > 1
		t.hold(pair.First, kept, held, "%s is not restarted while %s is not well: %s. To restart %[1]s all the same", pair.First, pair.Second, kept.What)
	}
	if err := t.write(ctx, toFirst); err != nil {
		return err
	}
	why := t.holdsSecond(ctx, pair, len(toFirst) > 0, behind)
	if len(second) == 0 {
		return t.letGo(ctx, pair, why)
	}
	if len(toSecond) == 0 || why.Nothing() || t.agreed(pair.Second, toSecond) {
		return t.write(ctx, toSecond)
	}
	t.hold(pair.Second, why, toSecond, "%s is left as it is until %s has taken up what it was given: %s. To change %[1]s without that", pair.Second, pair.First, why.What)
	return nil
}

// letGo holds a second server that is not wanted any more while the first is not well.
func (t *turner) letGo(ctx context.Context, pair Pair, why Lack) error {
	var second appsv1.StatefulSet
	err := t.client.Get(ctx, client.ObjectKey{Namespace: t.place.Namespace, Name: pair.Second}, &second)
	if apierrors.IsNotFound(err) || (err == nil && why.Nothing()) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking for %s, which is to go: %w", pair.Second, err)
	}
	if change := pair.Second + "." + string(second.UID); t.permit() != change {
		t.holdBy(pair.Second, why, change, "%s stays, though one server is asked for, until %s is well: %s. To let %[1]s go all the same", pair.Second, pair.First, why.What)
	}
	return nil
}

// withoutRestart parts a change into what the server may have without being restarted,
// and what must wait: its StatefulSet, and where that brings what files may need all of
// them but those that are apart.
func (t *turner) withoutRestart(server string, change Objects) (now, later Objects) {
	for _, o := range change {
		if restarts(o) || (t.brings[server] && !t.isApart(server, o)) {
			later = append(later, o)
		} else {
			now = append(now, o)
		}
	}
	return now, later
}

// isApart tells whether an object has files that need nothing else. What the server is
// to find under another name waits with the configuration that names it.
func (t *turner) isApart(server string, o runtime.ApplyConfiguration) bool {
	return t.Apart != "" && strings.HasPrefix(Name(o), server+"."+t.Apart+"-") && t.same[Name(o)]
}

func (t *turner) write(ctx context.Context, objects Objects) error {
	t.wrote = t.wrote || len(objects) > 0
	return Apply(ctx, t.client, objects)
}

// keepsFirst says why a change that restarts the first server must wait, or nothing.
// One that serves nobody has nothing to lose.
func (t *turner) keepsFirst(ctx context.Context, pair Pair, change Objects) Lack {
	if t.seen.Serving[pair.First] == "" || !slices.ContainsFunc(change, restarts) {
		return Lack{}
	}
	why := t.ails(ctx, Asked{Server: pair.Second, Other: pair.First, Seen: t.seen})
	if _, held := t.withoutRestart(pair.First, change); !why.Nothing() && t.agreed(pair.First, held) {
		return Lack{}
	}
	return why
}

// holdsSecond says why the second server may not be changed now, or nothing. One that
// has never served anybody, or that a person scaled to nought, has nothing to lose.
// Where the first waits to be restarted, and is well as it is, the change may mend the
// second.
func (t *turner) holdsSecond(ctx context.Context, pair Pair, firstIsChanged, firstIsBehind bool) Lack {
	switch {
	case !t.seen.Served[pair.Second] || t.seen.Part(pair.Second).Desired == 0:
		return Lack{}
	case firstIsChanged:
		return Lack{HeldChanged, fmt.Sprintf("%s was changed just now", pair.First)}
	}
	return t.ails(ctx, Asked{Server: pair.First, Other: pair.Second, Behind: firstIsBehind, Seen: t.seen})
}

// ails says what a server lacks of being well, or nothing.
func (t *turner) ails(ctx context.Context, asked Asked) Lack {
	if lack := t.unready(asked.Server); !lack.Nothing() {
		return lack
	}
	if t.Lacks != nil {
		return t.Lacks(ctx, asked)
	}
	if !t.seen.Settled[asked.Server] {
		return Lack{HeldUnsettled, fmt.Sprintf("%s has not been ready for long enough (minReadySeconds of its StatefulSet)", asked.Server)}
	}
	return Lack{}
}

// unready says that a server is not ready as it should be now, or nothing.
func (t *turner) unready(server string) Lack {
	if part := t.seen.Part(server); part.Desired == 0 || part.Ready < part.Desired {
		return Lack{HeldUnready, fmt.Sprintf("%s is not ready (kubectl -n %s describe pod %[1]s-0; if its node is gone for good, delete that Node)", server, t.place.Namespace)}
	}
	return Lack{}
}

// restarts tells whether a change of an object changes the pod.
func restarts(o runtime.ApplyConfiguration) bool {
	_, is := o.(*appsv1ac.StatefulSetApplyConfiguration)
	return is
}
