package drain

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const (
	// evictAtOnce bounds the evictions of one call: between two, people can say stop.
	evictAtOnce = 20
	// mostBlocked is how many blocked pods a record holds.
	mostBlocked = 10
	// maxPods bounds what is read of one node, on which a kubelet runs some hundreds.
	maxPods, pageSize = 2000, 500
	// mirrorPod marks the image of a pod that the kubelet runs by itself.
	mirrorPod = "kubernetes.io/config.mirror"
)

// Evict asks the pods of a node to go, as their PodDisruptionBudgets allow, and says what
// is left. Pods that a DaemonSet would make again at once, that the kubelet runs by itself,
// or that have ended stay.
func Evict(ctx context.Context, cluster kubernetes.Interface, node string) (policy.DrainFound, error) {
	var found policy.DrainFound
	pods, err := podsOn(ctx, cluster, node)
	if err != nil {
		return found, err
	}
	asked := 0
	for i := range pods {
		p := &pods[i]
		switch {
		case stays(p):
			continue
		case p.DeletionTimestamp != nil:
			found.Leaving++
			continue
		}
		found.Left++
		if asked++; asked > evictAtOnce {
			continue
		}
		if err := evict(ctx, cluster, p, &found); err != nil {
			return found, err
		}
	}
	return found, nil
}

func podsOn(ctx context.Context, cluster kubernetes.Interface, node string) ([]corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node).String(), Limit: pageSize}
	var pods []corev1.Pod
	for len(pods) <= maxPods {
		list, err := cluster.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("listing the pods of node %s: %w", node, err)
		}
		pods = append(pods, list.Items...)
		if options.Continue = list.Continue; options.Continue == "" {
			return pods, nil
		}
	}
	return nil, fmt.Errorf("listing the pods of node %s: there are more than %d", node, maxPods)
}

// stays says whether a drain has nothing to do with a pod.
func stays(p *corev1.Pod) bool {
	if _, mirror := p.Annotations[mirrorPod]; mirror || p.Namespace == api.NodeCheckNamespace {
		return true
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		return true
	}
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "DaemonSet"
}

// evict asks for one pod. That a budget keeps it is no failure.
func evict(ctx context.Context, cluster kubernetes.Interface, p *corev1.Pod, found *policy.DrainFound) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	uid := p.UID
	err := cluster.CoreV1().Pods(p.Namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	switch {
	case err == nil:
		found.Left--
		found.Leaving++
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		found.Left-- // it is gone; what bears its name now is another pod
	case apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err):
		if len(found.Blocked) < mostBlocked {
			found.Blocked = append(found.Blocked, api.BlockedPod{Namespace: p.Namespace, Pod: p.Name, Reason: policy.Tail(reasonOf(err), 256)})
		}
	default:
		return fmt.Errorf("evicting pod %s/%s of node %s: %w", p.Namespace, p.Name, p.Spec.NodeName, err)
	}
	return nil
}

// reasonOf is what the API server says of a budget, which names it.
func reasonOf(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Details != nil {
		for _, cause := range status.Status().Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause {
				return cause.Message
			}
		}
	}
	return err.Error()
}
