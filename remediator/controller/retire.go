package controller

import (
	"context"
	"log/slog"

	"github.com/pharos-fleet/pharos/remediator/policy"
)

// retire takes away records that nobody needs any more. Repairs do not wait for it: what
// keeps it from doing so is logged once and counted, and is no failure of the round.
func (c *Controller) retire(ctx context.Context, s policy.Snapshot) {
	gone := 0
	if old := policy.Retire(s, c.options.Retain, c.now()); len(old) > 0 && ctx.Err() == nil {
		var err error
		gone, err = c.ledger.Retire(ctx, c.audit, old, c.now())
		c.metrics.retired(gone, err)
		if err != nil && trouble(c.unretired) != trouble(err) {
			c.log.Warn("Records of repairs that ended long ago are kept beyond their time", slog.Any("error", err))
		}
		c.unretired = err
	}
	c.metrics.records.Set(float64(len(s.Remediations) - gone))
}
