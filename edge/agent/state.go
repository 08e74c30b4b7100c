package agent

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	"k8s.io/client-go/tools/cache"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/rules"
)

// metaCluster is the name of the cell's own cluster on series.
const metaCluster = rules.MetaCluster

// state is what the agent knows at one moment of some clusters.
type state struct {
	clusters []clusterState
	machines []machineOfCluster // those of the clusters above
}

type clusterState struct {
	view
	name string
	// spec is nil for the cell's own cluster.
	spec *v1alpha1.Cluster
	// certificates end then; zero when it is not known.
	certificates time.Time
	// answers says whether its API server does, if that is known.
	answers, answersKnown bool
}

// machineOfCluster is a machine with the node that is surely its own.
type machineOfCluster struct {
	*v1alpha1.Machine
	node string
}

// stateOf looks at what is known of one business cluster, if it is watched.
func (a *Agent) stateOf(key clusterKey) (state, bool) {
	m := a.member(key)
	o, ok, err := a.clusters.GetStore().GetByKey(key.namespace + "/" + key.name)
	c, isCluster := o.(*v1alpha1.Cluster)
	if m == nil || !ok || err != nil || !isCluster {
		return state{}, false
	}
	return state{
		clusters: []clusterState{a.clusterState(m, c, a.now())},
		machines: settle(a.machinesOf(key), map[clusterKey]bool{key: true}),
	}, true
}

// metaState looks at what is known of the cell's own cluster.
func (a *Agent) metaState() state {
	return state{clusters: []clusterState{a.clusterState(a.meta, nil, a.now())}}
}

func (a *Agent) clusterState(m *member, c *v1alpha1.Cluster, now time.Time) clusterState {
	s := clusterState{view: m.view(now), name: m.key.name, spec: c, certificates: m.certificates.soonest()}
	// What the cell has changed since it was last heard is not known, so that no
	// cluster of it is known to be as we say.
	s.up = s.up && a.cellUp(now)
	s.answers, s.answersKnown = m.answers(now)
	return s
}

// byCluster is the index of Machines by namespace and name of their Cluster.
const byCluster = "cluster"

func indexMachines() cache.Indexers {
	return cache.Indexers{byCluster: func(o any) ([]string, error) {
		m, ok := o.(*v1alpha1.Machine)
		if !ok {
			return nil, nil
		}
		return []string{m.Namespace + "/" + m.Spec.ClusterName}, nil
	}}
}

func (a *Agent) machinesOf(key clusterKey) []*v1alpha1.Machine {
	objects, err := a.machines.GetIndexer().ByIndex(byCluster, key.namespace+"/"+key.name)
	if err != nil {
		panic(err) // the index is made with the informer
	}
	return typed[*v1alpha1.Machine](objects)
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
func ambiguous(machines []machineOfCluster) int {
	n := 0
	for _, m := range machines {
		if m.node != m.Spec.NodeName {
			n++
		}
	}
	return n
}

func (a *Agent) serveMeta(w http.ResponseWriter, r *http.Request) { a.serve(w, r, a.metaState) }

func (a *Agent) serveCluster(w http.ResponseWriter, r *http.Request) {
	key := clusterKey{r.PathValue("namespace"), r.PathValue("cluster")}
	if a.ready() == nil && a.member(key) == nil {
		http.Error(w, "no such Cluster is watched", http.StatusNotFound)
		return
	}
	a.serve(w, r, func() state {
		s, _ := a.stateOf(key) // of a Cluster that went away just now, nothing is known
		return s
	})
}

func (a *Agent) serve(w http.ResponseWriter, r *http.Request, look func() state) {
	// Half a picture would look like a fleet that shrank.
	if err := a.ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", string(expfmt.NewFormat(expfmt.TypeTextPlain)))
	if err := writeState(w, look(), r.URL.Query().Get("objects") != "none"); err != nil {
		panic(http.ErrAbortHandler) // the reader must notice that it has not got all
	}
}

// writeState writes the state in Prometheus' text format. It writes by itself,
// not through the client library, because a large cell has millions of
// samples, and building each as an object first takes seconds and gigabytes. Objects
// are left out where kube-state-metrics tells of them.
func writeState(w io.Writer, s state, objects bool) error {
	t := newTextWriter(w)
	writeClusters(t, s.clusters)
	writeMachines(t, s.machines)
	if objects {
		writeNodes(t, s.clusters)
		writePods(t, s.clusters)
	}
	writeAddresses(t, s.clusters)
	return t.flush()
}

func writeClusters(t *textWriter, clusters []clusterState) {
	t.gauge("pharos_cluster_info", "What a business cluster is.")
	for _, c := range clusters {
		if c.spec != nil {
			t.sample(1, "cluster", c.name, "size", string(c.spec.Spec.Size), "version", c.spec.Spec.Version, "profile", c.spec.Spec.Profile)
		}
	}
	t.gauge("pharos_cluster_up", "Whether the nodes of a cluster are watched, the watch tells the truth, and the cell's own API server answers.")
	for _, c := range clusters {
		t.sample(number(c.up), "cluster", c.name)
	}
	t.gauge("pharos_cluster_answers", "Whether the API server of a cluster answers anything, if only that it does not know us; absent while that is not known.")
	for _, c := range clusters {
		if c.answersKnown {
			t.sample(number(c.answers), "cluster", c.name)
		}
	}
	writeCounts(t, clusters)
	t.gauge("pharos_cluster_certificate_expiry_timestamp_seconds",
		"When the first certificate ends of those that the API server of a cluster serves and that the agent shows to it.")
	for _, c := range clusters {
		if !c.certificates.IsZero() {
			t.sample(float64(c.certificates.Unix()), "cluster", c.name)
		}
	}
}

// writeCounts counts what is watched. Where kube-state-metrics tells of objects, an edge
// compares: one that tells of a part, or of former times, does so without a sign of it.
func writeCounts(t *textWriter, clusters []clusterState) {
	of := func(known func(clusterState) bool, count func(clusterState) int) {
		for _, c := range clusters {
			if known(c) {
				t.sample(float64(count(c)), "cluster", c.name)
			}
		}
	}
	nodes := func(c clusterState) bool { return c.nodes != nil }
	t.gauge("pharos_cluster_nodes", "Nodes of a cluster; absent while they are not watched.")
	of(nodes, func(c clusterState) int { return len(c.nodes) })
	t.gauge("pharos_cluster_nodes_ready", "Nodes of a cluster that are ready; absent while they are not watched.")
	of(nodes, func(c clusterState) int {
		ready := 0
		for _, n := range c.nodes {
			if n.ready() {
				ready++
			}
		}
		return ready
	})
	t.gauge("pharos_cluster_pods", "Pods of a cluster; absent while they are not watched.")
	of(func(c clusterState) bool { return c.pods != nil }, func(c clusterState) int { return len(c.pods) })
}

func writeMachines(t *textWriter, machines []machineOfCluster) {
	t.gauge("pharos_machine_info", "What a machine is; node is empty where it has none or several machines claim it.")
	for _, m := range machines {
		d := m.Spec.FailureDomain
		t.sample(1, "cluster", m.Spec.ClusterName, "machine", m.Name, "node", m.node, "pool", m.Spec.Pool, "zone", d.Zone, "rack", d.Rack)
	}
	t.gauge("pharos_machine_state", "Which state is asked of a machine.")
	for _, m := range machines {
		asked := cmp.Or(m.Spec.State, v1alpha1.MachineInUse)
		for _, s := range []v1alpha1.MachineState{v1alpha1.MachineInUse, v1alpha1.MachineStandby} {
			t.sample(number(s == asked), "cluster", m.Spec.ClusterName, "machine", m.Name, "state", string(s))
		}
	}
}

// writeAddresses counts the addresses that the cell's own pods take: the control
// planes of its business clusters compete for them.
func writeAddresses(t *textWriter, clusters []clusterState) {
	t.gauge("pharos_cell_addresses_used", "Addresses of the cell's network of pods that pods hold.")
	for _, c := range clusters {
		if c.name != metaCluster || c.pods == nil {
			continue
		}
		used := 0
		for _, p := range c.pods {
			if p.holdsAddress() {
				used++
			}
		}
		t.sample(float64(used))
	}
}

func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
