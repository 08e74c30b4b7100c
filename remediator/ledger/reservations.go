package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

// The ConfigMap of all reservations, and its key.
const (
	reservationsName = "remediator-reservations"
	reservationsKey  = "reservations.json"
)

// ErrSpent means that somebody else has taken or given back a place since the
// reservations were read: what was decided on them has to be decided anew.
var ErrSpent = errors.New("the reservations have changed since they were read")

// Reservations are the places that were taken in budgets, as they were read.
// Records alone would not do: of two leaders that overlap for a moment each would
// write one, and both together would be over the budget.
type Reservations struct {
	All    []policy.Reservation
	object *corev1.ConfigMap
}

// Reservations reads them. They are read before records: one whose record is
// written in between is then counted twice rather than not at all.
func (l *Ledger) Reservations(ctx context.Context) (*Reservations, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	r := &Reservations{object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: reservationsName}}}
	err := l.hub.Get(ctx, client.ObjectKeyFromObject(r.object), r.object)
	if apierrors.IsNotFound(err) {
		return r, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the reservations in ConfigMap %s/%s: %w", l.namespace, reservationsName, err)
	}
	if err := json.Unmarshal([]byte(r.object.Data[reservationsKey]), &r.All); err != nil {
		return nil, fmt.Errorf("reading the reservations in ConfigMap %s/%s; delete it while no repair is open: %w", l.namespace, reservationsName, err)
	}
	return r, nil
}

// Reserve takes a place, on condition that nobody has changed the reservations
// since they were read, and drops those that are over. One that the repair has
// already is not taken for longer: what fails again and again would keep it.
func (l *Ledger) Reserve(ctx context.Context, r *Reservations, one policy.Reservation) error {
	now := one.At
	all := slices.DeleteFunc(slices.Clone(r.All), func(o policy.Reservation) bool {
		if o.Name == one.Name && !o.Over(now) {
			one.At = o.At
		}
		return o.Name == one.Name || o.Over(now)
	})
	return l.writeReservations(ctx, r, append(all, one))
}

// Release gives a place back that a repair does not need, because it was not begun.
func (l *Ledger) Release(ctx context.Context, r *Reservations, name string) error {
	return l.writeReservations(ctx, r, slices.DeleteFunc(slices.Clone(r.All), func(o policy.Reservation) bool { return o.Name == name }))
}

func (l *Ledger) writeReservations(ctx context.Context, r *Reservations, all []policy.Reservation) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("writing the reservations: %w", err)
	}
	object := r.object.DeepCopy()
	object.Data = map[string]string{reservationsKey: string(text)}
	if object.ResourceVersion == "" {
		err = l.hub.Create(ctx, object)
	} else {
		err = l.hub.Update(ctx, object)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err):
		return fmt.Errorf("writing the reservations in ConfigMap %s/%s: %w", l.namespace, reservationsName, ErrSpent)
	case err != nil:
		return fmt.Errorf("writing the reservations in ConfigMap %s/%s: %w", l.namespace, reservationsName, err)
	}
	r.All, r.object = all, object
	return nil
}
