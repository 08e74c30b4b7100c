package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/actuate"
	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

func (c *Controller) act(ctx context.Context, decisions []policy.Decision) error {
	var errs []error
	for i := range decisions {
		if decisions[i].Verdict != policy.Act {
			continue
		}
		if err := c.actOn(ctx, decisions[i]); err != nil {
			errs = append(errs, fmt.Errorf("repairing machine %s in cell %s: %w", decisions[i].Machine.Name, decisions[i].Cell, err))
		}
	}
	return errors.Join(errs...)
}

// actOn records the intent, looks once more at everything that may have changed,
// asks for the repair and records that. A crash after any line leaves a record
// from which the next round goes on.
func (c *Controller) actOn(ctx context.Context, d policy.Decision) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	rem, err := c.ledger.Record(ctx, d.Name, d.Spec)
	if errors.Is(err, ledger.ErrEnded) {
		return nil // ended in between: the next round decides anew
	}
	if err != nil {
		return err
	}
	if !d.Recorded {
		c.recorded(rem)
	}
	cell, machine, update, err := c.lastLook(ctx, d)
	if err != nil {
		return err
	}
	if update != nil {
		return c.updateOne(ctx, *update)
	}
	err = actuate.Request(ctx, cell.client, machine, rem)
	if errors.Is(err, actuate.ErrConflict) || errors.Is(err, actuate.ErrForeign) {
		c.log.Info("Machine changed before it was patched; deciding anew",
			slog.String("Remediation", rem.Name), slog.String("Machine", machine.Name), slog.Any("error", err))
		return nil
	}
	if err != nil {
		return err
	}
	return c.updateOne(ctx, policy.Update{
		Name: rem.Name, Target: rem.Spec.Target, Phase: api.RemediationActing, Acted: true,
		Reason: policy.ReasonRequested, Message: "the node operator has not answered yet",
	})
}

// lastLook re-reads, uncached, what the decision rests on. It returns the
// Machine to patch, or the update that records why it must not be.
func (c *Controller) lastLook(ctx context.Context, d policy.Decision) (conn, *api.Machine, *policy.Update, error) {
	var f policy.Fresh
	var err error
	if f.Policy, err = c.policy(ctx, d.Policy); err != nil {
		return conn{}, nil, nil, err
	}
	if f.Policy == nil {
		return conn{}, nil, withheld(d, policy.ReasonNoPolicy, "the policy is gone"), nil
	}
	cell, err := c.cell(ctx, d.Cell)
	if err != nil {
		return cell, nil, nil, err
	}
	f.CellPaused = cell.paused
	if f.ClusterPaused, err = clusterPaused(ctx, cell.client, d.Spec.Target); err != nil {
		return cell, nil, nil, err
	}
	f.Live = c.reader.One(ctx, d.Spec.Target)
	// The Machine is read last: the patch is bound to the version read here.
	machine, err := actuate.Read(ctx, cell.client, d.Spec.Target)
	if err != nil {
		return cell, nil, nil, err
	}
	if machine == nil {
		return cell, nil, withheld(d, policy.ReasonTargetGone, "the Machine no longer exists"), nil
	}
	f.Machine = policy.FromMachine(machine)
	if reason, message := policy.Confirm(d, f, c.now()); reason != "" {
		return cell, machine, withheld(d, reason, message), nil
	}
	return cell, machine, nil, nil
}

// withheld cancels a repair for what is known, and leaves it written down for
// what is not.
func withheld(d policy.Decision, reason policy.Reason, message string) *policy.Update {
	u := &policy.Update{Name: d.Name, Target: d.Spec.Target, Phase: api.RemediationPending, Reason: reason, Message: message}
	if policy.Settled(reason) {
		u.Phase = api.RemediationCancelled
	}
	return u
}

func (c *Controller) policy(ctx context.Context, name string) (*api.RemediationPolicy, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	var p api.RemediationPolicy
	err := c.hub.Get(ctx, client.ObjectKey{Name: name}, &p)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading policy %s: %w", name, err)
	}
	return &p, nil
}

// conn is a cell that can be written to.
type conn struct {
	client client.Client
	paused bool
}

func (c *Controller) cell(ctx context.Context, name string) (conn, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	var cell api.Cell
	if err := c.hub.Get(ctx, client.ObjectKey{Name: name}, &cell); err != nil {
		return conn{}, fmt.Errorf("reading cell %s: %w", name, err)
	}
	k, err := c.reader.Client(ctx, &cell)
	if err != nil {
		return conn{}, fmt.Errorf("connecting to cell %s: %w", name, err)
	}
	return conn{k, signal.Paused(&cell)}, nil
}

func clusterPaused(ctx context.Context, cell client.Reader, t api.RemediationTarget) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	var cluster api.Cluster
	if err := cell.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.Cluster}, &cluster); err != nil {
		return false, fmt.Errorf("reading cluster %s/%s: %w", t.Namespace, t.Cluster, err)
	}
	return signal.Paused(&cluster), nil
}
