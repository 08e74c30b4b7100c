package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

func (s subject) wrong() string {
	return fmt.Sprintf("node %s is Ready=%s since %s; every central lists it and its Lease was renewed last at %s%s",
		s.ref.Node, s.live.node.Ready, s.live.node.Since.UTC().Format(time.RFC3339), s.live.lease.Renewed.UTC().Format(time.RFC3339), s.often())
}

// name is the same whenever the same episode of the same machine is decided
// again, and new once the earlier repair of that name has ended. A name that stands on
// the machine though its record is gone would be taken for answered. It is short
// enough for the name of the node operator's Job.
func (r *run) name(s subject) string {
	episode := s.machine.UID + "/" + strconv.FormatInt(s.live.node.Since.Unix(), 10)
	for n := 0; ; n++ {
		sum := sha256.Sum256([]byte(episode + "/" + strconv.Itoa(n)))
		name := prefix(s.machine.Name) + "-" + hex.EncodeToString(sum[:5])
		if !r.nameTaken(name, s) {
			return name
		}
	}
}

func prefix(name string) string {
	if len(name) <= 40 {
		return name
	}
	// A name may not have a dot before the dash that follows.
	name = name[:40]
	for name[len(name)-1] == '.' || name[len(name)-1] == '-' {
		name = name[:len(name)-1]
	}
	return name
}

func (r *run) spec(s subject, p place) api.RemediationSpec {
	m := s.machine
	verification := *s.settings.verification.DeepCopy()
	verification.NodeCheck = s.needs.check.DeepCopy()
	return api.RemediationSpec{
		PolicyName: s.settings.name,
		Target: api.RemediationTarget{
			Cell: s.ref.Cell, Namespace: m.Namespace, Cluster: m.Cluster, Machine: m.Name, MachineUID: m.UID,
			Node: m.Node, HardwareID: m.HardwareID, ProviderID: s.live.node.ProviderID, BootID: s.live.node.BootID,
		},
		Replacement: s.replacement, Drain: s.step.drain,

		Action: s.step.action, Mode: s.settings.mode, Reason: clip(s.wrong(), 1024),
		Deadline: metav1.NewTime(r.now.Add(s.step.timeout + s.step.drainTime()).Truncate(time.Second)),
		Evidence: api.Evidence{AgreedAt: metav1.NewTime(r.now), Signals: s.signals()},
		Gate:     r.gate(s.settings.evidenceAge).record(p),
		Budgets:  r.budgetRecords(s, p),
		Place:    api.RemediationPlace{Geography: p.cell.Geography, Pool: m.Pool},

		Verification: verification,
	}
}

// signals are the evidence as it is written down.
func (s subject) signals() []api.SignalRecord {
	signals := make([]api.SignalRecord, 0, len(s.facts)+2)
	for _, f := range s.facts {
		signals = append(signals, f.record(s.ref, true))
	}
	return append(signals, s.live.records()...)
}
