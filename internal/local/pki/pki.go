// Package pki makes the keys and certificates of a local fleet. Nothing here is
// meant to leave the machine: keys are written with mode 0600 and live as long
// as the fleet.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Lifetime of every certificate. A local fleet is thrown away long before.
const Lifetime = 10 * 365 * 24 * time.Hour

// clockSkew lets a certificate count on a machine whose clock has just been set back.
const clockSkew = time.Hour

// Pair is a certificate and its private key, PEM-encoded.
type Pair struct {
	Cert, Key []byte
}

// CA signs the certificates of one API server and of its clients.
type CA struct {
	Pair
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA makes a certificate authority of the given name, valid from now.
func NewCA(name string, now time.Time) (*CA, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := newTemplate(pkix.Name{CommonName: name}, now)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage |= x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	ca := &CA{key: key}
	ca.Pair, ca.cert, err = sign(template, template, key, key)
	if err != nil {
		return nil, fmt.Errorf("making certificate authority %s: %w", name, err)
	}
	return ca, nil
}

// Serving makes a certificate for a server on the loopback address and under
// the given DNS names and addresses. It also serves as that server's client certificate,
// which etcd needs.
func (ca *CA) Serving(name string, now time.Time, hosts ...string) (Pair, error) {
	template := newTemplate(pkix.Name{CommonName: name}, now)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = []string{"localhost"}
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
			continue
		}
		template.DNSNames = append(template.DNSNames, host)
	}
	return ca.issue(template)
}

// Client makes a certificate by which a user of the given name and groups
// speaks to the API server.
func (ca *CA) Client(user string, now time.Time, groups ...string) (Pair, error) {
	template := newTemplate(pkix.Name{CommonName: user, Organization: groups}, now)
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	return ca.issue(template)
}

func (ca *CA) issue(template *x509.Certificate) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	pair, _, err := sign(template, ca.cert, key, ca.key)
	if err != nil {
		return Pair{}, fmt.Errorf("making certificate of %s: %w", template.Subject.CommonName, err)
	}
	return pair, nil
}

// ServiceAccountKey makes the key that signs service account tokens, PEM-encoded.
func ServiceAccountKey() ([]byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	return encodeKey(key)
}

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making a private key: %w", err)
	}
	return key, nil
}

func newTemplate(subject pkix.Name, now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:   subject,
		NotBefore: now.Add(-clockSkew),
		NotAfter:  now.Add(Lifetime),
		KeyUsage:  x509.KeyUsageDigitalSignature,
	}
}

func sign(template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) (Pair, *x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return Pair{}, nil, fmt.Errorf("choosing a serial number: %w", err)
	}
	template.SerialNumber = serial
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, parentKey)
	if err != nil {
		return Pair{}, nil, fmt.Errorf("signing: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return Pair{}, nil, fmt.Errorf("reading back what was signed: %w", err)
	}
	encoded, err := encodeKey(key)
	if err != nil {
		return Pair{}, nil, err
	}
	return Pair{Cert: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), Key: encoded}, cert, nil
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encoding a private key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}
