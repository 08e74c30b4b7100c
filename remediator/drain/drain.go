// Package drain cordons and empties nodes, and makes that undone. It decides nothing: when
// a node is drained, and what becomes of one that cannot be, is the policy's. It forces
// nothing, and touches no cordon and no taint that is not its own.
package drain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// timeout bounds each call. It is shorter than the lease of a leader.
const timeout = 3 * time.Second

// ErrForeign means that somebody else has cordoned the node, or declared it out of service.
var ErrForeign = errors.New("it is somebody else's")

// Cordon keeps new pods from a node, in the name of the repair. A cordon of an earlier
// repair of ours is taken over.
func Cordon(ctx context.Context, cluster kubernetes.Interface, node, remediation string) error {
	return change(ctx, cluster, node, "cordoning", func(n *corev1.Node) error {
		if n.Spec.Unschedulable && n.Annotations[api.AnnotationCordonedBy] == "" {
			return fmt.Errorf("it is cordoned: %w", ErrForeign)
		}
		n.Spec.Unschedulable = true
		annotate(n, api.AnnotationCordonedBy, remediation)
		return nil
	})
}

// Fence declares a node out of service, whose machine is known to be off: Kubernetes then
// ends its pods and lets go of their volumes.
func Fence(ctx context.Context, cluster kubernetes.Interface, node, remediation string) error {
	return change(ctx, cluster, node, "declaring out of service", func(n *corev1.Node) error {
		if fenced(n) && n.Annotations[api.AnnotationFencedBy] == "" {
			return fmt.Errorf("it is out of service: %w", ErrForeign)
		}
		if !fenced(n) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: api.TaintOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute})
		}
		annotate(n, api.AnnotationFencedBy, remediation)
		return nil
	})
}

func fenced(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == api.TaintOutOfService })
}

// Uncordon takes away what Cordon and Fence have done, and nothing else. A node that is
// gone needs nothing.
func Uncordon(ctx context.Context, cluster kubernetes.Interface, node string) error {
	err := change(ctx, cluster, node, "uncordoning", func(n *corev1.Node) error {
		if n.Annotations[api.AnnotationCordonedBy] != "" {
			n.Spec.Unschedulable = false
		}
		if n.Annotations[api.AnnotationFencedBy] != "" {
			n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == api.TaintOutOfService })
		}
		delete(n.Annotations, api.AnnotationCordonedBy)
		delete(n.Annotations, api.AnnotationFencedBy)
		return nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// change writes a node on condition that it has not changed since it was read. What is so
// already is not written.
func change(ctx context.Context, cluster kubernetes.Interface, name, doing string, edit func(n *corev1.Node) error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	before, err := cluster.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("%s node %s: reading it: %w", doing, name, err)
	}
	after := before.DeepCopy()
	if err := edit(after); err != nil {
		return fmt.Errorf("%s node %s: %w", doing, name, err)
	}
	patch, err := patchOf(before, after)
	if err != nil || patch == nil {
		return err
	}
	if _, err := cluster.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "pharos-remediator"}); err != nil {
		return fmt.Errorf("%s node %s: %w", doing, name, err)
	}
	return nil
}

// patchOf has the fields that are ours alone, and nil for none that differ.
func patchOf(before, after *corev1.Node) ([]byte, error) {
	annotations := map[string]any{}
	for _, key := range []string{api.AnnotationCordonedBy, api.AnnotationFencedBy} {
		if value, there := after.Annotations[key]; there {
			annotations[key] = value
		} else if _, was := before.Annotations[key]; was {
			annotations[key] = nil
		}
	}
	same := before.Spec.Unschedulable == after.Spec.Unschedulable && fenced(before) == fenced(after)
	for key, value := range annotations {
		was, there := before.Annotations[key]
		same = same && value != nil && there && was == value
	}
	if same {
		return nil, nil
	}
	spec := map[string]any{"unschedulable": after.Spec.Unschedulable}
	if fenced(before) != fenced(after) {
		spec["taints"] = after.Spec.Taints
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": before.ResourceVersion, "annotations": annotations}, "spec": spec,
	})
}

func annotate(n *corev1.Node, key, value string) {
	if n.Annotations == nil {
		n.Annotations = map[string]string{}
	}
	n.Annotations[key] = value
}
