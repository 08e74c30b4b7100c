package agent

import (
	"cmp"
	"io"
	"net/http"
	"slices"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzip"
	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// state is what the agent knows at one moment.
type state struct {
	clusters []clusterState     // by name
	machines []machineOfCluster // those of the clusters above
}

type clusterState struct {
	spec *v1alpha1.Cluster
	up   bool
	// nodes is nil when they are not known.
	nodes []*corev1.Node
}

// machineOfCluster is a machine with the node that is surely its own.
type machineOfCluster struct {
	*v1alpha1.Machine
	node string
}

// state looks at every cache.
func (a *Agent) state() state {
	now := a.now()
	// What the cell has changed since it was last heard is not known, so that no
	// cluster of it is known to be as we say.
	cellUp := a.cellUp(now)
	var s state
	watched := map[clusterKey]bool{}
	for _, c := range listOf[*v1alpha1.Cluster](a.clusters) {
		key := clusterKey{c.Namespace, c.Name}
		m := a.member(key)
		if m == nil {
			continue // refused, or not started yet
		}
		up, nodes := m.view(now)
		slices.SortFunc(nodes, func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
		s.clusters = append(s.clusters, clusterState{spec: c, up: up && cellUp, nodes: nodes})
		watched[key] = true
	}
	slices.SortFunc(s.clusters, func(a, b clusterState) int { return cmp.Compare(a.spec.Name, b.spec.Name) })
	s.machines = settle(listOf[*v1alpha1.Machine](a.machines), watched)
	return s
}

// settle keeps the machines of watched clusters and gives each its node. A node
// that several machines claim is given to none of them: a join of a node with
// its machine must find one machine or none, and a repair must not hit a guess.
func settle(machines []*v1alpha1.Machine, watched map[clusterKey]bool) []machineOfCluster {
	type claim struct{ namespace, cluster, node string }
	claims := map[claim]int{}
	var out []machineOfCluster
	for _, m := range machines {
		if watched[clusterKey{m.Namespace, m.Spec.ClusterName}] {
			out = append(out, machineOfCluster{Machine: m})
			claims[claim{m.Namespace, m.Spec.ClusterName, m.Spec.NodeName}]++
		}
	}
	for i, m := range out {
		if claims[claim{m.Namespace, m.Spec.ClusterName, m.Spec.NodeName}] == 1 {
			out[i].node = m.Spec.NodeName
		}
	}
	slices.SortFunc(out, func(a, b machineOfCluster) int {
		return cmp.Or(cmp.Compare(a.Spec.ClusterName, b.Spec.ClusterName), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// ambiguous counts the machines that name a node and do not have it for sure.
func (s state) ambiguous() int {
	n := 0
	for _, m := range s.machines {
		if m.node != m.Spec.NodeName {
			n++
		}
	}
	return n
}

func (a *Agent) serveState(w http.ResponseWriter, _ *http.Request) {
	// Half a picture would look like a fleet that shrank.
	if err := a.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	if err := writeState(w, a.state()); err != nil {
		panic(http.ErrAbortHandler) // the reader must notice that it has not got all
	}
}

// writeState writes the state in Prometheus' text format. It writes by itself,
// not through the client library, because a large cell has half a million
// samples, and building each as an object first takes seconds and gigabytes.
func writeState(w io.Writer, s state) error {
	t := newTextWriter(w)
	writeClusters(t, s.clusters)
	writeMachines(t, s.machines)
	writeNodes(t, s.clusters)
	return t.flush()
}

func writeClusters(t *textWriter, clusters []clusterState) {
	t.family("pharos_cluster_info", "What a business cluster is.")
	for _, c := range clusters {
		t.sample(1, "cluster", c.spec.Name, "size", string(c.spec.Spec.Size), "version", c.spec.Spec.Version, "profile", c.spec.Spec.Profile)
	}
	t.family("pharos_cluster_up", "Whether the nodes of a business cluster are watched, the watch tells the truth, and the cell's own API server answers.")
	for _, c := range clusters {
		t.sample(number(c.up), "cluster", c.spec.Name)
	}
}

func writeMachines(t *textWriter, machines []machineOfCluster) {
	t.family("pharos_machine_info", "What a machine is; node is empty where it has none or several machines claim it.")
	for _, m := range machines {
		d := m.Spec.FailureDomain
		t.sample(1, "cluster", m.Spec.ClusterName, "machine", m.Name, "node", m.node, "pool", m.Spec.Pool, "zone", d.Zone, "rack", d.Rack)
	}
	t.family("pharos_machine_state", "Which state is asked of a machine.")
	for _, m := range machines {
		asked := cmp.Or(m.Spec.State, v1alpha1.MachineInUse)
		for _, s := range []v1alpha1.MachineState{v1alpha1.MachineInUse, v1alpha1.MachineStandby} {
			t.sample(number(s == asked), "cluster", m.Spec.ClusterName, "machine", m.Name, "state", string(s))
		}
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// compressed lets a reader have a response by gzip, at the level that costs
// little: the way is short.
func compressed(h http.Handler) http.Handler {
	wrap, err := gzhttp.NewWrapper(gzhttp.CompressionLevel(gzip.BestSpeed))
	if err != nil {
		panic(err) // a constant level is valid or it is not
	}
	return wrap(h)
}
