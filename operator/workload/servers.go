package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// Sizes of the volumes that are claimed. They hold a day of recorded series of
// a large geography, and can be grown by hand: the operator never shrinks one.
const (
	PrometheusVolume   = "20Gi"
	AlertmanagerVolume = "1Gi"
	NotifyVolume       = "1Gi"
)

const dataVolume = "data"

// PrometheusServer returns the objects of a stock Prometheus with the given
// files. It follows changes of the files by itself; retention, in Prometheus'
// notation, is a flag.
func (p Place) PrometheusServer(part Part, files map[string][]byte, retention string) Objects {
	volumes := []volume{configVolume("config", "/etc/prometheus", part.Name), templateVolume(dataVolume, "/prometheus")}
	c := container(Prometheus, part, []string{
		"--config.file=/etc/prometheus/prometheus.yml",
		"--config.auto-reload",
		"--config.auto-reload-interval=5s",
		"--storage.tsdb.path=/prometheus",
		"--storage.tsdb.retention.time=" + retention,
		listen("web.listen-address", part.Port),
	}, health{"/-/healthy", "/-/ready"}, volumes)
	labels := p.labels(part, Prometheus)
	template := pod(part, labels, "", true, c, volumes)
	return Objects{
		p.ConfigMap(part, Prometheus, files),
		p.statefulSet(part, Prometheus, template, PrometheusVolume),
	}
}

// AlertmanagerServer returns the objects of a stock Alertmanager with the given
// files. It does not follow its files, so a change of them is a new pod. There
// is one server: gossip is off.
func (p Place) AlertmanagerServer(part Part, files map[string][]byte) Objects {
	volumes := []volume{configVolume("config", "/etc/alertmanager", part.Name), templateVolume(dataVolume, "/alertmanager")}
	c := container(Alertmanager, part, []string{
		"--config.file=/etc/alertmanager/alertmanager.yml",
		"--storage.path=/alertmanager",
		listen("web.listen-address", part.Port),
		"--cluster.listen-address=",
	}, health{"/-/healthy", "/-/ready"}, volumes)
	template := pod(part, p.labels(part, Alertmanager), Hash(files), false, c, volumes)
	return Objects{
		p.ConfigMap(part, Alertmanager, files),
		p.statefulSet(part, Alertmanager, template, AlertmanagerVolume),
	}
}

func (p Place) statefulSet(part Part, program string, template *corev1ac.PodTemplateSpecApplyConfiguration, size string) *appsv1ac.StatefulSetApplyConfiguration {
	s := appsv1ac.StatefulSet(part.Name, p.Namespace).
		WithLabels(p.labels(part, program)).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(1).
			WithPodManagementPolicy(appsv1.ParallelPodManagement).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(part, program))).
			WithTemplate(template).
			WithVolumeClaimTemplates(claimTemplate(size)).
			// What is kept is a day of recorded series: it goes with its server.
			WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(appsv1.DeletePersistentVolumeClaimRetentionPolicyType).
				WithWhenScaled(appsv1.RetainPersistentVolumeClaimRetentionPolicyType)))
	if p.Owner != nil {
		s.WithOwnerReferences(p.Owner)
	}
	return s
}

func claimTemplate(size string) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	return corev1ac.PersistentVolumeClaim(dataVolume, "").WithSpec(claimSpec(size))
}

func claimSpec(size string) *corev1ac.PersistentVolumeClaimSpecApplyConfiguration {
	return corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithResources(corev1ac.VolumeResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}))
}
