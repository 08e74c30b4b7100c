// Package nodecheck makes, reads and deletes the pods that check a repaired node.
// It decides nothing: when a pod is made, what its result means and when it goes
// is the policy's. It touches one namespace of a business cluster, and in it only
// pods that bear its marks.
package nodecheck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const (
	// timeout bounds each call. It is shorter than the lease of a leader, so that
	// a pod that is asked for by a leader is made while it still leads.
	timeout = 3 * time.Second
	// maxPods bounds a list. A repair has a handful of pods; more are not ours.
	maxPods = 50
	// tryName begins the name of a pod that is tried and never kept.
	tryName = "check-try-"
)

// ErrForeign means that a pod of the name exists that was not made for this
// check. It is left alone, and its result means nothing.
var ErrForeign = errors.New("a pod of this name exists that was not made for this check")

// List reads the pods of one repair, of every attempt.
func List(ctx context.Context, cluster kubernetes.Interface, remediation string) ([]policy.CheckPod, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	list, err := cluster.CoreV1().Pods(api.NodeCheckNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: labels.SelectorFromSet(marks(remediation)).String(), Limit: maxPods,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of node check %s in namespace %s: %w", remediation, api.NodeCheckNamespace, err)
	}
	if list.Continue != "" {
		return nil, fmt.Errorf("listing the pods of node check %s in namespace %s: there are more than %d", remediation, api.NodeCheckNamespace, maxPods)
	}
	pods := make([]policy.CheckPod, len(list.Items))
	for i := range list.Items {
		pods[i] = read(&list.Items[i])
	}
	return pods, nil
}

// Start makes the pod. One that stands already is fine if it was made for this
// very check, on the same Node and in the same boot; any other is ErrForeign.
func Start(ctx context.Context, cluster kubernetes.Interface, s policy.CheckStart) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	want := render(s)
	pods := cluster.CoreV1().Pods(api.NodeCheckNamespace)
	_, err := pods.Create(ctx, want, metav1.CreateOptions{})
	if err == nil {
		return nil
	}
	what := fmt.Sprintf("pod %s/%s on node %s", want.Namespace, want.Name, s.Target.Node)
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating %s: %w", what, err)
	}
	have, err := pods.Get(ctx, want.Name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading %s, which exists already: %w", what, err)
	}
	if why := differs(have, want); why != "" {
		return fmt.Errorf("creating %s: %w: its %s differs; delete it to free the attempt", what, ErrForeign, why)
	}
	return nil
}

// Try says whether a check could be made: it reads the pods of the namespace and
// has the API server do everything but keep the very pod. Nil means that it could.
func Try(ctx context.Context, cluster kubernetes.Interface, p policy.CheckProbe) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	pods := cluster.CoreV1().Pods(api.NodeCheckNamespace)
	if _, err := pods.List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return fmt.Errorf("listing pods in namespace %s: %w", api.NodeCheckNamespace, err)
	}
	want := render(policy.CheckStart{Target: p.Target, Check: p.Check, Timeout: p.Timeout()})
	want.Name, want.GenerateName = "", tryName
	what := fmt.Sprintf("creating a pod in namespace %s on node %s, as a dry run", api.NodeCheckNamespace, p.Target.Node)
	have, err := pods.Create(ctx, want, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if why := differs(have, want); why != "" {
		return fmt.Errorf("%s: the API server changed its %s, so its result could not be told from another pod's; look at the admission webhooks and policies there", what, why)
	}
	return nil
}

// differs says in what a pod is not the one that is wanted; empty means nothing.
func differs(have, want *corev1.Pod) string {
	for key, value := range want.Labels {
		if have.Labels[key] != value {
			return "label " + key
		}
	}
	for key, value := range want.Annotations {
		if have.Annotations[key] != value {
			return "annotation " + key
		}
	}
	check, asked := containerOf(have), containerOf(want)
	switch {
	case have.Spec.NodeName != want.Spec.NodeName:
		return "node"
	case check.Image != asked.Image:
		return "image"
	case !slices.Equal(check.Command, asked.Command) || !slices.Equal(check.Args, asked.Args):
		return "command"
	}
	return ""
}

// Remove deletes the pod that was read, and no other that has come to bear its
// name. One that is gone already is fine.
func Remove(ctx context.Context, cluster kubernetes.Interface, r policy.CheckRemoval) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	uid := types.UID(r.UID)
	err := cluster.CoreV1().Pods(api.NodeCheckNamespace).Delete(ctx, r.Pod, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return fmt.Errorf("deleting pod %s/%s: %w", api.NodeCheckNamespace, r.Pod, err)
}

// marks are the labels by which pods of a repair are found.
func marks(remediation string) labels.Set {
	return labels.Set{
		api.LabelManagedBy: "pharos", api.LabelComponent: api.ComponentNodeCheck, api.LabelRemediation: remediation,
	}
}

// binding is what a pod was made for.
func binding(s policy.CheckStart) map[string]string {
	return map[string]string{
		api.AnnotationAttempt: strconv.Itoa(int(s.Record.Attempt)),
		api.AnnotationNodeUID: s.Record.NodeUID,
		api.AnnotationBootID:  s.Record.BootID,
	}
}
