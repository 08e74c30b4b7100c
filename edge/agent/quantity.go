package agent

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Units as kube-state-metrics names them.
const (
	unitCore    = "core"
	unitByte    = "byte"
	unitInteger = "integer"
)

// quantity is an amount of a resource in the unit that it is counted in.
type quantity struct {
	resource shared // as the series name it
	unit     string // one of the constants
	value    float64
}

// drawResources keeps the amounts in the order of their names. Of names that
// are one word to Prometheus it keeps the first: two would be two samples of
// one series. Beyond maxResources it keeps none.
func drawResources(list corev1.ResourceList) []quantity {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b corev1.ResourceName) int {
		return cmp.Or(cmp.Compare(wordOf(string(a)), wordOf(string(b))), cmp.Compare(a, b))
	})
	out := make([]quantity, 0, min(len(names), maxResources))
	for _, name := range names {
		word := share(wordOf(string(name)))
		if n := len(out); n == maxResources || n > 0 && out[n-1].resource == word {
			continue
		}
		unit := unitOf(name)
		out = append(out, quantity{resource: word, unit: unit, value: amount(unit, list[name])})
	}
	return out
}

// unitOf is what a resource is counted in: bytes for all kinds of memory and
// storage, volumes by kube-state-metrics' own custom included.
func unitOf(name corev1.ResourceName) string {
	switch name {
	case corev1.ResourceCPU:
		return unitCore
	case corev1.ResourceMemory, corev1.ResourceStorage, corev1.ResourceEphemeralStorage:
		return unitByte
	}
	for _, prefix := range []string{corev1.ResourceHugePagesPrefix, corev1.ResourceAttachableVolumesPrefix} {
		if strings.HasPrefix(string(name), prefix) {
			return unitByte
		}
	}
	return unitInteger
}

// amount counts cores by thousandths, and all else by whole units.
func amount(unit string, q resource.Quantity) float64 {
	if unit == unitCore {
		return float64(q.MilliValue()) / 1000
	}
	return float64(q.Value())
}
