package policy

import (
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// ReservationLasts is how long a place is kept for a repair of which nothing was
// heard since. Whoever took it has given up long before.
const ReservationLasts = 2 * time.Minute

// Reservation is a place that was taken in every budget of a target, before the
// repair is written down.
type Reservation struct {
	// Name is that of the repair.
	Name   string                `json:"name"`
	Target api.RemediationTarget `json:"target"`
	Place  api.RemediationPlace  `json:"place,omitzero"`
	At     time.Time             `json:"at"`
}

// Over says whether the place is free again.
func (r Reservation) Over(now time.Time) bool { return now.Sub(r.At) >= ReservationLasts }

// reserve counts as begun what has a place and is not known to be further: whoever
// took it may be about to ask for the repair.
func (ix *index) reserve(busy map[domain]occupants) {
	further := map[string]bool{}
	for i := range ix.snapshot.Remediations {
		rem := &ix.snapshot.Remediations[i]
		further[rem.Name] = phase(rem) != api.RemediationPending
	}
	for _, one := range ix.snapshot.Reservations {
		if !one.Over(ix.now) && !further[one.Name] {
			all := ix.domainsOf(one.Target, one.Place)
			begin(busy, all[:], one.Name)
		}
	}
}
