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
			Remediation: &v1alpha1.RemediationRequest{
				ID: id, Action: v1alpha1.ActionReboot, HardwareID: "sn-9",
				StartBefore: metav1.NewTime(now.Add(time.Second)), Deadline: metav1.NewTime(now.Add(time.Minute)),
			},
		},
	}
}

// changed returns a request "a" with something about it changed.
func changed(change func(*v1alpha1.Machine)) *v1alpha1.Machine {
	m := asked("a")
	change(m)
	return m
}

// epochs are that of the request, and the highest that was answered.
func epochs(request, seen *int32) func(*v1alpha1.Machine) {
	return func(m *v1alpha1.Machine) { m.Spec.Remediation.Epoch, m.Status.RemediationEpoch = request, seen }
}

func shop() *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "fleet"}}
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
		"withdrawn before its Job was reported": {
			snapshot{machine: quiet, jobs: []batchv1.Job{jobOf(asked("a"), "a", "")}},
			want{id: "a", phase: v1alpha1.RepairRunning, text: "repair-a"},
		},
		"lapsed while it runs": {
			snapshot{machine: answered(changed(func(m *v1alpha1.Machine) { m.Spec.Remediation.StartBefore = metav1.NewTime(now) }), "a", v1alpha1.RepairRunning), jobs: []batchv1.Job{jobOf(asked("a"), "a", "")}},
			want{},
		},
		"paused after its Job was created": {
			snapshot{machine: changed(func(m *v1alpha1.Machine) { m.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""} }), named: ptr.To(jobOf(asked("a"), "a", ""))},
			want{id: "a", phase: v1alpha1.RepairRunning, text: "repair-a"},
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
			c.s.now, c.s.cluster = now, shop()
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

// What is refused is refused at the moment of decision, and no Job is started.
func TestRefusals(t *testing.T) {
	pausedShop := shop()
	pausedShop.Annotations = map[string]string{v1alpha1.AnnotationPaused: "maintenance of the switch"}
	for name, c := range map[string]struct {
		change  func(*v1alpha1.Machine)
		cluster *v1alpha1.Cluster
		want    string
	}{
		"machine going away": {func(m *v1alpha1.Machine) { m.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }, shop(), "being deleted"},
		"lapsed":             {func(m *v1alpha1.Machine) { m.Spec.Remediation.StartBefore = metav1.NewTime(now) }, shop(), "lapsed at 2026-03-01T12:00:00Z (startBefore)"},
		"never dated":        {func(m *v1alpha1.Machine) { m.Spec.Remediation.StartBefore = metav1.Time{} }, shop(), "does not say in startBefore"},
		"deadline passed":    {func(m *v1alpha1.Machine) { m.Spec.Remediation.Deadline = metav1.NewTime(now) }, shop(), "deadline 2026-03-01T12:00:00Z"},
		"hardly time left": {
			func(m *v1alpha1.Machine) { m.Spec.Remediation.Deadline = metav1.NewTime(now.Add(59 * time.Second)) }, shop(),
			"only 59s are left until its deadline 2026-03-01T12:00:59Z",
		},
		"other hardware":    {func(m *v1alpha1.Machine) { m.Spec.HardwareID = "sn-10" }, shop(), `about hardware "sn-9", and the machine now is hardware "sn-10"`},
		"hardware unknown":  {func(m *v1alpha1.Machine) { m.Spec.HardwareID = "" }, shop(), `the machine now is hardware ""`},
		"machine paused":    {func(m *v1alpha1.Machine) { m.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""} }, shop(), "the machine is annotated pharos.dev/paused"},
		"Cluster paused":    {func(*v1alpha1.Machine) {}, pausedShop, "Cluster fleet/shop is annotated pharos.dev/paused"},
		"Cluster not there": {func(*v1alpha1.Machine) {}, nil, "there is no Cluster fleet/shop"},
		"spare":             {func(m *v1alpha1.Machine) { m.Spec.State = v1alpha1.MachineStandby }, shop(), "spec.state Standby"},
		"lower epoch":       {epochs(ptr.To[int32](3), ptr.To[int32](4)), shop(), "its epoch is 3, and one of epoch 4 was answered"},
		"epoch no more":     {epochs(nil, ptr.To[int32](0)), shop(), "it bears no epoch, and one of epoch 0 was answered"},
	} {
		t.Run(name, func(t *testing.T) {
			v := decide(snapshot{machine: changed(c.change), cluster: c.cluster, now: now})
			require.False(t, v.start)
			require.NotNil(t, v.answer)
			require.Equal(t, v1alpha1.RepairRefused, v.answer.Phase)
			require.Equal(t, "a", v.answer.ID)
			require.Contains(t, v.answer.Message, c.want)
		})
	}
	for name, change := range map[string]func(*v1alpha1.Machine){
		"the first with an epoch": epochs(ptr.To[int32](0), nil), "the same": epochs(ptr.To[int32](4), ptr.To[int32](4)), "a higher": epochs(ptr.To[int32](5), ptr.To[int32](4)),
	} {
		require.True(t, decide(snapshot{machine: changed(change), cluster: shop(), now: now}).start, name)
	}
	untied := changed(func(m *v1alpha1.Machine) { m.Spec.Remediation.HardwareID = "" })
	require.True(t, decide(snapshot{machine: untied, cluster: shop(), now: now}).start, "a request need not name the hardware")
}

func TestSettled(t *testing.T) {
	quiet := changed(func(m *v1alpha1.Machine) { m.Spec.Remediation = nil })
	require.True(t, settled(quiet, nil))
	require.False(t, settled(quiet, []batchv1.Job{jobOf(asked("a"), "a", "")}), "its answer was lost, and the request withdrawn")
	require.True(t, settled(quiet, []batchv1.Job{jobOf(asked("a"), "a", batchv1.JobComplete)}))
	require.False(t, settled(asked("a"), nil))
	require.True(t, settled(answered(asked("a"), "a", v1alpha1.RepairRefused), nil))
}

func TestRepairJob(t *testing.T) {
	m := asked("a")
	template, err := parseTemplate(site, "fleet")
	require.NoError(t, err)
	job := repairJob(template, m, nil, now)

	require.Equal(t, "repair-a", job.Name)
	require.True(t, owns(m, job))
	require.EqualValues(t, 60, *job.Spec.ActiveDeadlineSeconds)
	require.EqualValues(t, 24*60*60, *job.Spec.TTLSecondsAfterFinished)
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

	spare := standby()
	spare.Spec.Address = "10.0.0.9"
	env := repairJob(template, toReplace(), spare, now).Spec.Template.Spec.Containers[0].Env
	require.Equal(t, []corev1.EnvVar{
		{Name: "PHAROS_SPARE", Value: "m-2"},
		{Name: "PHAROS_SPARE_NODE", Value: "node-2"},
		{Name: "PHAROS_SPARE_ADDRESS", Value: "10.0.0.9"},
		{Name: "PHAROS_SPARE_HARDWARE_ID", Value: "sn-2"},
		{Name: "BMC", Value: "$(PHAROS_ADDRESS)"},
	}, env[8:])
}

func TestRepairJobKeepsTheTemplatesTimes(t *testing.T) {
	template, err := parseTemplate(site, "fleet")
	require.NoError(t, err)
	template.Spec.ActiveDeadlineSeconds = ptr.To[int64](10)
	template.Spec.TTLSecondsAfterFinished = ptr.To[int32](5)
	job := repairJob(template, asked("a"), nil, now)

	require.EqualValues(t, 10, *job.Spec.ActiveDeadlineSeconds)
	require.EqualValues(t, 60, *job.Spec.TTLSecondsAfterFinished, "the Job must outlive its deadline")

	template.Spec.TTLSecondsAfterFinished = nil
	far := changed(func(m *v1alpha1.Machine) { m.Spec.Remediation.Deadline = metav1.NewTime(now.Add(30 * time.Hour)) })
	require.EqualValues(t, 30*60*60, *repairJob(template, far, nil, now).Spec.TTLSecondsAfterFinished)
}

// Case C23: nobody but the remediator tries again.
// Whatever the template says, the repair is tried once.
func TestRepairJobRunsOnce(t *testing.T) {
	template, err := parseTemplate(site, "fleet")
	require.NoError(t, err)
	template.Spec.BackoffLimit = ptr.To[int32](2)
	template.Spec.PodReplacementPolicy = ptr.To(batchv1.TerminatingOrFailed)
	template.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
	spec := repairJob(template, asked("a"), nil, now).Spec

	require.EqualValues(t, 0, *spec.BackoffLimit)
	require.EqualValues(t, 1, *spec.Parallelism)
	require.EqualValues(t, 1, *spec.Completions)
	require.Equal(t, batchv1.Failed, *spec.PodReplacementPolicy)
	require.Equal(t, corev1.RestartPolicyNever, spec.Template.Spec.RestartPolicy)
}

// more is the site's Job with more in its spec.
func more(text string) string { return strings.Replace(site, "spec:", "spec:\n  "+text, 1) }

func TestTemplateRefusals(t *testing.T) {
	for name, c := range map[string]struct{ data, want string }{
		"empty":             {"", "not a Job of batch/v1"},
		"not YAML":          {"\tkind: Job", "cannot start any token"},
		"unknown field":     {strings.Replace(site, "restartPolicy", "restartPolitics", 1), `unknown field "spec.template.spec.restartPolitics"`},
		"wrong type":        {strings.Replace(site, "image: example.org/repair:1", "image: [1]", 1), "image"},
		"another kind":      {strings.Replace(site, "kind: Job", "kind: CronJob", 1), "a CronJob of batch/v1"},
		"another namespace": {strings.Replace(site, "spec:", "metadata: {namespace: elsewhere}\nspec:", 1), `metadata.namespace is "elsewhere"`},
		"several pods":      {more("parallelism: 2"), "spec.parallelism"},
		"own selector":      {more("manualSelector: true\n  selector: {matchLabels: {a: b}}"), "spec.manualSelector"},
		"indexed":           {more("completionMode: Indexed"), "spec.completionMode"},
		"suspended":         {more("suspend: true"), "spec.suspend"},
		"failures ignored":  {more("podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: DisruptionTarget}]}]}"), "spec.podFailurePolicy"},
		"success policy":    {more("successPolicy: {rules: [{succeededCount: 1}]}"), "spec.successPolicy"},
		"limit per index":   {more("backoffLimitPerIndex: 3"), "spec.backoffLimitPerIndex"},
		"another manager":   {more("managedBy: example.org/queue"), "spec.managedBy"},
		"restarts by itself": {
			strings.Replace(site, "env:", "restartPolicy: Always\n          env:", 1), "container repair: restartPolicy must be Never",
		},
		"no container": {"apiVersion: batch/v1\nkind: Job\n", "containers is empty"},
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
		job := repairJob(template, asked("a"), nil, now)
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
