// Package demo watches a repair go once around the loop in the local fleet:
// from the fault, up through the tiers, and back down to a verified repair. It
// only looks; the fault is injected and the fleet is run elsewhere.
package demo

import (
	"context"
	"fmt"
	"time"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Target is the node whose repair is watched.
type Target struct {
	Cell    string
	Cluster string
	Node    string
	// Since is when the fault was injected. Records and messages from before
	// belong to an earlier repair.
	Since time.Time
}

// World is what the demo reads. Each method reads the present state from the
// part that holds it, never from a cache.
type World interface {
	// NodeReady reads the node's Ready condition in its business cluster.
	NodeReady(ctx context.Context, t Target) (ready bool, status string, err error)
	// Unhealthy asks every Prometheus of a tier whether it lists the node as
	// unhealthy. It returns the servers that do, and how many were asked.
	Unhealthy(ctx context.Context, tier string, t Target) (servers []string, asked int, err error)
	// Firing asks both centrals for the firing alert of the node. It returns
	// those at which it fires, and how many were asked.
	Firing(ctx context.Context, t Target) (servers []string, asked int, err error)
	// Delivered says whether the robot got a message about the node, and its title.
	Delivered(ctx context.Context, t Target, resolved bool) (title string, err error)
	// Remediation finds the newest record about the node, or nil.
	Remediation(ctx context.Context, t Target) (*v1alpha1.Remediation, error)
	// Machine reads the node's Machine from its cell.
	Machine(ctx context.Context, t Target) (*v1alpha1.Machine, error)
	// JobDone says whether the repair Job of a request has completed.
	JobDone(ctx context.Context, t Target, id string) (name string, done bool, err error)
}

// Tiers as World knows them.
const (
	TierEdge    = "edge"
	TierCascade = "cascade"
	TierCentral = "central"
)

// step is one line of the timeline. see returns what was seen, or "" when it has
// not come yet.
type step struct {
	name string
	see  func(ctx context.Context, w World, t Target) (string, error)
}

// steps lists the loop in the order of cause and effect. Some may be seen in
// another order: the remediator reads the centrals and does not wait for
// Alertmanager.
func steps() []step {
	return []step{
		{"node lost", seeNode(false)},
		{"seen by edge", seeTier(TierEdge)},
		{"seen by cascade", seeTier(TierCascade)},
		{"seen by both centrals", seeTier(TierCentral)},
		{"alert firing", seeFiring},
		{"alert delivered", seeDelivered(false)},
		{"evidence agreed", seeEvidence},
		{"remediation written", seeRecord},
		{"machine patched", seePatch},
		{"job ran", seeJob},
		{"node Ready", seeNode(true)},
		{"node check passed", seeCheck},
		{"verified", seeVerified},
		{"alert resolved", seeDelivered(true)},
	}
}

func seeNode(want bool) func(context.Context, World, Target) (string, error) {
	return func(ctx context.Context, w World, t Target) (string, error) {
		ready, status, err := w.NodeReady(ctx, t)
		if err != nil || ready != want {
			return "", err
		}
		return fmt.Sprintf("%s/%s Ready=%s", t.Cluster, t.Node, status), nil
	}
}

func seeTier(tier string) func(context.Context, World, Target) (string, error) {
	return func(ctx context.Context, w World, t Target) (string, error) {
		servers, asked, err := w.Unhealthy(ctx, tier, t)
		if err != nil || asked == 0 || len(servers) < asked {
			return "", err
		}
		return fmt.Sprintf("node:unhealthy:info at %v", servers), nil
	}
}

func seeFiring(ctx context.Context, w World, t Target) (string, error) {
	servers, asked, err := w.Firing(ctx, t)
	if err != nil || asked == 0 || len(servers) < asked {
		return "", err
	}
	return fmt.Sprintf("PharosNodeNotReady at %v", servers), nil
}

func seeDelivered(resolved bool) func(context.Context, World, Target) (string, error) {
	return func(ctx context.Context, w World, t Target) (string, error) {
		return w.Delivered(ctx, t, resolved)
	}
}

func seeEvidence(ctx context.Context, w World, t Target) (string, error) {
	r, err := w.Remediation(ctx, t)
	if err != nil || r == nil {
		return "", err
	}
	said := make([]string, 0, len(r.Spec.Evidence.Signals))
	for _, s := range r.Spec.Evidence.Signals {
		said = append(said, s.Source)
	}
	return fmt.Sprintf("%v agree; %d of %d in its rack and %d of %d in its cluster unhealthy", said,
		r.Spec.Gate.RackUnhealthy, r.Spec.Gate.RackMachines,
		r.Spec.Gate.ClusterUnhealthy, r.Spec.Gate.ClusterMachines), nil
}

func seeRecord(ctx context.Context, w World, t Target) (string, error) {
	r, err := w.Remediation(ctx, t)
	if err != nil || r == nil {
		return "", err
	}
	return fmt.Sprintf("remediation/%s: %s", r.Name, r.Spec.Action), nil
}

func seePatch(ctx context.Context, w World, t Target) (string, error) {
	r, err := w.Remediation(ctx, t)
	if err != nil || r == nil {
		return "", err
	}
	m, err := w.Machine(ctx, t)
	if err != nil {
		return "", err
	}
	asked := m.Spec.Remediation != nil && m.Spec.Remediation.ID == r.Name
	answered := m.Status.Remediation != nil && m.Status.Remediation.ID == r.Name
	if !asked && !answered {
		return "", nil
	}
	return fmt.Sprintf("machine/%s in %s", m.Name, t.Cell), nil
}

func seeJob(ctx context.Context, w World, t Target) (string, error) {
	r, err := w.Remediation(ctx, t)
	if err != nil || r == nil {
		return "", err
	}
	name, done, err := w.JobDone(ctx, t, r.Name)
	if err != nil || !done {
		return "", err
	}
	return "job/" + name, nil
}

func seeCheck(ctx context.Context, w World, t Target) (string, error) {
	r, err := w.Remediation(ctx, t)
	if err != nil || r == nil || r.Status.NodeCheck == nil || r.Status.NodeCheck.Result != v1alpha1.NodeCheckPass {
		return "", err
	}
	return fmt.Sprintf("pod/%s ran on %s", r.Status.NodeCheck.Pod, t.Node), nil
}

func seeVerified(ctx context.Context, w World, t Target) (string, error) {
	r, err := w.Remediation(ctx, t)
	if err != nil || r == nil || r.Status.Phase != v1alpha1.RemediationSucceeded {
		return "", err
	}
	return r.Status.Message, nil
}
