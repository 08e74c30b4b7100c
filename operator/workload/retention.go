package workload

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/common/model"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/rules"
)

const (
	// defaultRetention covers the longest window that any tier's rules read, which
	// is a day, with as much again to look back at in the morning.
	defaultRetention = "48h"
	// block is how much of its samples Prometheus drops at once when they are too
	// old, so much more must be kept than is read.
	block = 2 * time.Hour
)

// Retention is how long each tier keeps samples, in Prometheus' notation.
func Retention(f *v1alpha1.Federation) string { return cmp.Or(f.Spec.Retention, defaultRetention) }

// EdgeRetention is how long an edge keeps samples, in Prometheus' notation.
func EdgeRetention(f *v1alpha1.Federation) string {
	return cmp.Or(f.Spec.Edge.Retention, Retention(f))
}

// kept says how long each tier keeps samples, and which field does.
func kept(f *v1alpha1.Federation, t rules.Tier) (field, retention string) {
	if t == rules.Edge && f.Spec.Edge.Retention != "" {
		return "spec.edge.retention", EdgeRetention(f)
	}
	return "spec.retention", Retention(f)
}

// CheckRetention refuses a retention with which rules of a tier could never tell
// what they are for: a forecast of a central, an error ratio of an edge.
func CheckRetention(f *v1alpha1.Federation) error {
	var wrong []error
	for _, tier := range rules.Tiers() {
		field, retention := kept(f, tier)
		wrong = append(wrong, checkKept(f, tier, field, retention))
	}
	return errors.Join(wrong...)
}

// CheckOwnWindows refuses the same of the rules that a team has of its own, if the
// contract has any, and names their lines; and windows that hold too few samples at the
// Federation's interval. What is no duration is refused by CheckRetention.
func CheckOwnWindows(f *v1alpha1.Federation, contract *rules.Contract) error {
	if contract == nil {
		return nil
	}
	var wrong []error
	for _, tier := range rules.Tiers() {
		wrong = append(wrong, contract.OwnWithin(tier, Interval(f)))
		field, retention := kept(f, tier)
		has, err := model.ParseDuration(retention)
		if err != nil {
			continue
		}
		wrong = append(wrong, contract.OwnBeyond(tier, time.Duration(has)-block, func(back time.Duration) string {
			return fmt.Sprintf("looks back over %s, and %s of Federation %s is %s: a rule that reads so much would never have it all. "+
				"Make it %s at least, which is as much and a block of samples, or read less", model.Duration(back), field, f.Name, has, model.Duration(back+block))
		}))
	}
	return errors.Join(wrong...)
}

// checkKept compares what a tier keeps with how far back its rules look.
func checkKept(f *v1alpha1.Federation, tier rules.Tier, field, retention string) error {
	has, err := model.ParseDuration(retention)
	if err != nil {
		return Invalidf("Federation %s: %s: %w", f.Name, field, err)
	}
	reach, err := rules.Reach(tier)
	if err != nil {
		return err
	}
	if least := reach + block; time.Duration(has) < least {
		return Invalidf("Federation %s: %s is %s, and the rules of each %s look back over %s: alerts that read so much would never fire. "+
			"Make it %s at least, which is as much and a block of samples", f.Name, field, has, tier, model.Duration(reach), model.Duration(least))
	}
	return nil
}
