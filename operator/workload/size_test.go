package workload

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
)

func given(s Size) []string {
	return []string{s.CPU.String(), s.Memory.String(), s.MemoryLimit.String(), s.Volume.String()}
}

func TestAServerOfTheHubIsAsLargeAsItsSeries(t *testing.T) {
	f := &v1alpha1.Federation{}
	for series, want := range map[uint][]string{
		0:          {"100m", "448Mi", "896Mi", "20Gi"},
		50_000:     {"100m", "448Mi", "896Mi", "20Gi"},
		50_001:     {"200m", "832Mi", "1664Mi", "20Gi"},
		100_000:    {"200m", "832Mi", "1664Mi", "20Gi"},
		1_000_000:  {"3200m", "12544Mi", "25088Mi", "90Gi"},
		10_000_000: {"25600m", "100032Mi", "200064Mi", "710Gi"},
	} {
		require.Equal(t, want, given(SizeFor(f, series)), "%d series", series)
	}
	// What is kept for longer, or made more often, takes more room.
	f.Spec.Retention = "30d"
	long := SizeFor(f, 100_000).Volume
	f.Spec.IntervalSeconds = ptr.To(int32(5))
	often := SizeFor(f, 100_000).Volume
	require.Equal(t, "70Gi", long.String())
	require.Equal(t, "200Gi", often.String())
}

func TestSomebodyMaySayWhatAServerIsGiven(t *testing.T) {
	reckoned := SizeFor(&v1alpha1.Federation{}, 0)
	of := func(q string) *resource.Quantity { return ptr.To(resource.MustParse(q)) }
	require.Equal(t, given(reckoned), given(reckoned.Override(v1alpha1.ServerResources{})))
	require.Equal(t, []string{"2", "448Mi", "896Mi", "100Gi"}, given(reckoned.Override(v1alpha1.ServerResources{CPU: of("2"), Volume: of("100Gi")})))
	require.Equal(t, []string{"100m", "4Gi", "4Gi", "20Gi"}, given(reckoned.Override(v1alpha1.ServerResources{Memory: of("4Gi")})), "no limit below what is asked for")
}

func setOf(t *testing.T, size string) *appsv1ac.StatefulSetApplyConfiguration {
	t.Helper()
	objects := Place{Namespace: "n"}.PrometheusServer(Server{
		Part: Part{Name: "edge"}, Retention: "48h", Size: Size{Volume: resource.MustParse(size)}, Files: map[string][]byte{"prometheus.yml": nil},
	})
	return objects[len(objects)-1].(*appsv1ac.StatefulSetApplyConfiguration)
}

func roomOf(t *testing.T, set *appsv1ac.StatefulSetApplyConfiguration) (volume string, blocks []string) {
	t.Helper()
	size := (*set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests)[corev1.ResourceStorage]
	for _, arg := range set.Spec.Template.Spec.Containers[0].Args {
		if len(arg) > len(retentionSize) && arg[:len(retentionSize)] == retentionSize {
			blocks = append(blocks, arg[len(retentionSize):])
		}
	}
	return size.String(), blocks
}

// Whatever is asked for, what is kept fits the volume that there is.
func TestBlocksFitTheVolumeThatThereIs(t *testing.T) {
	for _, asked := range []string{"20Gi", "60Gi", "150Gi", "1Gi"} {
		set := setOf(t, asked)
		live := corev1.PersistentVolumeClaim{}
		live.Name = dataVolume
		live.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("20Gi")}
		require.Equal(t, asked != "20Gi", keepClaims(set, []corev1.PersistentVolumeClaim{live}), asked)
		volume, blocks := roomOf(t, set)
		require.Equal(t, "20Gi", volume, asked)
		require.Equal(t, []string{"16384MB"}, blocks, asked)
	}
	volume, blocks := roomOf(t, setOf(t, "60Gi"))
	require.Equal(t, "60Gi", volume)
	require.Equal(t, []string{"49152MB"}, blocks)
}

func TestKeepKnowsServersByTheirNames(t *testing.T) {
	set := setOf(t, "60Gi")
	Volumes{"another": resource.MustParse("1Gi")}.Keep(Objects{set})
	volume, _ := roomOf(t, set)
	require.Equal(t, "60Gi", volume)
	Volumes{"edge": resource.MustParse("20Gi")}.Keep(Objects{set})
	volume, blocks := roomOf(t, set)
	require.Equal(t, "20Gi", volume)
	require.Equal(t, []string{"16384MB"}, blocks)
}
