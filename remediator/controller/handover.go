package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pharos-fleet/pharos/remediator/actuate"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// handOver ends the claims on spares whose repair has ended. One that cannot be ended is
// tried again in the next round, and keeps no other from it.
func (c *Controller) handOver(ctx context.Context, all []policy.Handover) error {
	var errs []error
	for _, h := range all {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		if err := c.handOverOne(ctx, h); err != nil {
			errs = append(errs, fmt.Errorf("ending the claim of %s on machine %s/%s in cell %s: %w", h.Remediation, h.Namespace, h.Spare, h.Cell, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) handOverOne(ctx context.Context, h policy.Handover) error {
	cell, err := c.cell(ctx, h.Cell)
	if err != nil {
		return err
	}
	if cell.paused {
		return nil
	}
	err = actuate.HandOver(ctx, cell.client, h)
	if errors.Is(err, actuate.ErrConflict) || errors.Is(err, actuate.ErrPaused) {
		return nil // changed in between, or left to a person: the next round decides
	}
	if err == nil {
		c.log.Info("Claim on a spare ended", slog.String("Remediation", h.Remediation), slog.String("Cell", h.Cell),
			slog.String("Spare", h.Spare), slog.String("Failed", h.Failed), slog.String("phase", string(h.Phase)))
	}
	return err
}
