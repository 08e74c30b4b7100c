package supervisor_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

func plan(all ...supervisor.Component) supervisor.Plan { return supervisor.Plan{Components: all} }

func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		plan supervisor.Plan
		err  string
	}{
		"empty":        {plan(), ""},
		"chain":        {plan(supervisor.Component{Name: "a"}, supervisor.Component{Name: "b", After: []string{"a"}}), ""},
		"nameless":     {plan(supervisor.Component{}), "the name is empty"},
		"twice":        {plan(supervisor.Component{Name: "a"}, supervisor.Component{Name: "a"}), "used twice"},
		"unknown":      {plan(supervisor.Component{Name: "a", After: []string{"b"}}), `"b", which is not in the plan`},
		"itself":       {plan(supervisor.Component{Name: "a", After: []string{"a"}}), "waits for itself"},
		"in a circle":  {plan(supervisor.Component{Name: "a", After: []string{"b"}}, supervisor.Component{Name: "b", After: []string{"a"}}), "waits for itself"},
		"needed twice": {plan(supervisor.Component{Name: "a"}, supervisor.Component{Name: "b", After: []string{"a"}}, supervisor.Component{Name: "c", After: []string{"a", "b"}}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.plan.Validate()
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.err)
			_, err = supervisor.New(options(t.TempDir(), tc.plan.Components...))
			require.Error(t, err, "a bad plan is not run")
		})
	}
}

func TestPlanFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.json")
	want := plan(supervisor.Component{
		Name: "a", Path: "/bin/a", Args: []string{"--x=1 2"}, Env: []string{"A=b"}, AfterFile: "/f",
		Ready: supervisor.Probe{URL: "https://127.0.0.1:1/healthz", CAFile: "/ca"}, StopPhase: 2, StopGraceMillis: 10,
	})
	require.NoError(t, supervisor.WritePlan(path, want))
	got, err := supervisor.ReadPlan(path)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(want, got))

	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = supervisor.ReadPlan(path)
	require.ErrorContains(t, err, path)
	_, err = supervisor.ReadPlan(path + "x")
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestStatusReady(t *testing.T) {
	var s supervisor.Status
	ready, _ := s.Ready()
	require.False(t, ready, "nothing is not ready")
	s.Components = []supervisor.ComponentStatus{{Name: "a", State: supervisor.StateReady}, {Name: "b", State: supervisor.StateStarting}}
	ready, name := s.Ready()
	require.False(t, ready)
	require.Equal(t, "b", name)
	s.Components[1].State = supervisor.StateReady
	ready, _ = s.Ready()
	require.True(t, ready)
}
