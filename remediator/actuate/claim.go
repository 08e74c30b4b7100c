package actuate

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// ErrPaused means that a person has asked for hands off; to try again later is safe.
var ErrPaused = errors.New("hands off")

// Claim takes the machine on standby that a repair was decided with, on condition that it
// is still what it was then and that nobody else has it. A claim of the same repair that
// stands already is fine. It fails with ErrForeign or ErrConflict if it is somebody else's.
func Claim(ctx context.Context, cell client.Client, rem *api.Remediation) error {
	by := rem.Spec.Replacement
	m, err := Read(ctx, cell, api.RemediationTarget{Namespace: rem.Spec.Target.Namespace, Machine: by.Machine})
	if err != nil {
		return err
	}
	if why := unclaimable(m, rem); why != "" {
		return fmt.Errorf("claiming machine %s/%s for %s: %s: %w", rem.Spec.Target.Namespace, by.Machine, rem.Name, why, ErrForeign)
	}
	if m.Annotations[api.AnnotationClaimedBy] == rem.Name {
		return nil
	}
	after := m.DeepCopy()
	annotate(after, api.AnnotationClaimedBy, rem.Name)
	return write(ctx, cell, m, after)
}

// unclaimable says why a Machine is not one that the repair may take.
func unclaimable(m *api.Machine, rem *api.Remediation) string {
	switch {
	case m == nil || string(m.UID) != rem.Spec.Replacement.MachineUID || m.DeletionTimestamp != nil:
		return "it is gone"
	case m.Spec.State != api.MachineStandby:
		return "it is not on standby any more"
	case !describes(rem, &m.Spec):
		return "it is not what it was when that was decided"
	case marked(m):
		return "it is paused"
	case m.Spec.Remediation != nil:
		return fmt.Sprintf("request %s stands on it", m.Spec.Remediation.ID)
	case m.Annotations[api.AnnotationQuarantined] != "":
		return "it is quarantined by " + m.Annotations[api.AnnotationQuarantined]
	}
	if other := m.Annotations[api.AnnotationClaimedBy]; other != "" && other != rem.Name {
		return "it is claimed by " + other
	}
	return ""
}

// describes says whether a Machine is still as the record of the repair has the spare.
func describes(rem *api.Remediation, m *api.MachineSpec) bool {
	by := rem.Spec.Replacement
	return m.ClusterName == rem.Spec.Target.Cluster && m.NodeName == by.Node && m.HardwareID == by.HardwareID && m.ProviderID == by.ProviderID
}

// HandOver does what is due once the repair has ended for which a spare was claimed. It may
// be done again after a crash at any point: the claim is taken away last. What has become
// another Machine, or somebody else's, is left alone.
func HandOver(ctx context.Context, cell client.Client, h policy.Handover) error {
	if h.Phase == api.RemediationSucceeded {
		if err := quarantine(ctx, cell, h); err != nil {
			return err
		}
	}
	m, err := Read(ctx, cell, api.RemediationTarget{Namespace: h.Namespace, Machine: h.Spare})
	if err != nil || m == nil || string(m.UID) != h.SpareUID || m.Annotations[api.AnnotationClaimedBy] != h.Remediation {
		return err
	}
	if marked(m) {
		return fmt.Errorf("machine %s/%s is paused: its claim stands until that is over: %w", h.Namespace, h.Spare, ErrPaused)
	}
	after := m.DeepCopy()
	delete(after.Annotations, api.AnnotationClaimedBy)
	switch h.Phase {
	case api.RemediationSucceeded:
		after.Spec.State = api.MachineInUse
	case api.RemediationFailed:
		annotate(after, api.AnnotationQuarantined, h.Remediation)
	}
	return write(ctx, cell, m, after)
}

// quarantine takes the machine that was replaced out of use.
func quarantine(ctx context.Context, cell client.Client, h policy.Handover) error {
	m, err := Read(ctx, cell, api.RemediationTarget{Namespace: h.Namespace, Machine: h.Failed})
	if err != nil || m == nil || string(m.UID) != h.FailedUID {
		return err
	}
	if m.Spec.State == api.MachineStandby && m.Annotations[api.AnnotationQuarantined] == h.Remediation {
		return nil
	}
	if marked(m) {
		return fmt.Errorf("machine %s/%s is paused: it is not quarantined until that is over: %w", h.Namespace, h.Failed, ErrPaused)
	}
	after := m.DeepCopy()
	after.Spec.State = api.MachineStandby
	annotate(after, api.AnnotationQuarantined, h.Remediation)
	return write(ctx, cell, m, after)
}

func annotate(m *api.Machine, key, value string) {
	if m.Annotations == nil {
		m.Annotations = map[string]string{}
	}
	m.Annotations[key] = value
}
