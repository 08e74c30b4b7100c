package layout

import (
	"fmt"
	"os"
	"path/filepath"
)

// DefaultDir is the state folder of an instance when none is given:
// $XDG_STATE_HOME/pharos/fleet-N, or ~/.local/state/pharos/fleet-N.
func DefaultDir(instance int) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("finding the home folder (or give --state-dir): %w", err)
		}
		base = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(base, "pharos", fmt.Sprintf("fleet-%d", instance)), nil
}

func (l Layout) path(elem ...string) string {
	return filepath.Join(append([]string{l.Dir}, elem...)...)
}

// FleetFile records the schema version and what the fleet was started with.
func (l Layout) FleetFile() string { return l.path("fleet.json") }

// LockFile is locked as long as the fleet runs.
func (l Layout) LockFile() string { return l.path("lock") }

// PlanFile tells the supervisor what to run.
func (l Layout) PlanFile() string { return l.path("supervisor.json") }

// PIDFile holds the supervisor's process id.
func (l Layout) PIDFile() string { return l.path("supervisor.pid") }

// StatusFile is where the supervisor says how each component is.
func (l Layout) StatusFile() string { return l.path("status.json") }

// EventsFile is where the supervisor appends what happened, one JSON object a line.
func (l Layout) EventsFile() string { return l.path("events.jsonl") }

// LogDir holds the output of each component.
func (l Layout) LogDir() string { return l.path("logs") }

// LogFile holds the output of one component.
func (l Layout) LogFile(component string) string { return l.path("logs", component+".log") }

// Kubeconfig is the administrator's way into a cluster.
func (l Layout) Kubeconfig(c Cluster) string { return l.path("kubeconfig", c.Name+".yaml") }

// PKIDir holds the keys and certificates of a cluster, or of etcd.
func (l Layout) PKIDir(name string) string { return l.path("pki", name) }

// EtcdDir holds the data of etcd.
func (l Layout) EtcdDir() string { return l.path("etcd") }

// PodsDir holds the folders of the pods of the hub or a cell.
func (l Layout) PodsDir(c Cluster) string { return l.path("pods", c.Name) }

// DingTalkDir holds what the sink accepted.
func (l Layout) DingTalkDir() string { return l.path("dingtalk") }

// BinDir holds the fleet's own copy of the pharos program, so that building a
// new one does not change a fleet that runs.
func (l Layout) BinDir() string { return l.path("bin") }

// Pharos is the fleet's own copy of the pharos program.
func (l Layout) Pharos() string { return l.path("bin", "pharos") }

// StagesFile holds the stages by which kwok plays nodes and pods.
func (l Layout) StagesFile() string { return l.path("kwok-stages.yaml") }

// PreparedFile is there once a cluster has what the fleet's own components need
// in it.
func (l Layout) PreparedFile(c Cluster) string { return l.path("prepared", c.Name) }

// PreparedDir holds the files of PreparedFile.
func (l Layout) PreparedDir() string { return l.path("prepared") }

// HomeDir is the home folder of the servers, so that none writes to the user's.
func (l Layout) HomeDir() string { return l.path("home") }

// RuntimeFiles mean nothing once the fleet is down.
func (l Layout) RuntimeFiles() []string {
	return []string{l.PIDFile(), l.PlanFile(), l.StatusFile(), l.PreparedDir(), l.BinDir(), l.HomeDir(), l.StagesFile(), l.path("kubeconfig"), l.path("pki")}
}

// StateFiles are what a fleet keeps from one run to the next. The lock is the
// last, so that nobody starts a fleet while the others are removed.
func (l Layout) StateFiles() []string {
	return []string{l.EtcdDir(), l.path("pods"), l.DingTalkDir(), l.LogDir(), l.EventsFile(), l.FleetFile(), l.LockFile()}
}
