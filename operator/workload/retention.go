package workload

import (
	"cmp"
	"errors"
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

// CheckRetention refuses a retention with which rules of a tier could never tell
// what they are for: a forecast of a central, an error ratio of an edge.
func CheckRetention(f *v1alpha1.Federation) error {
	own := "spec.retention"
	if f.Spec.Edge.Retention != "" {
		own = "spec.edge.retention"
	}
	return errors.Join(
		checkKept(f, rules.Edge, own, EdgeRetention(f)),
		checkKept(f, rules.Cascade, "spec.retention", Retention(f)),
		checkKept(f, rules.Central, "spec.retention", Retention(f)),
	)
}

// checkKept compares what a tier keeps with how far back its rules look.
func checkKept(f *v1alpha1.Federation, tier rules.Tier, field, retention string) error {
	kept, err := model.ParseDuration(retention)
	if err != nil {
		return Invalidf("Federation %s: %s: %w", f.Name, field, err)
	}
	reach, err := rules.Reach(tier)
	if err != nil {
		return err
	}
	if least := reach + block; time.Duration(kept) < least {
		return Invalidf("Federation %s: %s is %s, and the rules of each %s look back over %s: alerts that read so much would never fire. "+
			"Make it %s at least, which is as much and a block of samples", f.Name, field, kept, tier, model.Duration(reach), model.Duration(least))
	}
	return nil
}
