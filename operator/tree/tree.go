// Package tree renders everything that the operator would run in the hub and in
// every cell as files, for a team that deploys from a repository. The same
// functions make the objects and configurations as in the operator; this package
// reads the fleet from files, lays out what comes of it, writes it where nothing is
// in its way, and compares it with what is there. It speaks to no cluster.
package tree

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/lru"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/edge"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/cell"
	"github.com/pharos-fleet/pharos/operator/federation"
	"github.com/pharos-fleet/pharos/operator/ownrules"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// Tree is a fleet that is ready to be rendered: everything that concerns more
// than one cell has been checked.
type Tree struct {
	fleet     Fleet
	namespace string
	layouts   federation.Layouts
	// own are the files of the team's own, and contract what they come to; nil is the
	// contract that is built in.
	own      []string
	contract *rules.Contract
	// vouched is the step that a person vouched for last.
	vouched string
	cells   []v1alpha1.Cell
	// volumes of the servers, by the folder that they are rendered into.
	volumes map[string]workload.Volumes
	// objects and edges remember what cells have in common.
	objects templates
	edges   *lru.Cache
	// Warnings are for a person; they stop nothing.
	Warnings []string
}

// New is a tree that goes on from no other one.
func New(fleet Fleet, namespace string) (*Tree, error) {
	return Continue(fleet, Options{Namespace: namespace})
}

// Options are what a render goes on from, beside the fleet.
type Options struct {
	// Namespace of the parts, in the hub and in the cells.
	Namespace string
	// Before is the plan of the last render; cells stay where it has them, and with
	// none, where the status of the Federation has them.
	Before Plan
	// Vouched is the ID of the step that a person vouches for, with which the last
	// render warned of what is under way. With none, nothing goes a step further.
	Vouched string
	// Own are the rules and the contract of the team's own.
	Own ownrules.Set
}

// Continue checks the fleet as a whole: each cell is there once, has a geography
// of the Federation, and an address of its own. It says where the trouble is.
func Continue(fleet Fleet, o Options) (*Tree, error) {
	f := &fleet.Federation
	if len(o.Before.Geographies) > 0 {
		f.Status.Geographies = o.Before.Geographies
	}
	contract, err := o.Own.Check(f)
	if err != nil {
		err = fmt.Errorf("checking the rules and the contract that were given: nothing is rendered before these fit\n%w", err)
	}
	if err := errors.Join(addressing(fleet), unique(fleet), placed(fleet), err); err != nil {
		return nil, err
	}
	t := &Tree{
		fleet: fleet, namespace: o.Namespace, own: o.Own.Names(), contract: contract, vouched: o.Before.Vouched,
		objects: newTemplates(), edges: edge.NewMemory(),
	}
	take, err := t.vouch(o.Vouched)
	if err != nil {
		return nil, err
	}
	var all []v1alpha1.Cell
	for _, c := range fleet.Cells {
		if len(c.Spec.Edge.Endpoints) > 0 {
			c.Status.EdgeEndpoints = slices.Sorted(slices.Values(c.Spec.Edge.Endpoints))
		}
		all = append(all, c.Cell)
	}
	var wrong map[string]error
	t.cells, wrong = workload.Settle(f, workload.Feeding(f, all))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		errs = append(errs, fmt.Errorf("%s: Cell %q: %w", fleet.at(name), name, wrong[name]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if err := t.place(take); err != nil {
		return nil, err
	}
	short, err := t.keepVolumes(o.Before.Volumes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", fleet.At, err)
	}
	t.Warnings = slices.Concat(t.Warnings, t.warnings(), short)
	return t, nil
}

// addressing refuses what only a cluster could answer.
func addressing(fleet Fleet) error {
	const advice = "spec.network.serviceAddressing: cluster IPs are not known before the Services exist; render for clusters with DNS (DNSName), or let the operator run it"
	var errs []error
	if fleet.Federation.Spec.Network.ServiceAddressing == v1alpha1.ServiceClusterIP {
		errs = append(errs, fmt.Errorf("%s: %s", fleet.At, advice))
	}
	for _, c := range fleet.Cells {
		if c.Spec.Network.ServiceAddressing == v1alpha1.ServiceClusterIP {
			errs = append(errs, fmt.Errorf("%s: %s", c.At, advice))
		}
	}
	return errors.Join(errs...)
}

func unique(fleet Fleet) error {
	var errs []error
	first := map[string]Place{}
	for _, c := range fleet.Cells {
		if at, twice := first[c.Name]; twice {
			errs = append(errs, fmt.Errorf("%s: Cell %q is in %s already", c.At, c.Name, at))
			continue
		}
		first[c.Name] = c.At
	}
	return errors.Join(errs...)
}

func placed(fleet Fleet) error {
	var names []string
	for _, g := range fleet.Federation.Spec.Geographies {
		names = append(names, g.Name)
	}
	var errs []error
	for _, c := range fleet.Cells {
		if !slices.Contains(names, c.Spec.Geography) {
			errs = append(errs, fmt.Errorf("%s: Cell %q: spec.geography: %q is none of Federation %q (%s), which has %q",
				c.At, c.Name, c.Spec.Geography, fleet.Federation.Name, fleet.At, names))
		}
	}
	return errors.Join(errs...)
}

// plan is what the next render goes on from.
func (t *Tree) plan() Plan {
	return Plan{Geographies: t.fleet.Federation.Status.Geographies, Vouched: t.vouched, Volumes: t.volumes, Own: t.own}
}

// header is the first line of every object's file.
const header = "# Rendered by Pharos. Edits are refused by the next render.\n"

// Folders of the tree.
const hubFolder = "hub"

func cellFolder(name string) string { return path.Join("cells", name) }

func (t *Tree) warnings() []string {
	var out []string
	if len(t.cells) == 0 {
		out = append(out, fmt.Sprintf("Federation %q has no cell: what is rendered sees nothing", t.fleet.Federation.Name))
	}
	for _, way := range federation.Unheard(&t.fleet.Federation) {
		out = append(out, fmt.Sprintf("%s: Federation %q has %s", t.fleet.At, t.fleet.Federation.Name, way))
	}
	for _, c := range t.cells {
		if len(c.Status.EdgeEndpoints) == 0 && t.fleet.Federation.Spec.Link.Type != v1alpha1.LinkRemoteWrite {
			out = append(out, fmt.Sprintf("%s: Cell %q has no spec.edge.endpoints: it is expected, and no cascade reads it", t.fleet.at(c.Name), c.Name))
		}
	}
	for _, g := range t.fleet.Federation.Spec.Geographies {
		for _, w := range t.layouts[g.Name].Warnings {
			out = append(out, "geography "+g.Name+": "+w)
		}
	}
	return append(out, t.moves()...)
}

// File is one rendered file; its path is relative and has forward slashes.
type File struct {
	Path    string
	Content []byte
}

// Each gives every rendered file: the plan, the hub, then the cells by name. A few
// cells are rendered at once, so that a fleet of any size needs the memory of a
// few.
func (t *Tree) Each(yield func(File) error) error {
	hub, err := federation.Render(&t.fleet.Federation, t.cells, t.layouts, t.namespace, t.contract)
	if err != nil {
		return fmt.Errorf("%s: %w", t.fleet.At, err)
	}
	t.volumes[hubFolder].Keep(hub.Objects)
	files, err := t.lay(hubFolder, "", hub.Objects, hub.Files)
	if err != nil {
		return err
	}
	plan, err := t.plan().file()
	if err != nil {
		return err
	}
	cells, err := t.descriptions()
	if err != nil {
		return err
	}
	if err := each(slices.Concat([]File{plan}, files, cells), yield); err != nil {
		return err
	}
	workers := runtime.GOMAXPROCS(0)
	for some := range slices.Chunk(t.cells, 4*workers) {
		rendered := make([][]File, len(some))
		var group errgroup.Group
		group.SetLimit(workers)
		for i := range some {
			group.Go(func() (err error) {
				rendered[i], err = t.cell(&some[i])
				return err
			})
		}
		if err := group.Wait(); err != nil {
			return err
		}
		for _, files := range rendered {
			if err := each(files, yield); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *Tree) cell(c *v1alpha1.Cell) ([]File, error) {
	r := cell.Renderer{Namespace: t.namespace, Contract: t.contract, Memory: t.edges}
	rendered, err := r.Render(c, &t.fleet.Federation)
	if err != nil {
		return nil, fmt.Errorf("%s: Cell %q: %w", t.fleet.at(c.Name), c.Name, err)
	}
	t.volumes[cellFolder(c.Name)].Keep(rendered.Objects)
	return t.lay(cellFolder(c.Name), c.Name, rendered.Objects, rendered.Files)
}

func each(files []File, yield func(File) error) error {
	for _, f := range files {
		if err := yield(f); err != nil {
			return err
		}
	}
	return nil
}

// Servers counts the cascade servers and the cells.
func (t *Tree) Servers() (cascades, cells int) {
	for _, l := range t.layouts {
		cascades += len(l.Shards)
	}
	return cascades, len(t.cells)
}

// manifests is the folder of the objects of a place.
const manifests = "manifests"

// lay puts the objects of a place, those of one name in one file, into a folder
// of their own, and the files of its servers into another: what reads a folder
// of objects must not find anything else in it.
func (t *Tree) lay(dir, cell string, objects workload.Objects, servers map[string]promcfg.Files) ([]File, error) {
	documents := map[string][]byte{}
	for _, o := range objects {
		name := workload.Name(o)
		raw, err := t.objects.encode(o, cell)
		if err != nil {
			return nil, fmt.Errorf("%s: encoding %s: %w", dir, workload.Identity(o), err)
		}
		if len(documents[name]) > 0 {
			raw = append([]byte("---\n"), raw...)
		} else {
			raw = append([]byte(header), raw...)
		}
		documents[name] = append(documents[name], raw...)
	}
	var files []File
	for _, name := range slices.Sorted(maps.Keys(documents)) {
		files = append(files, File{path.Join(dir, manifests, name+".yaml"), documents[name]})
	}
	for _, server := range slices.Sorted(maps.Keys(servers)) {
		for _, name := range slices.Sorted(maps.Keys(servers[server])) {
			files = append(files, File{path.Join(dir, "files", server, name), servers[server][name]})
		}
	}
	return files, nil
}
