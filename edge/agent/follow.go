package agent

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"k8s.io/client-go/tools/cache"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// clusterKey names a Cluster.
type clusterKey struct{ namespace, name string }

// memberKey is what makes a watch of a business cluster another one.
type memberKey struct {
	clusterKey
	secret string
}

func keyOf(c *v1alpha1.Cluster) memberKey {
	return memberKey{clusterKey{c.Namespace, c.Name}, c.Spec.ObserverKubeconfigSecret}
}

// follow keeps one member for each Cluster until ctx ends, and then ends all.
func (a *Agent) follow(ctx context.Context) {
	defer a.apply(ctx, nil)
	if !cache.WaitForCacheSync(ctx.Done(), a.clusters.HasSynced) {
		return
	}
	for {
		a.apply(ctx, a.choose())
		select {
		case <-ctx.Done():
			return
		case <-a.changed:
		}
	}
}

// choose lists the Clusters to watch, and says once of each that is refused.
func (a *Agent) choose() []*v1alpha1.Cluster {
	chosen, refused := distinct(listOf[*v1alpha1.Cluster](a.clusters))
	names := map[string]bool{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range refused {
		name := c.Namespace + "/" + c.Name
		names[name] = true
		if !a.refused[name] {
			a.log.Error("Cluster refused: an older one of the same name lives in another namespace, and their series could not be told apart",
				slog.String("Cluster", name))
		}
	}
	a.refused = names
	return chosen
}

// distinct keeps, of Clusters with one name, the oldest. Rounding towards the
// older one means that a newcomer cannot take over a name that is in use.
func distinct(clusters []*v1alpha1.Cluster) (chosen, refused []*v1alpha1.Cluster) {
	clusters = slices.Clone(clusters)
	slices.SortFunc(clusters, func(a, b *v1alpha1.Cluster) int {
		return cmp.Or(
			cmp.Compare(a.Name, b.Name),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Namespace, b.Namespace),
		)
	})
	for _, c := range clusters {
		if n := len(chosen); n > 0 && chosen[n-1].Name == c.Name {
			refused = append(refused, c)
			continue
		}
		chosen = append(chosen, c)
	}
	return chosen, refused
}

// apply starts the members that are missing and ends those that are not wanted.
func (a *Agent) apply(ctx context.Context, wanted []*v1alpha1.Cluster) {
	keep := map[memberKey]bool{}
	for _, c := range wanted {
		keep[keyOf(c)] = true
	}
	for _, m := range a.remove(keep) {
		m.stop()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for key := range keep {
		if a.members[key.clusterKey] == nil && ctx.Err() == nil {
			m := a.newMember(memberOptions{
				key: key, credential: observerOf(a.cell, key),
				log: a.log.With(slog.String("Cluster", key.namespace+"/"+key.name)),
			})
			m.start(ctx)
			a.members[key.clusterKey] = m
		}
	}
}

func (a *Agent) remove(keep map[memberKey]bool) []*member {
	a.mu.Lock()
	defer a.mu.Unlock()
	var gone []*member
	for key, m := range a.members {
		if !keep[m.key] {
			gone = append(gone, m)
			delete(a.members, key)
		}
	}
	return gone
}

// member returns the member of a Cluster, or nil.
func (a *Agent) member(key clusterKey) *member {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.members[key]
}

func listOf[T any](informer cache.SharedIndexInformer) []T {
	return typed[T](informer.GetStore().List())
}

func typed[T any](objects []any) []T {
	out := make([]T, 0, len(objects))
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			out = append(out, typed)
		}
	}
	return out
}
