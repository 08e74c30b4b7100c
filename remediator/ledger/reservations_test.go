package ledger_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Case C13: a place is taken by one of two, on condition of what it has read.
// testReservations lets two leaders take places at a time.
func testReservations(t *testing.T, hub client.Client) {
	one, other := ledger.New(hub, "default"), ledger.New(hub, "default")
	read := func(l *ledger.Ledger) *ledger.Reservations {
		r, err := l.Reservations(t.Context())
		require.NoError(t, err)
		return r
	}
	place := func(name string, at time.Time) policy.Reservation {
		return policy.Reservation{Name: name, Target: spec("m-1").Target, At: at}
	}
	names := func() []string {
		out := []string{}
		for _, r := range read(one).All {
			require.Equal(t, spec("m-1").Target, r.Target)
			out = append(out, r.Name)
		}
		return out
	}

	mine, theirs := read(one), read(other)
	require.Empty(t, mine.All)
	require.NoError(t, one.Reserve(t.Context(), mine, place("a", now)))
	require.ErrorIs(t, other.Reserve(t.Context(), theirs, place("b", now)), ledger.ErrSpent, "both found none")
	require.NoError(t, one.Reserve(t.Context(), mine, place("c", now)), "of one round each goes on from the one before")
	require.Equal(t, []string{"a", "c"}, names())

	theirs = read(other)
	require.NoError(t, one.Release(t.Context(), mine, "a"))
	require.ErrorIs(t, other.Reserve(t.Context(), theirs, place("b", now)), ledger.ErrSpent)
	require.NoError(t, other.Reserve(t.Context(), read(other), place("c", now.Add(time.Minute))))
	require.Equal(t, []string{"c"}, names(), "a place is taken once")
	require.Equal(t, now, read(one).All[0].At.UTC(), "and not for longer by being taken again")
	require.NoError(t, other.Reserve(t.Context(), read(other), place("d", now.Add(time.Minute+policy.ReservationLasts))))
	require.Equal(t, []string{"d"}, names(), "what is over is dropped")

	var object corev1.ConfigMap
	require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "remediator-reservations"}, &object))
	object.Data = map[string]string{"reservations.json": "[{"}
	require.NoError(t, hub.Update(t.Context(), &object))
	_, err := one.Reservations(t.Context())
	require.ErrorContains(t, err, "ConfigMap default/remediator-reservations; delete it while no repair is open")
	require.NoError(t, hub.Delete(t.Context(), &object))
	require.ErrorIs(t, other.Reserve(t.Context(), theirs, place("e", now)), ledger.ErrSpent, "deleted in between")
}
