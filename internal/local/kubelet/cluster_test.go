package kubelet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pharos-fleet/pharos/internal/local/kubelet"
	"github.com/pharos-fleet/pharos/internal/local/kubelet/process"
	"github.com/pharos-fleet/pharos/internal/testkit"
)

// runServer runs one of Kubernetes' own servers against the API server of the tests, and ends it with the test.
func runServer(t *testing.T, name string, args ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, kubeconfig, 0o600))
	out := &testkit.Said{}
	starter := process.NewStarter()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { starter.Run(ctx) })
	server, err := starter.Start(process.Spec{
		Path: testkit.Binary(t, name), Env: os.Environ(), Output: out,
		Args: append([]string{"--kubeconfig=" + file, "--leader-elect=false", "--secure-port=0"}, args...),
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		if t.Failed() {
			t.Log(out.String())
		}
	})
	require.NoError(t, err)
	t.Cleanup(func() { server.Stop(ctx, 0) })
}

// template makes a pod template of a pod that the scheduler has to place on the node.
func (n *testNode) template(p *corev1.Pod) corev1.PodTemplateSpec {
	p.Spec.NodeName = ""
	p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: n.name}
	p.Spec.Tolerations = nil
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: p.Spec}
}

// TestUnderRealControllers lets the real scheduler and controller-manager do with the node what they do in a cluster.
func TestUnderRealControllers(t *testing.T) {
	t.Parallel()
	runServer(t, "kube-scheduler")
	runServer(t, "kube-controller-manager", "--controllers=statefulset-controller,job-controller,node-lifecycle-controller,garbage-collector-controller,persistentvolumeclaim-protection-controller,persistentvolume-protection-controller")
	n := startNode(t, func(o *kubelet.Options) { o.NoClaims = false })
	t.Run("StatefulSet with claims", n.testStatefulSet)
	t.Run("Job", n.testJob)
}

func (n *testNode) testStatefulSet(t *testing.T) {
	n.t = t
	claims := client.CoreV1().PersistentVolumeClaims(n.namespace)
	p := n.server("db")
	p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
	p.Spec.Containers[0].WorkingDir = "/data"
	one := int32(1)
	_, err := client.AppsV1().StatefulSets(n.namespace).Create(t.Context(), &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &one, ServiceName: "db", Template: n.template(p),
			Selector: &metav1.LabelSelector{MatchLabels: p.Labels},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
				},
			}},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	n.waitExists("db-0")
	first := n.waitReady("db-0")
	n.ask(first, "/write", "path", "kept", "data", "treasure")

	n.requireClosed()

	n.delete("db-0")
	eventually(t, "another pod takes its place", func() error {
		p, err := client.CoreV1().Pods(n.namespace).Get(t.Context(), "db-0", metav1.GetOptions{})
		if err == nil && (p.UID == first.UID || !ready(p)) {
			err = fmt.Errorf("pod %s is %+v", p.UID, p.Status)
		}
		return err
	})
	second := n.get("db-0")
	require.Equal(t, first.Status.PodIP, second.Status.PodIP)
	require.Equal(t, "treasure", n.ask(second, "/file", "path", "kept"))

	// When the claim goes, so do its volume and its folder.
	claim, err := claims.Get(t.Context(), "data-db-0", metav1.GetOptions{})
	require.NoError(t, err)
	require.DirExists(t, filepath.Join(n.root, "claims", n.namespace, "data-db-0"))
	require.NoError(t, client.AppsV1().StatefulSets(n.namespace).Delete(t.Context(), "db", metav1.DeleteOptions{}))
	n.waitGone("db-0")
	require.NoError(t, claims.Delete(t.Context(), "data-db-0", metav1.DeleteOptions{}))
	eventually(t, "the volume is gone", func() error {
		_, err := client.CoreV1().PersistentVolumes().Get(t.Context(), claim.Spec.VolumeName, metav1.GetOptions{})
		if err == nil {
			return fmt.Errorf("volume %s is there", claim.Spec.VolumeName)
		}
		return nil
	})
	require.NoDirExists(t, filepath.Join(n.root, "claims", n.namespace, "data-db-0"))
}

// requireClosed says that other users of the machine get into no folder of the node.
func (n *testNode) requireClosed() {
	n.t.Helper()
	require.NoError(n.t, filepath.WalkDir(n.root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		info, err := d.Info()
		require.NoError(n.t, err)
		require.Zero(n.t, info.Mode().Perm()&0o077, path)
		return nil
	}))
}

func (n *testNode) testJob(t *testing.T) {
	n.t = t
	run := func(name string, backoff int32, args ...string) {
		p := n.pod(name, args...)
		p.Spec.RestartPolicy = corev1.RestartPolicyNever
		_, err := client.BatchV1().Jobs(n.namespace).Create(t.Context(), &batchv1.Job{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: batchv1.JobSpec{BackoffLimit: &backoff, Template: n.template(p)},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	finished := func(name string, kind batchv1.JobConditionType) {
		eventually(t, name+" is "+string(kind), func() error {
			j, err := client.BatchV1().Jobs(n.namespace).Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			for _, c := range j.Status.Conditions {
				if c.Type == kind && c.Status == corev1.ConditionTrue {
					return nil
				}
			}
			return fmt.Errorf("status is %+v", j.Status)
		})
	}
	run("good", 0, "exit")
	run("bad", 0, "exit", "--code=1")
	finished("good", batchv1.JobComplete)
	finished("bad", batchv1.JobFailed)

	background := metav1.DeletePropagationBackground
	require.NoError(t, client.BatchV1().Jobs(n.namespace).Delete(context.WithoutCancel(t.Context()), "good", metav1.DeleteOptions{PropagationPolicy: &background}))
	eventually(t, "the Job's pods are gone", func() error {
		pods, err := client.CoreV1().Pods(n.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "batch.kubernetes.io/job-name=good"})
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d are there", len(pods.Items))
		}
		return err
	})
}

func (n *testNode) waitExists(name string) {
	n.t.Helper()
	eventually(n.t, "pod "+name+" exists", func() error {
		_, err := client.CoreV1().Pods(n.namespace).Get(n.t.Context(), name, metav1.GetOptions{})
		return err
	})
}
