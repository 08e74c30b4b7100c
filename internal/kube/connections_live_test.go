package kube_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// TestConnectionsToARealAPIServer has a credential changed and withdrawn as an
// administrator does it: the Secret is written anew, the old account is deleted.
func TestConnectionsToARealAPIServer(t *testing.T) {
	config := testkit.APIServer(t)
	admin, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	connections := kube.NewConnections[string](5*time.Second, func(c *rest.Config, web *http.Client) (kubernetes.Interface, error) {
		return kubernetes.NewForConfigAndClient(c, web)
	})

	kept := secretFor(t, admin, config, "first")
	first, err := connections.To("shop", kept)
	require.NoError(t, err)
	require.Equal(t, "system:serviceaccount:default:first", identity(t, first))

	fresh := secretFor(t, admin, config, "second")
	kept.Data = fresh.Data
	kept, err = admin.CoreV1().Secrets("default").Update(t.Context(), kept, metav1.UpdateOptions{})
	require.NoError(t, err)
	second, err := connections.To("shop", kept)
	require.NoError(t, err)
	require.NotSame(t, first, second)
	require.Equal(t, "system:serviceaccount:default:second", identity(t, second))
	require.Equal(t, 1, connections.Len(), "the client of the old credential is not kept beside the new one's")

	// Who still holds the old client goes on with the old credential, until that is
	// withdrawn, too.
	require.Equal(t, "system:serviceaccount:default:first", identity(t, first))
	require.NoError(t, admin.CoreV1().ServiceAccounts("default").Delete(t.Context(), "first", metav1.DeleteOptions{}))
	require.Eventually(t, func() bool {
		_, err := first.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
		return apierrors.IsUnauthorized(err)
	}, 30*time.Second, 200*time.Millisecond, "the API server still takes the token of an account that is gone")

	t.Run("many at once", func(t *testing.T) { manyAtOnce(t, connections, kept) })
	connections.DropFunc(func(key string) bool { return key != "shop" })
	require.Equal(t, 1, connections.Len())
	again, err := connections.To("shop", kept)
	require.NoError(t, err)
	require.Same(t, second, again, "a key that is not gone keeps its client")
}

// manyAtOnce has clusters come, be asked and go side by side.
func manyAtOnce(t *testing.T, connections *kube.Connections[string, kubernetes.Interface], secret *corev1.Secret) {
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for n := range 4 {
				key := fmt.Sprintf("cluster-%d", (i+n)%4)
				c, err := connections.To(key, secret)
				if err != nil {
					t.Errorf("connecting to %s: %v", key, err)
					return
				}
				if _, err := c.Discovery().ServerVersion(); err != nil {
					t.Errorf("asking %s: %v", key, err)
				}
				connections.DropFunc(func(k string) bool { return k == key })
			}
		})
	}
	group.Wait()
}

// secretFor stores a kubeconfig with the token of an account.
func secretFor(t *testing.T, admin kubernetes.Interface, config *rest.Config, account string) *corev1.Secret {
	t.Helper()
	_, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: account}}, metav1.CreateOptions{})
	require.NoError(t, err)
	token, err := admin.CoreV1().ServiceAccounts("default").CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	data, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {Token: token.Status.Token}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	require.NoError(t, err)
	secret, err := admin.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: account}, Data: map[string][]byte{kube.SecretKeyKubeconfig: data},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return secret
}

// identity is who the API server takes a client for.
func identity(t *testing.T, c kubernetes.Interface) string {
	t.Helper()
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	require.NoError(t, err)
	return review.Status.UserInfo.Username
}
