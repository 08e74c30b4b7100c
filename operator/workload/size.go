package workload

import (
	"fmt"
	"math/bits"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

// Size is what a Prometheus is given. CPU has no limit: a server that is
// throttled is late, and late is stale.
type Size struct {
	CPU, Memory, MemoryLimit resource.Quantity
	// Volume is the size of its volume, when that is made.
	Volume resource.Quantity
}

const (
	// leastSeries is the smallest size: a server that has next to nothing may get
	// some tomorrow, and a new size is a new pod.
	leastSeries = 50_000
	// What a series takes, of what docs/performance.md measured about twice: a cell
	// that moves, an outage and a compaction come on top of what is declared.
	memoryOfSeries   = 8 << 10
	seriesOfMilliCPU = 500
	bytesOfSample    = 4
	// headOfSample is what a sample takes in the log and the head, headSpan how
	// long it stays there.
	headOfSample = 18
	headSpan     = 3 * time.Hour
	// leastVolume is that of a server with few series.
	leastVolume = 20 << 30
	gibi        = 1 << 30
	mebi        = 1 << 20
)

// SizeFor is what a server of the hub needs for so many series, in steps of
// double the size, so that it seldom changes. docs/reference/hub.md has the
// reckoning.
func SizeFor(f *v1alpha1.Federation, series uint) Size {
	steps := (max(series, leastSeries) + leastSeries - 1) / leastSeries
	series = leastSeries << bits.Len(steps-1)
	memory := roundUp(int64(series)*memoryOfSeries, 64*mebi)
	return Size{
		CPU:         *resource.NewMilliQuantity(int64(series)/seriesOfMilliCPU, resource.DecimalSI),
		Memory:      *resource.NewQuantity(memory, resource.BinarySI),
		MemoryLimit: *resource.NewQuantity(2*memory, resource.BinarySI),
		Volume:      *resource.NewQuantity(max(leastVolume, roundUp(int64(series)*diskOfSeries(f), 10*gibi)), resource.BinarySI),
	}
}

// diskOfSeries is how many bytes a series takes for as long as it is kept.
func diskOfSeries(f *v1alpha1.Federation) int64 {
	kept, err := model.ParseDuration(Retention(f))
	if err != nil {
		return 0 // CheckRetention refuses it
	}
	interval := Interval(f)
	return int64(time.Duration(kept)/interval)*bytesOfSample + int64(headSpan/interval)*headOfSample
}

func roundUp(n, step int64) int64 { return (n + step - 1) / step * step }

// Override gives a size what somebody asks for instead. A limit is never below
// what is asked for.
func (s Size) Override(r v1alpha1.ServerResources) Size {
	s.CPU = ptr.Deref(r.CPU, s.CPU)
	s.Memory = ptr.Deref(r.Memory, s.Memory)
	s.MemoryLimit = ptr.Deref(r.MemoryLimit, s.MemoryLimit)
	s.Volume = ptr.Deref(r.Volume, s.Volume)
	if s.MemoryLimit.Cmp(s.Memory) < 0 {
		s.MemoryLimit = s.Memory
	}
	return s
}

func (s Size) requests() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: s.CPU, corev1.ResourceMemory: s.Memory}
}

func (s Size) limits() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceMemory: s.MemoryLimit}
}

const retentionSize = "--storage.tsdb.retention.size="

// blocks is the flag that lets blocks take four fifths of a volume: a server whose
// disk is full loses what is new, one that drops its oldest block early only a
// look back. The rest is for the log and a compaction.
func blocks(volume resource.Quantity) string {
	return fmt.Sprintf("%s%dMB", retentionSize, volume.Value()/mebi*4/5)
}

// keepClaims gives the claims of a StatefulSet the sizes that they have, and its
// blocks the room that there is in them. It tells whether that is a change.
func keepClaims(set *appsv1ac.StatefulSetApplyConfiguration, live []corev1.PersistentVolumeClaim) bool {
	changed := false
	for _, claim := range live {
		if size, has := claim.Spec.Resources.Requests[corev1.ResourceStorage]; has {
			changed = keepClaim(set, claim.Name, size) || changed
		}
	}
	return changed
}

func keepClaim(set *appsv1ac.StatefulSetApplyConfiguration, name string, size resource.Quantity) bool {
	changed := false
	for i, claim := range set.Spec.VolumeClaimTemplates {
		if ptr.Deref(claim.Name, "") != name || size.Equal((*claim.Spec.Resources.Requests)[corev1.ResourceStorage]) {
			continue
		}
		set.Spec.VolumeClaimTemplates[i].Spec.Resources.WithRequests(corev1.ResourceList{corev1.ResourceStorage: size})
		changed = true
	}
	if !changed || name != dataVolume {
		return changed
	}
	for _, c := range set.Spec.Template.Spec.Containers {
		for i, arg := range c.Args {
			if strings.HasPrefix(arg, retentionSize) {
				c.Args[i] = blocks(size)
			}
		}
	}
	return true
}

// Volumes are the sizes of the volumes of servers, by the names of these.
type Volumes map[string]resource.Quantity

// Keep leaves the servers among the objects the volumes that they are said to
// have. What an operator sees in the cluster, others must have written down.
func (v Volumes) Keep(objects Objects) {
	for _, o := range objects {
		set, isSet := o.(*appsv1ac.StatefulSetApplyConfiguration)
		if size, known := v[Name(o)]; isSet && known {
			keepClaim(set, dataVolume, size)
		}
	}
}
