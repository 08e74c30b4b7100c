package workload

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// Sizes of the volumes that are claimed by what is no Prometheus.
const (
	AlertmanagerVolume = "1Gi"
	NotifyVolume       = "1Gi"
)

const dataVolume = "data"

// Server is one stock Prometheus.
type Server struct {
	Part
	Files map[string][]byte
	// Retention is how long it keeps samples, in Prometheus' notation.
	Retention string
	// Flags beside the usual.
	Flags []string
	// Size is what it is given.
	Size Size
	// Secrets are mounted each in the folder of SecretsPath named for its key.
	Secrets map[string]string
	// StartsWithoutSecrets is set where each is for one of many things that it does.
	StartsWithoutSecrets bool
	// Settles is how long it must have been ready to stand in for the other of its pair.
	Settles time.Duration
}

// PrometheusServer returns the objects of a stock Prometheus. It follows changes
// of its files by itself; what it keeps, and what its links need, are flags.
func (p Place) PrometheusServer(s Server) Objects {
	volumes := []volume{filesVolume("config", "/etc/prometheus", s.Name, s.Files), templateVolume(dataVolume, "/prometheus")}
	volumes = append(volumes, secretVolumes(s.Secrets, s.StartsWithoutSecrets)...)
	args := []string{
		"--config.file=/etc/prometheus/prometheus.yml",
		"--config.auto-reload",
		"--config.auto-reload-interval=5s",
		"--storage.tsdb.path=/prometheus",
		"--storage.tsdb.retention.time=" + s.Retention,
		blocks(s.Size.Volume),
		listen("web.listen-address", s.Port),
	}
	c := container(Prometheus, s.Part, append(args, s.Flags...), health{"/-/healthy", "/-/ready"}, volumes).
		WithResources(corev1ac.ResourceRequirements().WithRequests(s.Size.requests()).WithLimits(s.Size.limits()))
	template := pod(s.Part, p.podLabels(s.Part, Prometheus), "", true, c, volumes)
	template.Spec.WithTopologySpreadConstraints(spread(s.Part, Prometheus)...)
	set := p.statefulSet(s.Part, Prometheus, template, s.Size.Volume)
	if s.Settles > 0 {
		set.Spec.WithMinReadySeconds(int32(s.Settles / time.Second))
	}
	return append(p.ConfigMaps(s.Part, Prometheus, s.Files), set)
}

func (p Place) statefulSet(part Part, program string, template *corev1ac.PodTemplateSpecApplyConfiguration, size resource.Quantity) *appsv1ac.StatefulSetApplyConfiguration {
	s := appsv1ac.StatefulSet(part.Name, p.Namespace).
		WithLabels(p.labels(part, program)).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(1).
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(part, program))).
			WithTemplate(template).
			WithVolumeClaimTemplates(claimTemplate(size)).
			// What is kept is two days of recorded series: it goes with its server.
			WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(appsv1.DeletePersistentVolumeClaimRetentionPolicyType).
				WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)))
	if p.Owner != nil {
		s.WithOwnerReferences(p.Owner)
	}
	return s
}

func claimTemplate(size resource.Quantity) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	return corev1ac.PersistentVolumeClaim(dataVolume, "").WithSpec(claimSpec(size))
}

func claimSpec(size resource.Quantity) *corev1ac.PersistentVolumeClaimSpecApplyConfiguration {
	return corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceStorage: size}))
}
