package federation

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/rules"
)

// telling is a fleet whose alerting a test describes.
func telling(a v1alpha1.Alerting) *v1alpha1.Federation {
	f := fleetOf()
	f.Spec.Alerting = a
	return f
}

// Two Alertmanagers find each other by a name that stands for both, are kept off one
// node, and are not both taken by whoever empties nodes. Nothing has to be said for it.
func TestAlertmanagersAreACluster(t *testing.T) {
	r := offline(t, telling(v1alpha1.Alerting{}), cellIn("asia", "a"))
	s := set(t, r.Objects, "alertmanager")
	require.Equal(t, int32(2), *s.Spec.Replicas)
	args := s.Spec.Template.Spec.Containers[0].Args
	require.Contains(t, args, "--cluster.listen-address=$(POD_IP):9094")
	require.Contains(t, args, "--cluster.peer=alertmanager-peers.pharos-system.svc:9094")
	require.Equal(t, corev1.DoNotSchedule, *s.Spec.Template.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable)
	found := 0
	for _, o := range r.Objects {
		switch o := o.(type) {
		case *corev1ac.ServiceApplyConfiguration:
			if *o.Name == "alertmanager-peers" {
				found++
				require.Equal(t, corev1.ClusterIPNone, *o.Spec.ClusterIP)
				require.True(t, *o.Spec.PublishNotReadyAddresses, "a member that is not ready finds the others")
				require.Equal(t, s.Spec.Selector.MatchLabels, o.Spec.Selector)
			}
		case *policyv1ac.PodDisruptionBudgetApplyConfiguration:
			if *o.Name == "alertmanager" {
				found++
				require.Equal(t, s.Spec.Selector.MatchLabels, o.Spec.Selector.MatchLabels)
			}
		}
	}
	require.Equal(t, 2, found)
	require.Regexp(t, `central:alertmanagers_expected:count\n +expr: vector\(2\)`, string(r.Files["central-a"][rules.TopologyFileName]))
}

func TestOneAlertmanagerGossipsWithNobody(t *testing.T) {
	r := offline(t, telling(v1alpha1.Alerting{Replicas: ptr.To[int32](1)}), cellIn("asia", "a"))
	s := set(t, r.Objects, "alertmanager")
	require.Equal(t, int32(1), *s.Spec.Replicas)
	require.Contains(t, s.Spec.Template.Spec.Containers[0].Args, "--cluster.listen-address=")
	require.NotContains(t, identities(r.Objects), "Service alertmanager-peers")
	require.NotContains(t, identities(r.Objects), "PodDisruptionBudget alertmanager", "it would keep its node from being emptied")

	f := telling(v1alpha1.Alerting{})
	f.Spec.Network.ServiceAddressing = v1alpha1.ServiceClusterIP
	require.Equal(t, int32(1), alertmanagers(f), "without DNS they would not find each other")
}

// A team keeps its own Alertmanagers, which the relay serves all the same.
func TestAlertmanagersOfOthers(t *testing.T) {
	f := telling(v1alpha1.Alerting{
		Replicas: ptr.To[int32](0),
		Alertmanagers: []v1alpha1.ExistingAlertmanager{
			{Name: "old", URL: "https://am.example.org/alerts", BearerTokenSecret: "am-token"},
			{Name: "older", URL: "http://am-1.example.org:9093"},
		},
		DingTalk: []v1alpha1.DingTalkRobot{{Name: "oncall", SecretName: "robot"}},
	})
	r := offline(t, f, cellIn("asia", "a"))
	require.NotContains(t, identities(r.Objects), "StatefulSet alertmanager")
	require.NotContains(t, identities(r.Objects), "Service alertmanager")
	require.NotContains(t, r.Files, "alertmanager")
	require.Contains(t, identities(r.Objects), "Deployment notify")
	for _, name := range []string{"central-a", "central-b"} {
		config := string(r.Files[name]["prometheus.yml"])
		require.Contains(t, config, "am.example.org:443")
		require.Contains(t, config, "am-1.example.org:9093")
		require.NotContains(t, config, "app.kubernetes.io/component=alertmanager")
		require.Contains(t, config, "credentials_file: ../secrets/alertmanager-old/token")
		secrets := map[string]string{}
		for _, v := range set(t, r.Objects, name).Spec.Template.Spec.Volumes {
			if v.Secret != nil {
				secrets[*v.Name] = *v.Secret.SecretName
			}
		}
		require.Equal(t, map[string]string{"secret-alertmanager-old": "am-token"}, secrets)
	}
	require.Empty(t, Unheard(f), "whom they tell is theirs")
	args := remediator(partsOf(f), f, Addresses{}).Args
	require.Contains(t, args, "--alertmanager=older=http://am-1.example.org:9093")
	require.NotContains(t, strings.Join(args, " "), "am.example.org/alerts", "the token is the centrals' alone")
}

// The address of the heartbeat is in a Secret, which the Alertmanager reads where it is
// mounted.
func TestTheHeartbeatComesFromASecret(t *testing.T) {
	r := offline(t, telling(v1alpha1.Alerting{Heartbeat: &v1alpha1.Heartbeat{SecretName: "deadman", IntervalSeconds: ptr.To[int32](120)}}), cellIn("asia", "a"))
	config := r.Files["alertmanager"]["alertmanager.yml"]
	require.Contains(t, string(config), "url_file: /etc/secrets/heartbeat/url")
	require.Contains(t, string(config), "group_interval: 2m")
	pod := set(t, r.Objects, "alertmanager").Spec.Template.Spec
	mounts := map[string]string{}
	for _, m := range pod.Containers[0].VolumeMounts {
		mounts[*m.Name] = *m.MountPath
	}
	require.Equal(t, "/etc/secrets/heartbeat", mounts["secret-heartbeat"])
	for _, v := range pod.Volumes {
		if *v.Name == "secret-heartbeat" {
			require.Equal(t, "deadman", *v.Secret.SecretName)
		}
	}
	file := filepath.Join(t.TempDir(), "alertmanager.yml")
	require.NoError(t, os.WriteFile(file, config, 0o600))
	out, err := exec.Command(testkit.Binary(t, "amtool"), "check-config", file).CombinedOutput()
	require.NoError(t, err, string(out))
}

func TestWhatWouldReachNobodyIsSaid(t *testing.T) {
	robot := []v1alpha1.DingTalkRobot{{Name: "oncall", SecretName: "robot"}}
	require.Len(t, Unheard(telling(v1alpha1.Alerting{})), 2)
	require.Contains(t, Unheard(telling(v1alpha1.Alerting{Heartbeat: &v1alpha1.Heartbeat{}}))[0], "nobody is told of any alert")
	require.Contains(t, Unheard(telling(v1alpha1.Alerting{DingTalk: robot}))[0], "no spec.alerting.heartbeat")
	require.Empty(t, Unheard(telling(v1alpha1.Alerting{DingTalk: robot, Heartbeat: &v1alpha1.Heartbeat{}})))
}

func TestAlertingThatCannotWorkIsRefused(t *testing.T) {
	twice := telling(v1alpha1.Alerting{Alertmanagers: []v1alpha1.ExistingAlertmanager{{Name: "a", URL: "https://a", BearerTokenSecret: "s"}}})
	twice.Spec.LongTerm = []v1alpha1.LongTermStore{{Name: "alertmanager-a", URL: "https://b", BearerTokenSecret: "s"}}
	nameless := telling(v1alpha1.Alerting{Replicas: ptr.To[int32](3)})
	nameless.Spec.Network.ServiceAddressing = v1alpha1.ServiceClusterIP
	for want, f := range map[string]*v1alpha1.Federation{
		"nobody would be told of anything": telling(v1alpha1.Alerting{Replicas: ptr.To[int32](0)}),
		"do not find each other":           nameless,
		`the name "alertmanager-a"`:        twice,
	} {
		require.ErrorContains(t, check(f, f), want)
	}
}
