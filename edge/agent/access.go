package agent

import (
	"context"
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/pharos-fleet/pharos/internal/kube"
)

// Keys of an observer's Secret beside its kubeconfig. They say which kubelets
// the observer's credential may be shown to; that is decided where the
// credential itself is handed out.
const (
	// secretKeyKubeletCA holds, in PEM, the authorities that sign the serving
	// certificates of kubelets. Without it, they are those of the kubeconfig.
	secretKeyKubeletCA = "kubelet-ca.crt"
	// secretKeyKubeletUnverified, with the value "true", lets the agent scrape
	// kubelets whose serving certificates it cannot verify, such as those that
	// kubelets sign themselves. Whoever answers in a node's place then gets the
	// observer's token.
	secretKeyKubeletUnverified = "kubelet-insecure-skip-tls-verify"
)

// access is how to reach a cluster, and its nodes.
type access struct {
	config *rest.Config
	// kubeletCA are the authorities of kubelets, in PEM, where they are not
	// those of config.
	kubeletCA []byte
	// kubeletUnverified means that anyone at a node's address may be taken for
	// its kubelet.
	kubeletUnverified bool
}

// credential is what a cluster's access is made of.
type credential struct {
	digest [sha256.Size]byte // tells one from another
	open   func() (access, error)
}

// noKubeconfigError says that the cell answered, and has no kubeconfig for us.
type noKubeconfigError struct{ reason string }

func (e *noKubeconfigError) Error() string { return e.reason }

// observerOf reads a business cluster's credential in the cell.
func observerOf(cell kubernetes.Interface, key memberKey) func(context.Context) (credential, error) {
	return func(ctx context.Context) (credential, error) {
		ctx, cancel := context.WithTimeout(ctx, secretTimeout)
		defer cancel()
		secret, err := cell.CoreV1().Secrets(key.namespace).Get(ctx, key.secret, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return credential{}, &noKubeconfigError{fmt.Sprintf("Secret %s/%s does not exist; make it, or name another in spec.observerKubeconfigSecret of Cluster %s", key.namespace, key.secret, key.name)}
		}
		if err != nil {
			return credential{}, fmt.Errorf("reading Secret %s/%s: %w", key.namespace, key.secret, err)
		}
		if len(secret.Data[kube.SecretKeyKubeconfig]) == 0 {
			return credential{}, &noKubeconfigError{fmt.Sprintf("Secret %s/%s has no key %s; put the observer's kubeconfig there", key.namespace, key.secret, kube.SecretKeyKubeconfig)}
		}
		return credentialIn(secret), nil
	}
}

func credentialIn(secret *corev1.Secret) credential {
	hash := sha256.New()
	for _, key := range []string{kube.SecretKeyKubeconfig, secretKeyKubeletCA, secretKeyKubeletUnverified} {
		_, _ = fmt.Fprintf(hash, "%d:%s", len(secret.Data[key]), secret.Data[key]) // a hash takes everything
	}
	c := credential{open: func() (access, error) {
		config, err := kube.ConfigFromBytes(secret.Data[kube.SecretKeyKubeconfig])
		return access{
			config: config, kubeletCA: secret.Data[secretKeyKubeletCA],
			kubeletUnverified: string(secret.Data[secretKeyKubeletUnverified]) == "true",
		}, err
	}}
	hash.Sum(c.digest[:0])
	return c
}

// ownAccount is the agent's own credential, for the cell itself.
func ownAccount(cell *rest.Config) func(context.Context) (credential, error) {
	return func(context.Context) (credential, error) {
		return credential{open: func() (access, error) { return access{config: cell}, nil }}, nil
	}
}
