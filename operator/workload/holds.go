package workload

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// HoldReason is why a server does not have its change yet.
type HoldReason string

// The reasons of holds.
const (
	// HeldChanged means that another server was changed in the very same look.
	HeldChanged HoldReason = "JustChanged"
	// HeldUnready means that another server is not ready as it should be now.
	HeldUnready HoldReason = "NotReady"
	// HeldUnsettled means that another one has not been ready for long enough.
	HeldUnsettled HoldReason = "NotSettled"
	// HeldUnloaded means that another one has not taken up its files yet.
	HeldUnloaded HoldReason = "NotLoaded"
	// HeldRefused means that another one refuses its files.
	HeldRefused HoldReason = "Refused"
	// HeldUnheard means that another one does not hear, or is not heard, as before.
	HeldUnheard HoldReason = "NotHeard"
	// HeldUnknown means that a server which has to be asked does not answer.
	HeldUnknown HoldReason = "Unknown"
)

// EventHeld is the reason of the event that tells of a hold when it begins.
const EventHeld = "ChangeHeld"

// AnnotationProceed lets one change of one server pass that is held, which is its value
// as the hold tells it. It says nothing of any other change.
const AnnotationProceed = "pharos.dev/proceed"

// Lack is what a server needs before another may be changed. The zero value is nothing.
type Lack struct {
	Reason HoldReason
	// What says it in words.
	What string
}

// Nothing tells whether nothing is lacking.
func (l Lack) Nothing() bool { return l == Lack{} }

// Hold is a server that does not have all of its change yet.
type Hold struct {
	Server string
	Reason HoldReason
	// Note says in words what is held, why, and what a person can do. Of holds that
	// have one cause, only the first has a note.
	Note string
}

// Holds are those of one place.
type Holds []Hold

// Servers are those that are held.
func (h Holds) Servers() []string {
	var all []string
	for _, hold := range h {
		all = append(all, hold.Server)
	}
	return all
}

// Notes are what a person should be told.
func (h Holds) Notes() []string {
	var all []string
	for _, hold := range h {
		if hold.Note != "" {
			all = append(all, hold.Note)
		}
	}
	return all
}

// hold leaves a change of a server for later. What is said ends with how a person lets
// it pass.
func (t *turner) hold(server string, why Lack, change Objects, format string, args ...any) {
	t.holdBy(server, why, changeName(server, change), format, args...)
}

func (t *turner) holdBy(server string, why Lack, change, format string, args ...any) {
	note := fmt.Sprintf("%s: kubectl annotate --overwrite %s %s %s=%s", fmt.Sprintf(format, args...), t.kind(), t.Of.GetName(), AnnotationProceed, change)
	t.out.Holds = append(t.out.Holds, Hold{server, why.Reason, note})
}

// agreed tells whether a person lets this very change of a server pass.
func (t *turner) agreed(server string, change Objects) bool {
	return t.permit() != "" && t.permit() == changeName(server, change)
}

func (t *turner) permit() string { return t.Of.GetAnnotations()[AnnotationProceed] }

// kind is what kubectl calls the object that the place is made for.
func (t *turner) kind() string {
	kind, err := apiutil.GVKForObject(t.Of, t.client.Scheme())
	if err != nil {
		panic(err) // the operator's own types are in its scheme
	}
	return strings.ToLower(kind.Kind)
}

// changeName tells a change of a server from every other. One that restarts it is known by
// what it is restarted with: its files have addresses, and may change before a person
// has read what waits. Where nothing is restarted it is known by its files.
func changeName(server string, change Objects) string {
	if slices.ContainsFunc(change, restarts) {
		change = slices.DeleteFunc(slices.Clone(change), func(o runtime.ApplyConfiguration) bool { return !restarts(o) })
	}
	h := sha256.New()
	for _, o := range change {
		text, err := json.Marshal(o)
		if err != nil {
			panic(err) // it has been applied, if only to look
		}
		h.Write(text)
	}
	return server + "." + hex.EncodeToString(h.Sum(nil))[:12]
}
