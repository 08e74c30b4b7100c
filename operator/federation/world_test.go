package federation

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// world is a hub with Pharos' real rights in it.
type world struct {
	*testkit.World
	// operator acts with the rights of the account operator, and no more.
	operator client.Client
	r        *Reconciler
	registry *prometheus.Registry
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: servers.World(t)}
	w.InstallHub(t)
	w.operator = testkit.Client(t, testkit.As(w.Config, "operator"))
	w.anew(t)
	return w
}

// anew begins with an operator that knows nothing but what the API server tells it.
func (w *world) anew(t *testing.T) {
	t.Helper()
	var err error
	w.registry = prometheus.NewRegistry()
	w.r, err = New(workload.Options{
		Client: w.operator, Live: w.operator, Recorder: events.NewFakeRecorder(64), Registry: w.registry,
		Log: slog.New(slog.DiscardHandler), Namespace: deploy.Namespace,
	})
	require.NoError(t, err)
}

func (w *world) cell(t *testing.T, name, geography string, endpoints ...string) {
	t.Helper()
	c := &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.CellSpec{Geography: geography, Region: "r", KubeconfigSecret: name},
	}
	w.Create(t, c)
	c.Status.EdgeEndpoints = endpoints
	require.NoError(t, w.Admin.Status().Update(t.Context(), c))
}

func (w *world) federation(t *testing.T, name string) *v1alpha1.Federation {
	t.Helper()
	return w.Federation(t, name)
}

// versions are the resource versions of everything that the operator wrote.
func (w *world) versions(t *testing.T) map[string]string {
	t.Helper()
	return w.Versions(t, &appsv1.StatefulSetList{}, &appsv1.DeploymentList{}, &corev1.ConfigMapList{}, &corev1.ServiceList{},
		&corev1.PersistentVolumeClaimList{}, &v1alpha1.FederationList{})
}

// runPod plays the controllers and the kubelet for one workload.
func (w *world) runPod(t *testing.T, name, ip string) {
	t.Helper()
	w.RunPod(t, w.Settle(t, name), name+"-0", ip)
	w.SetReady(t, name+"-0")
}
