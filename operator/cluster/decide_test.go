package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

var (
	noon    = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	secrets = schema.GroupResource{Resource: "secrets"}
)

// shop is a Cluster that has been looked at before, when all was well.
func shop() *v1alpha1.Cluster {
	c := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "shop", Generation: 3}}
	c.Status = decide(c, answer(http.StatusOK, "ok"), noon).status
	return c
}

// answer is what a look sees when the API server answers.
func answer(code int, body string) observation {
	return observation{secret: shopObserver(), server: "https://shop", code: code, body: []byte(body), version: "v1.37.2"}
}

func shopObserver() client.ObjectKey {
	return client.ObjectKey{Namespace: "fleet", Name: "shop-observer"}
}

type situation struct {
	name   string
	seen   observation
	status metav1.ConditionStatus
	reason string
	says   string
}

func situations() []situation {
	secret := shopObserver()
	notReady := "[+]ping ok\n[-]etcd failed: reason withheld\n[-]poststarthook/rbac failed: not finished\nreadyz check failed"
	return []situation{
		{"ready", answer(http.StatusOK, "ok"), metav1.ConditionTrue, v1alpha1.ReasonAPIServerReady, "https://shop says that it is ready"},
		{
			"ready, without a version", observation{secret: secret, server: "https://shop", code: http.StatusOK, body: []byte("ok"), noVersion: errors.New("HTTP 403")},
			metav1.ConditionTrue, v1alpha1.ReasonAPIServerReady, "asking for its version: HTTP 403",
		},
		{
			"not ready", answer(http.StatusInternalServerError, notReady), metav1.ConditionFalse, v1alpha1.ReasonAPIServerNotReady,
			"because of etcd, poststarthook/rbac: its log says more",
		},
		{"credential not accepted", answer(http.StatusUnauthorized, "{}"), metav1.ConditionUnknown, v1alpha1.ReasonUnauthorized, "does not accept the credential in Secret fleet/shop-observer"},
		{"credential without the right", answer(http.StatusForbidden, "{}"), metav1.ConditionUnknown, v1alpha1.ReasonUnauthorized, "grant it get on /readyz"},
		// Only an API server's own words count.
		{"a page that says welcome", answer(http.StatusOK, "<html>"), metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "answers HTTP 200, which is not how"},
		{"500 of another", answer(http.StatusInternalServerError, "oops"), metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "answers HTTP 500"},
		{"load balancer without a server", answer(http.StatusServiceUnavailable, ""), metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "answers HTTP 503"},
		{"sent elsewhere", answer(http.StatusFound, ""), metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "answers HTTP 302"},
		{"overloaded", answer(http.StatusTooManyRequests, ""), metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "answers HTTP 429"},
		{
			"no answer", observation{secret: secret, server: "https://shop", unanswered: context.DeadlineExceeded},
			metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "asking https://shop/readyz: no answer in time",
		},
		{
			"no Secret", observation{secret: secret, unread: fmt.Errorf("x: %w", apierrors.NewNotFound(secrets, "shop-observer"))},
			metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigMissing, "there is no Secret fleet/shop-observer",
		},
		{
			"nothing in it", observation{secret: secret, empty: true, invalid: errors.New("is empty")},
			metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigMissing, "has nothing under the key kubeconfig",
		},
		{
			"rubbish in it", observation{secret: secret, invalid: errors.New("reading kubeconfig: rubbish")},
			metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigInvalid, "Secret fleet/shop-observer, key kubeconfig: reading kubeconfig: rubbish: store a kubeconfig",
		},
		{
			"not given out", observation{secret: secret, unread: apierrors.NewForbidden(secrets, "shop-observer", nil)},
			metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigUnreadable, "apply deploy/cell/clusters in namespace fleet",
		},
		{
			"cell cannot decrypt", observation{secret: secret, unread: apierrors.NewInternalError(errors.New("no key"))},
			metav1.ConditionUnknown, v1alpha1.ReasonKubeconfigUnreadable, "from the cell's own API server",
		},
	}
}

func TestDecide(t *testing.T) {
	for _, test := range situations() {
		t.Run(test.name, func(t *testing.T) {
			v := decide(shop(), test.seen, noon.Add(time.Minute))
			ready := meta.FindStatusCondition(v.status.Conditions, v1alpha1.ConditionReady)
			require.Equal(t, test.status, ready.Status)
			require.Equal(t, test.reason, ready.Reason)
			require.Equal(t, test.reason, v.reason)
			require.Contains(t, ready.Message, test.says)
			require.Equal(t, "v1.37.2", v.status.Version, "it is kept")
			require.EqualValues(t, 3, ready.ObservedGeneration)
			require.EqualValues(t, 3, v.status.ObservedGeneration)
			require.Contains(t, reasons(), v.reason, "the metric does not begin at zero")
			if test.status == metav1.ConditionTrue {
				require.Equal(t, paceReady, v.next)
				require.True(t, ready.LastTransitionTime.Time.Equal(noon))
			} else {
				require.Equal(t, paceWrong, v.next)
				require.True(t, ready.LastTransitionTime.Time.Equal(noon.Add(time.Minute)))
			}
		})
	}
}

// Whatever a Cluster has gone through, the same look twice leaves the same
// status, and a change of it is told exactly when status or reason change.
func TestDecideIsSteady(t *testing.T) {
	for _, first := range situations() {
		for _, second := range situations() {
			c := shop()
			given := c.DeepCopy()
			c.Status = decide(c, first.seen, noon.Add(time.Minute)).status
			require.Equal(t, given.Status, shop().Status, "decide changed what it was given")
			once := decide(c, second.seen, noon.Add(2*time.Minute)).status
			told := len(changes(c.Status.Conditions, once.Conditions)) > 0
			require.Equal(t, first.status != second.status || first.reason != second.reason, told, "%s, then %s", first.name, second.name)
			c.Status = once
			again := decide(c, second.seen, noon.Add(3*time.Minute)).status
			require.Equal(t, once, again, "%s, then %s twice", first.name, second.name)
			require.Empty(t, changes(once.Conditions, again.Conditions))
		}
	}
}

// The answer to a repair and conditions of others are not ours to lose.
func TestDecideKeepsTheRest(t *testing.T) {
	c := shop()
	c.Status.Remediation = &v1alpha1.RemediationResponse{ID: "r-1"}
	c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: "Theirs", Status: metav1.ConditionTrue, Reason: "R"})
	status := decide(c, answer(http.StatusUnauthorized, ""), noon).status
	require.Equal(t, "r-1", status.Remediation.ID)
	require.True(t, meta.IsStatusConditionTrue(status.Conditions, "Theirs"))
	require.Len(t, status.Conditions, 3)
}

func TestDecideSaysThatItIsPaused(t *testing.T) {
	c := shop()
	c.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""}
	for _, test := range situations() {
		v := decide(c, test.seen, noon)
		require.True(t, meta.IsStatusConditionTrue(v.status.Conditions, v1alpha1.ConditionPaused), "any value pauses")
		require.Equal(t, test.status, meta.FindStatusCondition(v.status.Conditions, v1alpha1.ConditionReady).Status, "a pause hides nothing")
	}
	c.Annotations[v1alpha1.AnnotationPaused] = strings.Repeat("long ", 1000)
	paused := meta.FindStatusCondition(decide(c, answer(http.StatusOK, "ok"), noon).status.Conditions, v1alpha1.ConditionPaused)
	require.Len(t, []rune(paused.Message), maxMessage)
}

// That nobody has paused a new Cluster is no news, and how it is is.
func TestChangesOfANewCluster(t *testing.T) {
	c := &v1alpha1.Cluster{}
	told := changes(nil, decide(c, answer(http.StatusOK, "ok"), noon).status.Conditions)
	require.Len(t, told, 1)
	require.Equal(t, v1alpha1.ConditionReady, told[0].Type)
	c.Annotations = map[string]string{v1alpha1.AnnotationPaused: ""}
	require.Len(t, changes(nil, decide(c, answer(http.StatusOK, "ok"), noon).status.Conditions), 2)
}

func FuzzFailing(f *testing.F) {
	for _, seed := range []string{"", "ok", "[-]", "[-] \n[-]etcd", "[+]ping ok\r\n[-]etcd failed: reason withheld\n\x00", "[-]\xff\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, check := range failing(body) {
			if check == "" || strings.ContainsAny(check, "\n ") {
				t.Errorf("a check is named %q", check)
			}
		}
		v := decide(shop(), answer(http.StatusInternalServerError, string(body)), noon)
		written, err := json.Marshal(v.status)
		require.NoError(t, err)
		var read v1alpha1.ClusterStatus
		require.NoError(t, json.Unmarshal(written, &read))
		require.True(t, equality.Semantic.DeepEqual(v.status, read), "what is read back is not what was written: %s", written)
	})
}
