package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/actuate"
	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// hubTimeout bounds each read of the hub.
const hubTimeout = 5 * time.Second

// round reads, decides and acts once. It returns when to look again at the
// latest. Its error tells of what could not be read or written; whatever could
// not be known was held.
func (c *Controller) round(ctx context.Context) (time.Time, error) {
	reservations, err := c.ledger.Reservations(ctx)
	if err != nil {
		return time.Time{}, err
	}
	policies, snapshot, err := c.read(ctx)
	if err != nil {
		return time.Time{}, err
	}
	snapshot.Reservations, snapshot.Refusals = reservations.All, c.refused.current(c.now())
	snapshot.Clusters = c.reader.Live(ctx, snapshot.Cells, policy.Suspects(policies, snapshot))
	// Pods are read after the boot id that their results are measured against.
	snapshot.NodeChecks = c.readChecks(ctx, policy.CheckReads(snapshot.Remediations, c.now()))
	snapshot.CheckAccess = c.tryChecks(ctx, policy.CheckProbes(policies, snapshot))
	now := c.now()
	if err := c.clock.steady(now, c.passed()); err != nil {
		c.metrics.jumps.Inc()
		return time.Time{}, err
	}
	plan := policy.Decide(policies, snapshot, now)
	c.record(policies, snapshot, plan, now)
	err = errors.Join(c.update(ctx, plan.Updates), c.withdraw(ctx, plan.Withdrawals), c.handOver(ctx, plan.Handovers), c.uncordon(ctx, plan.Uncordons), c.startChecks(ctx, plan.Checks),
		c.reportIncidents(ctx, snapshot.Incidents, plan))
	c.removeChecks(ctx, plan.Removals)
	c.tellLate(plan.Late, snapshot.Remediations)
	proposed := c.propose(ctx, plan.Decisions)
	failures, acted := c.act(ctx, reservations, plan.Decisions)
	c.retire(ctx, snapshot)
	plan = plan.Failed(failures)
	c.metrics.plan(plan, snapshot)
	c.effect.round(policies, snapshot, plan, now)
	c.metrics.refused.Set(float64(len(c.refused)))
	err = errors.Join(
		err, proposed, acted,
		c.escalate(ctx, plan.Decisions),
		c.report(ctx, policies, plan.Policies),
		c.reportBudgets(ctx, snapshot.Budgets, plan.Budgets),
		silent(snapshot.Centrals),
		unread(snapshot.BudgetsErr),
		unread(snapshot.IncidentsErr),
	)
	return plan.NextCheck, err
}

// read takes the snapshot, all but the live part. Records are read before
// machines: a record that says "requested" is then never newer than the machine
// that should bear the request.
func (c *Controller) read(ctx context.Context) ([]api.RemediationPolicy, policy.Snapshot, error) {
	var s policy.Snapshot
	policies, err := c.policies(ctx)
	if err != nil {
		return nil, s, err
	}
	if s.Budgets, err = c.budgets(ctx); err != nil {
		s.BudgetsErr = err.Error()
	}
	if s.Incidents, err = c.incidents(ctx); err != nil {
		s.IncidentsErr = err.Error()
	}
	if s.Remediations, err = c.ledger.List(ctx); err != nil {
		return nil, s, err
	}
	var group errgroup.Group
	group.Go(func() error {
		s.Centrals = c.reader.Centrals(ctx)
		return nil
	})
	group.Go(func() error {
		var err error
		s.Cells, err = c.reader.Cells(ctx)
		return err
	})
	return policies, s, group.Wait()
}

// unread makes budgets or incidents that could not be read a failure of the round, after
// all that needs none has been done.
func unread(why string) error {
	if why == "" {
		return nil
	}
	return errors.New(why)
}

func (c *Controller) policies(ctx context.Context) ([]api.RemediationPolicy, error) {
	var list api.RemediationPolicyList
	err := c.list(ctx, "policies", &list)
	return list.Items, err
}

// list reads all of a kind in the hub, or fails and gives none.
func (c *Controller) list(ctx context.Context, what string, list client.ObjectList) error {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	if err := c.hub.List(ctx, list); err != nil {
		return fmt.Errorf("listing %s: %w", what, err)
	}
	return nil
}

// silent makes a central that does not answer a failure of the round, after
// everything that could be done without it has been done.
func silent(centrals []policy.Central) error {
	var errs []error
	for _, central := range centrals {
		if central.Err != "" {
			errs = append(errs, fmt.Errorf("central %s does not answer: %s", central.Name, central.Err))
		}
	}
	return errors.Join(errs...)
}

func (c *Controller) update(ctx context.Context, updates []policy.Update) error {
	var errs []error
	for _, u := range updates {
		errs = append(errs, c.updateOne(ctx, u))
	}
	return errors.Join(errs...)
}

func (c *Controller) updateOne(ctx context.Context, u policy.Update) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if u.Reworded && c.now().Sub(c.reworded[u.Name]) < refresh {
		return nil
	}
	delete(c.reworded, u.Name)
	rem, change, err := c.ledger.Update(ctx, u, c.now())
	if errors.Is(err, ledger.ErrEnded) || errors.Is(err, ledger.ErrChanged) {
		return nil // by another leader; the next round sees it
	}
	if err != nil {
		return err
	}
	if !rem.Status.Phase.Final() {
		c.reworded[u.Name] = c.now()
	}
	if change.Check {
		c.checked(rem)
	}
	if change.Phase || change.Reason {
		c.moved(rem, change.Phase)
	}
	return nil
}

func (c *Controller) withdraw(ctx context.Context, all []policy.Withdrawal) error {
	var errs []error
	for _, w := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := c.withdrawOne(ctx, w); err != nil {
			errs = append(errs, fmt.Errorf("withdrawing request %s: %w", w.ID, err), c.stands(ctx, w, err))
		}
	}
	return errors.Join(errs...)
}

// stands writes down that a request that nothing justifies could not be taken away.
func (c *Controller) stands(ctx context.Context, w policy.Withdrawal, err error) error {
	if w.Then == nil {
		return nil // the record has ended
	}
	return c.updateOne(ctx, w.Unwithdrawn(line(err)))
}

// withdrawOne writes down that a repair is cancelled only after its request is
// away: a record that says so before might be wrong. That it takes the request is written
// down before, so that nobody takes what a crash leaves for somebody else's doing.
func (c *Controller) withdrawOne(ctx context.Context, w policy.Withdrawal) error {
	cell, err := c.cell(ctx, w.Cell)
	if err != nil {
		return err
	}
	if w.Then != nil && !w.Marked {
		if err := c.updateOne(ctx, w.Withdrawing()); err != nil {
			return err
		}
	}
	removed, err := actuate.Withdraw(ctx, cell.client, w)
	if errors.Is(err, actuate.ErrConflict) {
		return nil // changed in between, perhaps answered: the next round decides
	}
	if err != nil || !removed || w.Then == nil {
		return err
	}
	return c.updateOne(ctx, *w.Then)
}
