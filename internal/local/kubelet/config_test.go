package kubelet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func (n *testNode) configMap(name string, data map[string]string) {
	n.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.namespace}, Data: data}
	_, err := client.CoreV1().ConfigMaps(n.namespace).Create(n.t.Context(), cm, metav1.CreateOptions{})
	require.NoError(n.t, err)
}

func (n *testNode) updateConfigMap(name string, data map[string]string) {
	n.t.Helper()
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.namespace}, Data: data}
	_, err := client.CoreV1().ConfigMaps(n.namespace).Update(n.t.Context(), cm, metav1.UpdateOptions{})
	require.NoError(n.t, err)
}

func (n *testNode) secret(name string, data map[string]string) {
	n.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: n.namespace}, StringData: data}
	_, err := client.CoreV1().Secrets(n.namespace).Create(n.t.Context(), s, metav1.CreateOptions{})
	require.NoError(n.t, err)
}

func mountOf(p *corev1.Pod, path string, source corev1.VolumeSource) {
	name := fmt.Sprintf("v%d", len(p.Spec.Volumes))
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: path})
}

func configMapVolume(name string) corev1.VolumeSource {
	return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}
}

func (n *testNode) waitFile(p *corev1.Pod, path, want string) {
	n.t.Helper()
	eventually(n.t, path+" is "+want, func() error {
		got, err := get("http://"+p.Status.PodIP+":8080/file", "path", path)
		if err == nil && got != want {
			err = fmt.Errorf("it is %q", got)
		}
		return err
	})
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.configMap("settings", map[string]string{"colour": "blue", "9-bad": "x"})
	n.secret("keys", map[string]string{"token": "s3cret"})
	p := n.server("web", "$(GREETING)", "$$(GREETING)", "$(NONE)", "--config=/etc/app/app.yml", "/etc/application", "http://host/etc/app")
	mountOf(p, "/etc/app", configMapVolume("settings"))
	c := &p.Spec.Containers[0]
	c.WorkingDir = "/etc/app"
	c.EnvFrom = []corev1.EnvFromSource{{Prefix: "C_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "NODE", ValueFrom: field("spec.nodeName")},
		corev1.EnvVar{Name: "APP", ValueFrom: field("metadata.labels['app']")},
		corev1.EnvVar{Name: "TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Key: "token"}}},
		corev1.EnvVar{Name: "GREETING", Value: "hello $(APP) on $(NODE)"},
		corev1.EnvVar{Name: "FILE", Value: "/etc/app/app.yml"},
	)
	created := n.create(p)
	got := n.waitReady("web")
	root := filepath.Join(n.root, "pods", string(created.UID), "root", "main")
	require.Equal(t, strings.Join([]string{
		"hello web on " + n.name, "$(GREETING)", "$(NONE)", "--config=" + root + "/etc/app/app.yml", "/etc/application", "http://host/etc/app",
	}, "\n"), n.ask(got, "/args"))
	for name, want := range map[string]string{
		"POD_IP": got.Status.PodIP, "C_colour": "blue", "TOKEN": "s3cret", "FILE": root + "/etc/app/app.yml",
		"HOME": root, "HOSTNAME": "web", fleetMark: "test fleet", "GOPATH": "", "PHAROS_BIN_DIR": "",
		"TMPDIR": filepath.Join(n.root, "pods", string(created.UID), "tmp"),
	} {
		require.Equal(t, want, n.ask(got, "/env", "name", name), name)
	}
	require.Equal(t, "blue", n.ask(got, "/file", "path", "colour"), "the working directory is the mount")
}

func TestCommandOfTheImage(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.server("named")
	c := &p.Spec.Containers[0]
	c.Command, c.Args = []string{"tool", "serve"}, c.Args[1:]
	n.create(p)
	n.waitReady("named")

	p = n.pod("other", "-c", "exit 12")
	p.Spec.Containers[0].Command = []string{"sh"}
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	n.create(p)
	got := n.wait("other", "it ends", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodFailed })
	require.Equal(t, int32(12), mainStatus(got).State.Terminated.ExitCode)
}

func TestFilesFollowTheAPI(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	n.configMap("app", map[string]string{"app.yml": "one", "old": "x"})
	n.secret("keys", map[string]string{"key": "k1"})
	p := n.server("web")
	optional, mode := true, int32(0o400)
	mountOf(p, "/etc/app", configMapVolume("app"))
	mountOf(p, "/etc/app/later", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "later"}, Optional: &optional,
	}})
	mountOf(p, "/etc/all", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: []corev1.VolumeProjection{
		{Secret: &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "keys"}, Items: []corev1.KeyToPath{{Key: "key", Path: "deep/key"}}}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{
			{Path: "note", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['note']"}},
			{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}},
		}}},
	}}})
	p.Spec.Containers[0].WorkingDir = "/etc/app"
	created := n.create(p)
	got := n.waitReady("web")
	n.waitFile(got, "app.yml", "one")
	n.waitFile(got, "../all/deep/key", "k1")
	n.waitFile(got, "../all/labels", `app="web"`)
	n.waitFile(got, "../all/note", "")
	root := filepath.Join(n.root, "pods", string(created.UID), "root", "main")
	info, err := os.Stat(filepath.Join(root, "etc/all/deep/key"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o400), info.Mode().Perm())

	began := time.Now()
	n.updateConfigMap("app", map[string]string{"app.yml": "two"})
	n.waitFile(got, "app.yml", "two")
	require.Less(t, time.Since(began), 2*time.Second, "updates are quick")
	eventually(t, "the old key is gone", func() error {
		if _, err := os.Lstat(filepath.Join(root, "etc/app/old")); err == nil {
			return os.ErrExist
		}
		return nil
	})
	n.annotate("web", "note", "hear")
	n.waitFile(got, "../all/note", "hear")
	n.configMap("later", map[string]string{"now": "yes"})
	n.waitFile(got, "later/now", "yes")
	require.Equal(t, int32(0), mainStatus(n.get("web")).RestartCount)
}

func TestPodWaitsForItsConfiguration(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.server("web")
	mountOf(p, "/etc/app", configMapVolume("late"))
	p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "KEY", ValueFrom: &corev1.EnvVarSource{
		SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "late"}, Key: "k"},
	}})
	n.create(p)
	got := n.wait("web", "it waits", func(p *corev1.Pod) bool {
		w := mainStatus(p).State.Waiting
		return w != nil && w.Reason == "ContainerCreating" && strings.Contains(w.Message, "late")
	})
	require.Equal(t, corev1.PodPending, got.Status.Phase)
	n.configMap("late", nil)
	n.wait("web", "it waits for the variable", func(p *corev1.Pod) bool {
		return waitingReason(p) == "CreateContainerConfigError" && strings.Contains(mainStatus(p).State.Waiting.Message, "KEY")
	})
	n.secret("late", map[string]string{"k": "v"})
	n.waitReady("web")
}

func TestServiceAccount(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := n.server("web")
	p.Spec.ServiceAccountName = "default"
	lifetime := int64(600)
	n.configMap("kube-root-ca.crt", map[string]string{"ca.crt": string(api.CAData)})
	mountOf(p, "/var/run/secrets/kubernetes.io/serviceaccount", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &lifetime}},
		{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}}},
	}}})
	n.configMap("prom", map[string]string{"prometheus.yml": ""})
	mountOf(p, "/etc/prometheus", configMapVolume("prom"))
	p.Spec.Containers[0].WorkingDir = "/etc/prometheus"
	n.create(p)
	got := n.waitReady("web")
	require.NotEmpty(t, n.ask(got, "/file", "path", "../../var/run/secrets/kubernetes.io/serviceaccount/token"))

	// The kubeconfig that the pod is given works, with the rights of its service account and no others.
	config, err := clientcmd.BuildConfigFromFlags("", n.ask(got, "/env", "name", "KUBECONFIG"))
	require.NoError(t, err)
	asPod, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = asPod.CoreV1().ConfigMaps(n.namespace).Get(t.Context(), "prom", metav1.GetOptions{})
	require.ErrorContains(t, err, "system:serviceaccount:"+n.namespace+":default")
	_, err = client.RbacV1().Roles(n.namespace).Create(t.Context(), &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Name: "read"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.RbacV1().RoleBindings(n.namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "read"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "read"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "default", Namespace: n.namespace}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, "the service account may read", func() error {
		_, err := asPod.CoreV1().ConfigMaps(n.namespace).Get(t.Context(), "prom", metav1.GetOptions{})
		return err
	})
	require.Equal(t, "127.0.0.1", n.ask(got, "/env", "name", "KUBERNETES_SERVICE_HOST"))
}
