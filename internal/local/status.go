package local

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/proc"
	"github.com/pharos-fleet/pharos/internal/local/supervisor"
)

// State is what a fleet is at.
type State string

// States of a fleet.
const (
	// StateNone means that there is no fleet.
	StateNone State = "None"
	// StateStarting means that some component is not ready yet.
	StateStarting State = "Starting"
	// StateRunning means that every component is ready, and every tier.
	StateRunning State = "Running"
	// StateDegraded means that a component or a tier of a fleet that was up is not ready.
	StateDegraded State = "Degraded"
	// StateStopping means that the fleet is being ended.
	StateStopping State = "Stopping"
	// StateKept means that the fleet was stopped and its data were kept.
	StateKept State = "Kept"
	// StateKilled means that the fleet ended without being stopped.
	StateKilled State = "Killed"
)

// Report is what can be said of a fleet from outside.
type Report struct {
	State    State     `json:"state"`
	StateDir string    `json:"stateDir"`
	Instance int       `json:"instance"`
	Pharos   string    `json:"pharos,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	// Supervisor is its process id; zero when it is not alive.
	Supervisor int                          `json:"supervisor,omitempty"`
	Components []supervisor.ComponentStatus `json:"components,omitempty"`
	// Processes counts the fleet's processes, those in pods included.
	Processes int `json:"processes"`
	// ResidentBytes is the sum of their resident memory.
	ResidentBytes int             `json:"residentBytes"`
	Clusters      []ClusterReport `json:"clusters,omitempty"`
	// Parts are what the operator runs, with their addresses.
	Parts []PartReport `json:"parts,omitempty"`
	// Tiers says why the tiers are not ready; empty when they are.
	Tiers string `json:"tiers,omitempty"`
	// Messages lists what the DingTalk sink accepted.
	Messages string `json:"messages,omitempty"`
}

// ClusterReport is where one cluster is.
type ClusterReport struct {
	Name       string      `json:"name"`
	Role       layout.Role `json:"role"`
	Server     string      `json:"server"`
	Kubeconfig string      `json:"kubeconfig"`
}

// PartReport is one workload of Pharos.
type PartReport struct {
	Cluster string `json:"cluster"`
	v1alpha1.PartStatus
}

// Status looks at the fleet. It fails only when the state folder cannot be read
// or is another's; what does not answer is said in the report.
func (f *Fleet) Status(ctx context.Context) (Report, error) {
	l := f.Layout
	r := Report{State: StateNone, StateDir: l.Dir, Instance: l.Instance}
	rec, err := readOwn(l)
	if errors.Is(err, errNoFleet) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.Pharos, r.Since, r.Supervisor = rec.Pharos, rec.StartedAt, supervisorPID(l)
	status, statusErr := supervisor.ReadStatus(l.StatusFile())
	r.State = state(sight{
		starting: rec.ReadyAt == nil, alive: r.Supervisor != 0, locked: locked(l), written: statusErr == nil, status: status,
	})
	if r.Supervisor == 0 {
		return r, nil
	}
	r.Components = status.Components
	processes, err := proc.Marked(layout.FleetEnv, l.Dir)
	if err != nil {
		return r, err
	}
	r.Processes = len(processes)
	for _, p := range processes {
		r.ResidentBytes += p.ResidentBytes
	}
	for _, c := range layout.Clusters() {
		r.Clusters = append(r.Clusters, ClusterReport{c.Name, c.Role, l.APIServerURL(c), l.Kubeconfig(c)})
	}
	r.Messages = f.MessagesURL()
	f.reportTiers(ctx, &r)
	if r.State == StateRunning && r.Tiers != "" {
		r.State = StateDegraded
	}
	return r, nil
}

// sight is what the state of a fleet is told from.
type sight struct {
	// starting means that everything has not been ready yet, alive that the
	// supervisor runs, locked that some pharos has the state folder.
	starting, alive, locked bool
	// written means that there is a status.
	written bool
	status  supervisor.Status
}

func state(s sight) State {
	if !s.alive {
		return unsupervised(s)
	}
	ready, _ := s.status.Ready()
	switch {
	case slices.ContainsFunc(s.status.Components, stopped):
		return StateStopping
	case s.starting:
		return StateStarting
	case !ready:
		return StateDegraded
	}
	return StateRunning
}

// unsupervised is the state of a fleet without a supervisor.
func unsupervised(s sight) State {
	switch {
	case s.locked && s.starting:
		return StateStarting // servers are built, or the supervisor is about to begin
	case s.locked:
		return StateStopping
	case s.written:
		return StateKilled
	}
	return StateKept
}

func stopped(c supervisor.ComponentStatus) bool { return c.State == supervisor.StateStopped }

func (f *Fleet) reportTiers(ctx context.Context, r *Report) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	tiers, err := f.Tiers(ctx)
	if err != nil {
		r.Tiers = err.Error()
		return
	}
	if ok, why := tiers.Ready(); !ok {
		r.Tiers = why
	}
	for _, p := range tiers.Federation.Status.Parts {
		r.Parts = append(r.Parts, PartReport{layout.Hub().Name, p})
	}
	slices.SortFunc(tiers.Cells, func(a, b v1alpha1.Cell) int { return strings.Compare(a.Name, b.Name) })
	for _, c := range tiers.Cells {
		for _, p := range c.Status.Parts {
			r.Parts = append(r.Parts, PartReport{c.Name, p})
		}
	}
}
