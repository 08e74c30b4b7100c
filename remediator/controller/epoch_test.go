package controller

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
)

// delaying is a network before the cell that keeps the first patch of a Machine to
// itself; deliver hands it over, with what change makes of it.
type delaying struct {
	t      *testing.T
	target *url.URL
	client *http.Client
	mu     sync.Mutex
	kept   *http.Request
	body   []byte
}

func (f *fleet) delaying() *delaying {
	target, err := url.Parse(f.config.Host)
	require.NoError(f.t, err)
	transport, err := rest.TransportFor(f.config)
	require.NoError(f.t, err)
	d := &delaying{t: f.t, target: target, client: &http.Client{Transport: transport}}
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.keeps(r) {
			<-r.Context().Done() // until its sender gives up
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	f.t.Cleanup(server.Close)
	f.reach(server.URL)
	return d
}

func (d *delaying) keeps(r *http.Request) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept != nil || r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/machines/") {
		return false
	}
	body, err := io.ReadAll(r.Body)
	assert.NoError(d.t, err)
	d.kept, d.body = r, body
	return true
}

func (d *delaying) deliver(change func(patch map[string]any)) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	var patch map[string]any
	require.NoError(d.t, json.Unmarshal(d.body, &patch))
	change(patch)
	body, err := json.Marshal(patch)
	require.NoError(d.t, err)
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodPatch, d.target.JoinPath(d.kept.URL.Path).String(), bytes.NewReader(body))
	require.NoError(d.t, err)
	r.Header.Set("Content-Type", d.kept.Header.Get("Content-Type"))
	resp, err := d.client.Do(r)
	require.NoError(d.t, err)
	require.NoError(d.t, resp.Body.Close())
	return resp.StatusCode
}

func (f *fleet) lease() *coordinationv1.Lease {
	var l coordinationv1.Lease
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: hubNamespace, Name: leaseName}, &l))
	return &l
}

// Case C24: two leaders, and a write that comes late.
// The first of two remediators asks for a repair, and its write is held up until the
// second has led, had the repair done and taken its request away.
func testLateWrite(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	network := f.delaying()
	f.fail(sick)
	first := f.start()
	_, err := first.round(t.Context())
	require.ErrorContains(t, err, "patching machine fleet/"+sick)
	f.untouched()

	second := f.start()
	f.round(second)
	rem, request := f.one(), f.machine(sick).Spec.Remediation
	require.Equal(t, rem.Name, request.ID, "taken up, not written anew")
	require.EqualValues(t, 0, *rem.Spec.Epoch, "the first wrote it down")
	require.EqualValues(t, 1, *request.Epoch, "the second asks")
	f.answer(sick, api.RepairSucceeded)
	f.reboot(sick)
	for _, c := range f.centrals {
		c.set(func(c *central) { delete(c.listed, sick) })
	}
	f.round(second) // verified
	f.round(second) // withdrawn
	f.untouched()

	require.Equal(t, http.StatusConflict, network.deliver(func(map[string]any) {}), "the Machine has changed since the last look")
	f.untouched()
	// Had it looked after the second was done, as one does that was suspended in
	// between, only the epoch would tell: the node operator has answered a higher one.
	require.Equal(t, http.StatusOK, network.deliver(func(patch map[string]any) {
		patch["metadata"] = map[string]any{"resourceVersion": f.machine(sick).ResourceVersion}
	}))
	late := f.machine(sick)
	require.Less(t, *late.Spec.Remediation.Epoch, *late.Status.RemediationEpoch)
	f.round(second)
	f.untouched()

	f.fail("shop-node-12")
	_, err = first.round(t.Context())
	require.ErrorIs(t, err, errNotLeading)
	require.ErrorContains(t, err, `the Lease pharos-system/remediator is held by "`+second.options.Identity+`"`)
	f.untouched()
	require.Len(t, f.remediations(), 1)
}

// Who loses the Lease between its record and its patch leaves both to the next.
func testSucceeded(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.fail(sick)
	var second *Controller
	_, err := f.dying(afterRecord(func() error {
		second = f.start()
		return nil
	})).round(t.Context())
	require.ErrorIs(t, err, errNotLeading)
	f.untouched()
	require.Empty(t, f.one().Status.Phase)

	lease := f.lease()
	lease.Spec.RenewTime.Time = time.Now().Add(-2 * time.Hour)
	require.NoError(t, f.client.Update(t.Context(), lease))
	_, err = second.round(t.Context())
	require.ErrorContains(t, err, "the Lease pharos-system/remediator ran out at")
	f.untouched()
	f.lead(second)
	f.round(second)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
}

// A Lease that begins to count anew would be refused by every node operator: it is
// said what to do, and the leader goes on with what a person lets it count from.
func testLeaseMadeAnew(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	m := f.machine(sick)
	m.Status.RemediationEpoch = ptr.To(int32(41))
	require.NoError(t, f.client.Status().Update(t.Context(), m))
	f.fail(sick)
	r := f.run("restored")
	eventually(t, func(t *assert.CollectT) { require.Len(t, f.policy().Status.Holds, 1) })
	require.Equal(t, sick+" RequestFailed", f.hold())
	require.Contains(t, f.policy().Status.Holds[0].Message, "has answered a request of epoch 41, and this leader is of epoch 0: if no other hub repairs the machine, the Lease was made anew; "+
		"let it count on: kubectl -n pharos-system patch lease remediator --type merge -p '{\"spec\":{\"leaseTransitions\":42}}'")
	f.untouched()

	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"leaseTransitions":42}}`))
	require.NoError(t, f.client.Patch(t.Context(), f.lease(), patch))
	eventually(t, func(t *assert.CollectT) { require.NotNil(t, f.machine(sick).Spec.Remediation) })
	require.EqualValues(t, 42, *f.machine(sick).Spec.Remediation.Epoch)
	renewed := f.lease().Spec.RenewTime
	eventually(t, func(t *assert.CollectT) { require.True(t, renewed.Before(f.lease().Spec.RenewTime)) })
	require.EqualValues(t, 42, *f.lease().Spec.LeaseTransitions, "and it is renewed so")
	require.Equal(t, "restored", f.holder())
	require.NoError(t, r.stop())
}
