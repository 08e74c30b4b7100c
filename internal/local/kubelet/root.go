package kubelet

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// lockRoot keeps a second kubelet away from the root folder, and returns what gives it back.
func lockRoot(root string) (unlock func(), err error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("creating root folder: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(root, "kubelet.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("locking root folder %s, which another kubelet may be using: %w", root, err)
	}
	return func() { _ = f.Close() }, nil
}

// apiServerAddress returns host and port of the API server that a client configuration names.
func apiServerAddress(config *rest.Config) (host, port string, err error) {
	u, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return "", "", fmt.Errorf("reading API server address: %w", err)
	}
	return u.Hostname(), portOf(u), nil
}

func portOf(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "http":
		return "80"
	default:
		return "443"
	}
}

// podKubeconfig writes the kubeconfig of a container: the kubelet's own way to the API server, with the identity of the
// pod's service account, whose token is read from its file whenever it is used.
func podKubeconfig(path, tokenFile string, config *rest.Config) error {
	u, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("reading API server address: %w", err)
	}
	cluster := clientcmdapi.NewCluster()
	cluster.Server = u.String()
	cluster.CertificateAuthorityData = config.CAData
	if len(config.CAData) == 0 {
		cluster.CertificateAuthority = config.CAFile
	}
	cluster.InsecureSkipTLSVerify = config.Insecure
	cluster.TLSServerName = config.ServerName
	user := clientcmdapi.NewAuthInfo()
	user.TokenFile = tokenFile
	context := clientcmdapi.NewContext()
	context.Cluster, context.AuthInfo = "local", "pod"

	c := clientcmdapi.NewConfig()
	c.Clusters["local"], c.AuthInfos["pod"], c.Contexts["local"] = cluster, user, context
	c.CurrentContext = "local"
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		return fmt.Errorf("writing kubeconfig of pod: %w", err)
	}
	return nil
}
