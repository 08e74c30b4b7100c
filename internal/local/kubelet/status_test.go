package kubelet

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

func running() containerState {
	return containerState{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Runs: 1, Started: true, Ready: true}
}

func exited(code int32, finished bool) containerState {
	return containerState{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}, Runs: 1, Finished: finished}
}

func crashing() containerState {
	c := exited(1, false)
	c.Last, c.State = c.State, waiting(reasonCrashLoop, "")
	return c
}

func stateOf(init []containerState, main ...containerState) podState {
	s := podState{Pod: &corev1.Pod{}, Host: "127.0.0.1", Containers: map[string]containerState{}}
	for i, c := range init {
		name := "init" + string(rune('a'+i))
		s.Pod.Spec.InitContainers = append(s.Pod.Spec.InitContainers, corev1.Container{Name: name})
		s.Containers[name] = c
	}
	for i, c := range main {
		name := "main" + string(rune('a'+i))
		s.Pod.Spec.Containers = append(s.Pod.Spec.Containers, corev1.Container{Name: name})
		s.Containers[name] = c
	}
	return s
}

func TestPhase(t *testing.T) {
	fresh := containerState{State: waiting(reasonCreating, "")}
	for name, c := range map[string]struct {
		state podState
		want  corev1.PodPhase
	}{
		"nothing started":      {stateOf(nil, fresh), corev1.PodPending},
		"one of two started":   {stateOf(nil, running(), fresh), corev1.PodPending},
		"all run":              {stateOf(nil, running(), running()), corev1.PodRunning},
		"one crashes":          {stateOf(nil, running(), crashing()), corev1.PodRunning},
		"between two runs":     {stateOf(nil, exited(1, false)), corev1.PodRunning},
		"one done, one runs":   {stateOf(nil, exited(0, true), running()), corev1.PodRunning},
		"one failed, one runs": {stateOf(nil, exited(1, true), running()), corev1.PodRunning},
		"all done":             {stateOf(nil, exited(0, true), exited(0, true)), corev1.PodSucceeded},
		"one of two failed":    {stateOf(nil, exited(1, true), exited(0, true)), corev1.PodFailed},
		"init runs":            {stateOf([]containerState{running()}, fresh), corev1.PodPending},
		"init failed for good": {stateOf([]containerState{exited(1, true)}, fresh), corev1.PodFailed},
		"init crashes":         {stateOf([]containerState{crashing()}, fresh), corev1.PodPending},
		"init done, main runs": {stateOf([]containerState{exited(0, true)}, running()), corev1.PodRunning},
	} {
		require.Equal(t, c.want, phase(c.state), name)
	}
	ended := stateOf(nil, exited(0, false), exited(0, false))
	ended.Terminating = true
	require.Equal(t, corev1.PodSucceeded, phase(ended))
	ended = stateOf(nil, exited(0, false), exited(143, false))
	ended.Terminating = true
	require.Equal(t, corev1.PodFailed, phase(ended))
}

func TestStatusKeepsWhatOthersDecide(t *testing.T) {
	long := metav1.NewTime(time.Unix(1000, 0))
	now := metav1.NewTime(time.Unix(2000, 0))
	before := corev1.PodStatus{
		QOSClass: corev1.PodQOSBurstable, NominatedNodeName: "x",
		Conditions: []corev1.PodCondition{
			{Type: "example.test/Other", Status: corev1.ConditionTrue, LastTransitionTime: long},
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: long},
			{Type: corev1.PodInitialized, Status: corev1.ConditionTrue, LastTransitionTime: long},
		},
	}
	got := podStatus(before, stateOf(nil, running()), now)
	require.Equal(t, corev1.PodQOSBurstable, got.QOSClass)
	require.Equal(t, before.Conditions[0], got.Conditions[0])
	require.Equal(t, corev1.ConditionTrue, got.Conditions[1].Status)
	require.Equal(t, now, got.Conditions[1].LastTransitionTime, "Ready changed now")
	require.Equal(t, long, got.Conditions[2].LastTransitionTime, "Initialized did not change")
	require.Equal(t, corev1.ConditionFalse, before.Conditions[1].Status, "the input stays as it is")
	require.Equal(t, got, podStatus(got, stateOf(nil, running()), metav1.NewTime(time.Unix(3000, 0))), "no change, no difference")
}

func TestRestarts(t *testing.T) {
	for _, c := range []struct {
		policy corev1.RestartPolicy
		isInit bool
		code   int32
		want   bool
	}{
		{corev1.RestartPolicyAlways, false, 0, true}, {corev1.RestartPolicyAlways, false, 1, true},
		{corev1.RestartPolicyAlways, true, 0, false}, {corev1.RestartPolicyAlways, true, 1, true},
		{corev1.RestartPolicyOnFailure, false, 0, false}, {corev1.RestartPolicyOnFailure, false, 1, true},
		{corev1.RestartPolicyNever, false, 1, false}, {corev1.RestartPolicyNever, true, 1, false},
	} {
		require.Equal(t, c.want, willRestart(c.policy, c.isInit, c.code), "%+v", c)
	}
	var delays []time.Duration
	for crashes := range 7 {
		delays = append(delays, restartDelay(crashes, time.Second, 5*time.Second))
	}
	s := time.Second
	require.Equal(t, []time.Duration{0, 0, s, 2 * s, 4 * s, 5 * s, 5 * s}, delays)
}

func TestVerdict(t *testing.T) {
	p := &corev1.Probe{SuccessThreshold: 2, FailureThreshold: 3}
	var v verdict
	var changes []int
	for i, ok := range []bool{true, true, false, false, true, false, false, false, false, true, true} {
		if v.observe(ok, p) {
			changes = append(changes, i)
		}
	}
	require.Equal(t, []int{1, 7, 10}, changes)
	require.True(t, v.healthy)
}

func TestAddresses(t *testing.T) {
	prefix := netip.MustParsePrefix("127.90.250.0/29")
	free := func(netip.Addr) bool { return false }
	rapid.Check(t, func(t *rapid.T) {
		a := newAddresses(prefix)
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,8}/[a-z]{1,8}`), 6, 6, rapid.ID).Draw(t, "names")
		seen := map[netip.Addr]bool{}
		for i, name := range names {
			addr, err := a.acquire(name, name, "", free)
			require.NoError(t, err)
			require.True(t, prefix.Contains(addr))
			require.NotEqual(t, prefix.Addr(), addr, "the first address is not given")
			require.False(t, seen[addr], "no address twice")
			seen[addr] = true
			if i == 0 {
				require.Equal(t, a.home(name), addr)
			}
		}
		_, err := a.acquire("one more", "ns/more", "", free)
		require.ErrorIs(t, err, errNoAddress)
		a.release(names[3])
		_, err = a.acquire("one more", "ns/more", "", free)
		require.NoError(t, err)
	})
}

func TestAddressIsKept(t *testing.T) {
	a := newAddresses(netip.MustParsePrefix("127.90.250.0/24"))
	home := a.home("ns/a")
	got, err := a.acquire("1", "ns/a", "", func(x netip.Addr) bool { return x == home })
	require.NoError(t, err)
	require.Equal(t, home.Next(), got, "another pod has the home according to the API")
	before := "127.90.250.77"
	got, err = a.acquire("2", "ns/b", before, func(netip.Addr) bool { return false })
	require.NoError(t, err)
	require.Equal(t, before, got.String())
	got, err = a.acquire("3", "ns/c", "10.0.0.1", func(netip.Addr) bool { return false })
	require.NoError(t, err)
	require.True(t, got.IsLoopback(), "an address of another range is not taken over")
}

func TestServiceBackends(t *testing.T) {
	pod := func(name, ip string, isReady corev1.ConditionStatus) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", Labels: map[string]string{"app": "a"}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}}},
			Status:     corev1.PodStatus{PodIP: ip, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: isReady}}},
		}
	}
	gone := pod("gone", "127.0.0.4", corev1.ConditionTrue)
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	elsewhere := pod("elsewhere", "127.0.0.5", corev1.ConditionTrue)
	elsewhere.Namespace = "other"
	pods := []*corev1.Pod{pod("b", "127.0.0.3", corev1.ConditionTrue), pod("a", "127.0.0.2", corev1.ConditionTrue), pod("sick", "127.0.0.9", corev1.ConditionFalse), gone, elsewhere}
	service := func(ip string, port corev1.ServicePort) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: corev1.ServiceSpec{
			ClusterIP: ip, Selector: map[string]string{"app": "a"}, Ports: []corev1.ServicePort{port},
		}}
	}
	services := []*corev1.Service{
		service("127.0.1.1", corev1.ServicePort{Port: 80, TargetPort: intstr.FromString("http")}),
		service("127.0.1.2", corev1.ServicePort{Port: 81}),
		service("127.0.1.3", corev1.ServicePort{Port: 82, TargetPort: intstr.FromString("none")}),
		service("None", corev1.ServicePort{Port: 83}),
		service("10.0.0.1", corev1.ServicePort{Port: 84}),
		service("127.0.1.4", corev1.ServicePort{Port: 85, Protocol: corev1.ProtocolUDP}),
	}
	require.Equal(t, map[string][]string{
		"127.0.1.1:80": {"127.0.0.2:8080", "127.0.0.3:8080"},
		"127.0.1.2:81": {"127.0.0.2:81", "127.0.0.3:81"},
		"127.0.1.3:82": nil,
	}, serviceBackends(services, pods))
}
