package cell

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// Rendered is what runs in a cell.
type Rendered struct {
	// Objects in the order of applying them.
	Objects workload.Objects
	// Files of each server of the edge, by the name of its workload.
	Files map[string]promcfg.Files
}

// Render gives everything that the operator would run in a cell of a cluster
// that has DNS. It is pure, and what it gives is valid.
func Render(c *v1alpha1.Cell, f *v1alpha1.Federation, namespace string) (Rendered, error) {
	if err := check(c, f); err != nil {
		return Rendered{}, err
	}
	p, parts := place(c, namespace), parts{workload.Images(f.Spec.Images)}
	edges, err := render(c, f, namespace, p.DNSAddress(parts.agent()))
	if err != nil {
		return Rendered{}, err
	}
	r := Rendered{Objects: append(services(p, parts), workloads(p, parts, c, f, edges)...), Files: map[string]promcfg.Files{}}
	for s, files := range edges {
		r.Files[s.Name()] = files
	}
	return r, nil
}

// render is pure: the same Cell, Federation and address give the same bytes.
func render(c *v1alpha1.Cell, f *v1alpha1.Federation, namespace, agent string) (map[workload.EdgeServer]promcfg.Files, error) {
	out := map[workload.EdgeServer]promcfg.Files{}
	for _, s := range workload.EdgeServers(f, c) {
		files, err := renderServer(c, edge.Options{
			Geography:  c.Spec.Geography,
			Region:     c.Spec.Region,
			Cell:       c.Name,
			Replica:    s.Replica,
			Shard:      s.Shard,
			Shards:     workload.EdgeShards(c),
			Interval:   workload.Interval(f),
			APIServer:  promcfg.APIServer{URL: c.Spec.Network.APIServerURL, Namespace: namespace},
			AgentURL:   "http://" + agent,
			Size:       c.Spec.Size,
			Targets:    c.Spec.Edge.StaticTargets,
			Skip:       c.Spec.Edge.Skip,
			Unverified: c.Spec.Edge.Unverified,
		})
		if err != nil {
			return nil, fmt.Errorf("rendering %s: %w", s.Name(), err)
		}
		out[s] = files
	}
	return out, nil
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

// edgeSize is what each server of the cell's edge is given.
func edgeSize(c *v1alpha1.Cell) workload.Size {
	s := edge.SizingOf(c.Spec.Size)
	return workload.Size{
		Volume: s.Volume, Blocks: s.DiskLimit,
		Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(s.CPU), corev1.ResourceMemory: resource.MustParse(s.Memory),
		},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(s.MemoryLimit)},
	}
}
