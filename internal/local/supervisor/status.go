package supervisor

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/pharos-fleet/pharos/internal/local/pki"
)

// State is what a component, or the supervisor, is at.
type State string

// States of a component.
const (
	// StateWaiting means that something it needs is not ready yet.
	StateWaiting State = "Waiting"
	// StateStarting means that the process runs and does not serve yet.
	StateStarting State = "Starting"
	// StateReady means that the process serves.
	StateReady State = "Ready"
	// StateUnready means that the process was ready and does not answer any more.
	StateUnready State = "Unready"
	// StateBackOff means that the process ended and will be started again.
	StateBackOff State = "BackOff"
	// StateStopped means that the process ended and will not be started again.
	StateStopped State = "Stopped"
)

// Status is how the components are.
type Status struct {
	// PID of the supervisor.
	PID        int               `json:"pid"`
	StartedAt  time.Time         `json:"startedAt"`
	Components []ComponentStatus `json:"components"`
}

// ComponentStatus is how one component is.
type ComponentStatus struct {
	Name  string `json:"name"`
	State State  `json:"state"`
	// PID of the process; zero when there is none.
	PID int `json:"pid,omitempty"`
	// Restarts counts how often the process ended by itself, or was ended because it hung.
	Restarts int `json:"restarts"`
	// Since is when the state was entered.
	Since time.Time `json:"since"`
	// Message says how the process ended last.
	Message string `json:"message,omitempty"`
}

// Ready says whether every component is ready, and names the first that is not.
func (s Status) Ready() (bool, string) {
	for _, c := range s.Components {
		if c.State != StateReady {
			return false, c.Name
		}
	}
	return len(s.Components) > 0, ""
}

// Component finds the status of one component.
func (s Status) Component(name string) (ComponentStatus, bool) {
	for _, c := range s.Components {
		if c.Name == name {
			return c, true
		}
	}
	return ComponentStatus{}, false
}

// ReadStatus reads what a supervisor wrote. The error is os.ErrNotExist as long
// as it has written nothing.
func ReadStatus(path string) (Status, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Status{}, fmt.Errorf("reading status: %w", err)
	}
	var s Status
	if err := json.Unmarshal(b, &s); err != nil {
		return Status{}, fmt.Errorf("reading status %s: %w", path, err)
	}
	return s, nil
}

func writeStatus(path string, s Status) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding status: %w", err)
	}
	return pki.WriteSecret(path, b)
}

// Event is one thing that happened, a line of the events file.
type Event struct {
	Time      time.Time `json:"time"`
	Component string    `json:"component"`
	Reason    Reason    `json:"reason"`
	Message   string    `json:"message,omitempty"`
}

// Reason names what happened.
type Reason string

// Reasons of events.
const (
	// ReasonStarted means that a process was started.
	ReasonStarted Reason = "Started"
	// ReasonReady means that it serves.
	ReasonReady Reason = "Ready"
	// ReasonUnready means that it was ready and does not answer any more.
	ReasonUnready Reason = "Unready"
	// ReasonHung means that it did not answer for long, was ended, and will be started again.
	ReasonHung Reason = "Hung"
	// ReasonExited means that it ended by itself and will be started again.
	ReasonExited Reason = "Exited"
	// ReasonStopped means that it ended because the fleet ends.
	ReasonStopped Reason = "Stopped"
	// ReasonStartFailed means that it could not be started.
	ReasonStartFailed Reason = "StartFailed"
)
