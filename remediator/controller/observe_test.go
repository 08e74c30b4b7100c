package controller

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

// writes counts what is written to the hub, by what it is.
type writes map[string]int

func (w writes) note(what string, o client.Object) { w[fmt.Sprintf("%s %T", what, o)]++ }

func (w writes) hooks() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			w.note("create", o)
			return c.Create(ctx, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			w.note("update", o)
			return c.Update(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			w.note("patch", o)
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			w.note("delete", o)
			return c.Delete(ctx, o, opts...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			w.note(sub, o)
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			w.note(sub, o)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}
}

// counting puts a server before those of the cell and the business cluster that counts
// what is more than reading.
func (f *fleet) counting() *atomic.Int32 {
	target, err := url.Parse(f.config.Host)
	require.NoError(f.t, err)
	transport, err := rest.TransportFor(f.config)
	require.NoError(f.t, err)
	proxy := &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			n.Add(1)
		}
		proxy.ServeHTTP(w, r)
	}))
	f.t.Cleanup(server.Close)
	f.reach(server.URL)
	var observer corev1.Secret
	require.NoError(f.t, f.client.Get(f.t.Context(), client.ObjectKey{Namespace: cellNamespace, Name: "shop-observer"}, &observer))
	observer.Data[kube.SecretKeyKubeconfig] = kubeconfigOf(f.t, &rest.Config{Host: server.URL})
	require.NoError(f.t, f.client.Update(f.t.Context(), &observer))
	return &n
}

func (f *fleet) mode(m api.PolicyMode) {
	p := f.policy()
	p.Spec.Mode = m
	require.NoError(f.t, f.client.Update(f.t.Context(), p))
}

// Case C41: observing is acting without a write. Its own word of what it saw is all that
// it writes, beside its Lease and events, and the same remediator acts once it may.
func testObserving(t *testing.T, config *rest.Config) {
	f := newFleet(t, config)
	f.mode(api.ModeObserve)
	f.fail(sick)
	below, hub := f.counting(), writes{}
	c := f.dying(hub.hooks())
	for range 3 {
		f.round(c)
	}
	require.Equal(t, sick+" ObserveOnly", f.hold())
	require.Contains(t, f.policy().Status.Holds[0].Message, "it would Reboot")
	require.Equal(t, writes{"status *v1alpha1.RemediationPolicy": 1}, hub)
	require.Zero(t, below.Load(), "nothing is written in the cell or the business cluster")

	f.mode(api.ModeAct)
	f.round(c)
	require.Equal(t, api.RemediationActing, f.one().Status.Phase)
	require.EqualValues(t, 1, below.Load(), "the request, which is what was left out")
	require.Positive(t, hub["create *v1alpha1.Remediation"])
}
