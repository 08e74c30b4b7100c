package cell

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// edgeName is the edge's first workload, and the ConfigMap that every cell has.
const edgeName = workload.FirstEdge

type parts struct{ images v1alpha1.Images }

func (p parts) edge(s workload.EdgeServer) workload.Part {
	return workload.Part{
		Name: s.Name(), Component: v1alpha1.ComponentEdge, ServiceAccount: "edge",
		Labels: map[string]string{v1alpha1.LabelShard: strconv.FormatUint(uint64(s.Shard), 10), v1alpha1.LabelReplica: s.Replica},
		Image:  p.images.Prometheus, Port: workload.PrometheusPort,
	}
}

func (p parts) agent() workload.Part {
	return workload.Part{
		Name: "edge-agent", Component: v1alpha1.ComponentEdgeAgent, ServiceAccount: "edge-agent",
		Image: p.images.Pharos, Port: workload.EdgeAgentPort,
	}
}

func (p parts) machineOperator() workload.Part {
	return workload.Part{
		Name: "machine-operator", Component: v1alpha1.ComponentMachineOperator, ServiceAccount: "machine-operator",
		Image: p.images.Pharos, Port: workload.MachineOperatorPort,
	}
}

// place is where the parts are in the cell. They have no owner there: the Cell
// is an object of the hub.
func place(c *v1alpha1.Cell, namespace string) workload.Place {
	return workload.Place{
		Namespace: namespace,
		Labels:    map[string]string{v1alpha1.LabelCell: c.Name},
		Marks:     map[string]string{v1alpha1.LabelGeography: c.Spec.Geography},
	}
}

func services(p workload.Place, parts parts) workload.Objects {
	return workload.Objects{p.Service(parts.agent(), workload.Pharos)}
}

// workloads are the objects of everything that runs in the cell. An External
// edge gets its files all the same, for its own server to include.
func workloads(p workload.Place, parts parts, c *v1alpha1.Cell, f *v1alpha1.Federation, edges map[workload.EdgeServer]server) workload.Objects {
	var objects workload.Objects
	for _, s := range workload.EdgeServers(f, c) {
		if c.Spec.Edge.Mode == v1alpha1.EdgeExternal {
			objects = append(objects, p.ConfigMaps(parts.edge(s), workload.Prometheus, edges[s].files)...)
			continue
		}
		objects = append(objects, p.PrometheusServer(workload.Server{
			Part: parts.edge(s), Files: edges[s].files, Flags: edges[s].flags, Retention: workload.EdgeRetention(f), Size: edgeSize(c),
			Secrets: workload.LinkSecrets(f, v1alpha1.LinkRemoteWrite), Settles: settles(f),
		})...)
		if s.Replica != "a" { // the second of a pair
			objects = append(objects, p.PairBudget(parts.edge(s), workload.Prometheus)...)
		}
	}
	objects = append(objects, p.Program(workload.Program{Part: parts.agent()})...)
	if c.Spec.RepairJobConfigMap != "" {
		objects = append(objects, p.Program(workload.Program{
			Part: parts.machineOperator(),
			Args: []string{"--namespace=$(POD_NAMESPACE)", "--job-config-map=" + c.Spec.RepairJobConfigMap},
		})...)
	}
	return objects
}

// settles is how long a server must have been ready before the other one of its pair is
// changed, or goes. It is ready before it has scraped anything, and its pod has an
// address that the cascade learns from a file: the kubelet takes up to a minute to bring
// that, and a few intervals pass until the cell is known of there.
func settles(f *v1alpha1.Federation) time.Duration {
	const bringsFiles = 90 * time.Second
	return bringsFiles + 3*workload.Interval(f)
}

// check finds what can be wrong with a Cell before anything is rendered.
func check(c *v1alpha1.Cell, f *v1alpha1.Federation) error {
	if err := workload.CheckName(c); err != nil {
		return err
	}
	if f == nil {
		return &workload.Problem{Reason: v1alpha1.ReasonProgressing, Err: errors.New("waiting for a Federation in the hub")}
	}
	if err := errors.Join(workload.CheckInterval(f), workload.CheckRetention(f), workload.CheckEndpoints(f, c)); err != nil {
		return err
	}
	var names []string
	for _, g := range f.Spec.Geographies {
		names = append(names, g.Name)
	}
	if !slices.Contains(names, c.Spec.Geography) {
		return workload.Invalidf("spec.geography: %q is none of Federation %s, which has %s", c.Spec.Geography, f.Name, strings.Join(names, ", "))
	}
	return nil
}

// inUse are the servers of the edge that the cascade reads: those that are wanted, and those
// that stay until another one is well.
func inUse(f *v1alpha1.Federation, c *v1alpha1.Cell, holds workload.Holds) []workload.EdgeServer {
	all := workload.EdgeServers(f, c)
	for _, s := range all {
		second := workload.EdgeServer{Shard: s.Shard, Replica: "b"}
		if slices.Contains(holds.Servers(), second.Name()) && !slices.Contains(all, second) {
			all = append(all, second)
		}
	}
	return all
}

// endpoints are where the cascade reads the edge, and which server is where.
// What was known of a server before is kept while it has no pod, so that a dead
// edge stays a target that is down.
func endpoints(c *v1alpha1.Cell, servers []workload.EdgeServer, pods map[string][]string) ([]string, []v1alpha1.EdgeServer) {
	if len(c.Spec.Edge.Endpoints) > 0 {
		return slices.Sorted(slices.Values(c.Spec.Edge.Endpoints)), nil
	}
	var all []string
	var known []v1alpha1.EdgeServer
	for _, s := range servers {
		is := v1alpha1.EdgeServer{Shard: int32(s.Shard), Replica: s.Replica}
		at := pods[s.Name()]
		if len(at) == 0 {
			at = before(c, is)
		}
		if len(at) > 0 {
			is.Endpoint = at[0]
		}
		all, known = append(all, at...), append(known, is)
	}
	slices.Sort(all)
	return slices.Compact(all), known
}

// before is where a server was when it was last seen.
func before(c *v1alpha1.Cell, is v1alpha1.EdgeServer) []string {
	for _, s := range c.Status.EdgeServers {
		if s.Shard == is.Shard && s.Replica == is.Replica && s.Endpoint != "" {
			return []string{s.Endpoint}
		}
	}
	return nil
}

// readable finds out whether the cascade can read the edge where it is now. The
// Federation leaves out the same ones, by the same rule.
func readable(c *v1alpha1.Cell, f *v1alpha1.Federation, all []v1alpha1.Cell, turned *workload.Turned) error {
	now := c.DeepCopy()
	now.Status.EdgeEndpoints, _ = endpoints(c, inUse(f, c, turned.Holds), turned.Seen.Pods)
	others := slices.DeleteFunc(slices.Clone(all), func(other v1alpha1.Cell) bool { return other.Name == c.Name })
	if _, wrong := workload.Settle(f, workload.Feeding(f, append(others, *now))); wrong[c.Name] != nil {
		return workload.Invalid(wrong[c.Name])
	}
	return nil
}
