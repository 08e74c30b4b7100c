package kube_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
)

const kubeconfig = `apiVersion: v1
kind: Config
clusters:
- name: c
  cluster: {server: "https://127.0.0.1:6443"}
users:
- name: u
  user: {USER}
contexts:
- name: x
  context: {cluster: c, user: u}
current-context: x
`

func withUser(user string) []byte {
	return []byte(strings.Replace(kubeconfig, "{USER}", user, 1))
}

func TestConfigFromBytes(t *testing.T) {
	c, err := kube.ConfigFromBytes(withUser(`{token: "s3cret"}`))
	require.NoError(t, err)
	require.Equal(t, "https://127.0.0.1:6443", c.Host)
	require.Equal(t, "s3cret", c.BearerToken)
	require.Contains(t, c.UserAgent, "pharos/")
}

// A limit in the client makes reading a fleet take minutes.
func TestClientsAreNotThrottled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(path, withUser(`{token: t}`), 0o600))
	fromFile, err := kube.Config(path)
	require.NoError(t, err)
	fromBytes, err := kube.ConfigFromBytes(withUser(`{token: t}`))
	require.NoError(t, err)
	for _, c := range []*rest.Config{fromFile, fromBytes} {
		client, err := rest.UnversionedRESTClientFor(withCodec(c))
		require.NoError(t, err)
		if limiter := client.GetRateLimiter(); limiter != nil {
			for range 50 {
				require.True(t, limiter.TryAccept())
			}
		}
	}
}

func withCodec(c *rest.Config) *rest.Config {
	c.NegotiatedSerializer = serializer.NewCodecFactory(kube.Scheme()).WithoutConversion()
	return c
}

func TestConfigFromBytesRefuses(t *testing.T) {
	for name, user := range map[string]string{
		"command":     `{exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never}}`,
		"token file":  `{tokenFile: /etc/shadow}`,
		"certificate": `{client-certificate: /etc/shadow, client-key: /etc/shadow}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := kube.ConfigFromBytes(withUser(user))
			require.ErrorContains(t, err, `user "u" names a file or a command`)
		})
	}
	many := strings.Replace(kubeconfig, "users:", "users:\n- name: c\n  user: {tokenFile: f}\n- name: b\n  user: {tokenFile: f}", 1)
	for range 20 {
		_, err := kube.ConfigFromBytes([]byte(many))
		require.ErrorContains(t, err, `user "b"`, "the same kubeconfig is refused in the same words")
	}
	_, err := kube.ConfigFromBytes([]byte("clusters: ["))
	require.ErrorContains(t, err, "reading kubeconfig")
	for _, aimless := range []string{"", "{}", strings.Replace(kubeconfig, "current-context:", "no-context:", 1)} {
		_, err = kube.ConfigFromBytes([]byte(aimless))
		require.ErrorContains(t, err, "has no current context")
		require.NotContains(t, err.Error(), "environment variable", "this process' environment is not what is wrong")
	}
}

func TestConfigPrefersFlagThenEnvironment(t *testing.T) {
	dir := t.TempDir()
	flag, env := filepath.Join(dir, "flag"), filepath.Join(dir, "env with space")
	require.NoError(t, os.WriteFile(flag, withUser(`{token: flag}`), 0o600))
	require.NoError(t, os.WriteFile(env, withUser(`{token: env}`), 0o600))
	t.Setenv("KUBECONFIG", env)

	c, err := kube.Config(flag)
	require.NoError(t, err)
	require.Equal(t, "flag", c.BearerToken)
	c, err = kube.Config("")
	require.NoError(t, err)
	require.Equal(t, "env", c.BearerToken)

	t.Setenv("KUBECONFIG", "")
	_, err = kube.Config("")
	require.ErrorContains(t, err, "no --kubeconfig, no $KUBECONFIG, and not in a pod")
}

func TestSchemeKnowsOurTypes(t *testing.T) {
	require.True(t, kube.Scheme().Recognizes(v1alpha1.GroupVersion.WithKind("Remediation")))
}
