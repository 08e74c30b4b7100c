package federation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/operator/workload"
)

// LabelFederation names the Federation that an object belongs to.
const LabelFederation = "pharos.dev/federation"

// replicas are the names of the centrals.
func replicas() []string { return []string{"a", "b"} }

// parts are the workloads of the hub, by what their images and accounts are.
type parts struct{ images v1alpha1.Images }

func (p parts) central(replica string) workload.Part {
	return workload.Part{
		Name: centralPrefix + replica, Component: v1alpha1.ComponentCentral, ServiceAccount: "central",
		Labels: map[string]string{v1alpha1.LabelReplica: replica},
		Image:  p.images.Prometheus, Port: workload.PrometheusPort,
	}
}

func (p parts) cascade(s shard) workload.Part {
	return workload.Part{
		Name: cascadeName(s), Component: v1alpha1.ComponentCascade, ServiceAccount: "cascade",
		Labels: map[string]string{
			v1alpha1.LabelGeography: s.geography, v1alpha1.LabelShard: strconv.Itoa(s.number), v1alpha1.LabelReplica: "a",
		},
		Image: p.images.Prometheus, Port: workload.PrometheusPort,
	}
}

// centralPrefix and the replica make the name of a central.
const centralPrefix = "central-"

func cascadeName(s shard) string { return workload.CascadeName(s.geography, s.number) }

func (p parts) remediator() workload.Part {
	return workload.Part{
		Name: "remediator", Component: v1alpha1.ComponentRemediator, ServiceAccount: "remediator",
		Image: p.images.Pharos, Port: workload.RemediatorPort,
	}
}

// place is where the parts of the Federation are. A Federation that is in no
// cluster owns nothing.
func place(f *v1alpha1.Federation, namespace string) workload.Place {
	p := workload.Place{Namespace: namespace, Labels: map[string]string{LabelFederation: f.Name}}
	if f.UID != "" {
		p.Owner = metav1ac.OwnerReference().
			WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("Federation").
			WithName(f.Name).WithUID(f.UID).WithController(true)
	}
	return p
}

// services come first: a rendered configuration may need their addresses.
func (h hub) services() workload.Objects {
	p, parts := place(h.f, h.namespace), partsOf(h.f)
	objects := h.alertingServices()
	for _, replica := range replicas() {
		objects = append(objects, p.Service(parts.central(replica), workload.Prometheus))
	}
	if pushes(h.f) { // pulled, a cascade is found by its pods
		for _, s := range h.shards() {
			objects = append(objects, p.Service(parts.cascade(s), workload.Prometheus))
		}
	}
	return objects
}

func partsOf(f *v1alpha1.Federation) parts { return parts{workload.Images(f.Spec.Images)} }

// pushes tells whether each tier writes to the next.
func pushes(f *v1alpha1.Federation) bool { return f.Spec.Link.Type == v1alpha1.LinkRemoteWrite }

// workloads are the objects of everything that runs, with its configuration.
func (h hub) workloads(r rendered) workload.Objects {
	p, parts := place(h.f, h.namespace), partsOf(h.f)
	var objects workload.Objects
	retention := workload.Retention(h.f)
	for _, s := range h.shards() {
		objects = append(objects, p.PrometheusServer(workload.Server{
			Part: parts.cascade(s), Files: r.cascades[s].files, Flags: r.cascades[s].flags, Retention: retention, Size: r.sizes.cascades[s],
			Secrets: workload.CascadeSecrets(h.f), StartsWithoutSecrets: pushes(h.f),
		})...)
	}
	for _, replica := range replicas() {
		objects = append(objects, p.PrometheusServer(workload.Server{
			Part: parts.central(replica), Files: r.centrals[replica].files, Flags: r.centrals[replica].flags, Retention: retention, Size: r.sizes.central,
			// What is sent to one store or one Alertmanager of others must not keep a central
			// from watching; tokens are read for each call.
			Secrets: centralSecrets(h.f), StartsWithoutSecrets: true,
		})...)
	}
	objects = append(objects, p.PairBudget(parts.central(replicas()[0]), workload.Prometheus)...)
	objects = append(objects, h.alerting(r)...)
	return append(objects, p.Program(remediator(parts, h.f, h.at))...)
}

// centralSecrets are the Secrets with the tokens of the long-term stores, and of
// Alertmanagers of others.
func centralSecrets(f *v1alpha1.Federation) map[string]string {
	secrets := map[string]string{}
	for _, s := range f.Spec.LongTerm {
		if s.BearerTokenSecret != "" {
			secrets[s.Name] = s.BearerTokenSecret
		}
	}
	for _, a := range f.Spec.Alerting.Alertmanagers {
		if a.BearerTokenSecret != "" {
			secrets[existingPrefix+a.Name] = a.BearerTokenSecret
		}
	}
	return secrets
}

// remediator asks the Alertmanagers of others for hints, but for those that want a token:
// that is for the centrals alone.
func remediator(parts parts, f *v1alpha1.Federation, at Addresses) workload.Program {
	args := []string{"--namespace=$(POD_NAMESPACE)"}
	for _, replica := range replicas() {
		args = append(args, "--central=central-"+replica+"=http://"+at.Centrals[replica])
	}
	for _, a := range f.Spec.Alerting.Alertmanagers {
		if a.BearerTokenSecret == "" {
			args = append(args, "--alertmanager="+a.Name+"="+a.URL)
		}
	}
	return workload.Program{Part: parts.remediator(), Args: args}
}

func check(f, chief *v1alpha1.Federation) error {
	if chief.UID != f.UID {
		return workload.Invalidf("metadata.name: Federation %q is in charge already; a hub has one", chief.Name)
	}
	if err := workload.CheckName(f); err != nil {
		return err
	}
	if err := workload.CheckRetention(f); err != nil {
		return err
	}
	if err := checkAlerting(f); err != nil {
		return err
	}
	return workload.CheckInterval(f)
}

// note tells of the cells that are left out, and of what a plan warns of, for the
// condition.
func note(wrong map[string]error, warnings []string) string {
	var notes []string
	for _, cell := range slices.Sorted(maps.Keys(wrong)) {
		notes = append(notes, fmt.Sprintf("Cell %q is not read: %s", cell, wrong[cell]))
	}
	return strings.Join(append(notes, warnings...), "; ")
}
