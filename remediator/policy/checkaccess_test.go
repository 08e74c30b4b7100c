package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

// access is what was found when the check was tried in the sick machine's cluster.
func (w *world) access(check *api.NodeCheckPod, err string) {
	w.CheckAccess = []policy.CheckAccess{{Cell: "cell-0", Cluster: "shop-0", Check: *check, Err: err, SeenAt: now}}
}

// checked is a world with a sick machine whose policy asks for a check that can be made.
func checked() (*world, *api.NodeCheckPod) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	check := &api.NodeCheckPod{Image: "check:1"}
	w.policies[0].Spec.Verification.NodeCheck = check
	w.Cells[0].CheckedClusters = []string{"shop-0"}
	w.access(check, "")
	return w, check
}

// Each case changes one thing in a world in which the repair would begin. It is
// held then, for what is known and in so many words.
func TestNothingIsRepairedWhoseCheckWasNotSeenToBePossible(t *testing.T) {
	w, _ := checked()
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(w.decide()))
	for name, tc := range map[string]struct {
		change func(w *world)
		says   string
	}{
		"not tried":              {func(w *world) { w.CheckAccess = nil }, "was not tried"},
		"tried elsewhere":        {func(w *world) { w.CheckAccess[0].Cluster = "shop-1" }, "was not tried"},
		"tried in another cell":  {func(w *world) { w.CheckAccess[0].Cell = "cell-1" }, "was not tried"},
		"tried with other image": {func(w *world) { w.CheckAccess[0].Check.Image = "check:2" }, "was not tried"},
		"does not work":          {func(w *world) { w.CheckAccess[0].Err = "Unauthorized" }, "Unauthorized"},
		"worked long ago":        {func(w *world) { w.CheckAccess[0].SeenAt = now.Add(-61 * time.Second) }, "last seen 1m1s ago"},
		"works in the future":    {func(w *world) { w.CheckAccess[0].SeenAt = now.Add(time.Minute) }, "last seen -1m0s ago"},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := checked()
			tc.change(w)
			plan := w.decide()
			require.Equal(t, []string{sick + " Hold NodeCheckUnavailable"}, verdicts(plan))
			require.Contains(t, plan.Decisions[0].Message, "policy nodes asks for a node check and the repair could not be verified")
			require.Contains(t, plan.Decisions[0].Message, tc.says)
		})
	}
}

// What is tried is what would be made, once in each cluster with a suspect.
func TestWhichChecksAreTried(t *testing.T) {
	w, check := checked()
	probes := func() []policy.CheckProbe { return policy.CheckProbes(w.policies, w.Snapshot) }
	want := policy.CheckProbe{Check: *check, Target: api.RemediationTarget{Cell: "cell-0", Namespace: "fleet", Cluster: "shop-0", Node: sick}}
	require.Equal(t, []policy.CheckProbe{want}, probes())
	require.Equal(t, 2*time.Minute, want.Timeout())
	w.fail("shop-0-13")
	require.Equal(t, []policy.CheckProbe{want}, probes(), "a second suspect of the cluster costs nothing")

	w.Cells[0].CheckedClusters = nil
	require.Empty(t, probes(), "there is nothing to try it with")
	w.Cells[0].CheckedClusters = []string{"shop-0"}
	w.policies[0].Spec.Verification.NodeCheck = nil
	require.Empty(t, probes(), "no policy asks for a check")

	rem := w.open(sick, api.RemediationPending)
	rem.Spec.Verification.NodeCheck = check
	require.Equal(t, []policy.CheckProbe{want}, probes(), "a record asks for one")

	healthy := newWorld(1, 4, 5)
	healthy.policies[0].Spec.Verification.NodeCheck = check
	healthy.Cells[0].CheckedClusters = []string{"shop-0"}
	require.Empty(t, policy.CheckProbes(healthy.policies, healthy.Snapshot), "there is no suspect")
}

func TestConfirmTriesTheCheckAgain(t *testing.T) {
	w, check := checked()
	d := acts(w.decide())[0]
	probe, needed := d.CheckProbe()
	require.True(t, needed)
	require.Equal(t, sick, probe.Target.Node)

	p := w.policies[0]
	f := again(w, &p, now)
	require.Equal(t, policy.ReasonNodeCheckUnavailable, policy.Confirm(d, f, now).Reason, "what the round saw does not count")
	f.CheckAccess = &policy.CheckAccess{Cell: "cell-0", Cluster: "shop-0", Check: *check, SeenAt: now}
	require.Empty(t, policy.Confirm(d, f, now).Reason)

	p.Spec.Verification.NodeCheck = nil
	f.CheckAccess.Err = "pods is forbidden"
	got := policy.Confirm(d, f, now)
	require.Equal(t, policy.ReasonNodeCheckUnavailable, got.Reason, "the record asks for a check, whatever the policy has become")
	require.Contains(t, got.Message, "pods is forbidden")
	require.False(t, policy.Settled(got.Reason), "the record waits")
}

// A policy that does not speak for the machine demands its check all the same.
func TestChecksOfSeveralPolicies(t *testing.T) {
	w, check := checked()
	w.policies = append(w.policies, acting("also"))
	plan := w.decide()
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(plan))
	require.Equal(t, "also", plan.Decisions[0].Policy)
	require.Equal(t, check, plan.Decisions[0].Spec.Verification.NodeCheck)

	w.CheckAccess = nil
	plan = w.decide()
	require.Equal(t, []string{sick + " Hold NodeCheckUnavailable"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "policy nodes asks for a node check", "it is named though it does not speak")

	w.access(check, "")
	w.policies[1].Spec.Verification.NodeCheck = &api.NodeCheckPod{Image: "check:1", TimeoutSeconds: ptr.To(int32(120))}
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(w.decide()), "120 is what unset means")
	w.policies[1].Spec.Verification.NodeCheck = &api.NodeCheckPod{Image: "check:2"}
	plan = w.decide()
	require.Equal(t, []string{sick + " Hold NodeCheckConflict"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "policies also and nodes both select the machine")
	require.Empty(t, policy.CheckProbes(w.policies, w.Snapshot))

	w.policies[0].Annotations = map[string]string{api.AnnotationPaused: ""}
	require.Equal(t, []string{sick + " Hold NodeCheckUnavailable"}, verdicts(w.decide()), "a paused policy asks for nothing; the other check was not tried")
	w.policies[0].Annotations, w.policies[0].DeletionTimestamp = nil, &metav1.Time{Time: now}
	w.access(w.policies[1].Spec.Verification.NodeCheck, "")
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(w.decide()), "nor does one that is being deleted")
}

// The repair's deadline must not cut the check off.
func TestACheckLeavesRoomBeforeTheDeadline(t *testing.T) {
	w, check := checked()
	check.TimeoutSeconds, w.policies[0].Spec.TimeoutSeconds = ptr.To(int32(241)), ptr.To(int32(300))
	w.access(check, "")
	plan := w.decide()
	require.Equal(t, []string{sick + " Hold NodeCheckUnavailable"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "the check may take 4m1s and the repair 5m0s; raise timeoutSeconds or lower verification.nodeCheck.timeoutSeconds, 1m0s must lie between")
	require.Equal(t, metav1.ConditionFalse, plan.Policies[0].Allowed, "it is said before a node fails")
	require.Contains(t, plan.Policies[0].Message, "the check may take 4m1s")

	check.TimeoutSeconds = ptr.To(int32(240))
	w.access(check, "")
	plan = w.decide()
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(plan))
	require.Equal(t, metav1.ConditionTrue, plan.Policies[0].Allowed)
}

// Whoever may make pods in the namespace can give them our names and marks. What
// such a pod ran, where and when, is what tells it apart.
func TestAPassOfAPodThatDidNotCheckTheNode(t *testing.T) {
	for says, change := range map[string]func(p *policy.CheckPod){
		`on node "shop-0-08"`:         func(p *policy.CheckPod) { p.Node = "shop-0-08" },
		`on node ""`:                  func(p *policy.CheckPod) { p.Node = "" },
		`with image "busybox"`:        func(p *policy.CheckPod) { p.Image = "busybox" },
		"with another command":        func(p *policy.CheckPod) { p.Command = []string{"true"} },
		"another command":             func(p *policy.CheckPod) { p.Args = []string{"--none"} },
		"before the check was asked":  func(p *policy.CheckPod) { p.Created = now.Add(-36 * time.Second) },
		"for another Node or another": func(p *policy.CheckPod) { p.BootID = "boot-1" },
	} {
		t.Run(says, func(t *testing.T) {
			for _, uid := range []string{"", "pod-uid"} {
				w, rem := repaired()
				rem.Status.NodeCheck = checkRecord(api.NodeCheckRunning, 30*time.Second)
				rem.Status.NodeCheck.PodUID = uid
				pod := checkPod(api.NodeCheckPass, 30*time.Second)
				change(&pod)
				w.pods(rem, pod)
				plan := w.decide()
				require.Equal(t, []string{rem.Name + " Verifying NodeCheckNotRun"}, updates(plan))
				require.Equal(t, "PodForeign", plan.Updates[0].NodeCheck.Reason)
				require.Contains(t, plan.Updates[0].Message, says)
			}
		})
	}
	w, rem := repaired()
	rem.Status.NodeCheck = checkRecord(api.NodeCheckRunning, 30*time.Second)
	pod := checkPod(api.NodeCheckPass, 35*time.Second)
	w.pods(rem, pod)
	require.Equal(t, []string{rem.Name + " Succeeded Verified"}, updates(w.decide()), "clocks may differ by five seconds")
}

// The check of a repair that has ended says so, however the repair ended.
func TestACheckEndsWithItsRepair(t *testing.T) {
	for name, end := range map[string]func(w *world, rem *api.Remediation){
		"Unverified":    func(_ *world, rem *api.Remediation) { rem.Spec.Deadline = metav1.NewTime(now.Add(-time.Second)) },
		"TargetGone":    func(w *world, _ *api.Remediation) { w.machine(sick).UID = "another" },
		"RepairFailed":  func(w *world, _ *api.Remediation) { w.machine(sick).Response.Phase = api.RepairFailed },
		"TargetChanged": func(w *world, _ *api.Remediation) { w.machine(sick).HardwareID = "hw-new" },
	} {
		for _, result := range []api.NodeCheckResult{api.NodeCheckPending, api.NodeCheckRunning} {
			t.Run(name+" "+string(result), func(t *testing.T) {
				w, rem := repaired()
				rem.Status.NodeCheck = checkRecord(result, 5*time.Second)
				rem.Status.NodeCheck.Reason, rem.Status.NodeCheck.Message = "NotMade", "pods is forbidden"
				w.NodeChecks = []policy.NodeChecks{{Remediation: rem.Name, Err: "away"}}
				end(w, rem)
				plan := w.decide()
				require.Equal(t, []string{rem.Name + " Failed " + name}, updates(plan))
				rec := plan.Updates[0].NodeCheck
				require.Equal(t, api.NodeCheckNotRun, rec.Result)
				require.Equal(t, "RepairEnded", rec.Reason)
				require.Equal(t, "the repair ended ("+name+") while the check was "+string(result)+"; NotMade: pods is forbidden", rec.Message)
			})
		}
	}
}

// A repair's message quotes the end of what its check wrote; the record has more.
func TestAMessageQuotesLittleOfACheck(t *testing.T) {
	w, rem := repaired()
	rem.Status.NodeCheck = checkRecord(api.NodeCheckRunning, 5*time.Second)
	pod := checkPod(api.NodeCheckFail, 5*time.Second)
	pod.Reason, pod.Message, pod.ExitCode = "Error", strings.Repeat("é", 240)+" disk sda", ptr.To(int32(1))
	w.pods(rem, pod)
	u := w.decide().Updates[0]
	require.Contains(t, u.Message, "exit code 1, Error: ...é")
	require.Contains(t, u.Message, "é disk sda; pod pharos-node-checks/")
	require.LessOrEqual(t, strings.Count(u.Message, "é"), 100)
	require.Equal(t, pod.Message, u.NodeCheck.Message)
}

// drawAccess lets both policies ask for any check or none, and any check have been
// tried, with any outcome. What fits is drawn more often.
func drawAccess(t *rapid.T, w *world) policy.CheckAccess {
	images := rapid.SampledFrom([]string{"check:1", "check:1", "check:2"})
	for i := range w.policies {
		if rapid.IntRange(0, 2).Draw(t, "asks") > 0 {
			w.policies[i].Spec.Verification.NodeCheck = &api.NodeCheckPod{Image: images.Draw(t, "image")}
		}
	}
	answer := policy.CheckAccess{
		Cell: "cell-0", Cluster: rapid.SampledFrom([]string{"shop-0", "shop-0", "shop-0", "shop-1"}).Draw(t, "cluster"),
		Check:  api.NodeCheckPod{Image: images.Draw(t, "tried")},
		Err:    rapid.SampledFrom([]string{"", "", "", "Unauthorized"}).Draw(t, "error"),
		SeenAt: now.Add(-time.Duration(rapid.IntRange(-10, 80).Draw(t, "age")) * time.Second),
	}
	w.CheckAccess = []policy.CheckAccess{answer}
	return answer
}

// works says whether an answer is a good one, to a check of this image.
func works(a policy.CheckAccess, image string) bool {
	age := now.Sub(a.SeenAt)
	return a.Err == "" && a.Cluster == "shop-0" && a.Check.Image == image && age <= time.Minute && age >= -5*time.Second
}

// Whatever was found when whichever checks were tried: a repair that needs a check
// is begun only with a good answer, not older than a minute, to that very check,
// and only if no policy asks for another.
func TestNeverBegunWithoutAccess(t *testing.T) {
	begun := 0
	rapid.Check(t, func(t *rapid.T) {
		w, _ := checked()
		w.policies = append(w.policies, acting("also"))
		answer := drawAccess(t, w)
		for _, d := range acts(w.decide()) {
			begun++
			needs := d.Spec.Verification.NodeCheck
			if needs == nil || !works(answer, needs.Image) {
				t.Fatalf("begun with %+v, found was %+v", needs, answer)
			}
			for _, p := range w.policies {
				if asks := p.Spec.Verification.NodeCheck; asks != nil && asks.Image != needs.Image {
					t.Fatalf("policy %s asks for %s, the record for %s", p.Name, asks.Image, needs.Image)
				}
			}
		}
	})
	require.Positive(t, begun, "the property must have been tried on repairs that begin")
}
