package cell

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/lru"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// Rendered is what runs in a cell.
type Rendered struct {
	// Objects in the order of applying them.
	Objects workload.Objects
	// Files of each server of the edge, by the name of its workload.
	Files map[string]promcfg.Files
}

// Renderer is how cells are rendered.
type Renderer struct {
	Namespace string
	// Contract takes the place of the one that is built in, unless it is nil.
	Contract *rules.Contract
	// Memory spares making anew what cells have in common; nil remembers nothing.
	Memory *lru.Cache
}

// Render gives everything that the operator would run in a cell of a cluster
// that has DNS. It is pure, and what it gives is valid.
func (r Renderer) Render(c *v1alpha1.Cell, f *v1alpha1.Federation) (Rendered, error) {
	if err := check(c, f); err != nil {
		return Rendered{}, err
	}
	p, parts := place(c, r.Namespace), parts{workload.Images(f.Spec.Images)}
	edges, err := r.edges(c, f, p.DNSAddress(parts.agent()))
	if err != nil {
		return Rendered{}, err
	}
	out := Rendered{Objects: append(services(p, parts), workloads(p, parts, c, f, edges)...), Files: map[string]promcfg.Files{}}
	for s, rendered := range edges {
		out.Files[s.Name()] = rendered.files
	}
	return out, nil
}

// server is what one Prometheus of the edge runs with.
type server struct {
	files promcfg.Files
	// flags are those that follow from its link.
	flags []string
}

// edges is pure: the same Cell, Federation and address of the agent give the same bytes.
func (r Renderer) edges(c *v1alpha1.Cell, f *v1alpha1.Federation, agent string) (map[workload.EdgeServer]server, error) {
	out := map[workload.EdgeServer]server{}
	divided := workload.EdgeDivision(f, c)
	for _, s := range workload.EdgeServers(f, c) {
		o := edge.Options{
			Geography:       c.Spec.Geography,
			Region:          c.Spec.Region,
			Cell:            c.Name,
			Replica:         s.Replica,
			Shard:           s.Shard,
			Shards:          divided.Shards,
			ShardsBeside:    divided.Beside,
			Interval:        workload.Interval(f),
			APIServer:       promcfg.APIServer{URL: c.Spec.Network.APIServerURL, Namespace: r.Namespace},
			AgentURL:        "http://" + agent,
			Link:            workload.Link(f, v1alpha1.LinkRemoteWrite),
			Receivers:       receivers(f, c),
			ClustersPerCell: max(workload.Clusters(c), rules.DefaultClustersPerCell),
			Size:            c.Spec.Size,
			Capacity:        capacity(c),
			Targets:         c.Spec.Edge.StaticTargets,
			Skip:            c.Spec.Edge.Skip,
			ObjectState:     c.Spec.Edge.ObjectState,
			ObjectsFrom:     c.Spec.Edge.KubeStateMetricsNamespace,
			Unverified:      c.Spec.Edge.Unverified,
			Contract:        r.Contract,
			Memory:          r.Memory,
		}
		files, err := renderServer(c, o)
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", s.Name(), err)
		}
		out[s] = server{files, o.Flags()}
	}
	return out, nil
}

// receivers are the cascade shards that read the cell by the plan in the
// Federation's status: both, while it moves, and those of two geographies, each under
// its own name, while it goes from one to the other. Until there is a plan, nobody is
// written to. An External edge is read, whatever the others do.
func receivers(f *v1alpha1.Federation, c *v1alpha1.Cell) []promcfg.Receiver {
	if f.Spec.Link.Type != v1alpha1.LinkRemoteWrite || c.Spec.Edge.Mode == v1alpha1.EdgeExternal {
		return nil
	}
	var all []promcfg.Receiver
	for _, g := range f.Status.Geographies {
		for _, shard := range shards(g, c) {
			r := promcfg.Receiver{Name: workload.CascadeName(g.Name, int(shard)), URL: ReceiveURL(f.Spec.Link, g.Name, shard)}
			if g.Name != c.Spec.Geography {
				r.Relabel = []promcfg.Relabel{promcfg.SetLabel("geography", g.Name)}
			}
			all = append(all, r)
		}
	}
	return all
}

// shards are those that the plan of a geography has for a cell.
func shards(g v1alpha1.GeographyStatus, c *v1alpha1.Cell) []int32 {
	for _, p := range g.Cells {
		switch {
		case p.Name == c.Name && p.MovingTo != nil:
			return []int32{p.Shard, *p.MovingTo}
		case p.Name == c.Name:
			return []int32{p.Shard}
		}
	}
	return nil
}

// renderServer gives valid files of one server: all that a managed one has, or
// what somebody else's is to include.
func renderServer(c *v1alpha1.Cell, o edge.Options) (promcfg.Files, error) {
	if c.Spec.Edge.Mode == v1alpha1.EdgeExternal {
		return edge.RenderExternal(o)
	}
	files, err := edge.Render(o)
	if err != nil {
		return nil, err
	}
	if err := promcfg.Validate(files); err != nil {
		return nil, fmt.Errorf("checking what was rendered: %w", err)
	}
	return files, nil
}

// capacity is what the cell says that it has, by pool.
func capacity(c *v1alpha1.Cell) map[string]float64 {
	out := map[string]float64{}
	for _, pool := range c.Spec.Capacity.Pools {
		out[string(pool.Name)] = pool.Limit.AsApproximateFloat64()
	}
	return out
}

// edgeSize is what each server of the cell's edge is given.
func edgeSize(c *v1alpha1.Cell) workload.Size {
	s := edge.SizingOf(c.Spec.Size)
	return workload.Size{
		CPU: resource.MustParse(s.CPU), Memory: resource.MustParse(s.Memory), MemoryLimit: resource.MustParse(s.MemoryLimit),
		Volume: resource.MustParse(s.Volume),
	}.Override(c.Spec.Edge.Resources)
}

// Volumes are those that the servers of a cell's edge ask for.
func Volumes(c *v1alpha1.Cell, f *v1alpha1.Federation) workload.Volumes {
	out := workload.Volumes{}
	if c.Spec.Edge.Mode == v1alpha1.EdgeExternal {
		return out
	}
	for _, s := range workload.EdgeServers(f, c) {
		out[s.Name()] = edgeSize(c).Volume
	}
	return out
}
