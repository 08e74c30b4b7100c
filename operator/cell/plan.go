package cell

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// edgeReplica is the one server of an edge.
const edgeReplica = "a"

// edgeName is the edge's workload, and the ConfigMap that every cell has.
const edgeName = "edge"

type parts struct{ images v1alpha1.Images }

func (p parts) edge() workload.Part {
	return workload.Part{
		Name: edgeName, Component: v1alpha1.ComponentEdge, ServiceAccount: "edge",
		Labels: map[string]string{v1alpha1.LabelReplica: edgeReplica},
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
func workloads(p workload.Place, parts parts, c *v1alpha1.Cell, f *v1alpha1.Federation, files promcfg.Files) workload.Objects {
	var objects workload.Objects
	if c.Spec.Edge.Mode == v1alpha1.EdgeExternal {
		objects = append(objects, p.ConfigMap(parts.edge(), workload.Prometheus, files))
	} else {
		objects = append(objects, p.PrometheusServer(parts.edge(), files, workload.Retention(f))...)
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

// render is pure: the same Cell, Federation and address give the same bytes.
func render(c *v1alpha1.Cell, f *v1alpha1.Federation, namespace, agent string) (promcfg.Files, error) {
	files, err := edge.Render(edge.Options{
		Geography: c.Spec.Geography,
		Region:    c.Spec.Region,
		Cell:      c.Name,
		Replica:   edgeReplica,
		Interval:  workload.Interval(f),
		APIServer: promcfg.APIServer{URL: c.Spec.Network.APIServerURL, Namespace: namespace},
		AgentURL:  "http://" + agent,
	})
	if err != nil {
		return nil, fmt.Errorf("rendering edge: %w", err)
	}
	if err := promcfg.Validate(files); err != nil {
		return nil, fmt.Errorf("checking the rendered edge: %w", err)
	}
	return files, nil
}

// check finds what can be wrong with a Cell before anything is rendered.
func check(c *v1alpha1.Cell, f *v1alpha1.Federation) error {
	if err := workload.CheckName(c); err != nil {
		return err
	}
	if f == nil {
		return &workload.Problem{Reason: v1alpha1.ReasonProgressing, Err: errors.New("waiting for a Federation in the hub")}
	}
	if err := workload.CheckInterval(f); err != nil {
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

// endpoints are where the cascade reads the edge. Those known before are kept
// while the edge has no pod, so that a dead edge stays a target that is down.
func endpoints(c *v1alpha1.Cell, pods []string) []string {
	switch {
	case len(c.Spec.Edge.Endpoints) > 0:
		return slices.Sorted(slices.Values(c.Spec.Edge.Endpoints))
	case len(pods) > 0:
		return pods
	}
	return c.Status.EdgeEndpoints
}

// readable finds out whether the cascade can read the edge where it is now. The
// Federation leaves out the same ones, by the same rule.
func readable(c *v1alpha1.Cell, f *v1alpha1.Federation, all []v1alpha1.Cell, seen *workload.Observation) error {
	now := c.DeepCopy()
	now.Status.EdgeEndpoints = endpoints(c, seen.Pods[edgeName])
	others := slices.DeleteFunc(slices.Clone(all), func(other v1alpha1.Cell) bool { return other.Name == c.Name })
	if _, wrong := workload.Settle(workload.Feeding(f, append(others, *now))); wrong[c.Name] != nil {
		return workload.Invalid(wrong[c.Name])
	}
	return nil
}
