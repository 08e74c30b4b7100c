package machine

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// snapshot is all that a decision rests on, read live at one moment.
type snapshot struct {
	machine *v1alpha1.Machine
	// jobs are the repair Jobs that this machine owns, whatever their request.
	jobs []batchv1.Job
	// named is the Job that bears the name of the present request, if there is
	// one, whoever owns it.
	named *batchv1.Job
	now   time.Time
}

// verdict is what to do about a machine. At most one of answer and start is set.
type verdict struct {
	// answer is to be written to status.remediation.
	answer *v1alpha1.RemediationResponse
	// start asks for the request's Job.
	start bool
}

// decide holds the rules of the hand-shake: one Job on a machine at a time, no
// request acted on twice, none started after its deadline, every request
// answered.
func decide(s snapshot) verdict {
	answer := s.machine.Status.Remediation
	if answer != nil && answer.Phase == v1alpha1.RepairRunning {
		return follow(s, answer)
	}
	// A Job without an answer was created just before a restart. It is reported
	// first, even when its request has been replaced since.
	if job := s.unfinished(); job != nil {
		return verdict{answer: report(job)}
	}
	request := s.machine.Spec.Remediation
	if request == nil || (answer != nil && answer.ID == request.ID) {
		return verdict{}
	}
	if s.named != nil {
		return found(s, request)
	}
	if why := refusal(s.machine, request, s.now); why != "" {
		return verdict{answer: refused(request.ID, why, s.now)}
	}
	return verdict{start: true}
}

// follow brings the answer to a running repair up to date with its Job.
func follow(s snapshot, answer *v1alpha1.RemediationResponse) verdict {
	i := slices.IndexFunc(s.jobs, func(j batchv1.Job) bool { return requestOf(&j) == answer.ID })
	if i >= 0 {
		if next := report(&s.jobs[i]); next.Phase != v1alpha1.RepairRunning {
			return verdict{answer: next}
		}
		return verdict{}
	}
	// Whether the repair took place cannot be known any more, so it is not
	// started again.
	lost := answer.DeepCopy()
	lost.Phase = v1alpha1.RepairFailed
	lost.Message = fmt.Sprintf("Job %s disappeared before it finished", jobName(answer.ID))
	lost.FinishedAt = timePointer(s.now)
	return verdict{answer: lost}
}

// found answers a request whose Job is there already.
func found(s snapshot, request *v1alpha1.RemediationRequest) verdict {
	if owns(s.machine, s.named) {
		return verdict{answer: report(s.named)}
	}
	why := fmt.Sprintf("Job %s exists and is not this machine's", s.named.Name)
	return verdict{answer: refused(request.ID, why, s.now)}
}

func refusal(m *v1alpha1.Machine, request *v1alpha1.RemediationRequest, now time.Time) string {
	switch {
	case !m.DeletionTimestamp.IsZero():
		return "the machine is being deleted"
	case !now.Before(request.Deadline.Time):
		return fmt.Sprintf("its deadline %s had passed before it could start", request.Deadline.UTC().Format(time.RFC3339))
	}
	return ""
}

func refused(id, why string, now time.Time) *v1alpha1.RemediationResponse {
	return &v1alpha1.RemediationResponse{
		ID:         id,
		Phase:      v1alpha1.RepairRefused,
		Message:    shorten(why),
		FinishedAt: timePointer(now),
	}
}

// report says how far a Job is.
func report(job *batchv1.Job) *v1alpha1.RemediationResponse {
	r := &v1alpha1.RemediationResponse{
		ID:        requestOf(job),
		Phase:     v1alpha1.RepairRunning,
		Message:   fmt.Sprintf("Job %s is running", job.Name),
		StartedAt: job.CreationTimestamp.DeepCopy(),
	}
	end := ending(job)
	if end == nil {
		return r
	}
	r.Phase = v1alpha1.RepairSucceeded
	r.Message = fmt.Sprintf("Job %s completed", job.Name)
	r.FinishedAt = end.LastTransitionTime.DeepCopy()
	if end.Type == batchv1.JobFailed {
		r.Phase = v1alpha1.RepairFailed
		r.Message = shorten(fmt.Sprintf("Job %s failed: %s: %s", job.Name, end.Reason, end.Message))
	}
	return r
}

// ending returns the condition that ended the Job, or nil while it runs.
func ending(job *batchv1.Job) *batchv1.JobCondition {
	for i, c := range job.Status.Conditions {
		if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
			return &job.Status.Conditions[i]
		}
	}
	return nil
}

func (s snapshot) unfinished() *batchv1.Job {
	for i := range s.jobs {
		if ending(&s.jobs[i]) == nil {
			return &s.jobs[i]
		}
	}
	return nil
}

func owns(m *v1alpha1.Machine, job *batchv1.Job) bool {
	return metav1.IsControlledBy(job, m) && job.Name == jobName(requestOf(job))
}

// settled says that the machine waits for nothing, by what its object tells.
func settled(m *v1alpha1.Machine) bool {
	request, answer := m.Spec.Remediation, m.Status.Remediation
	if answer != nil && answer.Phase == v1alpha1.RepairRunning {
		return false
	}
	return request == nil || (answer != nil && answer.ID == request.ID)
}

func timePointer(t time.Time) *metav1.Time { return new(metav1.NewTime(t)) }

// shorten keeps a message within what the API allows, on a rune's boundary.
func shorten(s string) string {
	const limit = 1024
	runes := []rune(s)
	if len(runes) <= limit {
		return s
	}
	return string(runes[:limit-1]) + "…"
}
