package workload

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/promcfg"
	"github.com/pharos-fleet/pharos/internal/version"
)

// Images that this release was tested with.
const (
	DefaultPrometheusImage   = "quay.io/prometheus/prometheus:v3.16.0"
	DefaultAlertmanagerImage = "quay.io/prometheus/alertmanager:v0.31.1"
)

// Images returns the images with the unset ones filled in.
func Images(i v1alpha1.Images) v1alpha1.Images {
	return v1alpha1.Images{
		Prometheus:   cmp.Or(i.Prometheus, DefaultPrometheusImage),
		Alertmanager: cmp.Or(i.Alertmanager, DefaultAlertmanagerImage),
		Pharos:       cmp.Or(i.Pharos, version.Image),
	}
}

// Interval is the scrape and evaluation interval of every tier.
func Interval(f *v1alpha1.Federation) time.Duration {
	return time.Duration(ptr.Deref(f.Spec.IntervalSeconds, 15)) * time.Second
}

// EdgeInterval is how often an External edge evaluates its rules, 0 where that is
// as often as everybody does.
func EdgeInterval(c *v1alpha1.Cell) time.Duration {
	if c.Spec.Edge.Mode != v1alpha1.EdgeExternal {
		return 0
	}
	return time.Duration(ptr.Deref(c.Spec.Edge.IntervalSeconds, 0)) * time.Second
}

// CheckName refuses an object whose name cannot be the value of a label: its
// parts are found by it.
func CheckName(o client.Object) error {
	if limit := validation.LabelValueMaxLength; len(o.GetName()) > limit {
		return Invalidf("metadata.name: is longer than the %d characters of a label", limit)
	}
	return nil
}

// CheckInterval refuses an interval that no tier can be rendered with. The API
// allows none; an object can be older than the API's bound.
func CheckInterval(f *v1alpha1.Federation) error {
	if err := promcfg.CheckInterval(Interval(f)); err != nil {
		return Invalidf("Federation %s: spec.intervalSeconds: %w", f.Name, err)
	}
	return nil
}

// InCharge is the one Federation that is followed: the oldest, because the
// names of the parts leave room for one.
func InCharge(all []v1alpha1.Federation) *v1alpha1.Federation {
	if len(all) == 0 {
		return nil
	}
	return ptr.To(slices.MinFunc(all, func(a, b v1alpha1.Federation) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	}))
}
