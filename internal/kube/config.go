// Package kube is how every program of Pharos finds an API server and which
// types it speaks with it.
package kube

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/version"
)

// SecretKeyKubeconfig is the key under which every kubeconfig Secret of Pharos
// holds its kubeconfig.
const SecretKeyKubeconfig = "kubeconfig"

// Config finds the API server: by the given kubeconfig file, else by the one
// that $KUBECONFIG names, else as a pod finds its own.
func Config(kubeconfigPath string) (*rest.Config, error) {
	if kubeconfigPath == "" {
		kubeconfigPath = os.Getenv(clientcmd.RecommendedConfigPathEnvVar)
	}
	if kubeconfigPath == "" {
		c, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("finding the API server: no --kubeconfig, no $KUBECONFIG, and not in a pod: %w", err)
		}
		return named(c), nil
	}
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfigPath)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig %s: %w", kubeconfigPath, err)
	}
	return named(c), nil
}

// ConfigFromBytes reads a kubeconfig that was stored in a Secret. It refuses
// one that names files or runs commands: whoever may write the Secret must not
// thereby read this machine's files or run its programs.
func ConfigFromBytes(kubeconfig []byte) (*rest.Config, error) {
	raw, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	if err := selfContained(raw); err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	c, err := clientcmd.NewDefaultClientConfig(*raw, nil).ClientConfig()
	if errors.Is(err, clientcmd.ErrEmptyConfig) {
		// The library's words advise to set a variable of this process.
		return nil, errors.New("reading kubeconfig: it has no current context, or a context without a cluster; set current-context to one that names a cluster and a user")
	}
	if err != nil {
		return nil, fmt.Errorf("reading kubeconfig: %w", err)
	}
	return named(c), nil
}

// selfContained refuses a kubeconfig that names files or runs commands. It looks
// in order, so that the same kubeconfig is refused in the same words.
func selfContained(raw *clientcmdapi.Config) error {
	for _, name := range slices.Sorted(maps.Keys(raw.AuthInfos)) {
		user := raw.AuthInfos[name]
		if user.Exec != nil || user.AuthProvider != nil || user.ClientCertificate != "" || user.ClientKey != "" || user.TokenFile != "" {
			return fmt.Errorf("user %q names a file or a command; embed its token or certificate", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(raw.Clusters)) {
		if raw.Clusters[name].CertificateAuthority != "" {
			return fmt.Errorf("cluster %q names a certificate file; embed certificate-authority-data", name)
		}
	}
	return nil
}

// named also lifts client-go's limit of 5 requests in a second. It would make a
// round of the hub's own reading, of a Secret for each of hundreds of cells, take
// minutes; the server has priority and fairness to protect itself with.
func named(c *rest.Config) *rest.Config {
	c.UserAgent = "pharos/" + version.Version
	c.QPS = -1
	return c
}

// Scheme knows Kubernetes' own types, custom resource definitions and Pharos' types.
func Scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(apiextensionsv1.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}
