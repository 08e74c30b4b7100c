package workload

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"k8s.io/utils/ptr"

	"github.com/pharos-fleet/pharos/api/v1alpha1"
	"github.com/pharos-fleet/pharos/internal/version"
)

func notify() Program {
	return Program{
		Part:       Part{Name: "notify", Component: "notify", ServiceAccount: "notify", Image: "i", Port: NotifyPort},
		Args:       []string{"--config=/etc/notify/notify.yaml"},
		NoToken:    true,
		Files:      map[string][]byte{"notify.yaml": []byte("robots: []")},
		ConfigPath: "/etc/notify",
		Secrets:    map[string]string{"b": "robot-b", "a": "robot-a"},
		SpoolPath:  "/var/lib/notify",
		SpoolSize:  NotifyVolume,
	}
}

func deploymentOf(t *testing.T, objects Objects) *appsv1ac.DeploymentApplyConfiguration {
	t.Helper()
	d, ok := objects[len(objects)-1].(*appsv1ac.DeploymentApplyConfiguration)
	require.True(t, ok, "the workload comes after what it mounts")
	return d
}

func TestProgramMountsWhatItIsGiven(t *testing.T) {
	pod := deploymentOf(t, Place{Namespace: "n"}.Program(notify())).Spec.Template.Spec
	var mounts []string
	for _, m := range pod.Containers[0].VolumeMounts {
		mounts = append(mounts, *m.MountPath)
	}
	require.Equal(t, []string{"/etc/notify", "/etc/secrets/a", "/etc/secrets/b", "/var/lib/notify"}, mounts)
	require.Equal(t, "robot-a", *pod.Volumes[1].Secret.SecretName)
	require.True(t, *pod.Volumes[1].Secret.Optional, "one robot without a Secret must not silence the others")
	require.Equal(t, "notify", *pod.Volumes[3].PersistentVolumeClaim.ClaimName)
	require.False(t, *pod.AutomountServiceAccountToken)
	require.Equal(t, []string{"notify", "--listen=$(POD_IP):9095", "--config=/etc/notify/notify.yaml"}, pod.Containers[0].Args)
}

// A program that does not follow its files gets a new pod with them.
func TestChangedFilesChangeThePod(t *testing.T) {
	hash := func(content string) string {
		p := notify()
		p.Files = map[string][]byte{"notify.yaml": []byte(content)}
		return deploymentOf(t, Place{}.Program(p)).Spec.Template.Annotations[AnnotationConfigHash]
	}
	a, again := hash("a"), hash("a")
	require.NotEmpty(t, a)
	require.Equal(t, a, again)
	require.NotEqual(t, hash("a"), hash("b"))
	require.NotEqual(t,
		Hash(map[string][]byte{"x": []byte("1"), "y": nil}),
		Hash(map[string][]byte{"x": nil, "y": []byte("1")}))
}

// The same input gives the same objects, whatever the order of maps.
func TestBuildingIsDeterministic(t *testing.T) {
	place := Place{Namespace: "n", Labels: map[string]string{"l": "1"}, Marks: map[string]string{"m": "2"}}
	want := fmt.Sprintf("%+v", deploymentOf(t, place.Program(notify())).Spec.Template.Spec.Containers[0].VolumeMounts)
	require.NotEmpty(t, want)
	first := place.Program(notify())
	for range 50 {
		require.Equal(t, first, place.Program(notify()))
	}
}

// A mark may change, and what is there must go on: no pod and no selector has it.
func TestMarksAreOfObjectsAlone(t *testing.T) {
	place := Place{Namespace: "n", Labels: map[string]string{v1alpha1.LabelCell: "c"}, Marks: map[string]string{v1alpha1.LabelGeography: "g"}}
	d := deploymentOf(t, place.Program(notify()))
	require.Equal(t, "g", d.Labels[v1alpha1.LabelGeography])
	require.NotContains(t, d.Spec.Template.Labels, v1alpha1.LabelGeography, "a pod that has it is restarted when it changes")
	require.NotContains(t, d.Spec.Selector.MatchLabels, v1alpha1.LabelGeography, "a selector cannot change")
	for k, v := range d.Spec.Selector.MatchLabels {
		require.Equal(t, v, d.Spec.Template.Labels[k])
	}
}

func TestReadyCondition(t *testing.T) {
	for name, c := range map[string]struct {
		err     error
		waiting []string
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		"all ready":       {nil, nil, metav1.ConditionTrue, v1alpha1.ReasonAvailable, "every part is ready"},
		"waiting":         {nil, []string{"a", "b"}, metav1.ConditionFalse, v1alpha1.ReasonProgressing, "waiting for a, b"},
		"invalid":         {fmt.Errorf("rendering: %w", Invalidf("spec.x: is bad")), []string{"a"}, metav1.ConditionFalse, v1alpha1.ReasonInvalid, "rendering: spec.x: is bad"},
		"refused":         {errors.New("applying x: no"), nil, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed, "applying x: no"},
		"longer than API": {errors.New(strings.Repeat("é", 40000)), nil, metav1.ConditionFalse, v1alpha1.ReasonApplyFailed, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			got := Ready(7, c.err, c.waiting)
			require.Equal(t, c.status, got.Status)
			require.Equal(t, c.reason, got.Reason)
			require.Contains(t, got.Message, c.message)
			require.LessOrEqual(t, len([]rune(got.Message)), 32768)
			require.EqualValues(t, 7, got.ObservedGeneration)
		})
	}
}

func TestObserveCountsOnlyReadyPodsOfTheLatestChange(t *testing.T) {
	selector := map[string]string{"component": "edge"}
	pod := func(name, ip string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"component": "edge", "x": "y"}}}
		p.Status.PodIP = ip
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if change != nil {
			change(&p)
		}
		return p
	}
	pods := []corev1.Pod{
		pod("b", "10.0.0.2", nil),
		pod("a", "10.0.0.1", nil),
		pod("v6", "fd00::1", nil),
		pod("not ready", "10.0.0.3", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }),
		pod("no address", "", nil),
		pod("failed", "10.0.0.4", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		pod("leaving", "10.0.0.5", func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) }),
		pod("another's", "10.0.0.6", func(p *corev1.Pod) { p.Labels["component"] = "central" }),
	}
	s := set{name: "edge", desired: 3, selector: selector, port: 9090}
	observe := func() (v1alpha1.PartStatus, Observation) {
		o := unseen()
		return s.observe(pods, &o), o
	}
	part, seen := observe()
	require.EqualValues(t, 3, part.Ready)
	require.Equal(t, []string{"10.0.0.1:9090", "10.0.0.2:9090", "[fd00::1]:9090"}, part.Addresses)
	require.Equal(t, []string{"10.0.0.1:9090", "10.0.0.2:9090", "10.0.0.3:9090", "[fd00::1]:9090"}, seen.Pods["edge"])
	require.Empty(t, Observation{Parts: []v1alpha1.PartStatus{part}}.Waiting())

	// The pods that there are go on until those of the new revision take their place.
	s.revision = "new"
	pods[0].Labels[appsv1.ControllerRevisionHashLabelKey] = "new"
	part, seen = observe()
	require.EqualValues(t, 1, part.Ready)
	require.NotEmpty(t, seen.Serving["edge"])
	s.revision = "newest"
	part, seen = observe()
	require.Zero(t, part.Ready)
	require.NotEmpty(t, seen.Serving["edge"])

	s.behind = true
	part, _ = observe()
	require.Zero(t, part.Ready)
	require.Equal(t, []string{"edge"}, Observation{Parts: []v1alpha1.PartStatus{part}}.Waiting())
}

func TestDefaults(t *testing.T) {
	f := &v1alpha1.Federation{}
	require.Equal(t, 15*time.Second, Interval(f))
	require.Equal(t, "48h", Retention(f))
	require.Equal(t, v1alpha1.Images{Prometheus: DefaultPrometheusImage, Alertmanager: DefaultAlertmanagerImage, Pharos: version.Image}, Images(f.Spec.Images))
	require.Equal(t, "own", Images(v1alpha1.Images{Pharos: "own"}).Pharos)
}

func TestTheOldestFederationIsInCharge(t *testing.T) {
	at := metav1.Now()
	named := func(name string, age time.Duration) v1alpha1.Federation {
		return v1alpha1.Federation{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(at.Add(-age))}}
	}
	require.Nil(t, InCharge(nil))
	require.Equal(t, "old", InCharge([]v1alpha1.Federation{named("a", 0), named("old", time.Hour), named("z", time.Hour)}).Name)
}
