package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/kube"
	"github.com/pharos-fleet/pharos/internal/local"
	"github.com/pharos-fleet/pharos/internal/local/layout"
)

// world looks into the clusters of a running fleet.
type world struct {
	t     *testing.T
	fleet *local.Fleet
}

func (w *world) client(cluster string) client.Client {
	w.t.Helper()
	c, err := layout.ClusterByName(cluster)
	require.NoError(w.t, err)
	config, err := w.fleet.Config(c)
	require.NoError(w.t, err)
	k, err := client.New(config, client.Options{Scheme: kube.Scheme()})
	require.NoError(w.t, err)
	return k
}

func (w *world) remediations() []v1alpha1.Remediation {
	w.t.Helper()
	var list v1alpha1.RemediationList
	require.NoError(w.t, w.client("hub").List(w.t.Context(), &list))
	return list.Items
}

func (w *world) policy() v1alpha1.RemediationPolicy {
	w.t.Helper()
	var list v1alpha1.RemediationPolicyList
	require.NoError(w.t, w.client("hub").List(w.t.Context(), &list))
	require.Len(w.t, list.Items, 1)
	return list.Items[0]
}

// held returns the reasons of the holds by machine.
func (w *world) held() map[string]string {
	w.t.Helper()
	reasons := map[string]string{}
	for _, h := range w.policy().Status.Holds {
		reasons[h.Machine] = h.Reason
	}
	return reasons
}

func (w *world) notReady(cluster string) []string {
	w.t.Helper()
	var nodes corev1.NodeList
	require.NoError(w.t, w.client(cluster).List(w.t.Context(), &nodes))
	var names []string
	for _, n := range nodes.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
				names = append(names, n.Name)
			}
		}
	}
	return names
}

// told says whether the robot was told something with all the words in it.
func (w *world) told(words ...string) string {
	resp, err := http.Get(w.fleet.MessagesURL())
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	for _, word := range words {
		if !strings.Contains(string(b), word) {
			return "no message with " + word
		}
	}
	return ""
}

func TestFleetUnderFaults(t *testing.T) {
	t.Parallel()
	p := newPerson(t, 9)
	p.becomeOrdinary()
	p.must("up")
	f := p.fleet()

	t.Run("a second up is refused", func(t *testing.T) { secondUp(t, p.in(t)) })
	t.Run("each edge scrapes every control plane of its cell", func(t *testing.T) { edgesScrape(t, p.in(t)) })
	t.Run("a killed component is started again and said so", func(t *testing.T) { killedComponent(t, p.in(t)) })
	t.Run("a rack that stops is held, a single node elsewhere is repaired", func(t *testing.T) { rackStop(t, p.in(t), &world{t, f}) })
	t.Run("a node that does not pass its check is not repaired", func(t *testing.T) { failedCheck(t, p.in(t), &world{t, f}) })
	t.Run("one central alone is not evidence", func(t *testing.T) { blindCentral(t, p.in(t), &world{t, f}) })
	t.Run("a fleet whose supervisor is killed leaves nothing", func(t *testing.T) { killedSupervisor(t, p.in(t)) })
	p.requireNothingLeft()
}

func secondUp(t *testing.T, p *person) {
	before := p.status()
	_, err := p.pharos("up")
	require.ErrorContains(t, err, fmt.Sprintf("the fleet is already running (supervisor process %d)", before.Supervisor))
	require.ErrorContains(t, err, "pharos down")
	require.Equal(t, before.Supervisor, p.status().Supervisor)
}

func component(t *testing.T, r local.Report, name string) (pid, restarts int, state string) {
	t.Helper()
	for _, c := range r.Components {
		if c.Name == name {
			return c.PID, c.Restarts, string(c.State)
		}
	}
	t.Fatalf("status shows no component %s", name)
	return 0, 0, ""
}

func killedComponent(t *testing.T, p *person) {
	name := "kube-scheduler-shop"
	pid, _, _ := component(t, p.status(), name)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	eventually(t, time.Minute, "restart of "+name, func() string {
		now, restarts, state := component(t, p.status(), name)
		if now == pid || restarts != 1 || state != "Ready" {
			return fmt.Sprintf("process %d, %d restarts, %s", now, restarts, state)
		}
		return ""
	})
	events, err := os.ReadFile(p.fleet().Layout.EventsFile())
	require.NoError(t, err)
	require.Contains(t, string(events), name)
	require.Contains(t, string(events), "killed")
}

// Case C10: a rack of the whole fleet that stops.
func rackStop(t *testing.T, p *person, w *world) {
	p.must("fault", "inject", "rack-stop", "--cluster", "shop", "--rack", "rack-2")
	p.must("fault", "inject", "node-stop", "--node", "bank-node-03")
	eventually(t, 3*time.Minute, "holding the rack", func() string {
		held := w.held()
		for _, node := range w.notReady("shop") {
			if held[node] != "CorrelatedFailure" {
				return fmt.Sprintf("%s is %q", node, held[node])
			}
		}
		if len(held) != 5 {
			return fmt.Sprintf("%d are held", len(held))
		}
		return w.told("PharosRackNotReady", "rack-2")
	})
	eventually(t, 2*time.Minute, "repairing the single node", func() string {
		for _, r := range w.remediations() {
			if r.Spec.Target.Node == "bank-node-03" && r.Status.Phase == v1alpha1.RemediationSucceeded {
				return ""
			}
		}
		return fmt.Sprintf("remediations: %+v", w.remediations())
	})
	p.must("fault", "clear")
	eventually(t, time.Minute, "recovery", func() string {
		if left := w.notReady("shop"); len(left) > 0 {
			return fmt.Sprint(left)
		}
		if held := w.held(); len(held) > 0 {
			return fmt.Sprint(held)
		}
		return ""
	})
	for _, r := range w.remediations() {
		require.Equal(t, "bank-node-03", r.Spec.Target.Node, "no node of the rack was touched")
	}
}

// Case C03: one central alone, in the whole fleet.
func blindCentral(t *testing.T, p *person, w *world) {
	before := len(w.remediations())
	p.must("fault", "inject", "central-down", "--replica", "b")
	p.must("fault", "inject", "edge-down", "--cell", "europe-1")
	p.must("fault", "inject", "node-stop", "--node", "shop-node-11")
	eventually(t, 3*time.Minute, "telling of the central and the stale cell", func() string {
		return w.told("PharosCentralDown", "PharosCellStale", "europe-1")
	})
	eventually(t, 2*time.Minute, "holding the node", func() string {
		if reason := w.held()["shop-node-11"]; !strings.HasPrefix(reason, "Evidence") {
			return fmt.Sprintf("held for %q", reason)
		}
		return ""
	})
	allowed := meta.FindStatusCondition(w.policy().Status.Conditions, v1alpha1.ConditionRemediationAllowed)
	require.NotNil(t, allowed)
	require.NotEqual(t, "True", string(allowed.Status), allowed.Message)
	// Three more looks of the remediator, with the fault as it is.
	time.Sleep(15 * time.Second)
	require.Len(t, w.remediations(), before, "nothing is repaired on one central's word")
	p.must("fault", "clear")
	eventually(t, 2*time.Minute, "a whole view", func() string { return p.status().Tiers })
}

func killedSupervisor(t *testing.T, p *person) {
	require.NoError(t, syscall.Kill(p.status().Supervisor, syscall.SIGKILL))
	eventually(t, 20*time.Second, "death of the fleet", func() string {
		r := p.status()
		if string(r.State) != "Killed" {
			return string(r.State)
		}
		return ""
	})
	p.must("down")
}
