package controller

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

const (
	// maxHolds is how many holds the API keeps in a status.
	maxHolds = 50
	// refresh is how often a status is rewritten when only the numbers in its
	// messages change.
	refresh = 30 * time.Second
)

// report writes the status of every policy, and tells of what is new in it.
func (c *Controller) report(ctx context.Context, policies []api.RemediationPolicy, reports []policy.Report) error {
	return each(ctx, "policy", policies, reports, func(r policy.Report) string { return r.Name }, c.reportOne)
}

// each writes what is reported on every object of a kind, which are found by name.
func each[T any, O interface {
	*T
	client.Object
}, R any](ctx context.Context, kind string, all []T, reports []R, name func(R) string, write func(context.Context, O, R) error) error {
	byName := map[string]O{}
	for i := range all {
		o := O(&all[i])
		byName[o.GetName()] = o
	}
	var errs []error
	for _, r := range reports {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := write(ctx, byName[name(r)], r); err != nil {
			errs = append(errs, fmt.Errorf("reporting on %s %s: %w", kind, name(r), err))
		}
	}
	return errors.Join(errs...)
}

// writeStatus is false for an object that was changed or is gone since it was read: the
// next round reports.
func (c *Controller) writeStatus(ctx context.Context, before, after client.Object) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, hubTimeout)
	defer cancel()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := c.hub.Status().Patch(ctx, after, patch)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("patching its status: %w", err)
	}
	return true, nil
}

func (c *Controller) reportOne(ctx context.Context, before *api.RemediationPolicy, r policy.Report) error {
	after := before.DeepCopy()
	fill(after, r, metav1.NewTime(c.now()))
	if !c.worthWriting(before, after) {
		return nil
	}
	written, err := c.writeStatus(ctx, before, after)
	if written {
		c.reported[before.Name] = c.now()
		c.tell(before, after, r)
	}
	return err
}

func fill(p *api.RemediationPolicy, r policy.Report, now metav1.Time) {
	s := &p.Status
	s.ObservedGeneration = p.Generation
	s.Unhealthy, s.Held, s.Holds = int32(r.Unhealthy), int32(len(r.Holds)), nil
	for _, d := range r.Holds[:min(len(r.Holds), maxHolds)] {
		s.Holds = append(s.Holds, api.HoldRecord{Cell: d.Cell, Machine: d.Machine.Name, Reason: string(d.Reason), Message: d.Message})
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: api.ConditionRemediationAllowed, Status: r.Allowed, Reason: string(r.Reason), Message: r.Message,
		ObservedGeneration: p.Generation, LastTransitionTime: now,
	})
}

// worthWriting spares the API server a write in every round for ages that grow.
func (c *Controller) worthWriting(before, after *api.RemediationPolicy) bool {
	if equality.Semantic.DeepEqual(before.Status, after.Status) {
		return false
	}
	return !equality.Semantic.DeepEqual(wordless(before), wordless(after)) || c.now().Sub(c.reported[before.Name]) >= refresh
}

// wordless is a status without its messages.
func wordless(p *api.RemediationPolicy) api.RemediationPolicyStatus {
	s := p.DeepCopy().Status
	for i := range s.Holds {
		s.Holds[i].Message = ""
	}
	for i := range s.Conditions {
		s.Conditions[i].Message = ""
	}
	return s
}

// tell compares with the status that was read, so that a restart tells nothing twice.
func (c *Controller) tell(before, after *api.RemediationPolicy, r policy.Report) {
	was := meta.FindStatusCondition(before.Status.Conditions, api.ConditionRemediationAllowed)
	if was == nil || was.Reason != string(r.Reason) || was.Status != r.Allowed {
		c.allowed(after, r)
	}
	known := map[api.HoldRecord]bool{}
	for _, h := range before.Status.Holds {
		h.Message = ""
		known[h] = true
	}
	for _, h := range after.Status.Holds {
		if !known[api.HoldRecord{Cell: h.Cell, Machine: h.Machine, Reason: h.Reason}] {
			c.held(after, h)
		}
	}
}
