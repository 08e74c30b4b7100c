package bootstrap_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/deploy"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local/bootstrap"
	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// install lets one API server play every cluster.
func install(t *testing.T, config *rest.Config) (prepared []string) {
	t.Helper()
	l, err := layout.New(1, t.TempDir())
	require.NoError(t, err)
	var mu sync.Mutex
	require.NoError(t, bootstrap.Install(t.Context(), bootstrap.Options{
		Layout: l,
		Image:  "example.org/pharos:v1",
		Robot:  bootstrap.Robot{URL: "http://127.0.0.1:16160/robot/send", AccessToken: "token", Secret: "key"},
		Connect: func(context.Context, layout.Cluster) (*rest.Config, error) {
			return config, nil
		},
		Prepared: func(c layout.Cluster) error {
			mu.Lock()
			defer mu.Unlock()
			prepared = append(prepared, c.Name)
			return nil
		},
	}))
	return prepared
}

func TestInstall(t *testing.T) {
	config := testkit.APIServer(t)
	c, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"hub", "asia-1", "europe-1", "shop", "bank"}, install(t, config))

	// The world goes on: a node is lost and a repair is asked for.
	ctx := t.Context()
	var node corev1.Node
	require.NoError(t, c.Get(ctx, client.ObjectKey{Name: "shop-node-07"}, &node))
	boot := node.Status.NodeInfo.BootID
	require.NotEmpty(t, boot)
	delete(node.Labels, layout.LabelKubelet)
	node.Annotations = map[string]string{layout.AnnotationFault: "node-stop"}
	require.NoError(t, c.Update(ctx, &node))

	install(t, config) // again, as at the next start
	require.NoError(t, c.Get(ctx, client.ObjectKey{Name: "shop-node-07"}, &node))
	require.Equal(t, layout.KubeletRunning, node.Labels[layout.LabelKubelet])
	require.NotContains(t, node.Annotations, layout.AnnotationFault)
	require.NotEqual(t, boot, node.Status.NodeInfo.BootID, "the machines have booted")

	t.Run("inventory", func(t *testing.T) { requireInventory(t, c) })
	t.Run("fleet", func(t *testing.T) { requireFleet(t, c) })
	t.Run("rights", func(t *testing.T) { requireRights(t, c) })
	t.Run("repair job", func(t *testing.T) { requireRepairJob(t, c) })
}

func requireInventory(t *testing.T, c client.Client) {
	var machines v1alpha1.MachineList
	require.NoError(t, c.List(t.Context(), &machines, client.InNamespace(bootstrap.Namespace)))
	require.Len(t, machines.Items, 2*layout.NodesPerCluster)
	for _, m := range machines.Items {
		var node corev1.Node
		require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: m.Spec.NodeName}, &node))
		require.Equal(t, node.Labels[v1alpha1.LabelRack], m.Spec.FailureDomain.Rack)
		require.Equal(t, node.Labels[corev1.LabelTopologyZone], m.Spec.FailureDomain.Zone)
		require.Equal(t, node.Labels[v1alpha1.LabelPool], m.Spec.Pool)
		require.NotEmpty(t, node.Spec.ProviderID)
		require.Equal(t, node.Spec.ProviderID, m.Spec.ProviderID, "the remediator holds when they differ")
		require.Equal(t, node.Status.Addresses[0].Address, m.Spec.Address)
	}
}

func requireFleet(t *testing.T, c client.Client) {
	ctx := t.Context()
	var federation v1alpha1.Federation
	require.NoError(t, c.Get(ctx, client.ObjectKey{Name: bootstrap.FederationName}, &federation))
	var cells v1alpha1.CellList
	require.NoError(t, c.List(ctx, &cells))
	require.Len(t, cells.Items, len(federation.Spec.Geographies))
	for _, cell := range cells.Items {
		require.Len(t, cell.Spec.Edge.StaticTargets, 5, "three servers of the cell, and two of the cluster in it, which has no etcd of its own")
		for _, name := range []string{cell.Spec.KubeconfigSecret, cell.Spec.RemediatorKubeconfigSecret} {
			kubeconfigOf(t, c, deploy.Namespace, name, kube.SecretKeyKubeconfig)
		}
	}
	var policy v1alpha1.RemediationPolicy
	require.NoError(t, c.Get(ctx, client.ObjectKey{Name: bootstrap.PolicyName}, &policy))
	require.Equal(t, v1alpha1.ModeAct, policy.Spec.Mode)
	require.NotNil(t, policy.Spec.Verification.NodeCheck)
	var operator corev1.Secret
	require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: deploy.Namespace, Name: federation.Spec.Alerting.DingTalk[0].SecretName}, &operator))
	require.Equal(t, "token", string(operator.Data["accessToken"]))
	require.Equal(t, "key", string(operator.Data["secret"]))
}

func kubeconfigOf(t *testing.T, c client.Client, namespace, secret, key string) *rest.Config {
	t.Helper()
	var s corev1.Secret
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: secret}, &s))
	config, err := kube.ConfigFromBytes(s.Data[key])
	require.NoError(t, err)
	return config
}

// requireRights asks the API server with the tokens that were handed out.
func requireRights(t *testing.T, c client.Client) {
	observer := kubernetes.NewForConfigOrDie(kubeconfigOf(t, c, bootstrap.Namespace, "shop-observer", kube.SecretKeyKubeconfig))
	ctx := t.Context()
	patch := []byte(`{"metadata":{"labels":{"x":"y"}}}`)
	_, err := observer.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	_, err = observer.CoordinationV1().Leases(corev1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	_, err = observer.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	require.NoError(t, err)
	_, err = observer.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	_, err = observer.CoordinationV1().Leases("default").List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "forbidden")
	_, err = observer.CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "forbidden")
	_, err = observer.CoreV1().Nodes().Patch(ctx, "shop-node-00", types.MergePatchType, patch, metav1.PatchOptions{})
	require.ErrorContains(t, err, "forbidden")

	var shop v1alpha1.Cluster
	require.NoError(t, c.Get(ctx, client.ObjectKey{Namespace: bootstrap.Namespace, Name: "shop"}, &shop))
	checks := kubernetes.NewForConfigOrDie(kubeconfigOf(t, c, bootstrap.Namespace, shop.Spec.NodeCheckKubeconfigSecret, kube.SecretKeyKubeconfig))
	_, err = checks.CoreV1().Pods(v1alpha1.NodeCheckNamespace).List(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	_, err = checks.CoreV1().Pods(deploy.Namespace).List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "forbidden")
	_, err = checks.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "forbidden")

	// The last cell's Secret, since one API server plays both cells.
	bmc := kubernetes.NewForConfigOrDie(kubeconfigOf(t, c, bootstrap.Namespace, "bmc", "bank.yaml"))
	_, err = bmc.CoreV1().Nodes().Patch(ctx, "bank-node-00", types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
	_, err = bmc.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	require.ErrorContains(t, err, "forbidden")
	require.ErrorContains(t, bmc.CoreV1().Nodes().Delete(ctx, "bank-node-00", metav1.DeleteOptions{}), "forbidden")
}

func requireRepairJob(t *testing.T, c client.Client) {
	var cells v1alpha1.CellList
	require.NoError(t, c.List(t.Context(), &cells))
	var template corev1.ConfigMap
	key := client.ObjectKey{Namespace: deploy.Namespace, Name: cells.Items[0].Spec.RepairJobConfigMap}
	require.NoError(t, c.Get(t.Context(), key, &template))
	job := &batchv1.Job{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(template.Data["job.yaml"]), job))
	job.Namespace, job.Name = bootstrap.Namespace, "repair-try"
	require.NoError(t, c.Create(t.Context(), job), "the API server takes the template")
	require.Equal(t, "example.org/pharos:v1", job.Spec.Template.Spec.Containers[0].Image)
}

func TestInstallSaysWhichClusterFailed(t *testing.T) {
	l, err := layout.New(1, t.TempDir())
	require.NoError(t, err)
	err = bootstrap.Install(t.Context(), bootstrap.Options{
		Layout: l, Image: "i",
		Connect: func(ctx context.Context, c layout.Cluster) (*rest.Config, error) {
			if c.Name == "bank" {
				return nil, errors.New("bank is closed")
			}
			<-ctx.Done() // the others end because one failed
			return nil, ctx.Err()
		},
	})
	require.ErrorContains(t, err, "bank is closed")
}
