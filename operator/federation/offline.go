package federation

import (
	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/operator/workload"
	"github.com/pharos-fleet/pharos/rules"
)

// Rendered is what runs in the hub.
type Rendered struct {
	// Objects in the order of applying them.
	Objects workload.Objects
	// Files of each part that has a configuration, by the name of its workload.
	Files map[string]promcfg.Files
}

// Render gives everything that the operator would run in a hub that has DNS. It
// is pure, and what it gives is valid. The cells are those that feed the
// Federation, and the contract, unless it is nil, takes the place of the one that is
// built in.
func Render(f *v1alpha1.Federation, cells []v1alpha1.Cell, layouts Layouts, namespace string, contract *rules.Contract) (Rendered, error) {
	if err := check(f, f); err != nil {
		return Rendered{}, err
	}
	h := hub{f: f, cells: cells, layouts: layouts, namespace: namespace, contract: contract, at: dnsAddresses(f, namespace)}
	r, err := h.render()
	if err != nil {
		return Rendered{}, err
	}
	files := map[string]promcfg.Files{}
	for s, rendered := range r.cascades {
		files[cascadeName(s)] = rendered.files
	}
	for replica, rendered := range r.centrals {
		files[centralPrefix+replica] = rendered.files
	}
	if r.alertmanager != nil {
		files[partsOf(f).alertmanager().Name] = r.alertmanager
	}
	if r.notify != nil {
		files[partsOf(f).notify().Name] = r.notify
	}
	return Rendered{Objects: append(h.services(), h.workloads(r)...), Files: files}, nil
}

func dnsAddresses(f *v1alpha1.Federation, namespace string) Addresses {
	p, parts := place(f, namespace), partsOf(f)
	at := Addresses{Centrals: map[string]string{}}
	for _, replica := range replicas() {
		at.Centrals[replica] = p.DNSAddress(parts.central(replica))
	}
	if relays(f) {
		at.Notify = p.DNSAddress(parts.notify())
	}
	return at
}

// Vouched is what is heard of the cells when a person has looked for himself,
// and says that every move that is under way may go on to its next step.
func Vouched(f *v1alpha1.Federation, cells []v1alpha1.Cell) Heard {
	heard := Heard{Warm: map[string]bool{}, Divided: map[string]divided{}}
	for _, c := range cells {
		heard.Warm[c.Name] = true
	}
	for name := range dividing(f, cells) {
		heard.Divided[name] = divided{ready: true, expected: true}
	}
	heard.Crossed = map[string]crossed{}
	for name := range between(f, cells) {
		heard.Crossed[name] = crossed{ready: true, expected: true}
	}
	return heard
}
