package components

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/pharos-fleet/pharos/internal/local/layout"
	"github.com/pharos-fleet/pharos/internal/local/pki"
)

// Users of the fleet's own components. Their rights are granted when the
// cluster is prepared.
const (
	// UserKubelet is the process kubelet.
	UserKubelet = "local:kubelet"
	// UserKwok plays the worker nodes.
	UserKwok = "local:kwok"
	// userAPIServer is the API server when it asks a kubelet for logs.
	userAPIServer = "local:kube-apiserver"
)

// WriteCredentials makes new keys, certificates and kubeconfigs for the whole
// fleet. Old ones no longer work with servers started after.
func WriteCredentials(l layout.Layout, now time.Time) error {
	if err := writeEtcd(l.PKIDir("etcd"), now); err != nil {
		return err
	}
	for _, c := range layout.Clusters() {
		if err := writeCluster(l, c, now); err != nil {
			return fmt.Errorf("making credentials of %s: %w", c.Name, err)
		}
	}
	return nil
}

func writeEtcd(dir string, now time.Time) error {
	ca, err := pki.NewCA("local-etcd", now)
	if err != nil {
		return err
	}
	server, err := ca.Serving("etcd", now)
	if err != nil {
		return err
	}
	client, err := ca.Client("kube-apiserver", now)
	if err != nil {
		return err
	}
	// Whoever holds a certificate of this authority may read and write all of
	// etcd; its key is not kept.
	return writePairs(dir, map[string]pki.Pair{"ca": {Cert: ca.Cert}, "server": server, "client": client})
}

func writeCluster(l layout.Layout, c layout.Cluster, now time.Time) error {
	ca, err := pki.NewCA("local-"+c.Name, now)
	if err != nil {
		return err
	}
	serving, err := ca.Serving(c.Name, now, "kubernetes.default.svc", "kubernetes.default", "kubernetes")
	if err != nil {
		return err
	}
	// No front proxy exists: nobody holds the key of its authority. The servers
	// complain all the time when there is none.
	proxy, err := pki.NewCA("local-front-proxy-"+c.Name, now)
	if err != nil {
		return err
	}
	pairs := map[string]pki.Pair{"ca": {Cert: ca.Cert}, "front-proxy-ca": {Cert: proxy.Cert}, "serving": serving}
	for _, u := range users(l, c) {
		pair, err := ca.Client(u.name, now, u.groups...)
		if err != nil {
			return err
		}
		pairs[u.file] = pair
		if u.kubeconfig == "" {
			continue
		}
		b, err := pki.Kubeconfig(c.Name, l.APIServerURL(c), ca.Cert, u.name, pair)
		if err != nil {
			return err
		}
		if err := pki.WriteSecret(u.kubeconfig, b); err != nil {
			return err
		}
	}
	key, err := pki.ServiceAccountKey()
	if err != nil {
		return err
	}
	if err := pki.WriteSecret(filepath.Join(l.PKIDir(c.Name), "service-account.key"), key); err != nil {
		return err
	}
	return writePairs(l.PKIDir(c.Name), pairs)
}

// user is one who speaks to an API server by a client certificate.
type user struct {
	name, file string
	groups     []string
	// kubeconfig is where its way in is written; empty means nowhere.
	kubeconfig string
}

func users(l layout.Layout, c layout.Cluster) []user {
	in := func(file string) string { return filepath.Join(l.PKIDir(c.Name), file) }
	return []user{
		{name: "admin", file: "admin", groups: []string{"system:masters"}, kubeconfig: l.Kubeconfig(c)},
		{name: "system:kube-controller-manager", file: "controller-manager", kubeconfig: in("controller-manager.yaml")},
		{name: "system:kube-scheduler", file: "scheduler", kubeconfig: in("scheduler.yaml")},
		{name: UserKubelet, file: "kubelet", kubeconfig: in("kubelet.yaml")},
		{name: UserKwok, file: "kwok", kubeconfig: in("kwok.yaml")},
		{name: userAPIServer, file: "kubelet-client"},
	}
}

func writePairs(dir string, pairs map[string]pki.Pair) error {
	for name, pair := range pairs {
		if pair.Key == nil {
			if err := pki.WriteSecret(filepath.Join(dir, name+".crt"), pair.Cert); err != nil {
				return err
			}
			continue
		}
		if err := pki.WritePair(dir, name, pair); err != nil {
			return err
		}
	}
	return nil
}
