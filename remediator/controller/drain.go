package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/drain"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// drain empties the node of a repair that is written down, a little in each round. The same
// last look is taken before each of these as before the repair, and what is begun is
// written down first.
func (c *Controller) drain(ctx context.Context, d policy.Decision, rem *api.Remediation) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	seen, err := c.lastLook(ctx, d, rem)
	if err != nil {
		return c.undrained(ctx, rem, err)
	}
	if seen.Reason != "" {
		return draining, c.updateOne(ctx, policy.Withheld(rem, seen.Reason, seen.Message, c.now()))
	}
	if rem.Status.Drain == nil {
		u := policy.DrainBegins(rem, c.now())
		rem.Status.Drain, rem.Status.Phase = u.Drain, u.Phase
		if err := c.updateOne(ctx, u); err != nil {
			return result(err), err
		}
	}
	u, err := c.drainOnce(ctx, d, rem)
	if err != nil {
		return c.undrained(ctx, rem, err)
	}
	return draining, c.updateOne(ctx, u)
}

// drainOnce cordons the node, and has the next of its pods go.
func (c *Controller) drainOnce(ctx context.Context, d policy.Decision, rem *api.Remediation) (policy.Update, error) {
	t := rem.Spec.Target
	cluster, err := c.reader.Drains(ctx, t)
	if err != nil {
		return policy.Update{}, fmt.Errorf("connecting to cluster %s in cell %s: %w", t.Cluster, t.Cell, err)
	}
	if err := drain.Cordon(ctx, cluster, t.Node, rem.Name); err != nil {
		return policy.Update{}, err
	}
	if d.Fences() {
		return policy.DrainFenced(rem, c.now()), drain.Fence(ctx, cluster, t.Node, rem.Name)
	}
	found, err := drain.Evict(ctx, cluster, t.Node)
	return policy.DrainGoesOn(rem, found, d.Ready(), c.now()), err
}

// undrained writes down why a drain does not go on.
func (c *Controller) undrained(ctx context.Context, rem *api.Remediation, err error) (string, error) {
	if errors.Is(err, errNotLeading) {
		return conflict, err // the record is for whoever leads now
	}
	u := policy.Withheld(rem, policy.ReasonRequestFailed, fmt.Sprintf("draining node %s: %s", rem.Spec.Target.Node, line(err)), c.now())
	return result(err), errors.Join(err, c.updateOne(ctx, u))
}

// uncordon takes our own cordons away. One that cannot be taken away is tried again in the
// next round, and keeps its record open until its deadline.
func (c *Controller) uncordon(ctx context.Context, all []policy.Uncordon) error {
	var errs []error
	for _, u := range all {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctx.Err())...)
		}
		cluster, err := c.reader.Drains(ctx, u.Target)
		if err == nil {
			err = drain.Uncordon(ctx, cluster, u.Target.Node)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("ending the drain of %s in cluster %s of cell %s: %w", u.Remediation, u.Target.Cluster, u.Target.Cell, err))
			continue
		}
		c.log.Info("Node uncordoned", slog.String("Remediation", u.Remediation), slog.String("Cell", u.Target.Cell),
			slog.String("Cluster", u.Target.Cluster), slog.String("Node", u.Target.Node))
	}
	return errors.Join(errs...)
}
