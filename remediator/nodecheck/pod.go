package nodecheck

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

const (
	containerName = "check"
	// nobody is the user that a check runs as, whatever its image says.
	nobody = 65534
	// graceSeconds is how long a check may go on after it was told to end.
	graceSeconds = 5
)

// render is the pod of a check. No scheduler places it: it is about one node, and
// goes there whatever its taints and load.
func render(s policy.CheckStart) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: api.NodeCheckNamespace, Name: s.Record.Pod,
			Labels: marks(s.Remediation), Annotations: binding(s),
		},
		Spec: corev1.PodSpec{
			NodeName:                      s.Target.Node,
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			RestartPolicy:                 corev1.RestartPolicyNever,
			ActiveDeadlineSeconds:         ptr.To(int64(s.Timeout.Seconds())),
			TerminationGracePeriodSeconds: ptr.To(int64(graceSeconds)),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(int64(nobody)), RunAsGroup: ptr.To(int64(nobody)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{container(s)},
		},
	}
}

// containerOf is the container of a pod that checks; it is empty if none does.
func containerOf(pod *corev1.Pod) corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == containerName {
			return pod.Spec.Containers[i]
		}
	}
	return corev1.Container{}
}

func container(s policy.CheckStart) corev1.Container {
	return corev1.Container{
		Name: containerName, Image: s.Check.Image, Command: s.Check.Command, Args: s.Check.Args,
		Env: []corev1.EnvVar{
			{Name: "PHAROS_REMEDIATION_ID", Value: s.Remediation},
			{Name: "PHAROS_CLUSTER", Value: s.Target.Cluster},
			{Name: "PHAROS_NODE", Value: s.Target.Node},
		},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		// The last that a check wrote is what a person needs when it failed.
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}
