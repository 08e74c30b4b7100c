package ledger

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Retire takes records away that have ended, after the audit has them; without one
// they are just taken away. It says how many went. One that has changed since it was
// read, as by a person's hand, stays.
func (l *Ledger) Retire(ctx context.Context, audit *Audit, all []*api.Remediation, now time.Time) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if audit != nil {
		if err := audit.keep(all, now); err != nil {
			return 0, err
		}
	}
	gone := 0
	for _, rem := range all {
		err := l.hub.Delete(ctx, rem.DeepCopy(), client.Preconditions{UID: &rem.UID, ResourceVersion: &rem.ResourceVersion})
		switch {
		case err == nil:
			gone++
		case !apierrors.IsNotFound(err) && !apierrors.IsConflict(err):
			return gone, fmt.Errorf("taking away remediation %s, which ended long ago: %w", rem.Name, err)
		}
	}
	return gone, nil
}
