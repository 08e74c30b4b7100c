package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// escalate writes down which machines are handed to people. It touches none, so that it
// takes no place in budgets and no last look; what is written stands until somebody says
// that he has looked.
func (c *Controller) escalate(ctx context.Context, decisions []policy.Decision) error {
	var errs []error
	for _, d := range decisions {
		if d.Verdict != policy.Escalate || d.Recorded || ctx.Err() != nil {
			continue
		}
		if err := c.escalateOne(ctx, d); err != nil {
			errs = append(errs, fmt.Errorf("handing machine %s in cell %s to people: %w", d.Machine.Name, d.Cell, err))
		}
	}
	return errors.Join(errs...)
}

// escalateOne asks first whether this remediator leads: one that slept since it decided
// would call people to a machine that is well.
func (c *Controller) escalateOne(ctx context.Context, d policy.Decision) error {
	epoch, err := c.epoch(ctx)
	if err != nil {
		return err
	}
	d.Spec.Epoch = &epoch
	rem, err := c.ledger.Record(ctx, d.Name, d.Spec)
	if errors.Is(err, ledger.ErrEnded) {
		return nil // by the leader before us
	}
	if err != nil {
		return err
	}
	return c.updateOne(ctx, policy.EscalationOf(rem))
}
