package federation

import (
	"fmt"
	"slices"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/cascade"
	"github.com/pharos-fleet/pharos/central"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// Addresses are where the Services of the hub are reached, host:port.
type Addresses struct {
	Centrals map[string]string
	// Notify is empty when there is no robot to relay to.
	Notify string
}

// rendered is the configuration of every part of the hub, each of it valid.
type rendered struct {
	cascades map[shard]server
	centrals map[string]server
	// mark is how the files of both centrals are marked.
	mark marked
	// alertmanager is nil when Pharos runs none.
	alertmanager promcfg.Files
	// notify is nil when there is no robot to relay to.
	notify promcfg.Files
	sizes  sizes
}

// server is what a Prometheus runs with.
type server struct {
	files promcfg.Files
	// flags are those that follow from its links.
	flags []string
}

// shard is one cascade server.
type shard struct {
	geography string
	number    int
}

// hub is everything that the hub's configuration follows from.
type hub struct {
	f         *v1alpha1.Federation
	cells     []v1alpha1.Cell
	layouts   Layouts
	namespace string
	at        Addresses
	// given is what the centrals were given before.
	given map[string]given
	// reads has centrals that are written to read cascades all the same.
	reads bool
	// contract is the team's own; nil is the one that is built in.
	contract *rules.Contract
}

// shards are the cascade servers, in the order of the geographies.
func (h hub) shards() []shard {
	var all []shard
	for _, g := range h.layouts.geographies(h.f) {
		for _, n := range h.layouts[g].Shards {
			all = append(all, shard{g, n})
		}
	}
	return all
}

// render is pure: the same Federation, cells, plans and addresses give the same
// bytes. Either everything is valid or nothing is rendered.
func (h hub) render() (rendered, error) {
	r := rendered{cascades: map[shard]server{}}
	var err error
	for _, s := range h.shards() {
		if r.cascades[s], err = h.renderCascade(s); err != nil {
			return rendered{}, err
		}
	}
	if r.centrals, r.mark, err = h.renderCentrals(); err != nil {
		return rendered{}, err
	}
	if alertmanagers(h.f) > 0 {
		if r.alertmanager, err = renderAlertmanager(h.f, h.at); err != nil {
			return rendered{}, err
		}
	}
	if r.notify, err = renderNotify(h.f.Spec.Alerting.DingTalk); err != nil {
		return rendered{}, err
	}
	r.sizes, err = h.sizes()
	return r, err
}

func (h hub) api() promcfg.APIServer {
	return promcfg.APIServer{URL: h.f.Spec.Network.APIServerURL, Namespace: h.namespace}
}

// link is how cascades feed centrals.
func (h hub) link() promcfg.Link { return promcfg.Link{Kind: promcfg.LinkKind(h.f.Spec.Link.Type)} }

func (h hub) renderCascade(s shard) (server, error) {
	o := cascade.Options{
		Geography: s.geography, Replica: "a", Shard: s.number, Interval: workload.Interval(h.f), APIServer: h.api(),
		Link: workload.Link(h.f, v1alpha1.LinkFederate), Receivers: h.receivers(), MaxSeries: maxSeries(h.f, s.geography),
		Contract: h.contract,
	}
	read := h.layouts[s.geography].ReadBy(s.number)
	for _, c := range h.cells {
		if _, found := slices.BinarySearch(read, c.Name); found {
			o.Cells = append(o.Cells, cascade.Cell{
				Name: c.Name, Region: c.Spec.Region, Shards: workload.EdgeDivision(h.f, &c).Shards, Endpoints: c.Status.EdgeEndpoints,
				External: c.Spec.Edge.Mode == v1alpha1.EdgeExternal, Interval: workload.EdgeInterval(&c),
			})
			o.ClustersPerCell = max(o.ClustersPerCell, workload.Clusters(&c), rules.DefaultClustersPerCell)
		}
	}
	files, err := cascade.Render(o)
	return valid(server{files, o.Flags()}, err, cascadeName(s))
}

// renderCentrals marks the files of both centrals alike: they differ in nothing but
// their names, and so can be compared.
func (h hub) renderCentrals() (map[string]server, marked, error) {
	centrals, as := map[string]server{}, marked{}
	for _, replica := range replicas() {
		s, err := h.renderCentral(replica)
		if err != nil {
			return nil, marked{}, err
		}
		if as.digest == "" {
			as = next(workload.Hash(s.files), h.marks())
		}
		if err := mark(s.files, as); err != nil {
			return nil, marked{}, fmt.Errorf("rendering %s%s: %w", centralPrefix, replica, err)
		}
		centrals[replica] = s
	}
	return centrals, as, nil
}

// marks are how the files are marked that the centrals were given before.
func (h hub) marks() map[string]marked {
	all := map[string]marked{}
	for name, g := range h.given {
		all[name] = g.mark
	}
	return all
}

func (h hub) renderCentral(replica string) (server, error) {
	o := central.Options{
		Replica: replica, Replicas: replicas(), Interval: workload.Interval(h.f), APIServer: h.api(), Link: h.link(), Reads: h.reads,
		CascadeShards: map[string][]int{}, Alertmanagers: uint(alertmanagers(h.f)), Existing: existing(h.f), Robots: robots(h.f), LongTerm: stores(h.f), Contract: h.contract,
	}
	for _, g := range h.layouts.counted(h.f) {
		o.Geographies = append(o.Geographies, g)
		o.CascadeShards[g] = expected(h.layouts[g])
	}
	homes := h.layouts.homes()
	for _, c := range h.cells {
		o.Cells = append(o.Cells, central.Cell{
			Name: c.Name, Region: c.Spec.Region, Geography: homes[c.Name], Shards: workload.EdgeDivision(h.f, &c).Shards, Replicas: workload.EdgeReplicas(h.f, &c),
		})
		o.ClustersPerCell = max(o.ClustersPerCell, workload.Clusters(&c), rules.DefaultClustersPerCell)
	}
	files, err := central.Render(o)
	return valid(server{files, o.Flags()}, err, centralPrefix+replica)
}

// stores are where the centrals write for longer than they keep.
func stores(f *v1alpha1.Federation) []central.LongTerm {
	var all []central.LongTerm
	for _, s := range f.Spec.LongTerm {
		store := central.LongTerm{Name: s.Name, URL: s.URL}
		if s.BearerTokenSecret != "" {
			store.Credentials.BearerFile = workload.SecretFile(s.Name, "token")
		}
		all = append(all, store)
	}
	return all
}

func valid(s server, err error, name string) (server, error) {
	if err != nil {
		return server{}, fmt.Errorf("rendering %s: %w", name, err)
	}
	if err := promcfg.Validate(s.files); err != nil {
		return server{}, fmt.Errorf("checking the rendered %s: %w", name, err)
	}
	return s, workload.CheckFiles(name, s.files)
}
