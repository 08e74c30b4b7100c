package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/actuate"
	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// act reports what could not be carried out, for the plan and for the round.
func (c *Controller) act(ctx context.Context, places *ledger.Reservations, decisions []policy.Decision) ([]policy.Failure, error) {
	var failures []policy.Failure
	var errs []error
	for i := range decisions {
		d := decisions[i]
		if d.Verdict != policy.Act || ctx.Err() != nil {
			continue
		}
		result, err := c.actInPlace(ctx, places, d)
		c.metrics.request(result)
		if result == conflict && errors.Is(err, ledger.ErrSpent) {
			c.log.Info("Somebody else takes places in budgets; deciding anew", slog.String("Machine", d.Machine.Name))
			break
		}
		if err == nil {
			continue
		}
		errs = append(errs, fmt.Errorf("repairing machine %s in cell %s: %w", d.Machine.Name, d.Cell, err))
		if result == refused || result == failed {
			failures = append(failures, policy.Failure{Name: d.Name, Message: c.refused.message(d, err)})
		}
	}
	return failures, errors.Join(append(errs, ctx.Err())...)
}

// tried is an error with what was tried.
func tried(spec api.RemediationSpec, err error) string {
	t := spec.Target
	return fmt.Sprintf("asking for %s of machine %s/%s in cell %s: %s", spec.Action, t.Namespace, t.Machine, t.Cell, line(err))
}

// line is an error in one line; joined ones have several.
func line(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// actInPlace takes a place in every budget of the machine before anything else, and
// gives it back where the repair is known not to have been asked for. One that is
// not given back, as after a crash, is over by itself.
func (c *Controller) actInPlace(ctx context.Context, places *ledger.Reservations, d policy.Decision) (string, error) {
	epoch, err := c.epoch(ctx)
	if err != nil {
		return conflict, err
	}
	if !d.Recorded {
		d.Spec.Epoch = &epoch
	}
	err = c.ledger.Reserve(ctx, places, policy.Reservation{Name: d.Name, Target: d.Spec.Target, Place: d.Spec.Place, At: c.now()})
	if errors.Is(err, ledger.ErrSpent) {
		return conflict, err
	}
	if err != nil {
		return result(err), err
	}
	// Whoever was asleep since must not use it when it is over.
	ctx, cancel := context.WithTimeout(ctx, policy.ReservationLasts/2)
	defer cancel()
	result, err := c.actOn(ctx, d)
	if result == withheld || result == refused {
		err = errors.Join(err, c.ledger.Release(ctx, places, d.Name))
	}
	return result, err
}

// actOn records the intent, looks once more at everything that may have changed,
// asks for the repair and records that. A crash after any line leaves a record
// from which the next round goes on.
func (c *Controller) actOn(ctx context.Context, d policy.Decision) (string, error) {
	rem, err := c.ledger.Record(ctx, d.Name, d.Spec)
	if errors.Is(err, ledger.ErrEnded) {
		return conflict, nil // ended in between: the next round decides anew
	}
	if err != nil {
		if result(err) == refused {
			c.refused.add(d, err, c.now())
		}
		return result(err), err
	}
	delete(c.refused, d.Machine.UID)
	if !d.Recorded {
		c.recorded(rem)
	}
	if policy.ToDrain(rem) {
		return c.drain(ctx, d, rem)
	}
	seen, against, err := c.lookAndAsk(ctx, d, rem)
	if errors.Is(err, actuate.ErrConflict) || errors.Is(err, actuate.ErrForeign) {
		c.log.Info("Machine changed before it was patched; deciding anew",
			slog.String("Remediation", rem.Name), slog.String("Machine", rem.Spec.Target.Machine), slog.Any("error", err))
		return conflict, nil
	}
	if errors.Is(err, errNotLeading) {
		return conflict, err // the record is for whoever leads now
	}
	if err != nil {
		u := policy.Withheld(rem, policy.ReasonRequestFailed, tried(rem.Spec, err), c.now())
		return result(err), errors.Join(err, c.updateOne(ctx, u))
	}
	if against != nil {
		return withheld, c.updateOne(ctx, *against)
	}
	return requested, c.updateOne(ctx, policy.Update{
		Name: rem.Name, Target: rem.Spec.Target, Phase: api.RemediationActing, Acted: true, Confirmation: seen.Signals,
		Reason: policy.ReasonRequested, Message: "the node operator has not answered yet",
	})
}

// result tells apart what is not to be expected to pass by itself.
func result(err error) string {
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) ||
		apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err) {
		return refused
	}
	return failed
}

// lookAndAsk has one deadline for the last look and the write that rests on it. It
// is shorter than what lies between a leader's last renewal and the next leader's
// first act, so that one that was paused in between does not write. What still
// slips through, on its way to the cell, lapses by the request's own StartBefore.
func (c *Controller) lookAndAsk(ctx context.Context, d policy.Decision, rem *api.Remediation) (policy.Confirmation, *policy.Update, error) {
	ctx, cancel := context.WithTimeout(ctx, actTimeout)
	defer cancel()
	seen, err := c.lastLook(ctx, d, rem)
	if err != nil {
		return policy.Confirmation{}, nil, err
	}
	if seen.Reason != "" {
		u := policy.Withheld(rem, seen.Reason, seen.Message, c.now())
		return policy.Confirmation{}, &u, nil
	}
	if rem.Spec.Replacement != nil {
		if err := actuate.Claim(ctx, seen.cell, rem); err != nil {
			return policy.Confirmation{}, nil, err
		}
	}
	return seen.Confirmation, nil, actuate.Request(ctx, seen.cell, seen.machine, rem, actuate.Terms{StartBefore: seen.StartBefore, Epoch: seen.epoch})
}

// look is what the last look found, and the Machine to patch if it confirms.
type look struct {
	policy.Confirmation
	cell    client.Client
	machine *api.Machine
	epoch   int32
}

func against(reason policy.Reason, message string) look {
	return look{Confirmation: policy.Confirmation{Reason: reason, Message: message}}
}

// lastLook re-reads, uncached, what the decision rests on.
func (c *Controller) lastLook(ctx context.Context, d policy.Decision, rem *api.Remediation) (look, error) {
	f := policy.Fresh{Record: rem}
	var err error
	if f.Policy, err = c.policy(ctx, d.Policy); err != nil {
		return look{}, err
	}
	if f.Policy == nil {
		return against(policy.ReasonNoPolicy, "the policy is gone"), nil
	}
	if f.Budgets, err = c.budgets(ctx); err != nil {
		return look{}, err
	}
	cell, err := c.cell(ctx, d.Cell)
	if err != nil {
		return look{}, err
	}
	f.CellPaused = cell.paused
	cluster, err := readCluster(ctx, cell.client, d.Spec.Target)
	if err != nil {
		return look{}, err
	}
	f.ClusterPaused, f.Upgrade = signal.Paused(cluster), signal.Upgrade(cluster)
	f.CheckAccess = c.tryAgain(ctx, d)
	f.Live = c.reader.Again(ctx, d.Spec.Target, d.Nodes())
	// The Machine is read last: the patch is bound to the version read here.
	machine, err := actuate.Read(ctx, cell.client, d.Spec.Target)
	if err != nil {
		return look{}, err
	}
	if machine == nil {
		return against(policy.ReasonTargetGone, "the Machine no longer exists"), nil
	}
	f.Machine = policy.FromMachine(machine)
	// Only then the Lease: who takes over after this read changes the Machine later.
	epoch, err := c.epochFor(ctx, machine)
	return look{policy.Confirm(d, f, c.now()), cell.client, machine, epoch}, err
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

func readCluster(ctx context.Context, cell client.Reader, t api.RemediationTarget) (*api.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	var cluster api.Cluster
	if err := cell.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.Cluster}, &cluster); err != nil {
		return nil, fmt.Errorf("reading cluster %s/%s: %w", t.Namespace, t.Cluster, err)
	}
	return &cluster, nil
}
