package federation

import (
	"fmt"
	"maps"
	"slices"
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
		Name: "central-" + replica, Component: v1alpha1.ComponentCentral, ServiceAccount: "central",
		Labels: map[string]string{v1alpha1.LabelReplica: replica},
		Image:  p.images.Prometheus, Port: workload.PrometheusPort,
	}
}

func (p parts) cascade(geography string) workload.Part {
	return workload.Part{
		Name: "cascade-" + geography, Component: v1alpha1.ComponentCascade, ServiceAccount: "cascade",
		Labels: map[string]string{v1alpha1.LabelGeography: geography, v1alpha1.LabelReplica: "a"},
		Image:  p.images.Prometheus, Port: workload.PrometheusPort,
	}
}

func (p parts) alertmanager() workload.Part {
	return workload.Part{
		Name: "alertmanager", Component: v1alpha1.ComponentAlertmanager, ServiceAccount: "alertmanager",
		Image: p.images.Alertmanager, Port: workload.AlertmanagerPort,
	}
}

func (p parts) notify() workload.Part {
	return workload.Part{
		Name: "notify", Component: v1alpha1.ComponentNotify, ServiceAccount: "notify",
		Image: p.images.Pharos, Port: workload.NotifyPort,
	}
}

func (p parts) remediator() workload.Part {
	return workload.Part{
		Name: "remediator", Component: v1alpha1.ComponentRemediator, ServiceAccount: "remediator",
		Image: p.images.Pharos, Port: workload.RemediatorPort,
	}
}

// place is where the parts of the Federation are.
func place(f *v1alpha1.Federation, namespace string) workload.Place {
	return workload.Place{
		Namespace: namespace,
		Labels:    map[string]string{LabelFederation: f.Name},
		Owner: metav1ac.OwnerReference().
			WithAPIVersion(v1alpha1.GroupVersion.String()).WithKind("Federation").
			WithName(f.Name).WithUID(f.UID).WithController(true),
	}
}

// services come first: a rendered configuration may need their addresses.
func services(p workload.Place, parts parts, robots bool) workload.Objects {
	objects := workload.Objects{p.Service(parts.alertmanager(), workload.Alertmanager)}
	for _, replica := range replicas() {
		objects = append(objects, p.Service(parts.central(replica), workload.Prometheus))
	}
	if robots {
		objects = append(objects, p.Service(parts.notify(), workload.Pharos))
	}
	return objects
}

// workloads are the objects of everything that runs, with its configuration.
func workloads(p workload.Place, parts parts, f *v1alpha1.Federation, r rendered, at addresses) workload.Objects {
	var objects workload.Objects
	retention := workload.Retention(f)
	for _, g := range f.Spec.Geographies {
		objects = append(objects, p.PrometheusServer(parts.cascade(g.Name), r.cascades[g.Name], retention)...)
	}
	for _, replica := range replicas() {
		objects = append(objects, p.PrometheusServer(parts.central(replica), r.centrals[replica], retention)...)
	}
	objects = append(objects, p.AlertmanagerServer(parts.alertmanager(), r.alertmanager)...)
	if r.notify != nil {
		objects = append(objects, p.Program(relay(parts, f, r))...)
	}
	return append(objects, p.Program(remediator(parts, at))...)
}

func relay(parts parts, f *v1alpha1.Federation, r rendered) workload.Program {
	secrets := map[string]string{}
	for _, robot := range f.Spec.Alerting.DingTalk {
		secrets[robot.Name] = robot.SecretName
	}
	return workload.Program{
		Part:       parts.notify(),
		Args:       []string{"--config=" + notifyFolder + "/" + notifyFile, "--spool=/var/lib/notify"},
		NoToken:    true,
		Files:      r.notify,
		ConfigPath: notifyFolder,
		Secrets:    secrets,
		SpoolPath:  "/var/lib/notify",
		SpoolSize:  workload.NotifyVolume,
	}
}

func remediator(parts parts, at addresses) workload.Program {
	args := []string{"--namespace=$(POD_NAMESPACE)"}
	for _, replica := range replicas() {
		args = append(args, "--central=central-"+replica+"=http://"+at.centrals[replica])
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
	return workload.CheckInterval(f)
}

// note tells of the cells that are left out, for the condition.
func note(wrong map[string]error) string {
	var notes []string
	for _, cell := range slices.Sorted(maps.Keys(wrong)) {
		notes = append(notes, fmt.Sprintf("Cell %q is not read: %s", cell, wrong[cell]))
	}
	return strings.Join(notes, "; ")
}
