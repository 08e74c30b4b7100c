package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/logs"
	"github.com/pharos-fleet/pharos/internal/local/kubelet/process"
)

// calmRun is how long a run must last for earlier crashes to be forgotten.
const calmRun = time.Minute

// Why a running container is ended although its pod goes on.
var (
	errFault     = errors.New(faultMessage)
	errImage     = errors.New("the image was changed")
	errUnhealthy = errors.New("the liveness or startup probe failed")
)

// runContainer runs a container as often as its pod's policy says. It returns true when the container has ended well for
// good, and false when it has failed for good or the pod must stop.
func (w *worker) runContainer(name string, isInit bool) bool {
	crashes := 0
	for w.ctx.Err() == nil {
		if c := w.container(name); c.Finished {
			return c.succeeded()
		}
		if !w.waitWithoutFault(name) || !w.waitDelay(name, crashes) {
			return false
		}
		exit, ran, cause := w.runOnce(name, isInit)
		switch {
		case !ran || errors.Is(cause, errFault) || errors.Is(cause, errImage):
		case exit.FinishedAt.Sub(exit.StartedAt) >= calmRun:
			crashes = 1
		default:
			crashes++
		}
	}
	return false
}

// waitWithoutFault keeps a container stopped while its pod has the fault. It returns false when the pod must stop.
func (w *worker) waitWithoutFault(name string) bool {
	for w.ctx.Err() == nil {
		changed := w.changed.wait()
		if !faulted(w.snapshot().Pod) {
			return true
		}
		w.hold(name, reasonFault, faultMessage)
		w.pause(changed)
	}
	return false
}

// waitDelay keeps a crashing container from being restarted too often. It returns false when the pod must stop.
func (w *worker) waitDelay(name string, crashes int) bool {
	delay := restartDelay(crashes, w.k.opts.RestartDelay, w.k.opts.MaxRestartDelay)
	if delay == 0 {
		return w.ctx.Err() == nil
	}
	w.hold(name, reasonCrashLoop, fmt.Sprintf("back-off %s restarting failed container %s", delay, name))
	w.warn("BackOff", fmt.Sprintf("Back-off restarting failed container %s", name))
	timer := time.NewTimer(delay)
	defer timer.Stop()
	for {
		changed := w.changed.wait()
		if faulted(w.snapshot().Pod) {
			return true // the fault is handled before the next start
		}
		select {
		case <-timer.C:
			return true
		case <-changed:
		case <-w.ctx.Done():
			return false
		}
	}
}

// hold makes a container wait for a reason. How it ended last stays to be seen.
func (w *worker) hold(name, reason, message string) {
	w.updateContainer(name, func(c *containerState) {
		if c.State.Terminated != nil {
			c.Last = c.State
		}
		c.State = waiting(reason, message)
		c.Ready, c.Started = false, false
	})
}

// runOnce runs a container to its end. It returns how that came, false when the container could not be run at all yet, and
// why the kubelet ended it if it did.
func (w *worker) runOnce(name string, isInit bool) (exit process.Exit, ran bool, cause error) {
	if faulted(w.snapshot().Pod) {
		return exit, false, errFault
	}
	changed := w.changed.wait()
	spec, err := w.launchSpec(name)
	if err != nil {
		w.hold(name, reasonConfigError, err.Error())
		w.pause(changed)
		return exit, false, nil
	}
	run := w.container(name).Runs
	out, err := logs.NewWriter(w.k.logPath(w.uid, name, run), w.k.opts.LogLimitBytes, w.logFailed)
	if err != nil {
		w.hold(name, reasonConfigError, err.Error())
		w.pause(changed)
		return exit, false, nil
	}
	spec.Output = out
	exit, cause = w.execute(name, run, isInit, spec)
	_ = out.Close()
	w.dropOldLog(name, run)
	return exit, true, cause
}

func (w *worker) logFailed(error) { w.k.metrics.logFails.Inc() }

// execute starts the process, watches over it and records its end.
func (w *worker) execute(name string, run int32, isInit bool, spec process.Spec) (process.Exit, error) {
	id := fmt.Sprintf("process://%s/%s/%d", w.uid, name, run)
	p, err := w.k.starter.Start(spec)
	if err != nil {
		now := time.Now()
		exit := process.Exit{Code: 128, StartedAt: now, FinishedAt: now}
		w.recordEnd(name, isInit, exit, id, err)
		return exit, nil
	}
	w.k.metrics.starts.Inc()
	w.k.log.Info("Container started", slog.String("pod", w.key()), slog.String("container", name),
		slog.Int("pid", p.PID()), slog.Int("run", int(run)))
	w.updateContainer(name, func(c *containerState) {
		if c.State.Terminated != nil {
			c.Last = c.State
		}
		c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(p.StartedAt())}}
		c.Runs, c.ID = run+1, id
	})
	cause := w.watch(name, isInit, p)
	exit := w.stopProcess(p, cause)
	w.recordEnd(name, isInit, exit, id, cause)
	return exit, cause
}

// stopProcess ends a process as the cause demands, and waits. A fault plays a death, so it comes without warning.
func (w *worker) stopProcess(p *process.Process, cause error) process.Exit {
	if errors.Is(cause, errFault) {
		return p.Stop(w.killed, 0)
	}
	return p.Stop(w.killed, w.grace())
}

// watch waits until a process ends or must end, and returns why it must, nil if it did by itself.
func (w *worker) watch(name string, isInit bool, p *process.Process) error {
	ctx, cancel := context.WithCancelCause(w.ctx)
	c := findContainer(w.snapshot().Pod, name)
	probes := w.startProbes(ctx, c, isInit, cancel)
	defer func() {
		cancel(nil)
		probes.Wait()
	}()
	for {
		changed := w.changed.wait()
		pod := w.snapshot().Pod
		switch {
		case faulted(pod):
			return errFault
		case findContainer(pod, name).Image != c.Image:
			return errImage
		}
		select {
		case <-p.Done():
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		}
	}
}

// recordEnd puts the end of a run into the state. What ends because the kubelet does is not the container's doing, and
// stays as it was for the next kubelet to judge.
func (w *worker) recordEnd(name string, isInit bool, exit process.Exit, id string, cause error) {
	message := ""
	if cause != nil && !errors.Is(cause, errDeleted) {
		message = cause.Error()
	}
	end := terminated(exit, id, message)
	if exit.Code == 128 && cause != nil {
		end.Terminated.Reason = reasonStartError
	}
	w.k.metrics.exits.WithLabelValues(end.Terminated.Reason).Inc()
	w.k.log.Info("Container ended", slog.String("pod", w.key()), slog.String("container", name), slog.Int("exitCode", int(exit.Code)),
		slog.String("reason", end.Terminated.Reason), slog.String("message", message))
	policy := w.snapshot().Pod.Spec.RestartPolicy
	byKubelet := errors.Is(cause, errFault) || errors.Is(cause, errImage) || errors.Is(cause, errStopped)
	w.updateContainer(name, func(c *containerState) {
		c.State, c.ID = end, id
		c.Ready, c.Started = false, false
		c.Finished = !byKubelet && !willRestart(policy, isInit, exit.Code)
		if end.Terminated.Reason == reasonStartError {
			c.Runs++
		}
	})
}

func findContainer(pod *corev1.Pod, name string) *corev1.Container {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if containers[i].Name == name {
				return &containers[i]
			}
		}
	}
	return nil
}
