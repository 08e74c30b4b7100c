package agent

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/internal/kube"
)

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// What ends first counts: the certificate that is served, also when nobody can
// verify it any more, or the one that we show.
func TestCertificateExpiry(t *testing.T) {
	ca := newAuthority(t)
	day := time.Now().Truncate(time.Second).UTC()
	shown := make(chan string, 100)
	api := func(until time.Time) string {
		m := &machine{address: loopback}
		s := m.serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			shown <- fmt.Sprint(r.Header.Values("Authorization"), len(r.TLS.PeerCertificates))
			w.WriteHeader(http.StatusUnauthorized)
		}), listen(t, loopback), &tls.Config{
			Certificates: []tls.Certificate{ca.serving(t, m.address, until)}, ClientAuth: tls.RequestClientCert,
		})
		return s.URL
	}
	for name, c := range map[string]struct{ served, client, want time.Time }{
		"served only":          {day.Add(time.Hour), time.Time{}, day.Add(time.Hour)},
		"served ends first":    {day.Add(time.Hour), day.Add(2 * time.Hour), day.Add(time.Hour)},
		"client ends first":    {day.Add(time.Hour), day.Add(time.Minute), day.Add(time.Minute)},
		"served ended already": {day.Add(-time.Hour), day.Add(time.Hour), day.Add(-time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			config := kubeconfigWithCertificate(t, api(c.served), ca, c.client)
			m := startBench(t, map[string][]byte{kube.SecretKeyKubeconfig: config}).shop
			conn, err := m.open(credentialIn(&corev1.Secret{Data: map[string][]byte{kube.SecretKeyKubeconfig: config}}))
			require.NoError(t, err)
			require.Equal(t, c.client, m.certificates.soonest().UTC().Truncate(time.Second))
			until, err := conn.peeker.peek(t.Context())
			require.NoError(t, err)
			require.Equal(t, "[] 0", <-shown, "no credential is shown to who is not verified")
			m.certificates.sawServed(until)
			require.Equal(t, c.want, m.certificates.soonest().UTC())

			again, err := m.open(credentialIn(&corev1.Secret{Data: map[string][]byte{kube.SecretKeyKubeconfig: config}}))
			require.NoError(t, err)
			require.NotNil(t, again)
			require.Equal(t, c.want, m.certificates.soonest().UTC(), "a new connection by the same credential forgets nothing")
			_, err = m.open(credentialIn(&corev1.Secret{Data: map[string][]byte{kube.SecretKeyKubeconfig: []byte("nonsense: [")}}))
			require.Error(t, err)
			require.Zero(t, m.certificates.soonest())
		})
	}
}

// kubeconfigWithCertificate shows a certificate that ends then, or a token.
func kubeconfigWithCertificate(t *testing.T, server string, ca *authority, until time.Time) []byte {
	t.Helper()
	config := kubeconfig(server, "the-token")
	if until.IsZero() {
		return config
	}
	pair := ca.serving(t, loopback, until)
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	return replaced(config, `token: "the-token"`,
		"client-certificate-data: "+base64Of(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))+
			", client-key-data: "+base64Of(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
}
