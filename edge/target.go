package edge

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// kind is whose server a target is.
type kind bool

const (
	meta     kind = false
	business kind = true
)

// named are the groups of a component's targets that the cell names, of the
// meta cluster or of business clusters.
func (o Options) named(component string, of kind) []promcfg.StaticGroup {
	var out []promcfg.StaticGroup
	for _, t := range o.Targets {
		if string(t.Component) != component || (t.Cluster != "") != bool(of) {
			continue
		}
		group := promcfg.StaticGroup{Targets: t.Addresses, Labels: map[string]string{"cluster": t.Cluster}}
		if of == meta {
			group.Labels["cluster"] = MetaCluster
		}
		if scheme := schemeOf(t); scheme != usualScheme(component) || of == business {
			group.Labels["__scheme__"] = scheme
		}
		if !onNodes(component) {
			out = append(out, group)
			continue
		}
		for _, address := range t.Addresses {
			out = append(out, ofNode(group, address))
		}
	}
	return out
}

// ofNode names the node after the host of the address, for want of better.
func ofNode(group promcfg.StaticGroup, address string) promcfg.StaticGroup {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address // check has accepted the address, so that this is never reached
	}
	labels := map[string]string{"node": host}
	maps.Copy(labels, group.Labels)
	return promcfg.StaticGroup{Targets: []string{address}, Labels: labels}
}

// nameable are the components of which a cell can name servers.
func nameable() []string {
	return []string{
		componentAPIServer, componentEtcd, componentControllers, componentScheduler,
		componentKubelet, componentCadvisor, componentNodeExporter, componentKubeStateMetrics,
	}
}

func onNodes(component string) bool {
	return slices.Contains([]string{componentKubelet, componentCadvisor, componentNodeExporter}, component)
}

// usualScheme is that of a component where nothing else is said.
func usualScheme(component string) string {
	if slices.Contains([]string{componentEtcd, componentNodeExporter, componentKubeStateMetrics}, component) {
		return "http"
	}
	return "https"
}

func schemeOf(t v1alpha1.StaticTarget) string {
	switch t.Scheme {
	case v1alpha1.SchemeHTTP:
		return "http"
	case v1alpha1.SchemeHTTPS:
		return "https"
	}
	return usualScheme(string(t.Component))
}

// secret tells whether a component answers only to who shows a token.
func secret(component string) bool { return usualScheme(component) == "https" }

// checkTarget refuses a target that would break the configuration, that could
// never answer, or that would get the edge's token in the clear.
func checkTarget(what string, t v1alpha1.StaticTarget) error {
	errs := []error{checkAsked(what, t)}
	if t.Cluster != "" {
		errs = append(errs, checkClusterName(what, t.Cluster))
	}
	if len(t.Addresses) == 0 {
		errs = append(errs, fmt.Errorf("%s: has no addresses", what))
	}
	for _, address := range t.Addresses {
		errs = append(errs, promcfg.CheckAddress(what, address))
	}
	return errors.Join(errs...)
}

// checkSkipped refuses a target of a component that is not scraped: nobody would
// miss it.
func (o Options) checkSkipped(what string, t v1alpha1.StaticTarget) error {
	if !slices.Contains(o.Skip, t.Component) {
		return nil
	}
	return fmt.Errorf("%s: %s is among the components to skip, so that nothing of %v would be scraped; take the target out, or the component out of skip",
		what, t.Component, t.Addresses)
}

// checkShared refuses a server that is named twice: what it tells would be counted
// for each of the clusters that it is said to be of. owners has, by component and
// address, which target named it.
func (o Options) checkShared(what string, i int, owners map[string]int) error {
	var errs []error
	for _, address := range o.Targets[i].Addresses {
		id := string(o.Targets[i].Component) + " " + promcfg.Endpoint(address)
		if first, taken := owners[id]; taken {
			errs = append(errs, fmt.Errorf("%s: %s at %s is named already, of %s by target %d; a server is of one cluster, and is counted for each that names it",
				what, o.Targets[i].Component, address, ofWhom(o.Targets[first]), first))
			continue
		}
		owners[id] = i
	}
	return errors.Join(errs...)
}

func ofWhom(t v1alpha1.StaticTarget) string {
	if t.Cluster == "" {
		return "the meta cluster"
	}
	return fmt.Sprintf("cluster %q", t.Cluster)
}

// checkAsked refuses a target for what it is and how it would be asked.
func checkAsked(what string, t v1alpha1.StaticTarget) error {
	component := string(t.Component)
	switch {
	case !slices.Contains(nameable(), component):
		return fmt.Errorf("%s: component %q: is none that an edge knows how to read", what, component)
	case !slices.Contains([]v1alpha1.TargetScheme{"", v1alpha1.SchemeHTTP, v1alpha1.SchemeHTTPS}, t.Scheme):
		return fmt.Errorf("%s: scheme %q: must be %s or %s", what, t.Scheme, v1alpha1.SchemeHTTP, v1alpha1.SchemeHTTPS)
	case t.Cluster == "" && secret(component) && schemeOf(t) == "http":
		return fmt.Errorf("%s: scheme %s: would send the edge's token in the clear to %s of the meta cluster; use %s",
			what, v1alpha1.SchemeHTTP, component, v1alpha1.SchemeHTTPS)
	case t.Cluster != "" && asksForCredentials(component, schemeOf(t)):
		return fmt.Errorf("%s: %s of business cluster %q: asks for a credential that an edge must not have; the edge agent reads it by the observer's, so name no target for it",
			what, component, t.Cluster)
	}
	return nil
}

// asksForCredentials tells whether a server of a business cluster answers only to
// who has an account there.
func asksForCredentials(component, scheme string) bool {
	ofNode := component == componentKubelet || component == componentCadvisor
	return component == componentAPIServer || ofNode && scheme == "https"
}

func checkClusterName(what, name string) error {
	if name == MetaCluster {
		return fmt.Errorf("%s: no business cluster can be called %s, which means the cell itself; leave the cluster out", what, MetaCluster)
	}
	return promcfg.CheckLabelValue(what+": name of a business cluster", name)
}

// hostPort is the address of a URL that check has accepted.
func hostPort(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	if u.Port() != "" {
		return u.Host
	}
	return net.JoinHostPort(u.Hostname(), "443")
}
