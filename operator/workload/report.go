package workload

import (
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Problem is an error that a condition tells with a reason of its own.
type Problem struct {
	// Reason is one of the reasons of the Ready condition.
	Reason string
	Err    error
}

// Error is what went wrong, without the reason.
func (p *Problem) Error() string { return p.Err.Error() }

// Unwrap gives the cause.
func (p *Problem) Unwrap() error { return p.Err }

// Invalid says that a spec cannot be followed; err names the place.
func Invalid(err error) error { return &Problem{v1alpha1.ReasonInvalid, err} }

// Invalidf says that a spec cannot be followed.
func Invalidf(format string, args ...any) error { return Invalid(fmt.Errorf(format, args...)) }

// Ready is the condition that follows from what was done and seen. An error
// that is no Problem is one of applying.
func Ready(generation int64, err error, waiting []string) metav1.Condition {
	c := metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, ObservedGeneration: generation,
	}
	var problem *Problem
	switch {
	case errors.As(err, &problem):
		c.Reason, c.Message = problem.Reason, err.Error()
	case err != nil:
		c.Reason, c.Message = v1alpha1.ReasonApplyFailed, err.Error()
	case len(waiting) > 0:
		c.Reason, c.Message = v1alpha1.ReasonProgressing, "waiting for "+strings.Join(waiting, ", ")
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonAvailable, "every part is ready"
	}
	c.Message = Bounded(c.Message)
	return c
}

// Bounded keeps a message within what the API takes.
func Bounded(message string) string {
	const limit = 2048
	if runes := []rune(message); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return message
}
