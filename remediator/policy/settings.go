package policy

import (
	"slices"
	"time"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// defaultEvidenceAge is in seconds.
const defaultEvidenceAge = 60

// defaultUnhealthyPercent is the share of a rack or a cluster above which it is suspected.
const defaultUnhealthyPercent = 20

// settings are a policy with its defaults resolved.
type settings struct {
	name    string
	paused  bool
	observe bool
	mode    api.PolicyMode
	// expires is how long a proposal can be approved.
	expires time.Duration
	// perDay is how many repairs may begin in a day. Nil means any number.
	perDay *int32
	// upTo is the most destructive action that may be done. Empty means any.
	upTo api.RemediationAction
	// steps are the escalation, and window for how long what was tried counts.
	steps       []step
	window      time.Duration
	unhealthy   time.Duration
	evidenceAge time.Duration
	percent     int
	cooldown    time.Duration
	// flapping is how much of UnreadyWindow a node may have been unready.
	flapping time.Duration
	// verification is what a repair must show beside the agreement of all evidence.
	verification api.Verification
}

func resolve(p *api.RemediationPolicy) settings {
	s := settings{
		name:        p.Name,
		paused:      paused(p),
		observe:     p.Spec.Mode != api.ModeAct && !p.Spec.Mode.Proposes(),
		steps:       ladder(&p.Spec),
		window:      seconds(p.Spec.EscalationWindowSeconds, defaultWindow),
		mode:        p.Spec.Mode,
		expires:     seconds(p.Spec.Approval.ExpiresSeconds, 3600),
		unhealthy:   seconds(p.Spec.UnhealthySeconds, 300),
		evidenceAge: evidenceAge(p),
		percent:     unhealthyPercent(p),
		cooldown:    seconds(p.Spec.CooldownSeconds, 3600),
		flapping:    UnreadyWindow * time.Duration(flappingPercent(p)) / 100,

		verification: p.Spec.Verification,
	}
	if p.Spec.Mode == api.ModeActLimited {
		// The API refuses a mode without its limit, and so does this.
		s.perDay, s.upTo, s.observe = p.Spec.Limit.PerDay, p.Spec.Limit.Action, p.Spec.Limit.PerDay == nil
	}
	return s
}

// unhealthyPercent is the share of a rack or a cluster that a policy allows.
func unhealthyPercent(p *api.RemediationPolicy) int {
	if p.Spec.MaxUnhealthyPercent != nil {
		return int(*p.Spec.MaxUnhealthyPercent)
	}
	return defaultUnhealthyPercent
}

func flappingPercent(p *api.RemediationPolicy) int {
	if p.Spec.FlappingPercent != nil {
		return int(*p.Spec.FlappingPercent)
	}
	return defaultFlappingPercent
}

// evidenceAge is the age at which a policy no longer counts an observation.
func evidenceAge(p *api.RemediationPolicy) time.Duration {
	return seconds(p.Spec.MaxEvidenceAgeSeconds, defaultEvidenceAge)
}

// paused also holds for a policy that is on its way out.
func paused(p *api.RemediationPolicy) bool {
	_, marked := p.Annotations[api.AnnotationPaused]
	return marked || p.DeletionTimestamp != nil
}

func seconds(v *int32, unset int32) time.Duration {
	if v != nil {
		unset = *v
	}
	return time.Duration(unset) * time.Second
}

// selects says whether the policy speaks for a machine. An empty selection is
// nothing: the API refuses it, and so does this.
func selects(p *api.RemediationPolicy, cell, pool string) bool {
	if p.Spec.MatchAll == api.MatchAllMachines {
		return true
	}
	if len(p.Spec.Cells) == 0 && len(p.Spec.Pools) == 0 {
		return false
	}
	return (len(p.Spec.Cells) == 0 || slices.Contains(p.Spec.Cells, cell)) &&
		(len(p.Spec.Pools) == 0 || slices.Contains(p.Spec.Pools, pool))
}
