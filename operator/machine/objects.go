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
	// keptSeconds is how long a finished Job stays when the site does not say.
	keptSeconds = 24 * 60 * 60
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
	case len(job.Spec.Template.Spec.Containers) == 0:
		return nil, errors.New("spec.template.spec.containers is empty")
	}
	return job, errors.Join(checkOnce(job.Spec), checkRunner(job.Spec), checkContainers(job.Spec.Template.Spec))
}

// checkOnce refuses what would let the Job run a repair several times. What has
// one sensible value, once sets.
func checkOnce(spec batchv1.JobSpec) error {
	const why = "%s must not be set: a repair is one pod that runs once"
	switch {
	case ptr.Deref(spec.Parallelism, 1) != 1 || ptr.Deref(spec.Completions, 1) != 1:
		return errors.New("spec.parallelism and spec.completions must be 1: one pod at a time repairs a machine")
	case ptr.Deref(spec.CompletionMode, batchv1.NonIndexedCompletion) != batchv1.NonIndexedCompletion:
		return fmt.Errorf(why, "spec.completionMode Indexed")
	case spec.PodFailurePolicy != nil:
		return fmt.Errorf(why, "spec.podFailurePolicy")
	case spec.SuccessPolicy != nil:
		return fmt.Errorf(why, "spec.successPolicy")
	case spec.BackoffLimitPerIndex != nil || spec.MaxFailedIndexes != nil:
		return fmt.Errorf(why, "spec.backoffLimitPerIndex and spec.maxFailedIndexes")
	}
	return nil
}

// checkRunner refuses what would keep the Job from running its own pod, or have
// it run by something that does not know the rules.
func checkRunner(spec batchv1.JobSpec) error {
	switch {
	case spec.ManualSelector != nil || spec.Selector != nil:
		return errors.New("spec.manualSelector and spec.selector must not be set: the Job could take another's pods for its own")
	case ptr.Deref(spec.Suspend, false):
		return errors.New("spec.suspend must not be set: whoever resumes the Job would start a repair that nobody confirmed")
	case spec.ManagedBy != nil && *spec.ManagedBy != batchv1.JobControllerName:
		return errors.New("spec.managedBy must not be set: only Kubernetes' own Job controller is known to run a pod once")
	}
	return nil
}

// checkContainers refuses a container that restarts by a rule of its own.
func checkContainers(pod corev1.PodSpec) error {
	for _, c := range slices.Concat(pod.InitContainers, pod.Containers) {
		if ptr.Deref(c.RestartPolicy, corev1.ContainerRestartPolicyNever) != corev1.ContainerRestartPolicyNever || len(c.RestartPolicyRules) > 0 {
			return fmt.Errorf("container %s: restartPolicy must be Never and restartPolicyRules empty: a repair is never done twice", c.Name)
		}
	}
	return nil
}

// repairJob makes the Job of the machine's request out of the site's. The spare is nil
// unless one is to take the machine's place.
func repairJob(template *batchv1.Job, m, spare *v1alpha1.Machine, now time.Time) *batchv1.Job {
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
	once(&job.Spec)
	pod := &job.Spec.Template.Spec
	env := environment(m, spare)
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
// that it was. A site that says nothing has a day to look at it.
func limit(spec *batchv1.JobSpec, left time.Duration) {
	seconds := max(1, int64(math.Ceil(left.Seconds())))
	spec.ActiveDeadlineSeconds = ptr.To(min(seconds, ptr.Deref(spec.ActiveDeadlineSeconds, seconds)))
	ttl := max(int64(ptr.Deref(spec.TTLSecondsAfterFinished, keptSeconds)), seconds)
	spec.TTLSecondsAfterFinished = ptr.To(int32(min(ttl, math.MaxInt32)))
}

// once makes sure that the repair is done one time at the most. A pod that
// failed, or was evicted, may have done its work: whether to try again is for
// the remediator, which looks at the node first.
func once(spec *batchv1.JobSpec) {
	spec.Parallelism = ptr.To[int32](1)
	spec.Completions = ptr.To[int32](1)
	spec.BackoffLimit = ptr.To[int32](0)
	// Not before the old pod has ended; and by then the Job has failed.
	spec.PodReplacementPolicy = ptr.To(batchv1.Failed)
	spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
}

func environment(m, spare *v1alpha1.Machine) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "PHAROS_REMEDIATION_ID", Value: m.Spec.Remediation.ID},
		{Name: "PHAROS_ACTION", Value: string(m.Spec.Remediation.Action)},
		{Name: "PHAROS_NAMESPACE", Value: m.Namespace},
		{Name: "PHAROS_CLUSTER", Value: m.Spec.ClusterName},
		{Name: "PHAROS_MACHINE", Value: m.Name},
		{Name: "PHAROS_NODE", Value: m.Spec.NodeName},
		{Name: "PHAROS_ADDRESS", Value: m.Spec.Address},
		{Name: "PHAROS_HARDWARE_ID", Value: m.Spec.HardwareID},
	}
	if spare == nil {
		return env
	}
	return append(env,
		corev1.EnvVar{Name: "PHAROS_SPARE", Value: spare.Name},
		corev1.EnvVar{Name: "PHAROS_SPARE_NODE", Value: spare.Spec.NodeName},
		corev1.EnvVar{Name: "PHAROS_SPARE_ADDRESS", Value: spare.Spec.Address},
		corev1.EnvVar{Name: "PHAROS_SPARE_HARDWARE_ID", Value: spare.Spec.HardwareID},
	)
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
