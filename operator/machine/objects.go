package machine

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

const (
	// TemplateKey is the key of the site's ConfigMap that holds its Job.
	TemplateKey = "job.yaml"
	// LabelMachineUID is, on a repair Job, the UID of the Machine it repairs. A
	// Machine's name can be too long for a label.
	LabelMachineUID = "pharos.dev/machine-uid"
	// AnnotationRemediationID is, on a repair Job, the id of its request.
	AnnotationRemediationID = "pharos.dev/remediation-id"
)

func jobName(id string) string { return "repair-" + id }

func requestOf(job *batchv1.Job) string { return job.Annotations[AnnotationRemediationID] }

// parseTemplate reads the site's Job. The error names the field at fault.
func parseTemplate(data, namespace string) (*batchv1.Job, error) {
	document, err := yaml.YAMLToJSONStrict([]byte(data))
	if err != nil {
		return nil, err
	}
	job := &batchv1.Job{}
	strict, err := json.UnmarshalStrict(document, job)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, err
	}
	switch {
	case job.APIVersion != "batch/v1" || job.Kind != "Job":
		return nil, fmt.Errorf("it is a %s of %s, not a Job of batch/v1", job.Kind, job.APIVersion)
	case job.Namespace != "" && job.Namespace != namespace:
		return nil, fmt.Errorf("metadata.namespace is %q, but a repair runs beside its Machine, in %q", job.Namespace, namespace)
	case ptr.Deref(job.Spec.Parallelism, 1) != 1 || ptr.Deref(job.Spec.Completions, 1) != 1:
		return nil, errors.New("spec.parallelism and spec.completions must be 1: one pod at a time repairs a machine")
	case len(job.Spec.Template.Spec.Containers) == 0:
		return nil, errors.New("spec.template.spec.containers is empty")
	}
	return job, nil
}

// repairJob makes the Job of the machine's request out of the site's.
func repairJob(template *batchv1.Job, m *v1alpha1.Machine, now time.Time) *batchv1.Job {
	request := m.Spec.Remediation
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:            jobName(request.ID),
			Namespace:       m.Namespace,
			Labels:          with(template.Labels, LabelMachineUID, string(m.UID), v1alpha1.LabelManagedBy, "pharos"),
			Annotations:     with(template.Annotations, AnnotationRemediationID, request.ID),
			OwnerReferences: []metav1.OwnerReference{owner(m)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
	limit(&job.Spec, request.Deadline.Sub(now))
	pod := &job.Spec.Template.Spec
	if pod.RestartPolicy == "" {
		pod.RestartPolicy = corev1.RestartPolicyNever
	}
	env := environment(m)
	for i := range pod.InitContainers {
		setEnv(&pod.InitContainers[i], env)
	}
	for i := range pod.Containers {
		setEnv(&pod.Containers[i], env)
	}
	return job
}

// limit ends the Job by the request's deadline, and keeps the finished Job at
// least that long: while a request can still be started, its Job is the proof
// that it was.
func limit(spec *batchv1.JobSpec, left time.Duration) {
	seconds := max(1, int64(math.Ceil(left.Seconds())))
	spec.ActiveDeadlineSeconds = ptr.To(min(seconds, ptr.Deref(spec.ActiveDeadlineSeconds, seconds)))
	spec.BackoffLimit = ptr.To(ptr.Deref(spec.BackoffLimit, 0))
	if ttl := spec.TTLSecondsAfterFinished; ttl != nil {
		spec.TTLSecondsAfterFinished = ptr.To(int32(min(max(int64(*ttl), seconds), math.MaxInt32)))
	}
}

func environment(m *v1alpha1.Machine) []corev1.EnvVar {
	return []corev1.EnvVar{
		{Name: "PHAROS_REMEDIATION_ID", Value: m.Spec.Remediation.ID},
		{Name: "PHAROS_ACTION", Value: string(m.Spec.Remediation.Action)},
		{Name: "PHAROS_NAMESPACE", Value: m.Namespace},
		{Name: "PHAROS_CLUSTER", Value: m.Spec.ClusterName},
		{Name: "PHAROS_MACHINE", Value: m.Name},
		{Name: "PHAROS_NODE", Value: m.Spec.NodeName},
		{Name: "PHAROS_ADDRESS", Value: m.Spec.Address},
		{Name: "PHAROS_HARDWARE_ID", Value: m.Spec.HardwareID},
	}
}

// setEnv gives the container our variables, first, so that the template's own
// may refer to them; a variable of the template under one of our names is
// dropped, for it would hide what the repair is about.
func setEnv(c *corev1.Container, env []corev1.EnvVar) {
	own := slices.DeleteFunc(slices.Clone(c.Env), func(theirs corev1.EnvVar) bool {
		return slices.ContainsFunc(env, func(ours corev1.EnvVar) bool { return ours.Name == theirs.Name })
	})
	c.Env = append(slices.Clone(env), own...)
}

// owner does not block the Machine's deletion: that would take a right on the
// Machine that the node operator has no other use for.
func owner(m *v1alpha1.Machine) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(),
		Kind:       "Machine",
		Name:       m.Name,
		UID:        m.UID,
		Controller: ptr.To(true),
	}
}

func with(base map[string]string, pairs ...string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, base)
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}
