package workload

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// maxAddresses is how many addresses the API keeps of a part.
const maxAddresses = 32

// Observation is what runs in a place at one moment.
type Observation struct {
	// Parts are the workloads, by name.
	Parts []v1alpha1.PartStatus
	// Pods are the addresses, host:port, of the pods of each workload, ready
	// or not, as long as they have one.
	Pods map[string][]string
	// Serving is the address of a pod that is ready, whatever it was made of, of each
	// workload that has one.
	Serving map[string]string
	// Since is when that pod was made.
	Since map[string]time.Time
	// Unproven are the StatefulSets of which no pod has been ready since they were
	// changed last.
	Unproven map[string]bool
	// Served are the StatefulSets of which a pod was ready once, where that was written down.
	Served map[string]bool
	// Settled are the StatefulSets that have been ready for as long as they ask for.
	Settled map[string]bool
}

func unseen() Observation {
	return Observation{
		Pods: map[string][]string{}, Serving: map[string]string{}, Since: map[string]time.Time{},
		Unproven: map[string]bool{}, Served: map[string]bool{}, Settled: map[string]bool{},
	}
}

// Part is what was seen of a workload, nothing if there is none.
func (o Observation) Part(name string) v1alpha1.PartStatus {
	for _, p := range o.Parts {
		if p.Name == name {
			return p
		}
	}
	return v1alpha1.PartStatus{}
}

// Waiting names the parts that are not all ready.
func (o Observation) Waiting() []string {
	var names []string
	for _, p := range o.Parts {
		if p.Ready < p.Desired {
			names = append(names, p.Name)
		}
	}
	return names
}

// of leaves out the workloads that are none of the objects.
func (o Observation) of(objects Objects) Observation {
	o.Parts = slices.DeleteFunc(slices.Clone(o.Parts), func(p v1alpha1.PartStatus) bool {
		return !slices.ContainsFunc(objects, func(wanted runtime.ApplyConfiguration) bool { return Name(wanted) == p.Name })
	})
	return o
}

// set is a StatefulSet or a Deployment.
type set struct {
	name    string
	desired int32
	behind  bool
	// revision is what the pods of a StatefulSet are to be made of.
	revision string
	selector map[string]string
	port     int32
	// available counts the pods that have been ready for long enough.
	available int32
	served    bool
	// unproven says that no pod of the newest revision was ready yet, as the
	// StatefulSet's controller writes down.
	unproven bool
}

// Observe reads the workloads of the place and their pods. A pod counts as
// ready when its workload's latest change has been taken up and the pod says so.
func (p Place) Observe(ctx context.Context, c client.Reader) (Observation, error) {
	sets, err := p.sets(ctx, c)
	if err != nil {
		return Observation{}, err
	}
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(p.Namespace), client.MatchingLabels{v1alpha1.LabelManagedBy: "pharos"}); err != nil {
		return Observation{}, fmt.Errorf("listing pods: %w", err)
	}
	o := unseen()
	for _, s := range sets {
		o.Parts = append(o.Parts, s.observe(pods.Items, &o))
		o.Unproven[s.name] = s.unproven
		o.Served[s.name], o.Settled[s.name] = s.served, !s.behind && s.available >= s.desired
	}
	return o, nil
}

func (p Place) sets(ctx context.Context, c client.Reader) ([]set, error) {
	labels := maps.Clone(p.Labels)
	labels[v1alpha1.LabelManagedBy] = "pharos"
	options := []client.ListOption{client.InNamespace(p.Namespace), client.MatchingLabels(labels)}
	var stateful appsv1.StatefulSetList
	if err := c.List(ctx, &stateful, options...); err != nil {
		return nil, fmt.Errorf("listing StatefulSets: %w", err)
	}
	var deployments appsv1.DeploymentList
	if err := c.List(ctx, &deployments, options...); err != nil {
		return nil, fmt.Errorf("listing Deployments: %w", err)
	}
	var sets []set
	for _, s := range stateful.Items {
		sets = append(sets, set{
			name: s.Name, desired: ptr.Deref(s.Spec.Replicas, 1), behind: s.Status.ObservedGeneration < s.Generation, revision: s.Status.UpdateRevision,
			selector: s.Spec.Selector.MatchLabels, port: port(s.Spec.Template), available: s.Status.AvailableReplicas, served: s.Annotations[AnnotationServed] != "",
			unproven: s.Status.ObservedGeneration < s.Generation || s.Status.CurrentRevision != s.Status.UpdateRevision,
		})
	}
	for _, d := range deployments.Items {
		sets = append(sets, set{
			name: d.Name, desired: ptr.Deref(d.Spec.Replicas, 1), behind: d.Status.ObservedGeneration < d.Generation,
			selector: d.Spec.Selector.MatchLabels, port: port(d.Spec.Template),
		})
	}
	slices.SortFunc(sets, func(a, b set) int { return strings.Compare(a.name, b.name) })
	return sets, nil
}

// observe gives what is told of the workload, and adds its pods to the rest.
func (s set) observe(pods []corev1.Pod, o *Observation) v1alpha1.PartStatus {
	var all []string
	part := v1alpha1.PartStatus{Name: s.name, Desired: s.desired}
	for _, p := range pods {
		if !matches(s.selector, p.Labels) || !serves(&p) {
			continue
		}
		address := net.JoinHostPort(p.Status.PodIP, strconv.Itoa(int(s.port)))
		all = append(all, address)
		if ready(&p) {
			o.Serving[s.name], o.Since[s.name] = address, p.CreationTimestamp.Time
		}
		if !s.behind && ready(&p) && s.made(&p) {
			part.Ready++
			part.Addresses = append(part.Addresses, address)
		}
	}
	slices.Sort(all)
	o.Pods[s.name] = all
	slices.Sort(part.Addresses)
	if len(part.Addresses) > maxAddresses {
		part.Addresses = part.Addresses[:maxAddresses]
	}
	return part
}

// made tells whether a pod is of the newest revision. While the old one ends, it is
// as ready as it was.
func (s set) made(p *corev1.Pod) bool {
	return s.revision == "" || p.Labels[appsv1.ControllerRevisionHashLabelKey] == s.revision
}

// serves leaves out pods that have no address, have ended or are on their way out.
func serves(p *corev1.Pod) bool {
	ended := p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	return p.Status.PodIP != "" && p.DeletionTimestamp == nil && !ended
}

func ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

func matches(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return true
}

func port(t corev1.PodTemplateSpec) int32 {
	for _, c := range t.Spec.Containers {
		for _, p := range c.Ports {
			if p.Name == portName {
				return p.ContainerPort
			}
		}
	}
	return 0
}
