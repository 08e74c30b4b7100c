package controller

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// places are the names of the repairs that have a place.
func (f *fleet) places() []string {
	r, err := ledger.New(f.client, hubNamespace).Reservations(f.t.Context())
	require.NoError(f.t, err)
	names := []string{}
	for _, one := range r.All {
		names = append(names, one.Name)
	}
	return names
}

// Case C13: two that reserve at a time.
// Another leader, which has not noticed yet that it is none, takes a place after
// this one has read what is taken: nothing is written down on what was read.
func testPlaceTaken(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	other := ledger.New(f.client, hubNamespace)
	once := true
	c := f.dying(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*api.RemediationPolicyList); ok && once {
			once = false
			r, err := other.Reservations(ctx)
			require.NoError(t, err)
			require.NoError(t, other.Reserve(ctx, r, policy.Reservation{Name: "theirs", Target: api.RemediationTarget{Cell: "europe-1", Cluster: "bank"}, At: time.Now()}))
		}
		return c.List(ctx, list, opts...)
	}})
	f.round(c)
	require.Empty(t, f.remediations())
	f.untouched()
	f.round(c)
	require.Empty(t, f.remediations(), "the fleet's first repair is theirs")
	require.Equal(t, sick+" InFlight", f.hold())
	require.Equal(t, []string{"theirs"}, f.places())

	r, err := other.Reservations(t.Context())
	require.NoError(t, err)
	require.NoError(t, other.Release(t.Context(), r, "theirs"))
	f.round(c)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
}

// Case C23: a place is taken before anything is asked for.
func testCrashAfterPlace(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	_, err := f.dying(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, ok := o.(*api.Remediation); ok {
			return errCrash
		}
		return c.Create(ctx, o, opts...)
	}}).round(t.Context())
	require.ErrorIs(t, err, errCrash)
	require.Empty(t, f.remediations())
	require.Len(t, f.places(), 1)

	f.fail("shop-node-02")
	f.round(f.start())
	require.Equal(t, sick, f.one().Spec.Target.Machine, "the place is that of its machine, and of no other")
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
	require.Equal(t, []string{f.one().Name}, f.places())
}

// Case C23: what is known to be refused gives its place back.
// What the API server will not have is not in flight.
func testPlaceGivenBack(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	_, err := f.dying(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, ok := o.(*api.Remediation); ok {
			return apierrors.NewForbidden(api.GroupVersion.WithResource("remediations").GroupResource(), "", errors.New("not yours"))
		}
		return c.Create(ctx, o, opts...)
	}}).round(t.Context())
	require.ErrorContains(t, err, "not yours")
	require.Empty(t, f.places())
}
