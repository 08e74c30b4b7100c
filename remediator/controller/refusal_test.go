package controller

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/remediator/ledger"
	"github.com/pharos-fleet/pharos/remediator/policy"
)

var machines = api.GroupVersion.WithResource("machines").GroupResource()

// refusing puts a server before the cell's that refuses every patch of a Machine
// for as long as the switch is on.
func (f *fleet) refusing() *atomic.Bool {
	target, err := url.Parse(f.config.Host)
	require.NoError(f.t, err)
	transport, err := rest.TransportFor(f.config)
	require.NoError(f.t, err)
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	var on atomic.Bool
	on.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !on.Load() || r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/machines/") {
			proxy.ServeHTTP(w, r)
			return
		}
		answer := apierrors.NewForbidden(machines, sick, errors.New("not yours")).ErrStatus
		answer.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(answer)
	}))
	f.t.Cleanup(server.Close)
	f.reach(server.URL)
	return &on
}

// reach lets remediators find the cell under another URL.
func (f *fleet) reach(url string) {
	var s corev1.Secret
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: hubNamespace, Name: "asia-1-remediator"}, &s))
	s.Data[kube.SecretKeyKubeconfig] = kubeconfigOf(f.t, &rest.Config{Host: url})
	require.NoError(f.t, f.client.Update(f.t.Context(), &s))
}

func (f *fleet) allowed() *metav1.Condition {
	return meta.FindStatusCondition(f.policy().Status.Conditions, api.ConditionRemediationAllowed)
}

// A repair that cannot be asked for says so wherever one may look, is tried again
// in every round, and begins as soon as it may.
func testRefusedWrite(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	refuse := f.refusing()
	f.fail(sick)
	c := f.start()
	_, err := c.round(t.Context())
	require.ErrorContains(t, err, "repairing machine shop-node-07 in cell asia-1: patching machine fleet/shop-node-07: ")
	f.untouched()

	first := f.one()
	tried := `asking for Reboot of machine fleet/shop-node-07 in cell asia-1: patching machine fleet/shop-node-07: machines.pharos.dev "shop-node-07" is forbidden`
	require.Equal(t, api.RemediationPending, first.Status.Phase)
	require.Equal(t, string(policy.ReasonRequestFailed), first.Status.Reason)
	require.Contains(t, first.Status.Message, "not begun: RequestFailed: "+tried)
	require.Nil(t, first.Status.ActedAt)
	require.Equal(t, sick+" RequestFailed", f.hold())
	require.Equal(t, metav1.ConditionUnknown, f.allowed().Status)
	require.Equal(t, string(policy.ReasonRequestFailed), f.allowed().Reason)
	require.Contains(t, f.allowed().Message, "1 repairs could not be begun, machine shop-node-07 in cell asia-1: "+tried)
	f.requireEvents("Unhealthy", "RequestFailed")

	_, err = c.round(t.Context())
	require.Error(t, err)
	require.Equal(t, first.ResourceVersion, f.one().ResourceVersion, "nothing new is not written again")
	_, metrics := get(t, "http://"+c.Addr().String()+"/metrics")
	require.Contains(t, metrics, `pharos_remediator_requests_total{result="refused"} 2`)
	require.Contains(t, metrics, `pharos_remediator_machines_held{reason="RequestFailed"} 1`)
	require.Contains(t, metrics, `pharos_remediator_remediations_total{phase="Pending"} 1`)

	refuse.Store(false)
	f.round(c)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
	require.Equal(t, first.Name, f.machine(sick).Spec.Remediation.ID)
	require.Equal(t, metav1.ConditionTrue, f.allowed().Status)
	require.Empty(t, f.policy().Status.Holds)
}

// Without a record there is only the policy to say so.
func testRefusedRecord(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	c := f.dying(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, ok := o.(*api.Remediation); ok {
			return apierrors.NewForbidden(api.GroupVersion.WithResource("remediations").GroupResource(), "", errors.New("not yours"))
		}
		return c.Create(ctx, o, opts...)
	}})
	_, err := c.round(t.Context())
	require.Error(t, err)
	require.Empty(t, f.remediations())
	f.untouched()
	require.Equal(t, sick+" RequestFailed", f.hold())
	require.Equal(t, metav1.ConditionUnknown, f.allowed().Status)
	require.Contains(t, f.allowed().Message, "recording remediation")
}

// It is tried ever more rarely, says when, and begins once the hub lets it.
func testRefusedAgain(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	f.create(&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "no-records"}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{"pharos.dev"}, APIVersions: []string{"*"}, Resources: []string{"remediations"}}}}}},
		Validations: []admissionregistrationv1.Validation{{Expression: "false", Message: "not in this hub"}},
	}})
	f.create(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "no-records"}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "no-records", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}}})
	require.Eventually(t, f.refuses, 20*time.Second, 100*time.Millisecond)
	t.Cleanup(f.takeRecords)

	c := f.start()
	tries := 0
	c.ledger = ledger.New(interceptor.NewClient(f.client, interceptor.Funcs{Create: func(ctx context.Context, k client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, ok := o.(*api.Remediation); ok {
			tries++
		}
		return k.Create(ctx, o, opts...)
	}}), hubNamespace)
	_, err := c.round(t.Context())
	require.ErrorContains(t, err, "not in this hub")
	f.round(c)
	f.round(c)
	require.Equal(t, 1, tries, "a round that only waits does not fail")
	require.Equal(t, sick+" RequestFailed", f.hold())
	require.Regexp(t, `recording remediation .*not in this hub.*; it is tried again at 20`, f.policy().Status.Holds[0].Message)
	require.Equal(t, metav1.ConditionUnknown, f.allowed().Status)
	require.Equal(t, string(policy.ReasonRequestFailed), f.allowed().Reason)
	_, page := get(t, "http://"+c.Addr().String()+"/metrics")
	require.Contains(t, page, "pharos_remediator_records_refused 1\n")
	require.Contains(t, page, `pharos_remediator_machines_held{reason="RequestFailed"} 1`)

	var waits []time.Duration
	for range 7 {
		waits = append(waits, c.refused[string(f.machine(sick).UID)].wait)
		c.refused[string(f.machine(sick).UID)].Until = c.now()
		_, err := c.round(t.Context())
		require.Error(t, err)
	}
	require.Equal(t, []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second, 80 * time.Second, 160 * time.Second, 5 * time.Minute, 5 * time.Minute}, waits)
	require.Empty(t, f.remediations())
	f.untouched()

	f.takeRecords()
	c.refused[string(f.machine(sick).UID)].Until = c.now()
	f.round(c)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
	f.round(c)
	require.Empty(t, c.refused)
	require.Equal(t, metav1.ConditionTrue, f.allowed().Status)
}

// refuses tries whether the hub takes no record.
func (f *fleet) refuses() bool {
	rem := &api.Remediation{ObjectMeta: metav1.ObjectMeta{Name: "probe"}, Spec: intentOf("probe", metav1.Now())}
	err := f.client.Create(context.Background(), rem, client.DryRunAll)
	return err != nil && strings.Contains(err.Error(), "not in this hub")
}

// takeRecords has the hub take records again.
func (f *fleet) takeRecords() {
	named := metav1.ObjectMeta{Name: "no-records"}
	for _, o := range []client.Object{&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: named}, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: named}} {
		require.NoError(f.t, client.IgnoreNotFound(f.client.Delete(context.Background(), o)))
	}
	require.Eventually(f.t, func() bool { return !f.refuses() }, 20*time.Second, 100*time.Millisecond)
}

// A request that stands though nothing justifies it any more says so.
func testRefusedWithdrawal(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	refuse := f.refusing()
	refuse.Store(false)
	f.fail(sick)
	c := f.start()
	f.round(c)
	require.NotNil(t, f.machine(sick).Spec.Remediation)

	f.annotate(f.machine(sick), api.AnnotationPaused, "")
	refuse.Store(true)
	f.caughtUp(c)
	_, err := c.round(t.Context())
	require.ErrorContains(t, err, "withdrawing request")
	rem := f.one()
	require.Equal(t, api.RemediationActing, rem.Status.Phase)
	require.Equal(t, string(policy.ReasonWithdrawing), rem.Status.Reason)
	require.Contains(t, rem.Status.Message, "the request is to be withdrawn: Paused: machine shop-node-07 is paused or being deleted; "+
		"it lapses by itself, since withdrawing it fails: patching machine fleet/shop-node-07: ")

	refuse.Store(false)
	f.round(c)
	f.untouched()
	require.Equal(t, api.RemediationCancelled, f.one().Status.Phase)
	require.Equal(t, "machine shop-node-07 is paused or being deleted", f.one().Status.Message)
}
