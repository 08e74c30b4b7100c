// Package actuate asks for repairs on Machines and withdraws what was asked. It
// decides nothing, and it never overwrites a request that is not its own.
package actuate

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// timeout bounds each write. It is shorter than the lease of a leader, so that
// a write that was begun by a leader ends while it still leads.
const timeout = 3 * time.Second

// ErrForeign means that the Machine is not the one that was decided on, or bears
// the request of somebody else.
var ErrForeign = errors.New("the Machine is not ours to change")

// ErrConflict means that the Machine changed while it was being looked at; to
// look again is safe.
var ErrConflict = errors.New("the Machine changed in between")

// Read returns the Machine as it is now. It is nil if there is none any more.
func Read(ctx context.Context, cell client.Reader, t api.RemediationTarget) (*api.Machine, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var m api.Machine
	err := cell.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: t.Machine}, &m)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading machine %s/%s: %w", t.Namespace, t.Machine, err)
	}
	return &m, nil
}

// Terms are what a request is bound to.
type Terms struct {
	// StartBefore is when it lapses, so that whatever holds its write up, no repair
	// begins long after the last look.
	StartBefore time.Time
	// Epoch of the leader that asks, by which the node operator tells apart a
	// leader that was succeeded.
	Epoch int32
}

// Request asks for the repair that was recorded. The Machine is the one that was
// read for the last look: the write fails with ErrConflict if it has changed
// since. A request that stands already is left as it is.
func Request(ctx context.Context, cell client.Client, m *api.Machine, rem *api.Remediation, terms Terms) error {
	switch {
	case string(m.UID) != rem.Spec.Target.MachineUID || m.DeletionTimestamp != nil:
		return fmt.Errorf("requesting repair %s: %w", rem.Name, ErrForeign)
	case marked(m):
		return fmt.Errorf("requesting repair %s: paused: %w", rem.Name, ErrForeign)
	case m.Spec.Remediation != nil && m.Spec.Remediation.ID == rem.Name:
		return nil
	case m.Spec.Remediation != nil:
		return fmt.Errorf("requesting repair %s: request %s stands: %w", rem.Name, m.Spec.Remediation.ID, ErrForeign)
	}
	after := m.DeepCopy()
	after.Spec.Remediation = &api.RemediationRequest{
		ID: rem.Name, Action: rem.Spec.Action, Reason: rem.Spec.Reason,
		StartBefore: metav1.NewTime(terms.StartBefore), Deadline: rem.CurrentDeadline(), HardwareID: rem.Spec.Target.HardwareID,
		Epoch: &terms.Epoch,
	}
	if by := rem.Spec.Replacement; by != nil {
		after.Spec.Remediation.Spare = &api.SpareReference{Name: by.Machine, UID: by.MachineUID}
	}
	return write(ctx, cell, m, after)
}

// Withdraw removes the request of a repair that has ended, or that nothing
// justifies any more, and says whether it did. Another's request, another Machine
// and no Machine at all are left alone without error, and so is a request that
// has been answered in between, unless its repair has ended. A mark that pauses
// does not prevent it: taking a request away starts nothing.
func Withdraw(ctx context.Context, cell client.Client, w policy.Withdrawal) (bool, error) {
	m, err := Read(ctx, cell, api.RemediationTarget{Namespace: w.Namespace, Machine: w.Machine})
	if err != nil {
		return false, err
	}
	if m == nil || string(m.UID) != w.UID || m.Spec.Remediation == nil || m.Spec.Remediation.ID != w.ID {
		return false, nil
	}
	if answer := m.Status.Remediation; w.Then != nil && answer != nil && answer.ID == w.ID {
		return false, nil
	}
	after := m.DeepCopy()
	after.Spec.Remediation = nil
	if err := write(ctx, cell, m, after); err != nil {
		return false, err
	}
	return true, nil
}

func marked(m *api.Machine) bool {
	_, ok := m.Annotations[api.AnnotationPaused]
	return ok
}

// write patches only what differs, on condition that nothing else has changed.
func write(ctx context.Context, cell client.Client, before, after *api.Machine) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := cell.Patch(ctx, after, patch)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("patching machine %s/%s: %w: %w", before.Namespace, before.Name, ErrConflict, err)
	}
	if err != nil {
		return fmt.Errorf("patching machine %s/%s: %w", before.Namespace, before.Name, err)
	}
	return nil
}
