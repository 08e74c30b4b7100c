package snapshot_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/remediator/policy"
	"github.com/pharos-fleet/pharos/remediator/snapshot"
)

func TestCompressedSnapshots(t *testing.T) {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b)
	require.NoError(t, err)
	_, err = z.Write([]byte(byHand(t)))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	s, err := snapshot.Read(bytes.NewReader(b.Bytes()))
	require.NoError(t, err)
	plain, err := snapshot.Read(strings.NewReader(byHand(t)))
	require.NoError(t, err)
	require.Equal(t, plain, s)
	_, err = snapshot.Read(bytes.NewReader(b.Bytes()[:b.Len()/2]))
	require.ErrorContains(t, err, "it is compressed, and cannot be read to its end")
}

func TestWhy(t *testing.T) {
	s, err := snapshot.Read(strings.NewReader(byHand(t)))
	require.NoError(t, err)
	why := func(machine string) string { return whyOf(t, s, "machine/"+machine) }
	said := why("shop-03")
	require.Contains(t, said, "Act, because of Unhealthy, by policy workers: node shop-03 is Ready=Unknown since 2026-03-01T11:50:00Z")
	require.Contains(t, said, "What is done is Reboot, recorded as Remediation shop-03-")
	require.Contains(t, said, "- Central central-b heard of the cell 5s before, and lists the node as unhealthy (Unknown), 5s before.")
	require.Contains(t, said, "- Its kubelet renewed its Lease 11m0s before.")
	require.Contains(t, why("asia-1/shop-02"), "Nothing is decided of it")

	repair := s.Decide().Decisions[0]
	s.Remediations = []api.Remediation{{ObjectMeta: metav1.ObjectMeta{Name: repair.Name}, Spec: repair.Spec}}
	require.NotContains(t, why("shop-03"), "in the folder of --record")
	s.Remediations[0].Spec.Snapshot = "20260301T115500.000Z.snapshot.json.zst"
	require.Contains(t, why("shop-03"), "It was decided on 20260301T115500.000Z.snapshot.json.zst in the folder of --record.")
	handed := s.Remediations[0]
	handed.Spec.Action, handed.Spec.Reason, handed.Status.Phase = api.ActionEscalate, "Reboot helped 3 times and not for long", api.RemediationEscalated
	s.Remediations = []api.Remediation{handed}
	said = why("shop-03")
	require.Contains(t, said, "Escalate, because of Escalated, by policy workers: "+repair.Name+" handed it to people: Reboot helped 3 times")
	require.Contains(t, said, "What is done is Escalate, recorded as Remediation "+repair.Name)
	s.Remediations = nil

	s.Centrals[1].Err = "connection refused"
	said = why("shop-03")
	require.Contains(t, said, "Hold, because of")
	require.Contains(t, said, "- Central central-b did not answer: connection refused")
	s.Cells = append(s.Cells, s.Cells[0])
	s.Cells[1].Name = "asia-2"
	refused(t, s, "machine/shop-03", "cells asia-1, asia-2 have a machine of this name each: say which, as in machine/asia-1/shop-03")
	refused(t, s, "node/shop/shop-03", "cells asia-1, asia-2 have a node of this name each: say which, as in node/asia-1/shop/shop-03")
	refused(t, s, "cluster/shop", "cells asia-1, asia-2 have a cluster of this name each: say which, as in cluster/asia-1/shop")
	refused(t, s, "machine/asia-3/shop-03", "there is no machine/asia-3/shop-03 in the snapshot of 2026-03-01T12:00:00Z")
}

func whyOf(t *testing.T, s snapshot.Snapshot, text string) string {
	t.Helper()
	of, err := snapshot.ParseSubject(text)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, s.Why(&b, of))
	return b.String()
}

func refused(t *testing.T, s snapshot.Snapshot, text, says string) {
	t.Helper()
	of, err := snapshot.ParseSubject(text)
	require.NoError(t, err)
	require.ErrorContains(t, s.Why(&strings.Builder{}, of), says)
}

func TestSubjects(t *testing.T) {
	for _, text := range []string{"machine/a", "machine/cell/a", "node/shop/a", "node/cell/shop/a", "cluster/shop", "cluster/cell/shop"} {
		of, err := snapshot.ParseSubject(text)
		require.NoError(t, err)
		require.Equal(t, text, of.String())
	}
	for _, text := range []string{"", "a", "machine", "machine/", "machine/a/b/c", "machine//a", "node/a", "node/a/b/c/d", "cluster/", "cluster/a/b/c", "pod/a"} {
		_, err := snapshot.ParseSubject(text)
		require.ErrorContains(t, err, "of what to say why: it is")
	}
}

func TestWhyOfANode(t *testing.T) {
	s := read(t, byHand(t))
	s.Cells[0].Machines[2].Name = "rack-3-slot-7"
	said := whyOf(t, s, "node/shop/shop-03")
	require.Equal(t, whyOf(t, s, "machine/rack-3-slot-7"), said)
	require.Contains(t, said, "Act, because of Unhealthy")
	require.Equal(t, said, whyOf(t, s, "node/asia-1/shop/shop-03"))
	refused(t, s, "node/bank/shop-03", "there is no node/bank/shop-03")

	s.Cells[0].Machines[3].Node = "shop-03"
	said = whyOf(t, s, "node/shop/shop-03")
	require.Contains(t, said, "rack-3-slot-7: as at")
	require.Contains(t, said, "shop-04: as at")
	require.Contains(t, said, "2 machines claim node shop-03")

	s.Cells[0].Machines[2].Node, s.Cells[0].Machines[3].Node = "", "shop-04"
	said = whyOf(t, s, "node/shop/shop-03")
	require.Contains(t, said, "no machine of cell asia-1 is known to bear node shop-03 of cluster shop. Nothing is decided of it.")
	require.Contains(t, said, "Central central-a heard of the cell 5s before, and lists the node as unhealthy (Unknown), 5s before.")
	require.Contains(t, said, "- Its kubelet renewed its Lease 11m0s before.")
	refused(t, s, "node/asia-2/shop/shop-03", "there is no node/asia-2/shop/shop-03")
}

func TestWhyOfACluster(t *testing.T) {
	s := read(t, byHand(t))
	s.Cells[0].Machines[0].InUse = false
	said := whyOf(t, s, "cluster/asia-1/shop")
	require.Contains(t, said, "shop: as at 2026-03-01T12:00:00Z, cluster shop of cell asia-1. It has 5 machines, 4 of them in use.")
	require.Contains(t, said, "- shop-03: Act, because of Unhealthy, by policy workers: node shop-03 is Ready=Unknown")
	require.Contains(t, said, "- Central central-b heard of the cell 5s before, has up=true of the cluster, of 5s before, and lists 1 of its nodes as unhealthy.")
	require.Contains(t, said, "- Its API server was read 1s before: 1 of 5 Leases of its nodes were old, and 2 nodes were suspected.")
	require.NotContains(t, said, "paused")
	require.NotContains(t, said, "Repairs of its machines")
	refused(t, s, "cluster/bank", "there is no cluster/bank")

	repair := s.Decide().Decisions[0]
	s.Remediations = []api.Remediation{
		{ObjectMeta: metav1.ObjectMeta{Name: repair.Name}, Spec: repair.Spec},
		{ObjectMeta: metav1.ObjectMeta{Name: "earlier"}, Spec: repair.Spec, Status: api.RemediationStatus{Phase: api.RemediationSucceeded}},
	}
	s.Centrals[0].Err, s.Centrals[1].ClustersUp, s.Centrals[1].Unhealthy = "connection refused", nil, nil
	s.Clusters[0].Err = "forbidden"
	s.Cells[0].PausedClusters = []string{"shop"}
	s.BudgetsErr = "timeout"
	said = whyOf(t, s, "cluster/shop")
	require.Contains(t, said, "The cell or the cluster is paused, or being deleted: nothing is repaired.")
	require.Contains(t, said, "- Central central-a did not answer: connection refused")
	require.Contains(t, said, "- Central central-b heard of the cell 5s before, does not know the cluster, and lists 0 of its nodes as unhealthy.")
	require.Contains(t, said, "- Its API server could not be read: forbidden")
	require.Contains(t, said, "- Budgets could not be read: timeout")
	require.Contains(t, said, "- "+repair.Name+" of machine shop-03: Pending, unknown, recorded at a time that is not known: unknown")
	require.Contains(t, said, "- 1 ended as Succeeded.")

	s.Remediations, s.Clusters, s.Centrals[0].Unhealthy = nil, nil, nil
	said = whyOf(t, s, "cluster/shop")
	require.Contains(t, said, "Nothing is decided of its machines")
	require.Contains(t, said, "- Its API server was not asked: none of its nodes was suspected.")
}

// What is proposed is told as that, and what people said of it.
func TestWhyOfAProposal(t *testing.T) {
	s := read(t, strings.Replace(byHand(t), "mode: Act", "mode: Approve", 1))
	said := whyOf(t, s, "machine/shop-03")
	require.Contains(t, said, "Propose, because of ApprovalAwaited, by policy workers: Reboot is proposed to people, as shop-03-")
	require.Contains(t, said, "What is proposed to people is Reboot, as Remediation shop-03-")

	v := snapshot.VerdictOf(s.Decide(), s.Now)
	require.Equal(t, policy.Propose, v.Decisions[0].Verdict)
	var b strings.Builder
	require.NoError(t, v.Text(&b))
	require.Regexp(t, `Propose +ApprovalAwaited +shop-03 .* Reboot as shop-03-`, b.String())

	d := s.Decide().Decisions[0]
	rem := api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: d.Name, Annotations: map[string]string{api.AnnotationApprovedBy: "alice"}}, Spec: d.Spec}
	rem.Status = api.RemediationStatus{Phase: api.RemediationPending, Reason: "Approved", Message: "approved by alice",
		Approval: &api.PersonRecord{By: "alice", At: metav1.NewTime(s.Now.Add(-time.Minute)), Reason: "seen it"}}
	s.Remediations = append(s.Remediations, rem)
	var file bytes.Buffer
	require.NoError(t, snapshot.Write(&file, s))
	s, err := snapshot.Read(&file)
	require.NoError(t, err)
	said = whyOf(t, s, "machine/shop-03")
	require.Contains(t, said, "Act, because of Unhealthy")
	require.Contains(t, said, "  It was approved by alice, 1m0s before; seen it.")
}
