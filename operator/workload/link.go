package workload

import (
	"cmp"
	"slices"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// linkSecret is the folder in which a server has the Secret of its link.
const linkSecret = "link"

// The keys of that Secret.
const (
	linkAuthority   = "ca.crt"
	linkCertificate = "tls.crt"
	linkPrivateKey  = "tls.key"
	linkToken       = "token"
)

// LinkKeys are the keys that the Secret of a link must have for what it is used for.
func LinkKeys(use v1alpha1.LinkKey) []string {
	switch use {
	case v1alpha1.LinkAuthority:
		return []string{linkAuthority}
	case v1alpha1.LinkCertificate:
		return []string{linkCertificate, linkPrivateKey}
	case v1alpha1.LinkToken:
		return []string{linkToken}
	}
	return nil
}

// shows tells whether the servers that open the connections of a type of link
// have credentials to show.
func shows(f *v1alpha1.Federation, opens v1alpha1.LinkType) bool {
	return f.Spec.Link.Credentials != nil && cmp.Or(f.Spec.Link.Type, v1alpha1.LinkFederate) == opens
}

// Link is how the servers of a cell and those of the hub come together, as seen by
// those that open the connection when it is of a type: cascades where they read,
// edges where they write.
func Link(f *v1alpha1.Federation, opens v1alpha1.LinkType) promcfg.Link {
	link := promcfg.Link{Kind: promcfg.LinkKind(f.Spec.Link.Type)}
	if !shows(f, opens) {
		return link
	}
	c := f.Spec.Link.Credentials
	link.Credentials = promcfg.Credentials{HTTPS: opens == v1alpha1.LinkFederate, ServerName: c.ServerName}
	file := func(use v1alpha1.LinkKey, key string) string {
		if !slices.Contains(c.Use, use) {
			return ""
		}
		return SecretFile(linkSecret, key)
	}
	link.Credentials.CAFile = file(v1alpha1.LinkAuthority, linkAuthority)
	link.Credentials.CertFile = file(v1alpha1.LinkCertificate, linkCertificate)
	link.Credentials.KeyFile = file(v1alpha1.LinkCertificate, linkPrivateKey)
	link.Credentials.BearerFile = file(v1alpha1.LinkToken, linkToken)
	return link
}

// CascadeSecrets are the Secrets of a cascade. Where it is written to, it has that of the
// link beside it, in case there is one: it must not need a restart to begin to read.
func CascadeSecrets(f *v1alpha1.Federation) map[string]string {
	if f.Spec.Link.Credentials == nil {
		return nil
	}
	return map[string]string{linkSecret: f.Spec.Link.Credentials.SecretName}
}

// LinkSecrets are the Secrets of the servers for which Link is.
func LinkSecrets(f *v1alpha1.Federation, opens v1alpha1.LinkType) map[string]string {
	if !shows(f, opens) {
		return nil
	}
	return map[string]string{linkSecret: f.Spec.Link.Credentials.SecretName}
}

// SecretFile is where a program finds a key of one of its Secrets, relative to
// its configuration, as every path in one is.
func SecretFile(name, key string) string { return "../secrets/" + name + "/" + key }
