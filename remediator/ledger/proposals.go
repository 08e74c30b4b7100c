package ledger

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// Propose writes a repair down for people to see, once. It is nil for one that stands
// already, whatever became of it: the next round sees it.
func (l *Ledger) Propose(ctx context.Context, name string, spec api.RemediationSpec) (*api.Remediation, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	rem := &api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	err := l.hub.Create(ctx, rem)
	if apierrors.IsAlreadyExists(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("proposing remediation %s: %w", name, err)
	}
	return rem, nil
}

// answered keeps what people said first.
func answered(s *api.RemediationStatus, u policy.Update) {
	if s.Approval == nil {
		s.Approval = u.Approval.DeepCopy()
	}
	if s.Denial == nil {
		s.Denial = u.Denial.DeepCopy()
	}
	if s.Deadline == nil && !u.Deadline.IsZero() {
		s.Deadline = &metav1.Time{Time: u.Deadline}
	}
}
