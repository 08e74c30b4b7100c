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

// podName is the first pod of the repair of the sick machine.
const podName = "check-rem-" + sick + "-1"

// repaired is a world in which the sick machine was rebooted and is well again by
// every evidence, and its repair asks for a node check.
func repaired() (*world, *api.Remediation) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	w.heal(sick, true)
	w.Cells[0].CheckedClusters = []string{"shop-0"}
	rem := w.open(sick, api.RemediationVerifying)
	rem.Spec.Verification.NodeCheck = &api.NodeCheckPod{Image: "check:1", TimeoutSeconds: ptr.To(int32(60))}
	w.asked(rem, api.RepairSucceeded)
	return w, rem
}

// record is a check of the boot that the node is in, asked for some time ago.
func checkRecord(result api.NodeCheckResult, ago time.Duration) *api.NodeCheckRecord {
	return &api.NodeCheckRecord{
		Attempt: 1, Pod: podName, NodeUID: "node-uid-" + sick, BootID: "boot-2",
		Result: result, RequestedAt: metav1.NewTime(now.Add(-ago)),
	}
}

// pod is the pod of such a record.
func checkPod(result api.NodeCheckResult, ago time.Duration) policy.CheckPod {
	p := policy.CheckPod{
		Name: podName, UID: "pod-uid", NodeUID: "node-uid-" + sick, BootID: "boot-2", Result: result,
		Created: now.Add(-ago), Started: now.Add(-ago), Node: sick, Image: "check:1",
	}
	if result.Ended() {
		p.Finished = now.Add(-time.Second)
	}
	return p
}

func (w *world) pods(rem *api.Remediation, pods ...policy.CheckPod) {
	w.NodeChecks = []policy.NodeChecks{{Remediation: rem.Name, Pods: pods}}
}

// write plays the ledger: the plan's update stands in the record.
func write(t *testing.T, rem *api.Remediation, plan policy.Plan) {
	t.Helper()
	require.Len(t, plan.Updates, 1)
	u := plan.Updates[0]
	rem.Status.Phase, rem.Status.Reason, rem.Status.Message, rem.Status.NodeCheck = u.Phase, string(u.Reason), u.Message, u.NodeCheck
}

// Case C37: a result is written down before its pod goes.
func TestNodeCheckIsWrittenDownThenMadeThenPasses(t *testing.T) {
	w, rem := repaired()
	plan := w.decide()
	require.Equal(t, []string{rem.Name + " Verifying AwaitingNodeCheck"}, updates(plan))
	require.Empty(t, plan.Checks, "the pod is not made before it is written down")
	require.Equal(t, *checkRecord(api.NodeCheckPending, 0), *plan.Updates[0].NodeCheck)
	require.WithinDuration(t, now, plan.NextCheck, time.Second, "and is made soon")
	write(t, rem, plan)

	w.pods(rem)
	plan = w.decide()
	require.Empty(t, plan.Updates)
	require.Len(t, plan.Checks, 1)
	start := plan.Checks[0]
	require.Equal(t, podName, start.Record.Pod)
	require.Equal(t, "boot-2", start.Record.BootID)
	require.Equal(t, time.Minute, start.Timeout)
	require.Equal(t, sick, start.Target.Node)

	w.pods(rem, checkPod(api.NodeCheckRunning, time.Second))
	plan = w.decide()
	require.Empty(t, plan.Checks)
	require.Empty(t, plan.Removals)
	require.Equal(t, []string{rem.Name + " Verifying AwaitingNodeCheck"}, updates(plan))
	require.Contains(t, plan.Updates[0].Message, "pod pharos-node-checks/"+podName+" on node "+sick)
	write(t, rem, plan)
	require.Equal(t, "pod-uid", rem.Status.NodeCheck.PodUID)

	w.pods(rem, checkPod(api.NodeCheckPass, 2*time.Second))
	plan = w.decide()
	require.Equal(t, []string{rem.Name + " Succeeded Verified"}, updates(plan))
	require.Empty(t, plan.Removals, "not before the result is written down")
	signals := plan.Updates[0].Verification
	require.Len(t, signals, 5)
	require.Equal(t, "node-check", signals[4].Source)
	require.Contains(t, signals[4].Says, "boot id boot-2")
	require.Contains(t, plan.Updates[0].Message, "node check agree")
	write(t, rem, plan)
	require.Equal(t, []policy.CheckRemoval{{Remediation: rem.Name, Target: rem.Spec.Target, Pod: podName, UID: "pod-uid"}}, w.decide().Removals)
}

// Case C33: each check comes to one of four ends, with its reason.
// Each case says what stands in the record and what is in the cluster, and what
// must come of it. All other evidence is in favour of the repair.
func TestNodeCheckResults(t *testing.T) {
	type set func(w *world, rem *api.Remediation)
	with := func(rec *api.NodeCheckRecord, pods ...policy.CheckPod) set {
		return func(w *world, rem *api.Remediation) {
			rem.Status.NodeCheck = rec
			w.pods(rem, pods...)
		}
	}
	seen := func(result api.NodeCheckResult, ago time.Duration) *api.NodeCheckRecord {
		rec := checkRecord(result, ago)
		rec.PodUID = "pod-uid"
		return rec
	}
	failed := checkPod(api.NodeCheckFail, 5*time.Second)
	failed.Reason, failed.Message, failed.ExitCode = "Error", "disk sda is slow", ptr.To(int32(3))
	pulling := checkPod(api.NodeCheckRunning, 5*time.Second)
	pulling.Started, pulling.Reason, pulling.Message = time.Time{}, "ImagePullBackOff", "no such image"
	never := pulling
	never.Created = now.Add(-91 * time.Second)
	dying := checkPod(api.NodeCheckRunning, 91*time.Second)
	dying.Deleting = true
	otherUID, otherBoot, otherNode := checkPod(api.NodeCheckPass, 5*time.Second), checkPod(api.NodeCheckPass, 5*time.Second), checkPod(api.NodeCheckPass, 5*time.Second)
	otherUID.UID, otherBoot.BootID, otherNode.NodeUID = "pod-uid-2", "boot-1", "node-uid-of-another"
	oldPass := seen(api.NodeCheckPass, time.Minute)
	oldPass.BootID = "boot-1"

	for name, tc := range map[string]struct {
		set    set
		want   string
		result api.NodeCheckResult
		says   string
	}{
		"passes":                       {with(seen(api.NodeCheckRunning, 5*time.Second), checkPod(api.NodeCheckPass, 5*time.Second)), "Succeeded Verified", api.NodeCheckPass, ""},
		"passes unseen while it ran":   {with(checkRecord(api.NodeCheckPending, 5*time.Second), checkPod(api.NodeCheckPass, 5*time.Second)), "Succeeded Verified", api.NodeCheckPass, ""},
		"passed, pod is gone":          {with(seen(api.NodeCheckPass, 5*time.Second)), "Succeeded Verified", api.NodeCheckPass, ""},
		"fails":                        {with(seen(api.NodeCheckRunning, 5*time.Second), failed), "Failed NodeCheckFailed", api.NodeCheckFail, "exit code 3, Error: disk sda is slow"},
		"times out":                    {with(seen(api.NodeCheckRunning, time.Minute), checkPod(api.NodeCheckTimeout, time.Minute)), "Failed NodeCheckTimedOut", api.NodeCheckTimeout, "did not end within 1m0s"},
		"overdue":                      {with(seen(api.NodeCheckRunning, 91*time.Second), checkPod(api.NodeCheckRunning, 91*time.Second)), "Failed NodeCheckTimedOut", api.NodeCheckTimeout, "Overdue"},
		"overdue, and deleted":         {with(seen(api.NodeCheckRunning, 91*time.Second), dying), "Verifying NodeCheckNotRun", api.NodeCheckNotRun, "somebody deleted the pod"},
		"not overdue yet":              {with(seen(api.NodeCheckRunning, 89*time.Second), checkPod(api.NodeCheckRunning, 89*time.Second)), "Verifying AwaitingNodeCheck", api.NodeCheckRunning, ""},
		"image cannot be pulled":       {with(seen(api.NodeCheckRunning, 5*time.Second), pulling), "Verifying AwaitingNodeCheck", api.NodeCheckRunning, "ImagePullBackOff: no such image"},
		"never began":                  {with(seen(api.NodeCheckRunning, 91*time.Second), never), "Verifying NodeCheckNotRun", api.NodeCheckNotRun, "ImagePullBackOff: no such image"},
		"pod is deleted by somebody":   {with(seen(api.NodeCheckRunning, 5*time.Second)), "Verifying NodeCheckNotRun", api.NodeCheckNotRun, "somebody deleted the pod"},
		"pod is another":               {with(seen(api.NodeCheckRunning, 5*time.Second), otherUID), "Verifying NodeCheckNotRun", api.NodeCheckNotRun, "another pod bears the name"},
		"pod was made in another boot": {with(checkRecord(api.NodeCheckPending, 5*time.Second), otherBoot), "Verifying NodeCheckNotRun", api.NodeCheckNotRun, "another boot"},
		"pod was made on another node": {with(checkRecord(api.NodeCheckPending, 5*time.Second), otherNode), "Verifying NodeCheckNotRun", api.NodeCheckNotRun, "another Node"},
		"passed before the boot":       {with(oldPass), "Verifying NodeCheckNotRun", api.NodeCheckNotRun, "has booted"},
		"failed before the boot": {func(w *world, rem *api.Remediation) {
			with(seen(api.NodeCheckRunning, 5*time.Second), failed)(w, rem)
			w.node(sick).BootID = "boot-3"
		}, "Verifying NodeCheckNotRun", api.NodeCheckNotRun, "has booted"},
		"node was made anew": {func(w *world, rem *api.Remediation) {
			with(seen(api.NodeCheckPass, 5*time.Second))(w, rem)
			w.node(sick).UID = "node-uid-new"
		}, "Verifying NodeCheckNotRun", api.NodeCheckNotRun, "made anew"},
		"pods were not read": {func(_ *world, rem *api.Remediation) { rem.Status.NodeCheck = seen(api.NodeCheckRunning, 5*time.Second) }, "Verifying NodeCheckUnavailable", api.NodeCheckRunning, "not read"},
		"pods cannot be read": {func(w *world, rem *api.Remediation) {
			rem.Status.NodeCheck = seen(api.NodeCheckRunning, 5*time.Second)
			w.NodeChecks = []policy.NodeChecks{{Remediation: rem.Name, Err: "secret shop-node-checks not found"}}
		}, "Verifying NodeCheckUnavailable", api.NodeCheckRunning, "secret shop-node-checks not found"},
		"no kubeconfig is named": {func(w *world, _ *api.Remediation) { w.Cells[0].CheckedClusters = nil }, "Verifying NodeCheckUnavailable", "", "Cluster shop-0 in cell cell-0 names no spec.nodeCheckKubeconfigSecret"},
		"cluster is paused":      {func(w *world, _ *api.Remediation) { w.Cells[0].PausedClusters = []string{"shop-0"} }, "Verifying Paused", "", "paused"},
		"machine is paused":      {func(w *world, _ *api.Remediation) { w.machine(sick).Paused = true }, "Verifying Paused", "", "paused"},
		"node has no UID":        {func(w *world, _ *api.Remediation) { w.node(sick).UID = "" }, "Verifying IdentityUnknown", "", "UID"},
		"passes, node cannot be read": {func(w *world, rem *api.Remediation) {
			with(seen(api.NodeCheckRunning, 5*time.Second), checkPod(api.NodeCheckPass, 5*time.Second))(w, rem)
			w.Clusters[0].Err = "away"
		}, "Verifying AwaitingVerification", api.NodeCheckPass, "of the boot that the node is in"},
		"fails, node cannot be read": {func(w *world, rem *api.Remediation) {
			with(seen(api.NodeCheckRunning, 5*time.Second), failed)(w, rem)
			w.Clusters[0].Err = "away"
		}, "Verifying AwaitingVerification", api.NodeCheckFail, "of the boot that the node is in"},
		"passes, centrals disagree": {func(w *world, rem *api.Remediation) {
			with(seen(api.NodeCheckRunning, 5*time.Second), checkPod(api.NodeCheckPass, 5*time.Second))(w, rem)
			w.Centrals[0].Warnings = []string{"partial"}
		}, "Verifying AwaitingVerification", api.NodeCheckPass, "agreement of the centrals (EvidencePartial)"},
	} {
		t.Run(name, func(t *testing.T) {
			w, rem := repaired()
			tc.set(w, rem)
			plan := w.decide()
			require.Equal(t, []string{rem.Name + " " + tc.want}, updates(plan))
			require.Contains(t, plan.Updates[0].Message, tc.says)
			require.Empty(t, acts(plan))
			require.Empty(t, plan.Checks)
			if tc.result == "" {
				require.Nil(t, plan.Updates[0].NodeCheck)
				return
			}
			require.Equal(t, tc.result, plan.Updates[0].NodeCheck.Result)
			if strings.HasPrefix(tc.want, "Verifying") {
				rem.Spec.Deadline = metav1.NewTime(now.Add(-time.Second))
				late := w.decide()
				require.Equal(t, []string{rem.Name + " Failed Unverified"}, updates(late))
				require.Contains(t, late.Updates[0].Message, tc.says)
				require.True(t, late.Updates[0].NodeCheck.Result.Ended(), "nothing is awaited any more")
			}
		})
	}
}

func TestNodeCheckBeginsWhenTheNodeIsWell(t *testing.T) {
	w, rem := repaired()
	w.node(sick).Ready = "False"
	plan := w.decide()
	require.Nil(t, plan.Updates[0].NodeCheck)
	require.Contains(t, plan.Updates[0].Message, "begins when the live node is well")

	w.node(sick).Ready = "True"
	w.Centrals[0] = policy.Central{Name: "central-a", Err: "away"}
	plan = w.decide()
	require.Equal(t, []string{rem.Name + " Verifying AwaitingVerification"}, updates(plan))
	require.Equal(t, api.NodeCheckPending, plan.Updates[0].NodeCheck.Result, "it does not wait for the centrals")
}

// A check of which nothing is known is tried again, each time after a longer while,
// until it was tried often enough.
func TestNodeCheckIsTriedAgain(t *testing.T) {
	w, rem := repaired()
	rec := checkRecord(api.NodeCheckNotRun, 19*time.Second)
	rec.Reason, rec.Message = "Evicted", "the node was low on memory"
	rem.Status.NodeCheck = rec
	w.pods(rem, checkPod(api.NodeCheckNotRun, 19*time.Second))
	plan := w.decide()
	require.Equal(t, []string{rem.Name + " Verifying NodeCheckNotRun"}, updates(plan))
	require.Equal(t, []policy.CheckRemoval{{Remediation: rem.Name, Target: rem.Spec.Target, Pod: podName, UID: "pod-uid"}}, plan.Removals)
	require.Equal(t, rec.RequestedAt.Add(20*time.Second), plan.NextCheck)

	rec.RequestedAt = metav1.NewTime(now.Add(-20 * time.Second))
	plan = w.decide()
	require.Equal(t, int32(2), plan.Updates[0].NodeCheck.Attempt)
	require.Equal(t, "check-"+rem.Name+"-2", plan.Updates[0].NodeCheck.Pod)
	require.Equal(t, api.NodeCheckPending, plan.Updates[0].NodeCheck.Result)
	require.Empty(t, plan.Updates[0].NodeCheck.PodUID)

	rec.Attempt, rec.RequestedAt = 5, metav1.NewTime(now.Add(-time.Hour))
	plan = w.decide()
	require.Equal(t, []string{rem.Name + " Verifying NodeCheckNotRun"}, updates(plan))
	require.Equal(t, int32(5), plan.Updates[0].NodeCheck.Attempt)
	require.Contains(t, plan.Updates[0].Message, "Evicted: the node was low on memory")
	require.Contains(t, plan.Updates[0].Message, "attempt 5 of 5")
}

// What could not be made stands in the record with its error, and is tried in every round.
func TestNodeCheckThatCannotBeMade(t *testing.T) {
	w, rem := repaired()
	write(t, rem, w.decide())
	w.pods(rem)
	u := w.decide().Checks[0].NotMade("pods is forbidden")
	require.False(t, u.Reworded)
	rem.Status.NodeCheck = u.NodeCheck
	plan := w.decide()
	require.Equal(t, []string{rem.Name + " Verifying NodeCheckUnavailable"}, updates(plan))
	require.Contains(t, plan.Updates[0].Message, "pods is forbidden")
	write(t, rem, plan)

	plan = w.decide()
	require.Empty(t, plan.Updates)
	require.Len(t, plan.Checks, 1)
	require.True(t, plan.Checks[0].NotMade("pods is forbidden, still").Reworded, "only the words differ")

	rem.Spec.Deadline = metav1.NewTime(now.Add(-time.Second))
	plan = w.decide()
	require.Equal(t, []string{rem.Name + " Failed Unverified"}, updates(plan))
	require.Empty(t, plan.Checks, "no pod is made for a repair that ends")
}

func TestPodsOfARepairThatHasEndedAreRemoved(t *testing.T) {
	for _, phase := range []api.RemediationPhase{api.RemediationFailed, api.RemediationSucceeded, api.RemediationCancelled} {
		w, rem := repaired()
		rem.Status.Phase, rem.Status.NodeCheck = phase, checkRecord(api.NodeCheckRunning, time.Minute)
		going := checkPod(api.NodeCheckRunning, time.Minute)
		going.Name, going.Deleting = podName+"-x", true
		w.pods(rem, checkPod(api.NodeCheckRunning, time.Minute), going)
		require.Equal(t, []policy.CheckRemoval{{Remediation: rem.Name, Target: rem.Spec.Target, Pod: podName, UID: "pod-uid"}}, w.decide().Removals)
	}
	w, rem := repaired()
	rem.Status.NodeCheck = checkRecord(api.NodeCheckPending, 0)
	earlier := checkPod(api.NodeCheckPass, time.Minute)
	earlier.Name = "check-" + rem.Name + "-0"
	w.pods(rem, earlier, checkPod(api.NodeCheckRunning, 0))
	require.Equal(t, []policy.CheckRemoval{{Remediation: rem.Name, Target: rem.Spec.Target, Pod: earlier.Name, UID: "pod-uid"}}, w.decide().Removals)
}

func TestChecksAreReadForOpenRepairsAndThoseThatEndedLately(t *testing.T) {
	w, rem := repaired()
	require.Empty(t, policy.CheckReads(w.Remediations, now), "no pod can have been made")
	rem.Status.NodeCheck = checkRecord(api.NodeCheckPending, 0)
	require.Equal(t, []policy.CheckRead{{Remediation: rem.Name, Target: rem.Spec.Target}}, policy.CheckReads(w.Remediations, now))
	rem.Status.Phase = api.RemediationFailed
	require.Equal(t, []policy.CheckRead{{Remediation: rem.Name, Target: rem.Spec.Target, Ended: true}}, policy.CheckReads(w.Remediations, now))
	require.Empty(t, policy.CheckReads(w.Remediations, now.Add(2*time.Hour)))
}

// A repair that could not be verified is not begun.
func TestNothingIsRepairedThatCannotBeChecked(t *testing.T) {
	w := newWorld(1, 4, 5)
	w.fail(sick)
	check := &api.NodeCheckPod{Image: "check:1"}
	w.policies[0].Spec.Verification.NodeCheck = check
	plan := w.decide()
	require.Equal(t, []string{sick + " Hold NodeCheckUnavailable"}, verdicts(plan))
	require.Contains(t, plan.Decisions[0].Message, "Cluster shop-0 names no spec.nodeCheckKubeconfigSecret")

	w.Cells[0].CheckedClusters = []string{"shop-0"}
	w.access(check, "")
	plan = w.decide()
	require.Equal(t, []string{sick + " Act Unhealthy"}, verdicts(plan))
	require.Equal(t, check, plan.Decisions[0].Spec.Verification.NodeCheck)

	d := plan.Decisions[0]
	w.Remediations = append(w.Remediations, api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: d.Name}, Spec: d.Spec})
	w.Cells[0].CheckedClusters, w.policies[0].Spec.Verification.NodeCheck = nil, nil
	require.Equal(t, []string{d.Name + " Pending NodeCheckUnavailable"}, updates(w.decide()), "what is written down counts, whatever the policy has become")
}

// drawCheck puts anything into the record and the cluster. What fits is drawn more
// often, so that some repairs succeed.
func drawCheck(t *rapid.T, w *world, rem *api.Remediation) {
	results := []api.NodeCheckResult{
		api.NodeCheckPending, api.NodeCheckRunning, api.NodeCheckFail, api.NodeCheckTimeout, api.NodeCheckNotRun,
		api.NodeCheckPass, api.NodeCheckPass, api.NodeCheckPass,
	}
	boots := []string{"boot-1", "boot-2", "boot-2", "boot-2", "boot-2", "boot-3"}
	uids := []string{"node-uid-" + sick, "node-uid-" + sick, "node-uid-" + sick, "node-uid-of-another"}
	if rapid.IntRange(0, 4).Draw(t, "asked for") > 0 {
		rem.Status.NodeCheck = checkRecord(rapid.SampledFrom(results).Draw(t, "recorded"), time.Duration(rapid.IntRange(0, 300).Draw(t, "ago"))*time.Second)
		rem.Status.NodeCheck.BootID = rapid.SampledFrom(boots).Draw(t, "recorded boot")
		rem.Status.NodeCheck.NodeUID = rapid.SampledFrom(uids).Draw(t, "recorded node")
		rem.Status.NodeCheck.PodUID = rapid.SampledFrom([]string{"", "pod-uid"}).Draw(t, "recorded pod")
	}
	if rapid.Bool().Draw(t, "pod") {
		pod := checkPod(rapid.SampledFrom(results[1:]).Draw(t, "result"), time.Duration(rapid.IntRange(0, 300).Draw(t, "age"))*time.Second)
		pod.BootID, pod.NodeUID = rapid.SampledFrom(boots).Draw(t, "boot"), rapid.SampledFrom(uids).Draw(t, "node")
		pod.UID = rapid.SampledFrom([]string{"pod-uid", "pod-uid-2"}).Draw(t, "uid")
		pod.Node = rapid.SampledFrom([]string{sick, sick, sick, "shop-0-08"}).Draw(t, "runs on")
		pod.Image = rapid.SampledFrom([]string{"check:1", "check:1", "check:1", "theirs"}).Draw(t, "image")
		w.pods(rem, pod)
	}
	w.node(sick).BootID = rapid.SampledFrom(boots[2:]).Draw(t, "live boot")
	if rapid.Bool().Draw(t, "policy is gone") {
		w.policies = nil
	}
}

// passedHere says whether anything passed on this Node and in this boot, by what
// was written down before and what is in the cluster.
func (w *world) passedHere(rec *api.NodeCheckRecord) bool {
	live := w.node(sick)
	if rec == nil || rec.BootID != live.BootID || rec.NodeUID != live.UID {
		return false
	}
	passed := rec.Result == api.NodeCheckPass
	for _, n := range w.NodeChecks {
		for _, p := range n.Pods {
			passed = passed || p.Result == api.NodeCheckPass && p.BootID == live.BootID && p.NodeUID == live.UID && madeFor(rec, p)
		}
	}
	return passed
}

// madeFor says whether a pod runs the check on the sick machine's node, and was made
// after it was asked for, as far as clocks of five seconds' difference can tell.
func madeFor(rec *api.NodeCheckRecord, p policy.CheckPod) bool {
	return p.Node == sick && p.Image == "check:1" && p.Created.Sub(rec.RequestedAt.Time) >= -5*time.Second
}

// Case C40: no repair is verified that asked for a check and did not pass it.
// Whatever stands in the record and whatever pods there are: a repair that asked
// for a check has not succeeded unless a pod passed on this Node and in this boot.
func TestNeverVerifiedWithoutPass(t *testing.T) {
	succeeded := 0
	rapid.Check(t, func(t *rapid.T) {
		w, rem := repaired()
		drawCheck(t, w, rem)
		for _, u := range w.decide().Updates {
			if u.Phase != api.RemediationSucceeded {
				continue
			}
			succeeded++
			if !w.passedHere(rem.Status.NodeCheck) {
				t.Fatalf("verified without a pod that passed in this boot: %+v, %+v", rem.Status.NodeCheck, w.NodeChecks)
			}
		}
	})
	require.Positive(t, succeeded, "the property must have been tried on repairs that succeed")
}
