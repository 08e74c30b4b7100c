package kube_test

import (
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pharos-fleet/pharos/internal/kube"
)

// remote is a client as simple as can be.
type remote struct {
	host string
	http *http.Client
}

func newRemote(config *rest.Config, web *http.Client) (*remote, error) {
	return &remote{config.Host, web}, nil
}

func (r *remote) get(t *testing.T, path string) (int, string) {
	t.Helper()
	response, err := r.http.Get(r.host + path)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(body)
}

// secretTo is the nth version of a Secret that leads to the server.
func secretTo(t *testing.T, server *httptest.Server, token, version string) *corev1.Secret {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{
		Server:                   server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	data, err := clientcmd.Write(*c)
	require.NoError(t, err)
	return secretOf(version, data)
}

func secretOf(version string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID("u"), ResourceVersion: version},
		Data:       map[string][]byte{kube.SecretKeyKubeconfig: data},
	}
}

// whoami answers with the credential it was shown, and hands on to elsewhere.
func whoami(t *testing.T, elsewhere string) (server *httptest.Server, closed <-chan struct{}) {
	t.Helper()
	ended := make(chan struct{}, 16)
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/away" {
			http.Redirect(w, r, elsewhere, http.StatusFound)
			return
		}
		_, err := io.WriteString(w, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")+" "+r.UserAgent())
		if err != nil {
			t.Errorf("answering: %v", err)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			ended <- struct{}{}
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, ended
}

// One client as long as the Secret is the same; with another Secret another
// client, and the old one's connections end.
func TestConnectionsFollowTheSecret(t *testing.T) {
	server, closed := whoami(t, "")
	connections := kube.NewConnections[string](time.Minute, newRemote)
	first, err := connections.To("shop", secretTo(t, server, "one", "1"))
	require.NoError(t, err)
	code, body := first.get(t, "/")
	require.Equal(t, http.StatusOK, code)
	require.True(t, strings.HasPrefix(body, "one pharos/"), "%q is not the kubeconfig's token and Pharos' name", body)
	again, err := connections.To("shop", secretTo(t, server, "one", "1"))
	require.NoError(t, err)
	require.Same(t, first, again)

	other, err := connections.To("bank", secretTo(t, server, "one", "1"))
	require.NoError(t, err)
	require.NotSame(t, first, other, "keys have connections of their own, whatever the kubeconfig")

	second, err := connections.To("shop", secretTo(t, server, "two", "2"))
	require.NoError(t, err)
	requireClosed(t, closed, "the connection of the old credential is still open")
	_, body = second.get(t, "/")
	require.True(t, strings.HasPrefix(body, "two "), body)

	require.Equal(t, 2, connections.Len())
	connections.Drop("shop")
	requireClosed(t, closed, "the connection of a key that is gone is still open")
	connections.Drop("shop")
	require.Equal(t, 1, connections.Len())
	third, err := connections.To("shop", secretTo(t, server, "two", "2"))
	require.NoError(t, err)
	require.NotSame(t, second, third)
}

func requireClosed(t *testing.T, closed <-chan struct{}, says string) {
	t.Helper()
	select {
	case <-closed:
	case <-time.After(10 * time.Second):
		require.Fail(t, says)
	}
}

// A Secret that is of no use leaves the client of the one before alone: whether
// to go on with it is for the caller.
func TestConnectionsRefuseWhatIsNoKubeconfig(t *testing.T) {
	server, _ := whoami(t, "")
	connections := kube.NewConnections[string](time.Minute, newRemote)
	good := secretTo(t, server, "one", "1")
	first, err := connections.To("shop", good)
	require.NoError(t, err)
	for name, test := range map[string]struct{ kubeconfig, says string }{
		"nothing":     {"", "is empty"},
		"not YAML":    {"clusters: [", "reading kubeconfig"},
		"a command":   {string(withUser(`{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}}`)), "names a file or a command"},
		"a file":      {string(withUser(`{tokenFile: /etc/shadow}`)), "names a file or a command"},
		"half a pair": {string(withUser(`{client-certificate-data: QQ==}`)), "must be specified"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := connections.To("shop", secretOf("2", []byte(test.kubeconfig)))
			require.ErrorContains(t, err, test.says)
		})
	}
	again, err := connections.To("shop", good)
	require.NoError(t, err)
	require.Same(t, first, again)
}

// A server that was taken over could otherwise have the credential sent to
// wherever it likes.
func TestConnectionsFollowNoRedirect(t *testing.T) {
	thief, _ := whoami(t, "")
	server, _ := whoami(t, thief.URL)
	connections := kube.NewConnections[string](time.Minute, newRemote)
	client, err := connections.To("shop", secretTo(t, server, "one", "1"))
	require.NoError(t, err)
	code, _ := client.get(t, "/away")
	require.Equal(t, http.StatusFound, code)
}

// A server that takes connections and says nothing holds nobody for long.
func TestConnectionsTimeOut(t *testing.T) {
	gate := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gate }))
	defer server.Close()
	defer close(gate)
	connections := kube.NewConnections[string](100*time.Millisecond, newRemote)
	client, err := connections.To("shop", secretTo(t, server, "one", "1"))
	require.NoError(t, err)
	_, err = client.http.Get(server.URL)
	var timeout net.Error
	require.ErrorAs(t, err, &timeout)
	require.True(t, timeout.Timeout(), "%v", err)
}
