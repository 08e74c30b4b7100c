package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

const (
	portName = "http"
	// nobody needs no entry in any image's user file.
	nobody = 65534
	// AnnotationConfigHash makes, on a pod of a program that does not follow its
	// files, a change of the files a change of the pod.
	AnnotationConfigHash = "pharos.dev/config-hash"
)

// volume is one mount of a container and what is behind it.
type volume struct {
	name, path string
	readOnly   bool
	source     *corev1ac.VolumeApplyConfiguration
}

func configVolume(name, mount, configMap string) volume {
	return volume{name, mount, true, corev1ac.Volume().WithName(name).
		WithConfigMap(corev1ac.ConfigMapVolumeSource().WithName(configMap))}
}

// secretVolumes mount Secrets each in the folder of SecretsPath named for its key.
func secretVolumes(secrets map[string]string, optional bool) []volume {
	var volumes []volume
	for _, name := range sorted(secrets) {
		source := corev1ac.SecretVolumeSource().WithSecretName(secrets[name])
		if optional {
			source.WithOptional(true)
		}
		volumes = append(volumes, volume{"secret-" + name, path.Join(SecretsPath, name), true, corev1ac.Volume().WithName("secret-" + name).WithSecret(source)})
	}
	return volumes
}

func claimVolume(name, mount, claim string) volume {
	return volume{name, mount, false, corev1ac.Volume().WithName(name).
		WithPersistentVolumeClaim(corev1ac.PersistentVolumeClaimVolumeSource().WithClaimName(claim))}
}

// templateVolume is backed by a claim template of the pod's StatefulSet.
func templateVolume(name, mount string) volume { return volume{name: name, path: mount} }

// health is where a program says how it is.
type health struct{ live, ready string }

func container(name string, part Part, args []string, h health, volumes []volume) *corev1ac.ContainerApplyConfiguration {
	c := corev1ac.Container().
		WithName(name).
		WithImage(part.Image).
		WithArgs(args...).
		WithEnv(fieldEnv("POD_IP", "status.podIP"), fieldEnv("POD_NAMESPACE", "metadata.namespace")).
		WithPorts(corev1ac.ContainerPort().WithName(portName).WithContainerPort(part.Port)).
		WithLivenessProbe(probe(h.live, 10, 6)).
		WithReadinessProbe(probe(h.ready, 2, 3)).
		WithSecurityContext(corev1ac.SecurityContext().
			WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL")))
	for _, v := range volumes {
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName(v.name).WithMountPath(v.path).WithReadOnly(v.readOnly))
	}
	return c
}

func pod(part Part, labels map[string]string, hash string, token bool, c *corev1ac.ContainerApplyConfiguration, volumes []volume) *corev1ac.PodTemplateSpecApplyConfiguration {
	spec := corev1ac.PodSpec().
		WithServiceAccountName(part.ServiceAccount).
		WithAutomountServiceAccountToken(token).
		WithSecurityContext(corev1ac.PodSecurityContext().
			WithRunAsNonRoot(true).
			WithRunAsUser(nobody).
			WithRunAsGroup(nobody).
			WithFSGroup(nobody).
			WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))).
		WithContainers(c)
	for _, v := range volumes {
		if v.source != nil {
			spec.WithVolumes(v.source)
		}
	}
	t := corev1ac.PodTemplateSpec().WithLabels(labels).WithSpec(spec)
	if hash != "" {
		t.WithAnnotations(map[string]string{AnnotationConfigHash: hash})
	}
	return t
}

func fieldEnv(name, fieldPath string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).WithValueFrom(corev1ac.EnvVarSource().
		WithFieldRef(corev1ac.ObjectFieldSelector().WithFieldPath(fieldPath)))
}

func probe(path string, period, failures int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString(portName))).
		WithPeriodSeconds(period).
		WithTimeoutSeconds(5).
		WithFailureThreshold(failures)
}

// Hash identifies the content of files.
func Hash(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %d\n", name, len(files[name]))
		h.Write(files[name])
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// listen is the address that a program binds: its pod's own, so that on a node
// without network namespaces the port stays free on every other.
func listen(flag string, port int32) string { return fmt.Sprintf("--%s=$(POD_IP):%d", flag, port) }
