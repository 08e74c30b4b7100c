package federation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
)

// given is what a central runs with by the objects that there are.
type given struct {
	// mark is how its files are marked, nothing where there are none.
	mark marked
	// is says that it is there, takes that it can be written to, and reads that it
	// reads cascades.
	is, takes, reads bool
}

// given is what each central was given last.
func (r *Reconciler) given(ctx context.Context) (map[string]given, error) {
	out := map[string]given{}
	for _, replica := range replicas() {
		var files corev1.ConfigMap
		var set appsv1.StatefulSet
		name := client.ObjectKey{Namespace: r.Namespace, Name: centralPrefix + replica}
		if err := r.Live.Get(ctx, name, &files); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading what %s was given: %w", name.Name, err)
		}
		if err := r.Live.Get(ctx, name, &set); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading what %s is: %w", name.Name, err)
		}
		config := files.Data[promcfg.ConfigFile]
		g := given{mark: markIn(config), is: set.Name != "", reads: strings.Contains(config, "job_name: federate-cascade\n")}
		for _, c := range set.Spec.Template.Spec.Containers {
			g.takes = g.takes || slices.Contains(c.Args, promcfg.ReceiveFlag)
		}
		out[name.Name] = g
	}
	return out, nil
}

// receiver is a central as cascades write to it.
func (h hub) receiver(replica string) promcfg.Receiver {
	return promcfg.Receiver{Name: centralPrefix + replica, URL: "http://" + h.at.Centrals[replica] + promcfg.ReceivePath}
}

// receivers are the centrals that cascades write to: those that take it as they are. A
// central that is restarted to take it is written to from then on, and one that is to read
// instead until it is restarted for that. One that is not there yet will be as it should.
func (h hub) receivers() []promcfg.Receiver {
	var all []promcfg.Receiver
	for _, replica := range replicas() {
		if g := h.given[centralPrefix+replica]; g.takes || (!g.is && pushes(h.f)) {
			all = append(all, h.receiver(replica))
		}
	}
	return all
}

// readsOn says why centrals that are to be written to go on reading cascades, or nothing:
// they do until every cascade is known to write to both. What comes by either way is the
// same series.
func (r *Reconciler) readsOn(ctx context.Context, h hub) []string {
	reads := false
	for _, g := range h.given {
		reads = reads || g.reads
	}
	if !reads || !pushes(h.f) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, listenTimeout)
	defer cancel()
	for _, s := range h.shards() {
		if why := r.ears.writes(ctx, h, cascadeName(s)); why != "" {
			return []string{fmt.Sprintf("centrals go on reading cascades until all of them write: %s %s", cascadeName(s), why)}
		}
	}
	return nil
}

// writes says why a cascade is not known to write to both centrals, or nothing.
func (e *ears) writes(ctx context.Context, h hub, cascade string) string {
	i := slices.IndexFunc(h.f.Status.Parts, func(p v1alpha1.PartStatus) bool { return p.Name == cascade })
	if i < 0 || len(h.f.Status.Parts[i].Addresses) == 0 {
		return "is not ready"
	}
	address := h.f.Status.Parts[i].Addresses[0]
	server := e.of(address)
	if server == nil {
		return "has no address that could be asked"
	}
	now, err := server.Loaded(ctx)
	if err != nil {
		return fmt.Sprintf("does not tell at %s, which the operator's pod must reach: %v", address, err)
	}
	for _, replica := range replicas() {
		if !strings.Contains(now.Config, "url: "+h.receiver(replica).URL+"\n") {
			return "does not write to " + centralPrefix + replica
		}
	}
	return ""
}
