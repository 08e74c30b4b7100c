package signal_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	metrics "github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	api "github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/remediator/signal"
)

// scripted is an API server that lists and watches as the test says, for what a real
// one does on bad days only, and for measures, as it costs little itself. Clusters
// it has none.
type scripted struct {
	// watching is how long a watch lasts at most.
	watching time.Duration
	// says is what a watch of machines says in the end, unless it is empty.
	says func(s *scripted) string
	// forbids lets nobody watch.
	forbids bool

	// hub and registry are those of the Reader.
	hub      client.Client
	registry *metrics.Registry

	mu       sync.Mutex
	version  string
	machines [][]byte
	lists    int
}

// set changes what there is, and says nothing of it to those that watch.
func (s *scripted) set(version string, machines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version, s.machines = version, nil
	for _, name := range machines {
		s.machines = append(s.machines, rendered(name))
	}
}

// rendered is a Machine with all that real ones have, managed fields included.
func rendered(name string) []byte {
	m := api.Machine{
		TypeMeta: metav1.TypeMeta{APIVersion: "pharos.dev/v1alpha1", Kind: "Machine"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "fleet", Name: name, UID: "0b0f1f0e-7f5c-4d0a-9d1c-2f6a5b3c4d5e", ResourceVersion: "5", Generation: 1,
			CreationTimestamp: metav1.Now(), Labels: map[string]string{"pharos.dev/pool": "workers"},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "site", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "pharos.dev/v1alpha1",
				FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:clusterName":{},"f:nodeName":{},"f:pool":{},"f:hardwareID":{},"f:providerID":{},"f:failureDomain":{"f:zone":{},"f:rack":{}}}}`)}},
		},
		Spec: api.MachineSpec{
			ClusterName: "shop", NodeName: "node-" + name, Pool: "workers", HardwareID: "serial-" + name, ProviderID: "metal://site/" + name,
			FailureDomain: api.FailureDomain{Zone: "zone-a", Rack: "rack-17", Switch: "switch-3"},
		},
	}
	out, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return out
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	query := r.URL.Query()
	of := "Cluster"
	if strings.HasSuffix(r.URL.Path, "/machines") {
		of = "Machine"
	}
	if query.Get("watch") != "" {
		s.watch(w, r, of)
		return
	}
	s.mu.Lock()
	version, machines := s.version, s.machines
	if of != "Machine" {
		machines = nil
	} else if query.Get("limit") != "1" {
		s.lists++
	}
	s.mu.Unlock()
	from, _ := strconv.Atoi(query.Get("continue"))
	limit, _ := strconv.Atoi(query.Get("limit"))
	next := ""
	if from+limit < len(machines) {
		next = strconv.Itoa(from + limit)
	}
	_, _ = fmt.Fprintf(w, `{"kind":"%sList","apiVersion":"pharos.dev/v1alpha1","metadata":{"resourceVersion":%q,"continue":%q},"items":[`, of, version, next)
	for i := from; i < min(from+limit, len(machines)); i++ {
		if i > from {
			_, _ = w.Write([]byte(","))
		}
		_, _ = w.Write(machines[i])
	}
	_, _ = w.Write([]byte("]}"))
}

func (s *scripted) watch(w http.ResponseWriter, r *http.Request, of string) {
	if s.forbids {
		w.WriteHeader(http.StatusForbidden)
		_, _ = fmt.Fprint(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"clusters is forbidden","reason":"Forbidden","code":403}`)
		return
	}
	w.WriteHeader(http.StatusOK)
	flusher := w.(http.Flusher)
	flusher.Flush()
	select {
	case <-r.Context().Done():
		return
	case <-time.After(s.watching):
	}
	says := s.bookmark(of, "")
	if of == "Machine" && s.says != nil {
		says = s.says(s)
	}
	_, _ = w.Write([]byte(says))
	flusher.Flush()
}

// bookmark says how far a watch has come; empty means as far as the cell.
func (s *scripted) bookmark(of, version string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version == "" {
		version = s.version
	}
	return fmt.Sprintf(`{"type":"BOOKMARK","object":{"kind":%q,"apiVersion":"pharos.dev/v1alpha1","metadata":{"resourceVersion":%q}}}`, of, version)
}

func (s *scripted) listed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// cells serves a scripted API server as so many cells to a Reader.
func (s *scripted) cells(t testing.TB, number int, now func() time.Time) (*signal.Reader, []*corev1.Secret) {
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	hub := fake.NewClientBuilder().WithScheme(kube.Scheme()).Build()
	var secrets []*corev1.Secret
	for i := range number {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "pharos-system", Name: cellName(i)}, Data: kubeconfig(t,
			&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, &clientcmdapi.AuthInfo{Token: "t"})}
		secrets = append(secrets, secret)
		for _, o := range []client.Object{secret, &api.Cell{ObjectMeta: metav1.ObjectMeta{Name: cellName(i)},
			Spec: api.CellSpec{Geography: "asia", Region: "r", KubeconfigSecret: "unused", RemediatorKubeconfigSecret: cellName(i)}}} {
			require.NoError(t, hub.Create(t.Context(), o))
		}
	}
	s.hub, s.registry = hub, metrics.NewRegistry()
	r, err := signal.New(signal.Options{Hub: hub, Namespace: "pharos-system", Timeout: 5 * time.Second, Now: now, Registry: s.registry,
		Centrals: centrals(t, "http://127.0.0.1:1", "http://127.0.0.1:2")})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r, secrets
}
