package signal

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Kept is how many cells are watched, and for how many accesses to clusters a client
// is kept.
func (r *Reader) Kept() (cells, clusters int) {
	r.watchers.mu.Lock()
	defer r.watchers.mu.Unlock()
	return len(r.watchers.all), r.clusters.Len()
}

// CurrentFor is how old an inventory may be.
const CurrentFor = currentFor

// Known says why a cell is not known at this moment.
func (r *Reader) Known(cell string) error {
	_, _, err := r.watchers.of(cell).inventory()
	return err
}

// ListAnew reads a cell as whoever watches nothing does, and counts its machines.
func (r *Reader) ListAnew(ctx context.Context, secret *corev1.Secret) (int, error) {
	c, err := r.watching.To(secret.Name, secret)
	if err != nil {
		return 0, err
	}
	w := &watcher{timeout: r.timeout, now: r.now}
	w.begin()
	if err := w.clusters.list(ctx, c); err != nil {
		return 0, err
	}
	err = w.machines.list(ctx, c)
	return len(w.machines.all()), err
}

// Unreadiness lets a test see what is remembered of live Nodes.
type Unreadiness struct{ unreadiness }

func (u *Unreadiness) Saw(ref policy.NodeRef, ready bool, at time.Time) time.Duration {
	return u.saw(ref, ready, at)
}

func (u *Unreadiness) Forget(now time.Time) { u.forget(now) }
