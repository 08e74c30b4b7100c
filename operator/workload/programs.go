package workload

import (
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
)

// Program is one role of the pharos binary.
type Program struct {
	Part
	// Args follow the role's name and its listen address.
	Args []string
	// NoToken keeps the API server's token from a program that never asks it.
	NoToken bool
	// Files are mounted in ConfigPath. Nil means none.
	Files      map[string][]byte
	ConfigPath string
	// Secrets are mounted each in the folder of SecretsPath named for its key. It
	// starts without them: the relay serves the robots that have theirs.
	Secrets map[string]string
	// SpoolPath is where a volume of SpoolSize is mounted. Empty means none.
	SpoolPath, SpoolSize string
}

// Program returns the objects of one role of the pharos binary. There is one
// pod at a time: a role that leads waits for its Lease, and a spool has one
// writer.
func (p Place) Program(g Program) Objects {
	var objects Objects
	var volumes []volume
	hash := ""
	if g.Files != nil {
		objects = append(objects, p.ConfigMaps(g.Part, Pharos, g.Files)...)
		volumes = append(volumes, configVolume("config", g.ConfigPath, g.Name))
		hash = Hash(g.Files)
	}
	volumes = append(volumes, secretVolumes(g.Secrets, true)...)
	if g.SpoolPath != "" {
		objects = append(objects, p.claim(g.Part, g.SpoolSize))
		volumes = append(volumes, claimVolume("spool", g.SpoolPath, g.Name))
	}
	args := append([]string{g.Component, listen("listen", g.Port)}, g.Args...)
	c := container(Pharos, g.Part, args, health{"/healthz", "/readyz"}, volumes)
	return append(objects, p.deployment(g.Part, pod(g.Part, p.podLabels(g.Part, Pharos), hash, !g.NoToken, c, volumes)))
}

// SecretsPath holds a folder for each of a program's Secrets.
const SecretsPath = "/etc/secrets"

func (p Place) claim(part Part, size string) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	c := corev1ac.PersistentVolumeClaim(part.Name, p.Namespace).
		WithLabels(p.labels(part, Pharos)).
		WithSpec(claimSpec(resource.MustParse(size)))
	if p.Owner != nil {
		c.WithOwnerReferences(p.Owner)
	}
	return c
}

func (p Place) deployment(part Part, template *corev1ac.PodTemplateSpecApplyConfiguration) *appsv1ac.DeploymentApplyConfiguration {
	d := appsv1ac.Deployment(part.Name, p.Namespace).
		WithLabels(p.labels(part, Pharos)).
		WithSpec(appsv1ac.DeploymentSpec().
			WithReplicas(1).
			WithStrategy(appsv1ac.DeploymentStrategy().WithType(appsv1.RecreateDeploymentStrategyType)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(Selector(part, Pharos))).
			WithTemplate(template))
	if p.Owner != nil {
		d.WithOwnerReferences(p.Owner)
	}
	return d
}
