package cell

import (
	"log/slog"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// world is one API server that is hub and cell at once, with Pharos' real
// rights in it. The operator is itself in the hub, and has nothing but the
// token of operator-access in the cell.
type world struct {
	*testkit.World
	r        *Reconciler
	recorder *events.FakeRecorder
	// access is the kubeconfig of operator-access.
	access string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: servers.World(t), recorder: events.NewFakeRecorder(64)}
	w.InstallHub(t)
	w.InstallCell(t)
	operator := testkit.Client(t, testkit.As(w.Config, "operator"))
	var err error
	w.r, err = New(workload.Options{
		Client: operator, Live: operator, Recorder: w.recorder, Registry: prometheus.NewRegistry(),
		Log: slog.New(slog.DiscardHandler), Namespace: deploy.Namespace,
	})
	require.NoError(t, err)
	w.access = w.kubeconfig(t, w.Config.Host, w.token(t, deploy.OperatorAccess))
	w.newCell(t, "alpha") // older than the next, by its name at least; nothing reconciles it
	w.newCell(t, "asia-1")
	return w
}

func (w *world) token(t *testing.T, account string) string {
	t.Helper()
	sa := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: account}}
	request := &authenticationv1.TokenRequest{}
	require.NoError(t, w.Admin.SubResource("token").Create(t.Context(), sa, request))
	return request.Status.Token
}

// kubeconfig leads the bearer of a token to a server that shows our certificate.
func (w *world) kubeconfig(t *testing.T, server, token string) string {
	t.Helper()
	return testkit.Kubeconfig(t, server, w.Config.CAData, clientcmdapi.AuthInfo{Token: token})
}

func (w *world) remoteConfig(t *testing.T) *rest.Config {
	t.Helper()
	c, err := kube.ConfigFromBytes([]byte(w.access))
	require.NoError(t, err)
	return c
}

// secret creates or replaces a kubeconfig Secret.
func (w *world) secret(t *testing.T, name, kubeconfig string) {
	t.Helper()
	old := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name}}
	require.NoError(t, client.IgnoreNotFound(w.Admin.Delete(t.Context(), old)))
	w.Create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: name},
		Data:       map[string][]byte{kube.SecretKeyKubeconfig: []byte(kubeconfig)},
	})
}

func (w *world) newCell(t *testing.T, name string) {
	t.Helper()
	w.Create(t, &v1alpha1.Cell{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.CellSpec{
			Geography: "asia", Region: "east", KubeconfigSecret: name, RepairJobConfigMap: "repair-job",
			Network: v1alpha1.Network{ServiceAddressing: v1alpha1.ServiceClusterIP},
		},
	})
}

// settle plays the controllers, which have taken up the latest change.
func (w *world) settle(t *testing.T) {
	t.Helper()
	for _, name := range []string{"edge", "edge-agent", "machine-operator"} {
		w.Settle(t, name)
	}
}

// versions are the resource versions of everything that the operator wrote.
func (w *world) versions(t *testing.T) map[string]string {
	t.Helper()
	return w.Versions(t, append(kinds(), &v1alpha1.CellList{})...)
}
