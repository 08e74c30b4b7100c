package controller

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/pharos-fleet/pharos/remediator/nodecheck"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// tryChecks finds out whether the checks that repairs would need could be made.
// What worked a short while ago is not tried again: a machine may be held for days,
// and the last look before a repair tries in any case.
func (c *Controller) tryChecks(ctx context.Context, probes []policy.CheckProbe) []policy.CheckAccess {
	out := make([]policy.CheckAccess, len(probes))
	var group errgroup.Group
	group.SetLimit(parallelChecks)
	for i, p := range probes {
		if known := c.worked(p); known != nil {
			out[i] = *known
			continue
		}
		group.Go(func() error {
			out[i] = c.tryCheck(ctx, p)
			return nil
		})
	}
	_ = group.Wait() // what went wrong stands in each Err
	c.access = slices.Clone(out)
	return out
}

// worked is an earlier answer that says that a check could be made, not long ago.
func (c *Controller) worked(p policy.CheckProbe) *policy.CheckAccess {
	for i := range c.access {
		a := &c.access[i]
		if a.Answers(p) && a.Err == "" && c.now().Sub(a.SeenAt) < refresh {
			return a
		}
	}
	return nil
}

func (c *Controller) tryCheck(ctx context.Context, p policy.CheckProbe) policy.CheckAccess {
	out := policy.CheckAccess{Cell: p.Target.Cell, Cluster: p.Target.Cluster, Check: p.Check, SeenAt: c.now()}
	cluster, err := c.reader.NodeChecks(ctx, p.Target)
	if err != nil {
		err = fmt.Errorf("connecting to cluster %s in cell %s: %w", p.Target.Cluster, p.Target.Cell, err)
	} else if err = nodecheck.Try(ctx, cluster, p); err != nil {
		err = fmt.Errorf("with the kubeconfig of Cluster %s/%s in cell %s for node checks: %w", p.Target.Namespace, p.Target.Cluster, p.Target.Cell, err)
	}
	if err != nil {
		out.Err = line(err)
	}
	return out
}

// tryAgain is for the last look: nothing that was found before counts then, and a
// failure makes the next round try again, too.
func (c *Controller) tryAgain(ctx context.Context, d policy.Decision) *policy.CheckAccess {
	p, needed := d.CheckProbe()
	if !needed {
		return nil
	}
	found := c.tryCheck(ctx, p)
	if found.Err != "" {
		c.access = slices.DeleteFunc(c.access, func(a policy.CheckAccess) bool { return a.Answers(p) })
	}
	return &found
}
