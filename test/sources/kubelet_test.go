package sources_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/pharos-fleet/pharos/internal/local/pki"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// kubelet stands in for a kubelet, which needs a container runtime and root and
// so cannot run here. It asks the real API server who comes and whether they may
// read a node's metrics, as a kubelet does, and says what one says, in outline:
// what is in its answer besides is to be dropped.
type kubelet struct {
	api kubernetes.Interface
}

func startKubelet(t testing.TB, address string, api kubernetes.Interface, ca *pki.CA) {
	t.Helper()
	host, _, err := net.SplitHostPort(address)
	require.NoError(t, err)
	pair, err := ca.Serving(host, time.Now(), host)
	require.NoError(t, err)
	testkit.ServeTLS(t, address, pair, nil, kubelet{api})
}

func (k kubelet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	review, err := k.api.AuthenticationV1().TokenReviews().Create(r.Context(),
		&authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}, metav1.CreateOptions{})
	if err != nil || !review.Status.Authenticated {
		http.Error(w, fmt.Sprint("not known: ", err), http.StatusUnauthorized)
		return
	}
	access, err := k.api.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: review.Status.User.Username, Groups: review.Status.User.Groups,
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "get", Resource: "nodes", Subresource: "metrics", Name: nodeName},
		},
	}, metav1.CreateOptions{})
	if err != nil || !access.Status.Allowed {
		http.Error(w, fmt.Sprint("no right to get nodes/metrics: ", err), http.StatusForbidden)
		return
	}
	switch r.URL.Path {
	case "/metrics":
		fmt.Fprint(w, kubeletMetrics)
	case "/metrics/cadvisor":
		fmt.Fprint(w, cadvisorMetrics)
	default:
		http.NotFound(w, r)
	}
}

const kubeletMetrics = `# TYPE kubelet_running_pods gauge
kubelet_running_pods 1
# TYPE kubelet_pleg_relist_duration_seconds histogram
kubelet_pleg_relist_duration_seconds_bucket{le="0.005"} 3
kubelet_pleg_relist_duration_seconds_bucket{le="1"} 4
kubelet_pleg_relist_duration_seconds_bucket{le="+Inf"} 4
kubelet_pleg_relist_duration_seconds_sum 0.5
kubelet_pleg_relist_duration_seconds_count 4
# TYPE kubelet_certificate_manager_client_ttl_seconds gauge
kubelet_certificate_manager_client_ttl_seconds 86400
# TYPE kubelet_node_name gauge
kubelet_node_name{node="m1"} 1
`

const cadvisorMetrics = `# TYPE machine_cpu_cores gauge
machine_cpu_cores{boot_id="b",machine_id="m",system_uuid="s"} 4
# TYPE machine_memory_bytes gauge
machine_memory_bytes{boot_id="b",machine_id="m",system_uuid="s"} 8e9
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="",cpu="total",id="/",image="",name="",namespace="",pod=""} 100
container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods/pod1",image="",name="",namespace="fleet",pod="p"} 10
container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods/pod1/pause",image="pause",name="x",namespace="fleet",pod="p"} 1
container_cpu_usage_seconds_total{container="c",cpu="total",id="/kubepods/pod1/c",image="i",name="y",namespace="fleet",pod="p"} 9
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="",id="/kubepods/pod1",image="",name="",namespace="fleet",pod="p"} 1e8
container_memory_working_set_bytes{container="c",id="/kubepods/pod1/c",image="i",name="y",namespace="fleet",pod="p"} 9e7
# TYPE container_oom_events_total counter
container_oom_events_total{container="",id="/kubepods/pod1",image="",name="",namespace="fleet",pod="p"} 0
container_oom_events_total{container="c",id="/kubepods/pod1/c",image="i",name="y",namespace="fleet",pod="p"} 2
`

// A kubelet that let everybody in would prove nothing.
func requireGuarded(t *testing.T, client *http.Client, url string) {
	t.Helper()
	resp, err := client.Get(url)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, resp.StatusCode, url)
}
