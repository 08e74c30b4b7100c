package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/podspec"
	"github.com/pharos-fleet/pharos/internal/local/kubelet/process"
)

// retryInterval is how often something that a pod waits for is looked at even if no event says so.
const retryInterval = time.Second

// Why a worker ends.
var (
	errDeleted = errors.New("the pod is deleted")
	errStopped = errors.New("the kubelet ends")
)

// worker looks after one pod, from the first sight to the deletion. Its goroutine owns all others of the pod.
type worker struct {
	k               *Kubelet
	uid             types.UID
	namespace, name string
	dir             string
	tokens          *tokenCache

	// ctx ends when the pod must stop. killed ends when the grace for it is over.
	ctx    context.Context
	end    context.CancelCauseFunc
	killed context.Context
	kill   context.CancelFunc
	// done is closed when nothing of the pod is left.
	done chan struct{}
	// changed is told when the pod or its configuration changed.
	changed broadcast

	mu    sync.Mutex
	state podState
	stop  time.Duration

	statusMu sync.Mutex
	written  corev1.PodStatus
}

func newWorker(k *Kubelet, pod *corev1.Pod) *worker {
	w := &worker{
		k: k, uid: pod.UID, namespace: pod.Namespace, name: pod.Name, dir: k.podDir(pod.UID),
		tokens: newTokenCache(k.client, pod),
		done:   make(chan struct{}),
		state:  recoverState(pod, k.hostAddress(), seconds(time.Now())),
		stop:   gracePeriod(pod),
	}
	w.ctx, w.end = context.WithCancelCause(k.pods)
	w.killed, w.kill = context.WithCancel(context.Background())
	return w
}

// run is the pod's life.
func (w *worker) run(before []*worker) {
	defer close(w.done)
	defer w.kill()
	for _, old := range before {
		<-old.done
	}
	w.live()
	<-w.ctx.Done() // a pod that has finished waits for its deletion
	if errors.Is(context.Cause(w.ctx), errDeleted) {
		w.finish()
	}
}

// live runs the containers until all have finished or the pod must stop.
func (w *worker) live() {
	w.publish()
	if !w.until(w.admissible) || !w.until(w.addressed) || !w.until(w.mounted) {
		return
	}
	var following sync.WaitGroup
	follow, stopFollowing := context.WithCancel(w.ctx)
	following.Go(func() { w.followVolumes(follow) })
	defer following.Wait()
	defer stopFollowing()

	pod := w.snapshot().Pod
	for _, c := range pod.Spec.InitContainers {
		if !w.runContainer(c.Name, true) {
			return
		}
	}
	var containers sync.WaitGroup
	for _, c := range pod.Spec.Containers {
		containers.Go(func() { w.runContainer(c.Name, false) })
	}
	containers.Wait()
	w.k.addrs.release(string(w.uid))
}

// until tries a step until it succeeds, and returns false when the pod must stop before that. What the step waits for is
// told in the states of the containers.
func (w *worker) until(step func(ctx context.Context) (reason string, err error)) bool {
	for {
		changed := w.changed.wait()
		reason, err := step(w.ctx)
		if w.ctx.Err() != nil {
			return false
		}
		if err == nil {
			return true
		}
		w.holdAll(reason, err)
		w.pause(changed)
	}
}

// pause waits for a change, for a while, or for the end.
func (w *worker) pause(changed <-chan struct{}) {
	select {
	case <-changed:
	case <-time.After(retryInterval):
	case <-w.ctx.Done():
	}
}

// holdAll says in every container that has not finished why it does not start.
func (w *worker) holdAll(reason string, err error) {
	news := false
	w.update(func(s *podState) {
		for name, c := range s.Containers {
			next := waiting(reason, err.Error())
			if c.Finished || c.State.Waiting != nil && *c.State.Waiting == *next.Waiting {
				continue
			}
			news = true
			c.State = next
			s.Containers[name] = c
		}
	})
	if news {
		w.warn(reason, err.Error())
	}
}

// admissible refuses what this node cannot run.
func (w *worker) admissible(context.Context) (string, error) {
	pod := w.snapshot().Pod
	if what := podspec.Unsupported(pod); len(what) > 0 {
		return reasonUnsupported, fmt.Errorf("containers on this node are host processes, which cannot have: %s", strings.Join(what, "; "))
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			if _, err := w.k.opts.images().Find(c.Image); err != nil {
				return reasonUnknownImage, err
			}
		}
	}
	return "", nil
}

// addressed gives the pod its address.
func (w *worker) addressed(context.Context) (string, error) {
	s := w.snapshot()
	if s.Address != "" || w.finished() {
		return "", nil
	}
	addr, err := w.k.addrs.acquire(string(w.uid), w.namespace+"/"+w.name, s.Pod.Status.PodIP, w.k.addressTaken(w.uid))
	if err != nil {
		return reasonCreating, err
	}
	w.update(func(s *podState) { s.Address = addr.String() })
	return "", nil
}

// addressTaken says which addresses other pods have according to the API: after a restart of the kubelet they keep them.
func (k *Kubelet) addressTaken(uid types.UID) func(netip.Addr) bool {
	taken := map[string]bool{}
	pods, _ := k.caches.nodePods.Lister().List(labels.Everything()) // listing a cache does not fail
	for _, pod := range pods {
		over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if pod.UID != uid && !over && pod.DeletionTimestamp == nil {
			taken[pod.Status.PodIP] = true
		}
	}
	return func(a netip.Addr) bool { return taken[a.String()] }
}

// finished says that no container will run again.
func (w *worker) finished() bool {
	p := phase(w.snapshot())
	return p == corev1.PodSucceeded || p == corev1.PodFailed
}

// finish ends a deleted pod: the last status, the object and the folder.
func (w *worker) finish() {
	w.update(func(s *podState) { s.Terminating = true })
	if _, err := process.KillStrays(podDirVariable, w.dir); err != nil {
		w.k.log.Warn("Ending processes that left their container failed", slog.String("pod", w.key()), slog.Any("error", err))
	}
	w.k.addrs.release(string(w.uid))
	w.removeFromAPI()
	if err := os.RemoveAll(w.dir); err != nil {
		w.k.log.Warn("Removing pod folder failed", slog.String("pod", w.key()), slog.Any("error", err))
	}
	w.k.forget(w)
	w.k.log.Info("Pod ended", slog.String("pod", w.key()))
}

// removeFromAPI writes the last status and deletes the object, and tries until that is done or the kubelet ends.
func (w *worker) removeFromAPI() {
	for {
		err := w.k.writeStatus(w.k.pods, w)
		if err == nil {
			err = w.k.deleteFromAPI(w.k.pods, w.snapshot().Pod)
		}
		if err == nil {
			return
		}
		w.k.log.Warn("Deleting a pod that has ended failed", slog.String("pod", w.key()), slog.Any("error", err))
		select {
		case <-time.After(retryInterval):
		case <-w.k.pods.Done():
			return
		}
	}
}

// terminate makes the pod stop. A shorter grace than before counts; none at all kills at once.
func (w *worker) terminate(grace time.Duration) {
	w.mu.Lock()
	w.stop = min(w.stop, grace)
	w.mu.Unlock()
	if grace <= 0 {
		w.kill()
	}
	w.end(errDeleted)
}

// grace is how long a container may take to end.
func (w *worker) grace() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(context.Cause(w.ctx), errStopped) {
		return min(w.stop, w.k.opts.StopTimeout)
	}
	return w.stop
}

func (w *worker) setPod(pod *corev1.Pod) {
	w.update(func(s *podState) { s.Pod = pod })
	w.changed.notify()
}

// update changes the state and publishes it.
func (w *worker) update(f func(*podState)) {
	w.mu.Lock()
	f(&w.state)
	w.mu.Unlock()
	w.publish()
}

// updateContainer changes the state of one container and publishes it.
func (w *worker) updateContainer(name string, f func(*containerState)) {
	w.update(func(s *podState) {
		c := s.Containers[name]
		f(&c)
		s.Containers[name] = c
	})
}

// publish has the status written soon.
func (w *worker) publish() { w.k.statuses.Add(w.uid) }

// snapshot returns a copy of the state. The pod in it is not to be changed.
func (w *worker) snapshot() podState {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.state
	s.Containers = maps.Clone(w.state.Containers)
	return s
}

func (w *worker) container(name string) containerState { return w.snapshot().Containers[name] }

func (w *worker) key() string { return w.namespace + "/" + w.name }

// warn tells people who look at the pod of a trouble.
func (w *worker) warn(reason, message string) {
	w.k.recorder.Event(w.snapshot().Pod, corev1.EventTypeWarning, reason, message)
}

// broadcast wakes everyone who waits.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// wait returns a channel that is closed by the next notify. Take it before looking at what it guards.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
