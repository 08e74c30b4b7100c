// Package supervisor runs the processes of a local fleet: it starts each once
// what it needs is ready, watches it, starts it again when it ends, says so,
// and ends all of them in order. It knows nothing of Kubernetes.
package supervisor

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/pharos-fleet/pharos/internal/local/pki"
)

// Plan is what a supervisor runs.
type Plan struct {
	Components []Component `json:"components"`
}

// Component is one process to run.
type Component struct {
	// Name is unique in the plan.
	Name string `json:"name"`
	// Path of the program, absolute.
	Path string   `json:"path"`
	Args []string `json:"args,omitempty"`
	// Env is the whole environment.
	Env []string `json:"env,omitempty"`
	// After names components that must have been ready once before this one is started.
	After []string `json:"after,omitempty"`
	// AfterFile is a file that must be there before this one is started; empty
	// means none. By it another program says that it has prepared something.
	AfterFile string `json:"afterFile,omitempty"`
	// Ready says how to ask whether the process serves.
	Ready Probe `json:"ready"`
	// StopPhase orders the end: a lower phase has ended before a higher one is told to.
	StopPhase int `json:"stopPhase"`
	// StopGraceMillis is how long after SIGTERM the process is killed, in milliseconds.
	StopGraceMillis int `json:"stopGraceMillis"`
}

// Probe is an HTTP GET that answers 200 when a process is ready.
type Probe struct {
	// URL to ask. Empty means that the process is ready once it has started.
	URL string `json:"url,omitempty"`
	// CAFile, CertFile and KeyFile are for https.
	CAFile   string `json:"caFile,omitempty"`
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
}

func (c Component) stopGrace() time.Duration {
	return time.Duration(c.StopGraceMillis) * time.Millisecond
}

// Validate says what is wrong with the plan: names that are empty, doubled or
// unknown, and components that wait for each other.
func (p Plan) Validate() error {
	byName := map[string]Component{}
	for _, c := range p.Components {
		if _, twice := byName[c.Name]; twice || c.Name == "" {
			return fmt.Errorf("component %q: the name is empty or used twice", c.Name)
		}
		byName[c.Name] = c
	}
	for _, c := range p.Components {
		if err := walk(byName, c, nil); err != nil {
			return err
		}
	}
	return nil
}

func walk(byName map[string]Component, c Component, path []string) error {
	if slices.Contains(path, c.Name) {
		return fmt.Errorf("component %q waits for itself by way of %q", c.Name, path)
	}
	path = append(slices.Clone(path), c.Name)
	for _, name := range c.After {
		next, known := byName[name]
		if !known {
			return fmt.Errorf("component %q waits for %q, which is not in the plan", c.Name, name)
		}
		if err := walk(byName, next, path); err != nil {
			return err
		}
	}
	return nil
}

// phases lists the stop phases of the plan, first to last.
func (p Plan) phases() []int {
	var all []int
	for _, c := range p.Components {
		all = append(all, c.StopPhase)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// WritePlan writes the plan for a supervisor to read.
func WritePlan(path string, p Plan) error {
	b, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding plan: %w", err)
	}
	return pki.WriteSecret(path, b)
}

// ReadPlan reads and checks a plan.
func ReadPlan(path string) (Plan, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Plan{}, fmt.Errorf("reading plan: %w", err)
	}
	var p Plan
	if err := json.Unmarshal(b, &p); err != nil {
		return Plan{}, fmt.Errorf("reading plan %s: %w", path, err)
	}
	if err := p.Validate(); err != nil {
		return Plan{}, fmt.Errorf("reading plan %s: %w", path, err)
	}
	return p, nil
}
