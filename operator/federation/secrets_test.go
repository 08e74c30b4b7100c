package federation

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
)

// What a Federation names and nobody has made is told, because everything starts
// without it. The operator may read a Secret by its name, and so far it does.
func TestSecretsThatAreNotThereAreTold(t *testing.T) {
	w := newWorld(t)
	secret := func(name string, keys ...string) {
		t.Helper()
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name}, Data: map[string][]byte{}}
		for _, key := range keys {
			s.Data[key] = []byte("x")
		}
		w.Create(t, s)
	}
	secret("duty", "accessToken", "secret")
	secret("store", "token")
	secret("half", "accessToken", "Secret")
	f := telling(v1alpha1.Alerting{
		Heartbeat: &v1alpha1.Heartbeat{SecretName: "deadmann"},
		DingTalk: []v1alpha1.DingTalkRobot{
			{Name: "duty", SecretName: "duty"}, {Name: "oncall", SecretName: "half"}, {Name: "night", SecretName: "nobody"},
		},
		Alertmanagers: []v1alpha1.ExistingAlertmanager{{Name: "old", URL: "http://am:9093", BearerTokenSecret: "old"}, {Name: "open", URL: "http://open:9093"}},
	})
	f.Spec.LongTerm = []v1alpha1.LongTermStore{{Name: "store", URL: "http://store", BearerTokenSecret: "store"}}
	f.Spec.Link.Credentials = &v1alpha1.LinkCredentials{SecretName: "access", Use: []v1alpha1.LinkKey{v1alpha1.LinkAuthority, v1alpha1.LinkToken}}
	require.Equal(t, []string{
		"spec.link.credentials: there is no Secret access in namespace pharos-system, so cascades wait for it or read no cell; it needs ca.crt and token",
		"spec.alerting.alertmanagers[old]: there is no Secret old in namespace pharos-system, so it is sent no alert; it needs token",
		"spec.alerting.heartbeat: there is no Secret deadmann in namespace pharos-system, so there is no heartbeat; it needs url",
		"spec.alerting.dingTalk[oncall]: Secret half has no secret, so the robot is told nothing; it has Secret, accessToken",
		"spec.alerting.dingTalk[night]: there is no Secret nobody in namespace pharos-system, so the robot is told nothing; it needs accessToken and secret",
	}, w.r.missing(t.Context(), f))

	// Where edges write, the Secret of the link is in the cells.
	f.Spec.Link.Type = v1alpha1.LinkRemoteWrite
	f.Spec.Alerting = v1alpha1.Alerting{}
	require.Empty(t, w.r.missing(t.Context(), f))
}

// Only a server that can do nothing without its Secret waits for it.
func TestPartsStartWithoutTheirSecrets(t *testing.T) {
	f := telling(v1alpha1.Alerting{
		Heartbeat:     &v1alpha1.Heartbeat{SecretName: "deadman"},
		DingTalk:      []v1alpha1.DingTalkRobot{{Name: "oncall", SecretName: "robot"}},
		Alertmanagers: []v1alpha1.ExistingAlertmanager{{Name: "old", URL: "https://am:9093", BearerTokenSecret: "old"}},
	})
	f.Spec.Link.Credentials = &v1alpha1.LinkCredentials{SecretName: "access", Use: []v1alpha1.LinkKey{v1alpha1.LinkToken}}
	r := offline(t, f, cellIn("asia", "a"))
	waits := func(name string) bool {
		t.Helper()
		for _, v := range set(t, r.Objects, name).Spec.Template.Spec.Volumes {
			if v.Secret != nil {
				return v.Secret.Optional == nil || !*v.Secret.Optional
			}
		}
		require.Fail(t, "no Secret is mounted", name)
		return false
	}
	require.False(t, waits("alertmanager"), "the heartbeat's must not keep people from being told")
	require.False(t, waits("central-a"))
	require.True(t, waits("cascade-asia-0"), "it would read no cell")
}
