package pki

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WritePair writes dir/name.crt and dir/name.key.
func WritePair(dir, name string, p Pair) error {
	if err := WriteSecret(filepath.Join(dir, name+".key"), p.Key); err != nil {
		return err
	}
	return WriteSecret(filepath.Join(dir, name+".crt"), p.Cert)
}

// WriteSecret writes a file that only its owner may read, with the folder it
// lies in. It replaces an old one whole, whatever its mode was.
func WriteSecret(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making folder for %s: %w", path, err)
	}
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = temp.Write(data)
	if closing := temp.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// Kubeconfig is a user's way into a cluster, with everything embedded.
func Kubeconfig(cluster, server string, ca []byte, user string, client Pair) ([]byte, error) {
	return encodeKubeconfig(cluster, server, ca, user, &clientcmdapi.AuthInfo{
		ClientCertificateData: client.Cert,
		ClientKeyData:         client.Key,
	})
}

// TokenKubeconfig is the same for a service account, by its token.
func TokenKubeconfig(cluster, server string, ca []byte, user, token string) ([]byte, error) {
	return encodeKubeconfig(cluster, server, ca, user, &clientcmdapi.AuthInfo{Token: token})
}

func encodeKubeconfig(cluster, server string, ca []byte, user string, auth *clientcmdapi.AuthInfo) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters[cluster] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = auth
	config.Contexts[cluster] = &clientcmdapi.Context{Cluster: cluster, AuthInfo: user}
	config.CurrentContext = cluster
	b, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding kubeconfig of %s for %s: %w", user, cluster, err)
	}
	return b, nil
}
