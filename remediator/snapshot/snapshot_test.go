package snapshot_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

// byHand is a case that a person wrote: one dead node of five.
func byHand(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "by-hand.yaml"))
	require.NoError(t, err)
	return string(raw)
}

func read(t *testing.T, text string) snapshot.Snapshot {
	t.Helper()
	s, err := snapshot.Read(strings.NewReader(text))
	require.NoError(t, err)
	return s
}

func TestACaseByHandIsDecided(t *testing.T) {
	plan := read(t, byHand(t)).Decide()
	require.Len(t, plan.Decisions, 1)
	require.Equal(t, policy.Act, plan.Decisions[0].Verdict, plan.Decisions[0].Message)
	require.Equal(t, "shop-03", plan.Decisions[0].Machine.Name)
}

func TestWhatIsWrittenIsReadAndDecidedTheSame(t *testing.T) {
	before := read(t, byHand(t))
	var file bytes.Buffer
	require.NoError(t, snapshot.Write(&file, before))
	after, err := snapshot.Read(&file)
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(before, after))
	require.Empty(t, cmp.Diff(before.Decide(), after.Decide(), cmpopts.IgnoreUnexported(policy.Decision{})))
}

func TestRefused(t *testing.T) {
	for name, c := range map[string]struct{ from, to, says string }{
		"another kind":         {"kind: Snapshot", "kind: Secret", `it is "Secret" of "snapshot.pharos.dev/v1"`},
		"another version":      {"snapshot.pharos.dev/v1", "snapshot.pharos.dev/v9", `where "Snapshot" of "snapshot.pharos.dev/v1" is read: another version of pharos wrote it`},
		"no instant":           {"now: 2026-03-01T12:00:00Z", "", "now: is missing"},
		"a field that is none": {"rack: r3", "rak: r3", `unknown field "cells[0].machines[0].rak"`},
		"a cell without name":  {"- name: asia-1", "- paused: true", "cells[0].name: is missing"},
		"a machine twice":      {"uid: u-02", "uid: u-03", "cells[0].machines[2].uid: is the same as cells[0].machines[1].uid"},
		"a central twice":      {"- name: central-b", "- name: central-a", "centrals[1]: is the same as centrals[0]"},
		"a node twice":         {"{name: shop-02, ready", "{name: shop-03, ready", "clusters[0].nodes[1]: is the same as clusters[0].nodes[0]"},
		"a sample of no time":  {"reason: Unknown, at: 2026-03-01T11:59:55Z", "reason: Unknown", "centrals[0].unhealthy[0].at: is missing"},
		"no duration":          {"duration: 40s", "duration: forty", "forty"},
		"no YAML":              {"cells:", "cells: ]", "it is no YAML"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, byHand(t), c.from)
			_, err := snapshot.Read(strings.NewReader(strings.Replace(byHand(t), c.from, c.to, 1)))
			require.ErrorContains(t, err, c.says)
		})
	}
}

// A budget that the API would refuse is never read by a remediator.
func TestRefusedBudgets(t *testing.T) {
	const good = "\nbudgets:\n- metadata: {name: b}\n  spec: {level: Cell, maxUnavailable: 3}\n"
	read(t, byHand(t)+good)
	for name, c := range map[string]struct{ from, to, says string }{
		"a level that is none": {"level: Cell", "level: Cel", "budgets[0]: spec.level: Unsupported value"},
		"no level":             {"level: Cell, ", "", "budgets[0]: spec.level: "},
		"a bound of nothing":   {"maxUnavailable: 3", "maxUnavailable: 0", "budgets[0]: spec.maxUnavailable: Invalid value: 0"},
		"more than half":       {"maxUnavailable: 3", "maxUnavailablePercent: 51", "budgets[0]: spec.maxUnavailablePercent: Invalid value: 51"},
		"a stop of no reason":  {"maxUnavailable: 3", "freeze: Now", "budgets[0]: spec: "},
		"no name":              {"{name: b}", "{}", "budgets[0].metadata.name: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := snapshot.Read(strings.NewReader(byHand(t) + strings.Replace(good, c.from, c.to, 1)))
			require.ErrorContains(t, err, c.says)
		})
	}
}

// What each budget counted stands in the verdict.
func TestAVerdictHasBudgets(t *testing.T) {
	s := read(t, byHand(t)+"\nbudgets:\n- metadata: {name: b}\n  spec: {level: Cell, maxUnavailable: 3, maxInFlight: 2}\n- metadata: {name: lost}\n  spec: {level: Cell, names: [nowhere], maxInFlight: 2}\n")
	v := snapshot.VerdictOf(s.Decide(), s.Now)
	require.Len(t, v.Budgets, 2)
	require.Equal(t, int32(1), v.Budgets[0].Tightest.Unavailable)
	require.Nil(t, v.Budgets[1].Tightest)
	var out bytes.Buffer
	require.NoError(t, v.Text(&out))
	require.Regexp(t, `b +True +Allowed +cell asia-1 +5 +1 of at most 2 +\d of at most 2 +there is room`, out.String())
	require.Regexp(t, `lost +Unknown +NoTargets +- +- +- +- +it covers no machine`, out.String())
}

func TestTerms(t *testing.T) {
	const good = "apiVersion: pharos.dev/v1alpha1\nkind: RemediationPolicy\nmetadata: {name: a}\nspec: {matchAll: All}\n"
	const budget = "apiVersion: pharos.dev/v1alpha1\nkind: FleetDisruptionBudget\nmetadata: {name: a}\nspec: {level: Cell, maxInFlight: 2}\n"
	terms, err := snapshot.ReadTerms([]byte("# why\n---\n" + good + "---\n" + budget + "---\n" + strings.Replace(good, "a}", "b}", 1)))
	require.NoError(t, err)
	require.Len(t, terms.Policies, 2)
	require.Len(t, terms.Budgets, 1)
	for text, says := range map[string]string{
		"":    "there is none",
		"# a": "there is none",
		strings.Replace(good, "matchAll", "matchall", 1):             `unknown field "spec.matchall"`,
		strings.Replace(good, "RemediationPolicy", "Remediation", 1): `document 1: it is "Remediation"`,
		strings.Replace(good, "{name: a}", "{}", 1):                  "with a name is read",
		good + good: "already set",
		strings.Replace(good, "matchAll: All", "mode: Act", 1):      "an empty selection is not everything",
		strings.Replace(budget, "maxInFlight", "maxinflight", 1):    `unknown field "spec.maxinflight"`,
		strings.Replace(budget, "maxInFlight: 2", "freeze: Now", 1): "document 1: ",
	} {
		_, err := snapshot.ReadTerms([]byte(text))
		require.ErrorContains(t, err, says, text)
	}
}

// Of a kind that the terms do not have, the snapshot keeps its own.
func TestUnder(t *testing.T) {
	s := read(t, byHand(t)+"\nbudgets:\n- metadata: {name: own}\n  spec: {level: Cell, maxUnavailable: 3}\n")
	s.BudgetsErr = "connection refused"
	stop := api.FleetDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "stop"}}
	under := s.Under(snapshot.Terms{Budgets: []api.FleetDisruptionBudget{stop}})
	require.Equal(t, "workers", under.Policies[0].Name)
	require.Equal(t, "stop", under.Budgets[0].Name)
	require.Equal(t, "connection refused", under.BudgetsErr, "others could not have been read either")
	under = s.Under(snapshot.Terms{Policies: []api.RemediationPolicy{{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}})
	require.Equal(t, "other", under.Policies[0].Name)
	require.Equal(t, "own", under.Budgets[0].Name)
	require.Equal(t, "workers", s.Policies[0].Name)
}

// FuzzRead says that whatever is read is written and decided without a panic, and
// that an act rests on nothing but what the snapshot has.
func FuzzRead(f *testing.F) {
	f.Add(byHand(f))
	f.Add("{}")
	f.Add("apiVersion: snapshot.pharos.dev/v1\nkind: Snapshot\nnow: 2026-03-01T12:00:00Z\n")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := snapshot.Read(strings.NewReader(text))
		if err != nil {
			return
		}
		plan := s.Decide()
		for _, d := range plan.Decisions {
			if d.Verdict == policy.Act && (len(s.Centrals) < 2 || len(s.Clusters) == 0 || len(s.Policies) == 0) {
				t.Fatalf("acts on %s without evidence", d.Machine.Name)
			}
		}
		var out bytes.Buffer
		require.NoError(t, snapshot.VerdictOf(plan, s.Now).Text(&out))
		if s.Now.Year() < 10000 && s.Now.Year() > 0 {
			_ = snapshot.Write(&out, s) // other instants may have no place in JSON
		}
	})
}

func TestAVerdictIsToldInWords(t *testing.T) {
	s := read(t, byHand(t))
	var out bytes.Buffer
	require.NoError(t, snapshot.VerdictOf(s.Decide(), s.Now).Text(&out))
	for _, says := range []string{"Act", "shop-03", "asia-1/shop", "Reboot as shop-03-", "Ready=Unknown since 2026-03-01T11:50:00Z", "workers"} {
		require.Contains(t, out.String(), says)
	}
	s.Now = s.Now.Add(time.Hour)
	out.Reset()
	require.NoError(t, snapshot.VerdictOf(s.Decide(), s.Now).Text(&out))
	require.Contains(t, out.String(), "EvidenceStale")
	require.Contains(t, out.String(), "old, allowed are 1m0s")
}
