package demo_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/local/demo"
)

// script is a world in which each part changes at a set second after the fault.
type script struct {
	start                                               time.Time
	lost, edge, cascade, central, firing, sent, written int
	patched, job, back, checked, verified, resolved     int
	edgeErr                                             error
}

// loop is a turn in which everything goes well.
func loop() *script {
	return &script{
		start: time.Now(),
		lost:  40, edge: 45, cascade: 50, central: 55, firing: 60, sent: 62, written: 58,
		patched: 59, job: 62, back: 65, checked: 70, verified: 80, resolved: 85,
	}
}

func (s *script) past(second int) bool {
	return time.Since(s.start) >= time.Duration(second)*time.Second
}

func (s *script) NodeReady(context.Context, demo.Target) (bool, string, error) {
	if s.past(s.lost) && !s.past(s.back) {
		return false, "Unknown", nil
	}
	return true, "True", nil
}

func (s *script) Unhealthy(_ context.Context, tier string, _ demo.Target) ([]string, int, error) {
	switch tier {
	case demo.TierEdge:
		return s.servers(s.edge, "edge-0"), 1, s.edgeErr
	case demo.TierCascade:
		return s.servers(s.cascade, "cascade-asia-0"), 1, nil
	}
	// central-a is five seconds ahead of central-b.
	if s.past(s.central) {
		return []string{"central-a", "central-b"}, 2, nil
	}
	return s.servers(s.central-5, "central-a"), 2, nil
}

func (s *script) servers(second int, name string) []string {
	if s.past(second) {
		return []string{name}
	}
	return nil
}

func (s *script) Firing(context.Context, demo.Target) ([]string, int, error) {
	if s.past(s.firing) {
		return []string{"central-a", "central-b"}, 2, nil
	}
	return s.servers(s.firing-5, "central-a"), 2, nil
}

func (s *script) Delivered(_ context.Context, _ demo.Target, resolved bool) (string, error) {
	if resolved && s.past(s.resolved) || !resolved && s.past(s.sent) {
		return "a message", nil
	}
	return "", nil
}

func (s *script) Remediation(context.Context, demo.Target) (*v1alpha1.Remediation, error) {
	if !s.past(s.written) {
		return nil, nil
	}
	r := &v1alpha1.Remediation{}
	r.Name = "rem-1"
	r.Spec.Evidence.Signals = []v1alpha1.SignalRecord{{Source: "central-a"}, {Source: "lease"}}
	if s.past(s.checked - 5) {
		r.Status.NodeCheck = &v1alpha1.NodeCheckRecord{Pod: "check-rem-1-1", Result: v1alpha1.NodeCheckRunning}
	}
	if s.past(s.checked) {
		r.Status.NodeCheck.Result = v1alpha1.NodeCheckPass
	}
	if s.past(s.verified) {
		r.Status.Phase, r.Status.Message = v1alpha1.RemediationSucceeded, "node is Ready"
	}
	return r, nil
}

func (s *script) Machine(context.Context, demo.Target) (*v1alpha1.Machine, error) {
	m := &v1alpha1.Machine{}
	if s.past(s.patched) {
		m.Spec.Remediation = &v1alpha1.RemediationRequest{ID: "rem-1"}
	}
	return m, nil
}

func (s *script) JobDone(context.Context, demo.Target, string) (string, bool, error) {
	return "repair-rem-1", s.past(s.job), nil
}

func watch(ctx context.Context, s *script) (*demo.Timeline, []string, error) {
	var seen []string
	line, err := demo.Watch(ctx, demo.Options{
		World:   s,
		Target:  demo.Target{Cell: "asia-1", Cluster: "shop", Node: "shop-node-07", Since: s.start},
		Fault:   "node-stop",
		Timeout: 2 * time.Minute,
		Seen:    func(step demo.Step) { seen = append(seen, step.Name) },
	})
	return line, seen, err
}

func TestWatchSeesTheLoopClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line, seen, err := watch(t.Context(), loop())
		require.NoError(t, err)
		require.True(t, line.Closed)
		require.Equal(t, []string{
			"node lost", "seen by edge", "seen by cascade", "seen by both centrals",
			"evidence agreed", "remediation written", "machine patched", "alert firing",
			"alert delivered", "job ran", "node Ready", "node check passed", "verified", "alert resolved",
		}, seen, "steps are told when they come, not in the order of the list")
		require.Equal(t, "node lost", line.Steps[0].Name)
		at, ok := line.Seconds("seen by both centrals")
		require.True(t, ok)
		require.InDelta(t, 55, at, 0.6, "one central alone is not both")
		at, ok = line.Seconds("alert firing")
		require.True(t, ok)
		require.InDelta(t, 60, at, 0.6, "one central alone is not both")
		at, ok = line.Seconds("node check passed")
		require.True(t, ok)
		require.InDelta(t, 70, at, 0.6, "a check that runs has not passed")
	})
}

// The record says both at once, and may come to say it between two reads of one look.
func TestARepairIsNotVerifiedBeforeItsCheckIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := loop()
		s.verified, s.checked = 68, 70
		_, seen, err := watch(t.Context(), s)
		require.NoError(t, err)
		require.Less(t, slices.Index(seen, "node check passed"), slices.Index(seen, "verified"), seen)
	})
}

func TestWatchNamesTheStepThatDidNotCome(t *testing.T) {
	never := 1_000_000
	for want, stop := range map[string]func(*script){
		"node lost":         func(s *script) { s.lost, s.back = never, never },
		"seen by cascade":   func(s *script) { s.cascade = never },
		"alert delivered":   func(s *script) { s.sent = never },
		"machine patched":   func(s *script) { s.patched = never },
		"node Ready":        func(s *script) { s.back = never },
		"verified":          func(s *script) { s.verified = never },
		"node check passed": func(s *script) { s.checked = never },
		"alert resolved":    func(s *script) { s.resolved = never },
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := loop()
				stop(s)
				line, _, err := watch(t.Context(), s)
				require.ErrorIs(t, err, demo.ErrNotClosed)
				require.ErrorContains(t, err, `step "`+want+`" did not come within 2m0s`)
				require.False(t, line.Closed)
				require.Equal(t, want, line.Missing())
			})
		})
	}
}

func TestWatchTellsTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := loop()
		s.edgeErr = errors.New("asking edge-0: connection refused")
		_, _, err := watch(t.Context(), s)
		require.ErrorContains(t, err, `step "seen by edge" did not come`)
		require.ErrorContains(t, err, "last error: asking edge-0: connection refused")
	})
}

func TestWatchInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		time.AfterFunc(47*time.Second, cancel)
		_, _, err := watch(ctx, loop())
		require.ErrorContains(t, err, `interrupted while waiting for step "seen by cascade"`)
		require.ErrorIs(t, err, demo.ErrNotClosed)
	})
}
