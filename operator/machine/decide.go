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

// minLeft is the least time to the deadline with which a repair is started. A
// machine that is cut off half-way through a repair is worse off than before.
const minLeft = time.Minute

// snapshot is all that a decision rests on, read live at one moment.
type snapshot struct {
	machine *v1alpha1.Machine
	// cluster is the one that the machine works for; nil when there is none.
	cluster *v1alpha1.Cluster
	// jobs are the repair Jobs that this machine owns, whatever their request.
	jobs []batchv1.Job
	// named is the Job that bears the name of the present request, if there is
	// one, whoever owns it.
	named *batchv1.Job
	// spare is the machine that the request names to take this one's place; nil when it
	// names none or there is none.
	spare *v1alpha1.Machine
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
// request acted on twice, none started that has lapsed or is about something
// else by now, every request answered. A Job that exists goes on, whatever the
// request has become.
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
	if why := refusal(s, request); why != "" {
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
	// started again. Nor is it known that it has ended: its pod may run on.
	lost := answer.DeepCopy()
	lost.Phase = v1alpha1.RepairFailed
	lost.Message = fmt.Sprintf("Job %s disappeared before it finished", jobName(answer.ID))
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

// refusal says why the request must not be started now, or nothing.
func refusal(s snapshot, request *v1alpha1.RemediationRequest) string {
	m := s.machine
	switch {
	case !m.DeletionTimestamp.IsZero():
		return "the machine is being deleted"
	case m.Spec.State == v1alpha1.MachineStandby:
		return "the machine is on standby, spec.state Standby, and works for nobody"
	case paused(m):
		return "the machine is annotated " + v1alpha1.AnnotationPaused
	case s.cluster == nil:
		return fmt.Sprintf("there is no Cluster %s/%s, which the machine names as its own", m.Namespace, m.Spec.ClusterName)
	case paused(s.cluster):
		return fmt.Sprintf("Cluster %s/%s is annotated %s", s.cluster.Namespace, s.cluster.Name, v1alpha1.AnnotationPaused)
	case request.HardwareID != "" && request.HardwareID != m.Spec.HardwareID:
		return fmt.Sprintf("the request is about hardware %q, and the machine now is hardware %q", request.HardwareID, m.Spec.HardwareID)
	}
	if why := outdated(request, m.Status.RemediationEpoch); why != "" {
		return why
	}
	if why := unclaimed(request, s.spare); why != "" {
		return why
	}
	return lapsed(request, s.now)
}

// unclaimed says why a machine must not be replaced, or nothing: the spare is not what the
// request says, or not the request's.
func unclaimed(request *v1alpha1.RemediationRequest, spare *v1alpha1.Machine) string {
	if request.Action != v1alpha1.ActionReplace {
		return ""
	}
	switch ref := request.Spare; {
	case ref == nil:
		return "it names no machine on standby to take this one's place"
	case spare == nil || string(spare.UID) != ref.UID || spare.DeletionTimestamp != nil:
		return fmt.Sprintf("machine %s, which is to take this one's place, is gone", ref.Name)
	case spare.Spec.State != v1alpha1.MachineStandby:
		return fmt.Sprintf("machine %s, which is to take this one's place, is not on standby", ref.Name)
	case spare.Annotations[v1alpha1.AnnotationClaimedBy] != request.ID:
		return fmt.Sprintf("machine %s is not claimed by it: its annotation %s is %q", ref.Name, v1alpha1.AnnotationClaimedBy, spare.Annotations[v1alpha1.AnnotationClaimedBy])
	case spare.Annotations[v1alpha1.AnnotationQuarantined] != "" || paused(spare) || spare.Spec.Remediation != nil:
		return fmt.Sprintf("machine %s, which is to take this one's place, is quarantined, paused or under repair", ref.Name)
	}
	return ""
}

// outdated says why the request is of a remediator that has a successor, or nothing.
// A fleet in which nobody names an epoch is served as before there were any.
func outdated(request *v1alpha1.RemediationRequest, seen *int32) string {
	switch {
	case seen == nil:
	case request.Epoch == nil:
		return fmt.Sprintf("it bears no epoch, and one of epoch %d was answered: whoever wrote it does not lead, or is older than that", *seen)
	case *request.Epoch < *seen:
		return fmt.Sprintf("its epoch is %d, and one of epoch %d was answered: the remediator that wrote it leads no more", *request.Epoch, *seen)
	}
	return ""
}

// answeredEpoch is what to remember once the answer is given. It never becomes less. A
// request that is refused is nobody's proof that it was a leader's.
func answeredEpoch(m *v1alpha1.Machine, answer *v1alpha1.RemediationResponse) *int32 {
	request, seen := m.Spec.Remediation, m.Status.RemediationEpoch
	if request == nil || request.ID != answer.ID || request.Epoch == nil || answer.Phase == v1alpha1.RepairRefused || (seen != nil && *seen >= *request.Epoch) {
		return seen
	}
	return new(*request.Epoch)
}

// lapsed says why it is too late to start the request, or nothing.
func lapsed(request *v1alpha1.RemediationRequest, now time.Time) string {
	deadline := request.Deadline.UTC().Format(time.RFC3339)
	left := request.Deadline.Sub(now)
	switch {
	case request.StartBefore.IsZero():
		return "it does not say in startBefore how long its evidence holds"
	case !now.Before(request.StartBefore.Time):
		return fmt.Sprintf("it lapsed at %s (startBefore) and had not been started", request.StartBefore.UTC().Format(time.RFC3339))
	case left <= 0:
		return fmt.Sprintf("its deadline %s had passed before it could start", deadline)
	case left < minLeft:
		return fmt.Sprintf("only %s are left until its deadline %s; a repair is not started with less than %s", left.Round(time.Second), deadline, minLeft)
	}
	return ""
}

func paused(o metav1.Object) bool {
	_, is := o.GetAnnotations()[v1alpha1.AnnotationPaused]
	return is
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

// settled says that the machine waits for nothing: no request is open, and no
// Job that it owns still has to be reported. A Job can be there without a
// request, when its answer was lost and the request withdrawn since.
func settled(m *v1alpha1.Machine, jobs []batchv1.Job) bool {
	request, answer := m.Spec.Remediation, m.Status.Remediation
	if answer != nil && answer.Phase == v1alpha1.RepairRunning {
		return false
	}
	if (snapshot{machine: m, jobs: jobs}).unfinished() != nil {
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
