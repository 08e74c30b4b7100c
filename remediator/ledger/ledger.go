// Package ledger writes down what the remediator means to do, before it is
// done, and how it went. It never changes an intent once written, and it never
// touches a machine.
package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// timeout bounds each write.
const timeout = 5 * time.Second

// ErrForeign means that a record of the name exists and speaks of something else.
var ErrForeign = errors.New("a record of this name exists for another repair")

// ErrChanged means that the record is further than it was when the update was decided.
var ErrChanged = errors.New("the record has changed since it was decided on")

// ErrEnded means that the record has ended and cannot change any more.
var ErrEnded = errors.New("the record has ended")

// Ledger keeps Remediations and reservations in the hub.
type Ledger struct {
	hub       client.Client
	namespace string
}

// New takes the hub's client, whose reads must be uncached, and the namespace of
// the reservations.
func New(hub client.Client, namespace string) *Ledger { return &Ledger{hub, namespace} }

// List returns every record, the newest state of each. A part of them is none: what
// is missing might hold a machine.
func (l *Ledger) List(ctx context.Context) ([]api.Remediation, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var list api.RemediationList
	if err := l.hub.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing remediations: %w", err)
	}
	if list.Continue != "" {
		return nil, errors.New("listing remediations: the hub's API server gave only a part of them")
	}
	return list.Items, nil
}

// Record writes an intent down. A record of the same name and target that has
// not ended is the same intent, written before a crash, and is returned as it
// stands. ErrForeign and ErrEnded tell of records that must not be acted on.
func (l *Ledger) Record(ctx context.Context, name string, spec api.RemediationSpec) (*api.Remediation, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rem := &api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	err := l.hub.Create(ctx, rem)
	if err == nil {
		return rem, nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return nil, fmt.Errorf("recording remediation %s: %w", name, err)
	}
	if err := l.hub.Get(ctx, client.ObjectKey{Name: name}, rem); err != nil {
		return nil, fmt.Errorf("reading remediation %s: %w", name, err)
	}
	if rem.Spec.Target != spec.Target || rem.Spec.Action != spec.Action || !equality.Semantic.DeepEqual(rem.Spec.Replacement, spec.Replacement) {
		return nil, fmt.Errorf("recording remediation %s: %w", name, ErrForeign)
	}
	if rem.CurrentPhase() == api.RemediationProposed {
		return nil, fmt.Errorf("recording remediation %s: it is a proposal that nobody approved: %w", name, ErrForeign)
	}
	if rem.Status.Phase.Final() {
		return nil, fmt.Errorf("recording remediation %s: %w", name, ErrEnded)
	}
	return rem, nil
}

// Change is what a write has changed in a record.
type Change struct {
	Phase, Reason bool
	// Check means that the node check has another result, or is another attempt.
	Check bool
}

// Update writes how a repair goes. It reports the record as it is afterwards
// and what changed in it. A record that has ended is never changed.
func (l *Ledger) Update(ctx context.Context, u policy.Update, now time.Time) (*api.Remediation, Change, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var rem api.Remediation
	if err := l.hub.Get(ctx, client.ObjectKey{Name: u.Name}, &rem); err != nil {
		return nil, Change{}, fmt.Errorf("reading remediation %s: %w", u.Name, err)
	}
	if rem.Status.Phase.Final() {
		return nil, Change{}, fmt.Errorf("updating remediation %s: %w", u.Name, ErrEnded)
	}
	if u.From != "" && rem.CurrentPhase() != u.From {
		return nil, Change{}, fmt.Errorf("updating remediation %s from %s, which is %s: %w", u.Name, u.From, rem.CurrentPhase(), ErrChanged)
	}
	before := rem.DeepCopy()
	set(&rem, u, metav1.NewTime(now))
	if equality.Semantic.DeepEqual(before.Status, rem.Status) {
		return &rem, Change{}, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := l.hub.Status().Patch(ctx, &rem, patch); err != nil {
		return nil, Change{}, fmt.Errorf("updating remediation %s: %w", u.Name, err)
	}
	if before.CurrentPhase() == api.RemediationProposed {
		before.Status.Phase = api.RemediationProposed
	}
	return &rem, changed(before.Status, rem.Status), nil
}

// changed takes a phase that is unset for Pending: it says the same. That of an escalation
// is none until it is written, so that it is counted then.
func changed(before, after api.RemediationStatus) Change {
	if before.Phase == "" {
		before.Phase = api.RemediationPending
	}
	c := Change{Phase: before.Phase != after.Phase, Reason: before.Reason != after.Reason}
	if after.NodeCheck != nil {
		was := before.NodeCheck
		c.Check = was == nil || was.Result != after.NodeCheck.Result || was.Attempt != after.NodeCheck.Attempt
	}
	return c
}

// around keeps what is done before and after the repair itself.
func around(s *api.RemediationStatus, u policy.Update) {
	if u.Drain != nil {
		s.Drain = u.Drain.DeepCopy()
	}
	if u.NodeCheck != nil {
		s.NodeCheck = u.NodeCheck.DeepCopy()
	}
}

// set keeps the times of what has happened once.
func set(rem *api.Remediation, u policy.Update, now metav1.Time) {
	s := &rem.Status
	s.Phase, s.Reason, s.Message = u.Phase, string(u.Reason), u.Message
	if u.Tried {
		s.TriedAt = &now
	}
	if u.Phase.Final() {
		s.EndedAt = &now
	}
	if s.ActedAt == nil && u.Acted {
		s.ActedAt = &now
	}
	answered(s, u)
	if len(s.Confirmation) == 0 {
		s.Confirmation = u.Confirmation
	}
	if s.RepairedAt == nil && !u.RepairedAt.IsZero() {
		at := metav1.NewTime(u.RepairedAt)
		s.RepairedAt = &at
	}
	around(s, u)
	if u.Phase == api.RemediationSucceeded {
		s.VerifiedAt, s.Verification = &now, u.Verification
	}
	status := metav1.ConditionFalse
	if u.Phase == api.RemediationSucceeded {
		status = metav1.ConditionTrue
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: api.ConditionReady, Status: status, Reason: s.Reason, Message: s.Message,
		ObservedGeneration: rem.Generation, LastTransitionTime: now,
	})
}
