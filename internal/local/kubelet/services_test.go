package kubelet_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/pharos-fleet/pharos/internal/local/kubelet"
)

func withProxy(o *kubelet.Options) { o.ServiceProxy = true }

func (n *testNode) service(name, app string, port int32) *corev1.Service {
	n.t.Helper()
	s, err := client.CoreV1().Services(n.namespace).Create(n.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Name: "http", Port: port, TargetPort: intstr.FromString("http")}},
		},
	}, metav1.CreateOptions{})
	require.NoError(n.t, err)
	return s
}

func TestServiceProxy(t *testing.T) {
	t.Parallel()
	n := startNode(t, withProxy)
	s := n.service("web", "web", 9095)
	address := net.JoinHostPort(s.Spec.ClusterIP, "9095")
	for _, name := range []string{"web-a", "web-b"} {
		p := n.server(name)
		p.Labels["app"] = "web"
		n.create(p)
		n.waitReady(name)
	}
	pids := func() map[string]bool {
		seen := map[string]bool{}
		for range 6 {
			if pid, err := get("http://" + address + "/pid"); err == nil {
				seen[pid] = true
			}
		}
		return seen
	}
	answering := func(count int) func() error {
		return func() error {
			if seen := pids(); len(seen) != count {
				return fmt.Errorf("%d pods answer", len(seen))
			}
			return nil
		}
	}
	eventually(t, "both pods answer", answering(2))
	n.ask(n.get("web-a"), "/sick", "to", "true")
	n.wait("web-a", "it is not ready", func(p *corev1.Pod) bool { return !ready(p) })
	eventually(t, "only the ready pod answers", answering(1))
	n.delete("web-b")
	eventually(t, "nobody answers", answering(0))

	require.NoError(t, client.CoreV1().Services(n.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{}))
	eventually(t, "the address is free again", func() error {
		l, err := net.Listen("tcp", address)
		if err == nil {
			err = l.Close()
		}
		return err
	})
}

func TestServiceNamesInArguments(t *testing.T) {
	t.Parallel()
	n := startNode(t, withProxy)
	host := "notify." + n.namespace + ".svc"
	p := n.server("client", "http://"+host+":9095/hook", host+".cluster.local", "x."+host)
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "NOTIFY", Value: host})
	n.create(p)
	got := n.wait("client", "it waits for the Service", func(p *corev1.Pod) bool { return waitingReason(p) == "CreateContainerConfigError" })
	require.Contains(t, mainStatus(got).State.Waiting.Message, host)

	ip := n.service("notify", "notify", 9095).Spec.ClusterIP
	got = n.waitReady("client")
	require.Equal(t, ip, n.ask(got, "/env", "name", "NOTIFY"))
	require.Contains(t, n.ask(got, "/args"), "http://"+ip+":9095/hook\n"+ip+"\n127.90.")
}
