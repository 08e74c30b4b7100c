package kubelet

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
)

// statusWriters is how many statuses are written at once.
const statusWriters = 2

// writeStatuses writes the statuses of pods that changed, until the queue is shut down.
func (k *Kubelet) writeStatuses(ctx context.Context) {
	var wg sync.WaitGroup
	for range statusWriters {
		wg.Go(func() {
			for k.writeNext(ctx) {
			}
		})
	}
	wg.Wait()
}

func (k *Kubelet) writeNext(ctx context.Context) bool {
	uid, shutdown := k.statuses.Get()
	if shutdown {
		return false
	}
	defer k.statuses.Done(uid)
	w := k.worker(uid)
	if w == nil {
		k.statuses.Forget(uid)
		return true
	}
	if err := k.writeStatus(ctx, w); err != nil && ctx.Err() == nil {
		k.metrics.statusFails.Inc()
		k.log.Warn("Writing pod status failed", slog.String("pod", w.key()), slog.Any("error", err))
		k.statuses.AddRateLimited(uid)
		return true
	}
	k.statuses.Forget(uid)
	return true
}

// writeStatus makes the API show a pod's status. Nothing else of the pod is touched. A pod that is gone, or whose name
// another has by now, is no error.
func (k *Kubelet) writeStatus(ctx context.Context, w *worker) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	pod, err := k.caches.nodePods.Lister().Pods(w.namespace).Get(w.name)
	fresh := err != nil // ask the API, the cache does not know
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if fresh {
			if pod, err = k.client.CoreV1().Pods(w.namespace).Get(ctx, w.name, metav1.GetOptions{}); err != nil {
				return err
			}
		}
		fresh = true
		return k.updateStatus(ctx, w, pod)
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing status of pod %s: %w", w.key(), err)
	}
	return nil
}

func (k *Kubelet) updateStatus(ctx context.Context, w *worker, pod *corev1.Pod) error {
	if pod.UID != w.uid {
		return nil
	}
	state := w.snapshot()
	next := pod.DeepCopy()
	next.Status = podStatus(pod.Status, state, seconds(time.Now()))
	w.statusMu.Lock()
	defer w.statusMu.Unlock()
	// The cache may lag behind our own write, so what we wrote last counts as well.
	if equality.Semantic.DeepEqual(next.Status, pod.Status) && equality.Semantic.DeepEqual(next.Status, w.written) {
		return nil
	}
	if _, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, next, metav1.UpdateOptions{}); err != nil {
		return err
	}
	w.written = next.Status
	return nil
}

// sweep looks now and then for what no event told: pods that are gone from the API, statuses that somebody else changed,
// and folders of pods that ended while no kubelet ran.
func (k *Kubelet) sweep(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for {
		k.sweepOnce()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (k *Kubelet) sweepOnce() {
	// The workers first: a pod that is created meanwhile must not look as if it were gone.
	workers := k.allWorkers()
	entries, _ := os.ReadDir(k.podsDir()) // none before the first pod
	pods, _ := k.caches.nodePods.Lister().List(labels.Everything())
	known := map[types.UID]bool{}
	for _, pod := range pods {
		known[pod.UID] = true
	}
	for _, w := range workers {
		if known[w.uid] {
			w.publish()
			continue
		}
		w.terminate(w.grace())
	}
	for _, e := range entries {
		if uid := types.UID(e.Name()); !known[uid] && k.worker(uid) == nil {
			if err := os.RemoveAll(filepath.Join(k.podsDir(), e.Name())); err != nil {
				k.log.Warn("Removing pod folder failed", slog.String("folder", e.Name()), slog.Any("error", err))
			}
		}
	}
}
