package controller

import (
	"context"
	"errors"
	"log/slog"

	corev1 "k8s.io/api/core/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// propose writes down what people are asked. Nothing else is done of it.
func (c *Controller) propose(ctx context.Context, decisions []policy.Decision) error {
	var errs []error
	for i := range decisions {
		d := &decisions[i]
		if d.Verdict != policy.Propose || d.Recorded {
			continue
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		rem, err := c.ledger.Propose(ctx, d.Name, d.Spec)
		if err != nil {
			errs = append(errs, err)
		} else if rem != nil {
			c.proposed(rem, d)
		}
	}
	return errors.Join(errs...)
}

// proposed tells of a proposal that has just been written down.
func (c *Controller) proposed(rem *api.Remediation, d *policy.Decision) {
	c.metrics.phase(api.RemediationProposed)
	c.log.Info("Remediation proposed", target(rem, d.Reason, d.Message)...)
	c.recorder.Event(rem, corev1.EventTypeNormal, string(d.Reason), d.Message)
}

// tellLate tells people, once, that what they answered does nothing.
func (c *Controller) tellLate(late []policy.LateAnswer, all []api.Remediation) {
	told := c.toldLate
	c.toldLate = map[policy.LateAnswer]bool{}
	byName := map[string]*api.Remediation{}
	for i := range all {
		byName[all[i].Name] = &all[i]
	}
	for _, one := range late {
		c.toldLate[one] = true
		if told[one] {
			continue
		}
		rem := byName[one.Name]
		c.log.Warn("Answer came too late", slog.String("Remediation", one.Name), slog.String("message", one.Message))
		c.recorder.Event(rem, corev1.EventTypeWarning, string(policy.ReasonAnsweredTooLate), one.Message)
	}
}

// proposals counts those that are open, and says since when the oldest is. A policy
// that proposes nothing has no oldest.
func (m *metrics) proposals(all []api.Remediation) {
	open := map[api.PolicyMode]int{}
	oldest := map[api.PolicyMode]int64{}
	for i := range all {
		rem := &all[i]
		if rem.CurrentPhase() != api.RemediationProposed {
			continue
		}
		mode, since := rem.Spec.Mode, rem.CreationTimestamp.Unix()
		if open[mode]++; oldest[mode] == 0 || since < oldest[mode] {
			oldest[mode] = since
		}
	}
	m.oldest.Reset()
	for _, mode := range []api.PolicyMode{api.ModeRecommend, api.ModeApprove} {
		m.proposed.WithLabelValues(string(mode)).Set(float64(open[mode]))
		if open[mode] > 0 {
			m.oldest.WithLabelValues(string(mode)).Set(float64(oldest[mode]))
		}
	}
}
