package machine

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const site = `
apiVersion: batch/v1
kind: Job
spec:
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: repair
          image: example.org/repair:1
          env:
            - name: PHAROS_NODE
              value: another
            - name: BMC
              value: $(PHAROS_ADDRESS)
`

func asked(id string) *v1alpha1.Machine {
	return &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "m-1", Namespace: "fleet", UID: "uid-1"},
		Spec: v1alpha1.MachineSpec{
			ClusterName: "shop", NodeName: "node-1", Address: "10.0.0.7", HardwareID: "sn-9",
			Remediation: &v1alpha1.RemediationRequest{ID: id, Action: v1alpha1.ActionReboot, Deadline: metav1.NewTime(now.Add(time.Minute))},
		},
	}
}

func answered(m *v1alpha1.Machine, id string, phase v1alpha1.RepairPhase) *v1alpha1.Machine {
	m.Status.Remediation = &v1alpha1.RemediationResponse{ID: id, Phase: phase}
	return m
}

func jobOf(m *v1alpha1.Machine, id string, end batchv1.JobConditionType) batchv1.Job {
	j := batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: jobName(id), Namespace: m.Namespace,
		Annotations:     map[string]string{AnnotationRemediationID: id},
		OwnerReferences: []metav1.OwnerReference{owner(m)},
	}}
	if end != "" {
		j.Status.Conditions = []batchv1.JobCondition{{Type: end, Status: corev1.ConditionTrue, Reason: "R", Message: "m"}}
	}
	return j
}

func TestDecide(t *testing.T) {
	deleting := asked("a")
	deleting.DeletionTimestamp = ptr.To(metav1.NewTime(now))
	late := asked("a")
	late.Spec.Remediation.Deadline = metav1.NewTime(now)
	foreign := jobOf(asked("a"), "a", "")
	foreign.OwnerReferences[0].UID = "another"
	quiet := asked("a")
	quiet.Spec.Remediation = nil
	withdrawn := answered(asked("a"), "a", v1alpha1.RepairRunning)
	withdrawn.Spec.Remediation = nil

	type want struct {
		start bool
		id    string
		phase v1alpha1.RepairPhase
		text  string
	}
	for name, c := range map[string]struct {
		s    snapshot
		want want
	}{
		"nothing asked":                    {snapshot{machine: quiet}, want{}},
		"asked":                            {snapshot{machine: asked("a")}, want{start: true}},
		"asked after another was finished": {snapshot{machine: answered(asked("b"), "a", v1alpha1.RepairSucceeded)}, want{start: true}},
		"succeeded already":                {snapshot{machine: answered(asked("a"), "a", v1alpha1.RepairSucceeded)}, want{}},
		"failed already":                   {snapshot{machine: answered(asked("a"), "a", v1alpha1.RepairFailed)}, want{}},
		"refused already":                  {snapshot{machine: answered(asked("a"), "a", v1alpha1.RepairRefused)}, want{}},
		"deadline passed":                  {snapshot{machine: late}, want{id: "a", phase: v1alpha1.RepairRefused, text: "deadline 2026-03-01T12:00:00Z"}},
		"machine going away":               {snapshot{machine: deleting}, want{id: "a", phase: v1alpha1.RepairRefused, text: "being deleted"}},
		"someone else's Job": {
			snapshot{machine: asked("a"), named: &foreign},
			want{id: "a", phase: v1alpha1.RepairRefused, text: "not this machine's"},
		},
		"restarted after the Job was created": {
			snapshot{machine: asked("a"), jobs: []batchv1.Job{jobOf(asked("a"), "a", "")}},
			want{id: "a", phase: v1alpha1.RepairRunning, text: "repair-a is running"},
		},
		"restarted after the Job had ended": {
			snapshot{machine: asked("a"), jobs: []batchv1.Job{jobOf(asked("a"), "a", batchv1.JobComplete)}, named: ptr.To(jobOf(asked("a"), "a", batchv1.JobComplete))},
			want{id: "a", phase: v1alpha1.RepairSucceeded, text: "completed"},
		},
		"its Job is there though another was answered since": {
			snapshot{machine: answered(asked("a"), "b", v1alpha1.RepairSucceeded), named: ptr.To(jobOf(asked("a"), "a", batchv1.JobFailed))},
			want{id: "a", phase: v1alpha1.RepairFailed, text: "R: m"},
		},
		"an unanswered Job of an older request runs": {
			snapshot{machine: asked("b"), jobs: []batchv1.Job{jobOf(asked("a"), "a", "")}},
			want{id: "a", phase: v1alpha1.RepairRunning, text: "repair-a"},
		},
		"a newer request waits": {
			snapshot{machine: answered(asked("b"), "a", v1alpha1.RepairRunning), jobs: []batchv1.Job{jobOf(asked("a"), "a", "")}},
			want{},
		},
		"the older ends": {
			snapshot{machine: answered(asked("b"), "a", v1alpha1.RepairRunning), jobs: []batchv1.Job{jobOf(asked("a"), "a", batchv1.JobFailed)}},
			want{id: "a", phase: v1alpha1.RepairFailed, text: "R: m"},
		},
		"withdrawn while it runs": {
			snapshot{machine: withdrawn, jobs: []batchv1.Job{jobOf(asked("a"), "a", batchv1.JobComplete)}},
			want{id: "a", phase: v1alpha1.RepairSucceeded},
		},
		"its Job is lost": {
			snapshot{machine: answered(asked("a"), "a", v1alpha1.RepairRunning)},
			want{id: "a", phase: v1alpha1.RepairFailed, text: "disappeared"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.s.now = now
			before := c.s.machine.DeepCopy()
			v := decide(c.s)
			require.Empty(t, cmp.Diff(before, c.s.machine), "decide changed its input")
			require.Equal(t, c.want.start, v.start)
			if c.want.phase == "" {
				require.Nil(t, v.answer)
				return
			}
			require.NotNil(t, v.answer)
			require.Equal(t, c.want.id, v.answer.ID)
			require.Equal(t, c.want.phase, v.answer.Phase)
			require.Contains(t, v.answer.Message, c.want.text)
		})
	}
}

func TestRepairJob(t *testing.T) {
	m := asked("a")
	template, err := parseTemplate(site, "fleet")
	require.NoError(t, err)
	job := repairJob(template, m, now)

	require.Equal(t, "repair-a", job.Name)
	require.True(t, owns(m, job))
	require.EqualValues(t, 60, *job.Spec.ActiveDeadlineSeconds)
	require.EqualValues(t, 0, *job.Spec.BackoffLimit)
	require.Equal(t, []corev1.EnvVar{
		{Name: "PHAROS_REMEDIATION_ID", Value: "a"},
		{Name: "PHAROS_ACTION", Value: "Reboot"},
		{Name: "PHAROS_NAMESPACE", Value: "fleet"},
		{Name: "PHAROS_CLUSTER", Value: "shop"},
		{Name: "PHAROS_MACHINE", Value: "m-1"},
		{Name: "PHAROS_NODE", Value: "node-1"},
		{Name: "PHAROS_ADDRESS", Value: "10.0.0.7"},
		{Name: "PHAROS_HARDWARE_ID", Value: "sn-9"},
		{Name: "BMC", Value: "$(PHAROS_ADDRESS)"},
	}, job.Spec.Template.Spec.Containers[0].Env)
	require.Len(t, template.Spec.Template.Spec.Containers[0].Env, 2, "the template was changed")
}

func TestRepairJobKeepsTheTemplatesLimits(t *testing.T) {
	template, err := parseTemplate(site, "fleet")
	require.NoError(t, err)
	template.Spec.ActiveDeadlineSeconds = ptr.To[int64](10)
	template.Spec.BackoffLimit = ptr.To[int32](2)
	template.Spec.TTLSecondsAfterFinished = ptr.To[int32](5)
	job := repairJob(template, asked("a"), now)

	require.EqualValues(t, 10, *job.Spec.ActiveDeadlineSeconds)
	require.EqualValues(t, 2, *job.Spec.BackoffLimit)
	require.EqualValues(t, 60, *job.Spec.TTLSecondsAfterFinished, "the Job must outlive its deadline")
}

func TestTemplateRefusals(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"empty":             {"", "not a Job of batch/v1"},
		"not YAML":          {"\tkind: Job", "cannot start any token"},
		"unknown field":     {strings.Replace(site, "restartPolicy", "restartPolitics", 1), `unknown field "spec.template.spec.restartPolitics"`},
		"wrong type":        {strings.Replace(site, "image: example.org/repair:1", "image: [1]", 1), "image"},
		"another kind":      {strings.Replace(site, "kind: Job", "kind: CronJob", 1), "a CronJob of batch/v1"},
		"another namespace": {strings.Replace(site, "spec:", "metadata: {namespace: elsewhere}\nspec:", 1), `metadata.namespace is "elsewhere"`},
		"several pods":      {strings.Replace(site, "spec:", "spec:\n  parallelism: 2", 1), "spec.parallelism"},
		"no container":      {"apiVersion: batch/v1\nkind: Job\n", "containers is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseTemplate(c.data, "fleet")
			require.ErrorContains(t, err, c.want)
		})
	}
}

func FuzzParseTemplate(f *testing.F) {
	f.Add(site)
	f.Add("apiVersion: batch/v1\nkind: Job\nspec: {parallelism: null}")
	f.Fuzz(func(t *testing.T, data string) {
		template, err := parseTemplate(data, "fleet")
		if err != nil {
			return
		}
		job := repairJob(template, asked("a"), now)
		if job.Name != "repair-a" || job.Namespace != "fleet" || *job.Spec.ActiveDeadlineSeconds > 60 {
			t.Fatalf("a template escaped its bounds: %+v", job)
		}
	})
}

func TestShortenKeepsWholeRunes(t *testing.T) {
	require.Equal(t, "short", shorten("short"))
	long := shorten(strings.Repeat("é", 2000))
	require.Len(t, []rune(long), 1024)
	require.True(t, strings.HasSuffix(long, "é…"))
}
