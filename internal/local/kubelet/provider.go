package kubelet

import (
	"context"
	"time"

	"github.com/virtual-kubelet/virtual-kubelet/errdefs"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// provider is what virtual-kubelet tells of pods. Each call only hands the news to the pod's worker.
type provider struct{ k *Kubelet }

// CreatePod implements node.PodLifecycleHandler.
func (p provider) CreatePod(_ context.Context, pod *corev1.Pod) error {
	p.k.startWorker(pod)
	return nil
}

// UpdatePod implements node.PodLifecycleHandler.
func (p provider) UpdatePod(_ context.Context, pod *corev1.Pod) error {
	if w := p.k.worker(pod.UID); w != nil {
		w.setPod(pod)
	}
	return nil
}

// DeletePod implements node.PodLifecycleHandler. It does not wait for the containers to end.
func (p provider) DeletePod(ctx context.Context, pod *corev1.Pod) error {
	if w := p.k.worker(pod.UID); w != nil {
		w.terminate(gracePeriod(pod))
		return nil
	}
	// Nothing of it runs here, so that there is nothing to wait for.
	return p.k.deleteFromAPI(ctx, pod)
}

// GetPod implements node.PodLifecycleHandler. A pod that has made room for another of its name is not found.
func (p provider) GetPod(_ context.Context, namespace, name string) (*corev1.Pod, error) {
	w := p.k.workerByName(namespace, name)
	if w == nil {
		return nil, errdefs.NotFoundf("pod %s/%s is not known to this node", namespace, name)
	}
	return w.snapshot().Pod.DeepCopy(), nil
}

// GetPodStatus implements node.PodLifecycleHandler.
func (p provider) GetPodStatus(ctx context.Context, namespace, name string) (*corev1.PodStatus, error) {
	pod, err := p.GetPod(ctx, namespace, name)
	if err != nil {
		return nil, err
	}
	return &pod.Status, nil
}

// GetPods implements node.PodLifecycleHandler.
func (p provider) GetPods(context.Context) ([]*corev1.Pod, error) {
	var out []*corev1.Pod
	for _, w := range p.k.allWorkers() {
		out = append(out, w.snapshot().Pod.DeepCopy())
	}
	return out, nil
}

// NotifyPods implements node.PodNotifier, and takes no notice. The kubelet writes statuses on its own: virtual-kubelet
// would write the whole pod, and with it labels and annotations that somebody has just changed.
func (p provider) NotifyPods(context.Context, func(*corev1.Pod)) {}

// gracePeriod is how long the containers of a pod may take to end.
func gracePeriod(pod *corev1.Pod) time.Duration {
	switch {
	case pod.DeletionGracePeriodSeconds != nil:
		return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
	case pod.Spec.TerminationGracePeriodSeconds != nil:
		return time.Duration(*pod.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return corev1.DefaultTerminationGracePeriodSeconds * time.Second
}

// deleteFromAPI removes the object of a pod of which nothing runs any more.
func (k *Kubelet) deleteFromAPI(ctx context.Context, pod *corev1.Pod) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	options := *metav1.NewDeleteOptions(0)
	options.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
	err := k.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // gone, or another pod of the name by now
		return nil
	}
	return err
}

// startWorker begins to look after a pod. Pods of the same name that are still there are ended first.
func (k *Kubelet) startWorker(pod *corev1.Pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.workers[pod.UID]; ok || k.pods.Err() != nil {
		return
	}
	var before []*worker
	for _, w := range k.workers {
		if w.namespace == pod.Namespace && w.name == pod.Name {
			w.terminate(w.grace())
			before = append(before, w)
		}
	}
	w := newWorker(k, pod)
	k.workers[pod.UID] = w
	k.metrics.pods.Set(float64(len(k.workers)))
	k.running.Go(func() { w.run(before) })
}

func (k *Kubelet) worker(uid types.UID) *worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.workers[uid]
}

func (k *Kubelet) allWorkers() []*worker {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]*worker, 0, len(k.workers))
	for _, w := range k.workers {
		out = append(out, w)
	}
	return out
}

// workerByName finds the worker of a name, unless the API has another pod of that name by now.
func (k *Kubelet) workerByName(namespace, name string) *worker {
	pod, err := k.caches.nodePods.Lister().Pods(namespace).Get(name)
	for _, w := range k.allWorkers() {
		if w.namespace == namespace && w.name == name && (err != nil || pod.UID == w.uid) {
			return w
		}
	}
	return nil
}

func (k *Kubelet) forget(w *worker) {
	k.addrs.release(string(w.uid))
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.workers, w.uid)
	k.metrics.pods.Set(float64(len(k.workers)))
}

// configChanged makes the pods of a namespace look at their configuration again; "" is all namespaces.
func (k *Kubelet) configChanged(namespace string) {
	for _, w := range k.allWorkers() {
		if namespace == "" || w.namespace == namespace {
			w.changed.notify()
		}
	}
}
