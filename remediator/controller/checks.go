package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/actuate"
	"github.com/pharos-fleet/pharos/remediator/nodecheck"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// parallelChecks is how many repairs have their pods read at once.
const parallelChecks = 16

// readChecks reads the pods of node checks. What went wrong stands in each Err.
func (c *Controller) readChecks(ctx context.Context, reads []policy.CheckRead) []policy.NodeChecks {
	reads = c.dueReads(reads)
	out := make([]policy.NodeChecks, len(reads))
	var group errgroup.Group
	group.SetLimit(parallelChecks)
	for i, r := range reads {
		group.Go(func() error {
			out[i] = c.readCheck(ctx, r)
			return nil
		})
	}
	_ = group.Wait() // readCheck returns no error
	for i, r := range reads {
		c.keepLooking(r, out[i])
	}
	return out
}

func (c *Controller) readCheck(ctx context.Context, r policy.CheckRead) policy.NodeChecks {
	out := policy.NodeChecks{Remediation: r.Remediation}
	cluster, err := c.reader.NodeChecks(ctx, r.Target)
	if err == nil {
		out.Pods, err = nodecheck.List(ctx, cluster, r.Remediation)
	}
	if err != nil {
		out.Err = line(err)
	}
	return out
}

// dueReads leaves out repairs that have ended and whose pods are gone, or whose
// cluster did not answer a short while ago.
func (c *Controller) dueReads(reads []policy.CheckRead) []policy.CheckRead {
	known := map[string]time.Time{}
	var due []policy.CheckRead
	for _, r := range reads {
		next, seen := c.checksDone[r.Remediation]
		if seen {
			known[r.Remediation] = next
		}
		if !r.Ended || !c.now().Before(next) {
			due = append(due, r)
		}
	}
	c.checksDone = known
	return due
}

// keepLooking notes when the pods of a repair that has ended are looked for again:
// in the next round until they are gone, and then no more.
func (c *Controller) keepLooking(r policy.CheckRead, found policy.NodeChecks) {
	switch {
	case !r.Ended:
	case found.Err != "":
		c.checksDone[r.Remediation] = c.now().Add(refresh)
	case len(found.Pods) == 0:
		c.checksDone[r.Remediation] = time.Unix(math.MaxInt32, 0)
	}
}

// startChecks makes the pods that are written down. One that cannot be made is
// noted in its record, and tried again in the next round; like a cluster that
// cannot be read it is that one repair's trouble, and not the round's.
func (c *Controller) startChecks(ctx context.Context, starts []policy.CheckStart) error {
	var errs []error
	for _, s := range starts {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := c.startCheck(ctx, s); err != nil {
			errs = append(errs, c.updateOne(ctx, s.NotMade(line(err))))
			continue
		}
		c.log.Info("Node check started", slog.String("Remediation", s.Remediation), slog.String("Cell", s.Target.Cell),
			slog.String("Cluster", s.Target.Cluster), slog.String("Node", s.Target.Node), slog.String("Pod", s.Record.Pod))
	}
	return errors.Join(errs...)
}

// startCheck has one deadline for the last look and the write, as lookAndAsk has.
func (c *Controller) startCheck(ctx context.Context, s policy.CheckStart) error {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	cluster, err := c.reader.NodeChecks(ctx, s.Target)
	if err != nil {
		return fmt.Errorf("connecting to cluster %s in cell %s: %w", s.Target.Cluster, s.Target.Cell, err)
	}
	if err := c.mayCheck(ctx, s); err != nil {
		return err
	}
	return nodecheck.Start(ctx, cluster, s)
}

// mayCheck reads again, uncached, whether a person has asked for hands off.
func (c *Controller) mayCheck(ctx context.Context, s policy.CheckStart) error {
	p, err := c.policy(ctx, s.Policy)
	if err != nil {
		return err
	}
	if p != nil && signal.Paused(p) {
		return fmt.Errorf("the node check is withheld: policy %s is paused or being deleted", s.Policy)
	}
	budgets, err := c.budgets(ctx)
	if err != nil {
		return err
	}
	if why := s.Frozen(budgets, c.now()); why != "" {
		return fmt.Errorf("the node check is withheld: %s", why)
	}
	cell, err := c.cell(ctx, s.Target.Cell)
	if err != nil {
		return err
	}
	cluster, err := readCluster(ctx, cell.client, s.Target)
	if err != nil {
		return err
	}
	if signal.Paused(cluster) || cell.paused {
		return fmt.Errorf("the node check is withheld: cluster %s or cell %s is paused or being deleted", s.Target.Cluster, s.Target.Cell)
	}
	m, err := actuate.Read(ctx, cell.client, s.Target)
	if err != nil {
		return err
	}
	return sameMachine(m, s.Target)
}

func sameMachine(m *api.Machine, t api.RemediationTarget) error {
	switch {
	case m == nil || string(m.UID) != t.MachineUID:
		return fmt.Errorf("the node check is withheld: machine %s/%s is gone", t.Namespace, t.Machine)
	case signal.Paused(m):
		return fmt.Errorf("the node check is withheld: machine %s/%s is paused or being deleted", t.Namespace, t.Machine)
	}
	return nil
}

// removeChecks deletes pods. One that cannot be deleted does no harm, and is tried
// again after a while.
func (c *Controller) removeChecks(ctx context.Context, removals []policy.CheckRemoval) {
	for _, r := range removals {
		if ctx.Err() != nil {
			return
		}
		if err := c.removeCheck(ctx, r); err != nil {
			c.checksDone[r.Remediation] = c.now().Add(refresh)
			c.log.Warn("Pod of a node check cannot be deleted", slog.String("Remediation", r.Remediation), slog.String("Cell", r.Target.Cell),
				slog.String("Cluster", r.Target.Cluster), slog.String("Pod", r.Pod), slog.Any("error", err))
		}
	}
}

func (c *Controller) removeCheck(ctx context.Context, r policy.CheckRemoval) error {
	cluster, err := c.reader.NodeChecks(ctx, r.Target)
	if err != nil {
		return err
	}
	return nodecheck.Remove(ctx, cluster, r)
}
