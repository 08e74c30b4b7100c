package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

func proposalNamed(name string, mode v1alpha1.PolicyMode, expires *metav1.Time) *v1alpha1.Remediation {
	at := metav1.Now()
	return &v1alpha1.Remediation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.RemediationSpec{
		PolicyName: "workers", Action: v1alpha1.ActionReboot, Mode: mode, ExpiresAt: expires, Reason: "not ready", Deadline: at,
		Target:   v1alpha1.RemediationTarget{Cell: "asia-1", Namespace: "fleet", Cluster: "shop", Machine: "m", MachineUID: "u", Node: "n"},
		Evidence: v1alpha1.Evidence{AgreedAt: at, Signals: []v1alpha1.SignalRecord{{Source: "node", ObservedAt: at, Says: "Ready=Unknown"}}},
		Gate:     v1alpha1.GateRecord{ClusterMachines: 20, ClusterUnhealthy: 1, RackMachines: 5, RackUnhealthy: 1},
	}}
}

func TestAnswers(t *testing.T) {
	config := testkit.APIServer(t)
	hub, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "hub.yaml")
	as := func(user clientcmdapi.AuthInfo) {
		require.NoError(t, os.WriteFile(path, []byte(testkit.Kubeconfig(t, config.Host, config.CAData, user)), 0o600))
	}
	person := clientcmdapi.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	as(person)
	pharos := func(args ...string) (string, error) {
		var out strings.Builder
		root := newRootCommand()
		root.SetArgs(append([]string{"remediation", "--kubeconfig", path}, args...))
		err := run(t.Context(), root, &out)
		return out.String(), err
	}
	later := ptr.To(metav1.NewTime(time.Now().Add(time.Hour)))
	phase := func(rem *v1alpha1.Remediation, p v1alpha1.RemediationPhase, reason string) {
		rem.Status.Phase, rem.Status.Reason, rem.Status.Message = p, reason, "says so"
		require.NoError(t, hub.Status().Update(t.Context(), rem))
	}
	annotations := func(name string) map[string]string {
		var rem v1alpha1.Remediation
		require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: name}, &rem))
		return rem.Annotations
	}

	require.NoError(t, hub.Create(t.Context(), proposalNamed("asked", v1alpha1.ModeApprove, later)))
	said, err := pharos("approve", "asked", "--by", "alice", "--reason", "seen it", "--wait", "0s")
	require.NoError(t, err)
	require.Equal(t, "Reboot of machine m in cell asia-1: answered by alice\nno remediator has taken note of it yet; look at: kubectl get remediation asked\n", said)
	require.Equal(t, map[string]string{v1alpha1.AnnotationApprovedBy: "alice", v1alpha1.AnnotationAnswerReason: "seen it"}, annotations("asked"))
	_, err = pharos("cancel", "asked")
	require.ErrorContains(t, err, "pharos remediation deny asked")
	_, err = pharos("deny", "asked", "--wait", "0s")
	require.NoError(t, err)
	require.Contains(t, annotations("asked"), v1alpha1.AnnotationDeniedBy)
	require.NotEmpty(t, annotations("asked")[v1alpha1.AnnotationDeniedBy], "who the API server says")
	require.NotContains(t, annotations("asked"), v1alpha1.AnnotationAnswerReason, "the reason was for the approval")
	_, err = pharos("approve", "asked")
	require.ErrorContains(t, err, "it is denied by")

	require.NoError(t, hub.Create(t.Context(), proposalNamed("recommended", v1alpha1.ModeRecommend, nil)))
	_, err = pharos("approve", "recommended")
	require.ErrorContains(t, err, "policy workers only recommends it")
	require.NoError(t, hub.Create(t.Context(), proposalNamed("expired", v1alpha1.ModeApprove, ptr.To(metav1.Now()))))
	_, err = pharos("approve", "expired")
	require.ErrorContains(t, err, "it could be approved until")

	act := proposalNamed("act", v1alpha1.ModeAct, nil)
	require.NoError(t, hub.Create(t.Context(), act))
	phase(act, v1alpha1.RemediationActing, "Requested")
	_, err = pharos("approve", "act")
	require.ErrorContains(t, err, "it is not proposed any more: it is Acting, Requested, says so")
	_, err = pharos("deny", "act")
	require.ErrorContains(t, err, "pharos remediation cancel act")
	phase(act, v1alpha1.RemediationActing, "RepairRunning")
	_, err = pharos("cancel", "act")
	require.ErrorContains(t, err, "the node operator has begun, and what runs is not interrupted")
	require.Empty(t, annotations("act"), "what was refused is not written")
	phase(act, v1alpha1.RemediationActing, "Requested")
	_, err = pharos("cancel", "act", "--by", "bob", "--wait", "0s")
	require.NoError(t, err)
	require.Equal(t, map[string]string{v1alpha1.AnnotationDeniedBy: "bob"}, annotations("act"))
	require.NoError(t, hub.Get(t.Context(), client.ObjectKeyFromObject(act), act))
	phase(act, v1alpha1.RemediationCancelled, "Denied")
	_, err = pharos("cancel", "act")
	require.ErrorContains(t, err, "it is over: it is Cancelled, Denied")

	require.NoError(t, hub.Create(t.Context(), proposalNamed("heard", v1alpha1.ModeApprove, later)))
	go func() { // plays the remediator
		for {
			var rem v1alpha1.Remediation
			if hub.Get(t.Context(), client.ObjectKey{Name: "heard"}, &rem) != nil {
				return
			}
			if rem.Annotations[v1alpha1.AnnotationApprovedBy] != "" {
				rem.Status.Phase, rem.Status.Reason, rem.Status.Message = v1alpha1.RemediationCancelled, "Frozen", "approved, and not done"
				_ = hub.Status().Update(t.Context(), &rem)
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	said, err = pharos("approve", "heard")
	require.NoError(t, err)
	require.Contains(t, said, "Cancelled, Frozen: approved, and not done\n")

	_, err = pharos("approve", "absent")
	require.ErrorContains(t, err, "answering for remediation absent; nothing has changed")
	as(clientcmdapi.AuthInfo{Token: "nobody's"})
	_, err = pharos("approve", "asked")
	require.ErrorContains(t, err, "say it with --by")
}
