package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// Unsupported lists what a pod asks for that a host process cannot have, and whose absence would change what the pod
// does. Resources, tolerations, affinity, users and other hardening have no effect, and are not listed.
func Unsupported(pod *corev1.Pod) []string {
	l := list{}
	s := &pod.Spec
	l.when(s.HostNetwork, "spec.hostNetwork")
	l.when(s.HostPID, "spec.hostPID")
	l.when(s.HostIPC, "spec.hostIPC")
	l.when(s.ShareProcessNamespace != nil && *s.ShareProcessNamespace, "spec.shareProcessNamespace")
	l.when(s.ActiveDeadlineSeconds != nil, "spec.activeDeadlineSeconds")
	l.when(len(s.ReadinessGates) > 0, "spec.readinessGates")
	l.when(len(s.HostAliases) > 0, "spec.hostAliases")
	l.when(len(s.EphemeralContainers) > 0, "spec.ephemeralContainers")
	for i := range s.Volumes {
		l.volume(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		l.when(c.RestartPolicy != nil, c.Name+": restartPolicy of an init container")
		l.container(c, s.Volumes)
	}
	for i := range s.Containers {
		l.container(&s.Containers[i], s.Volumes)
	}
	return l
}

type list []string

func (l *list) when(cond bool, what string) {
	if cond {
		*l = append(*l, what)
	}
}

func (l *list) volume(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil, v.Secret != nil, v.EmptyDir != nil, v.PersistentVolumeClaim != nil:
	case v.DownwardAPI != nil:
		l.downward(v.Name, v.DownwardAPI.Items)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			l.when(s.ClusterTrustBundle != nil, "volume "+v.Name+": clusterTrustBundle")
			l.when(s.PodCertificate != nil, "volume "+v.Name+": podCertificate")
			if s.DownwardAPI != nil {
				l.downward(v.Name, s.DownwardAPI.Items)
			}
		}
	default:
		l.when(true, "volume "+v.Name+": a kind other than configMap, secret, projected, downwardAPI, emptyDir and persistentVolumeClaim")
	}
}

func (l *list) downward(volume string, items []corev1.DownwardAPIVolumeFile) {
	for _, item := range items {
		l.when(item.ResourceFieldRef != nil, "volume "+volume+": resourceFieldRef")
	}
}

func (l *list) container(c *corev1.Container, volumes []corev1.Volume) {
	l.when(c.Lifecycle != nil, c.Name+": lifecycle")
	l.when(c.TTY, c.Name+": tty")
	l.when(c.Stdin, c.Name+": stdin")
	l.when(len(c.VolumeDevices) > 0, c.Name+": volumeDevices")
	l.when(c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged, c.Name+": privileged")
	for _, p := range c.Ports {
		l.when(p.HostPort != 0, fmt.Sprintf("%s: hostPort %d", c.Name, p.HostPort))
	}
	for _, e := range c.Env {
		l.when(e.ValueFrom != nil && (e.ValueFrom.ResourceFieldRef != nil || e.ValueFrom.FileKeyRef != nil),
			c.Name+": variable "+e.Name+" from a resource or a file")
	}
	for _, m := range c.VolumeMounts {
		l.mount(c.Name, m, volumes)
	}
	l.probe(c.Name+": livenessProbe", c.LivenessProbe)
	l.probe(c.Name+": readinessProbe", c.ReadinessProbe)
	l.probe(c.Name+": startupProbe", c.StartupProbe)
}

func (l *list) mount(container string, m corev1.VolumeMount, volumes []corev1.Volume) {
	where := container + ": mount " + m.MountPath
	l.when(m.SubPathExpr != "", where+": subPathExpr")
	l.when(m.MountPath == "/", where+": the root folder")
	l.when(m.MountPropagation != nil && *m.MountPropagation != corev1.MountPropagationNone, where+": mountPropagation")
	for _, v := range volumes {
		l.when(v.Name == m.Name && m.SubPath != "" && v.EmptyDir == nil && v.PersistentVolumeClaim == nil,
			where+": subPath of a volume that follows the API")
	}
}

func (l *list) probe(where string, p *corev1.Probe) {
	if p == nil {
		return
	}
	l.when(p.Exec != nil, where+" by exec")
	l.when(p.GRPC != nil, where+" by gRPC")
	l.when(p.TerminationGracePeriodSeconds != nil, where+": terminationGracePeriodSeconds")
}
