package kubelet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/podspec"
	"github.com/pharos-fleet/pharos/internal/local/kubelet/volume"
)

// followInterval is how often a pod's files are compared to the API even if no event says so. Tokens are renewed by it.
const followInterval = 30 * time.Second

// mounted lays out the folders and files of the pod.
func (w *worker) mounted(ctx context.Context) (string, error) {
	if w.finished() {
		return "", nil // it will not run again, so it needs no files
	}
	if err := newPodFolder(w.dir); err != nil {
		return reasonCreating, err
	}
	pod := w.podWithAddress()
	for _, c := range allContainers(pod) {
		if err := os.MkdirAll(w.rootOf(c.Name), 0o700); err != nil {
			return reasonCreating, fmt.Errorf("creating container root: %w", err)
		}
	}
	_, err := w.writeVolumes(ctx, pod)
	return reasonCreating, err
}

func allContainers(pod *corev1.Pod) []corev1.Container {
	return slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
}

// followVolumes keeps the files like the API until the context ends. When it cannot, the files stay as they were.
func (w *worker) followVolumes(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		changed := w.changed.wait()
		n, err := w.writeVolumes(ctx, w.podWithAddress())
		w.k.metrics.volumes.Add(float64(n))
		if err != nil && ctx.Err() == nil && err.Error() != last {
			w.warn("FailedMount", err.Error())
			last = err.Error()
		}
		if err == nil {
			last = ""
		}
		select {
		case <-changed:
		case <-time.After(followInterval):
		case <-ctx.Done():
		}
	}
}

// writeVolumes brings all mounts of the pod up to date, and returns how many changed.
func (w *worker) writeVolumes(ctx context.Context, pod *corev1.Pod) (changed int, err error) {
	payloads, err := w.payloads(ctx, pod)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, c := range allContainers(pod) {
		paths := podspec.NewPaths(w.rootOf(c.Name), c.VolumeMounts)
		// Shorter paths first, so that a mount inside another finds it there.
		mounts := slices.SortedFunc(slices.Values(c.VolumeMounts), func(a, b corev1.VolumeMount) int {
			return len(a.MountPath) - len(b.MountPath)
		})
		for _, m := range mounts {
			news, err := w.mount(pod, m, paths.Host(m.MountPath), payloads)
			errs = append(errs, err)
			if news {
				changed++
			}
		}
	}
	return changed, errors.Join(errs...)
}

// payloads renders every volume that follows the API.
func (w *worker) payloads(ctx context.Context, pod *corev1.Pod) (map[string]volume.Payload, error) {
	sources := volume.Sources{Pod: pod, Configs: podConfigs{w.k.caches, w.namespace}, Tokens: w.tokens}
	out := map[string]volume.Payload{}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if !volume.Follows(v) {
			continue
		}
		p, err := volume.Render(ctx, v, sources)
		if err != nil {
			return nil, err
		}
		out[v.Name] = p
	}
	return out, nil
}

// mount brings one mount path up to date. Files that follow the API are written in place, so that relative paths between
// mounts work; folders that are shared or outlive the pod are linked.
func (w *worker) mount(pod *corev1.Pod, m corev1.VolumeMount, at string, payloads map[string]volume.Payload) (bool, error) {
	if p, ok := payloads[m.Name]; ok {
		return volume.Write(at, p)
	}
	folder, err := w.folderOf(pod, m.Name)
	if err != nil {
		return false, err
	}
	if !filepath.IsLocal(filepath.Join(".", m.SubPath)) {
		return false, fmt.Errorf("mounting %s: subPath %q leaves the volume", m.MountPath, m.SubPath)
	}
	return false, volume.Link(at, filepath.Join(folder, m.SubPath))
}

// folderOf returns the folder behind a volume that is one.
func (w *worker) folderOf(pod *corev1.Pod, name string) (string, error) {
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.Name != name:
		case v.EmptyDir != nil:
			return filepath.Join(w.dir, "volumes", name), nil
		case v.PersistentVolumeClaim != nil:
			return w.k.claimFolder(w.namespace, v.PersistentVolumeClaim.ClaimName)
		}
	}
	return "", fmt.Errorf("pod has no volume %q with a folder", name)
}
