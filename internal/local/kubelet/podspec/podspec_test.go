package podspec_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/podspec"
)

func TestExpand(t *testing.T) {
	lookup := func(name string) (string, bool) {
		v, ok := map[string]string{"A": "1", "B_2": "$(A)", "E": ""}[name]
		return v, ok
	}
	for in, want := range map[string]string{
		"":              "",
		"plain":         "plain",
		"$(A)":          "1",
		"x$(A)y$(A)":    "x1y1",
		"$(B_2)":        "$(A)", // values are not expanded again
		"$(E)":          "",
		"$(NONE)":       "$(NONE)",
		"$$(A)":         "$(A)",
		"$$$(A)":        "$1",
		"$(A":           "$(A",
		"$A":            "$A",
		"cost $5 $":     "cost $5 $",
		"$(NONE)-$(A)!": "$(NONE)-1!",
	} {
		require.Equal(t, want, podspec.Expand(in, lookup), in)
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("$(A) $$(A) $(")
	f.Fuzz(func(t *testing.T, s string) {
		never := func(string) (string, bool) { return "", false }
		once := podspec.Expand(s, never)
		if len(once) > len(s) {
			t.Fatalf("%q grew to %q although nothing is defined", s, once)
		}
	})
}

func TestRewritePaths(t *testing.T) {
	root := "/home/a user/prometheus/root"
	paths := podspec.NewPaths(root, []corev1.VolumeMount{
		{MountPath: "/etc/app"}, {MountPath: "/etc/app/extra/"}, {MountPath: "/prometheus"}, {MountPath: "/home"},
	})
	for in, want := range map[string]string{
		"/etc/app":                     root + "/etc/app",
		"/etc/app/x.yml":               root + "/etc/app/x.yml",
		"--config=/etc/app/x.yml":      "--config=" + root + "/etc/app/x.yml",
		"/etc/app/extra/y":             root + "/etc/app/extra/y",
		"/etc/app.yml":                 "/etc/app.yml",
		"/etc/application":             "/etc/application",
		"/opt/etc/app":                 "/opt/etc/app",
		"http://h:9090/prometheus/x":   "http://h:9090/prometheus/x",
		"../etc/app":                   "../etc/app",
		"/prometheus:/etc/app":         root + "/prometheus:" + root + "/etc/app",
		"cat '/etc/app/x' /prometheus": "cat '" + root + "/etc/app/x' " + root + "/prometheus",
		"/home/x":                      root + "/home/x", // rewritten once, although the root is below /home itself
		"":                             "",
	} {
		require.Equal(t, want, paths.Rewrite(in), in)
	}
	require.Equal(t, root+"/x/y", paths.Host("/x/y/"))
	require.Equal(t, root, paths.Host(""))
	require.Equal(t, root+"/x", paths.Host("/../../x"), "no path leaves the root")
}

func TestResolveNames(t *testing.T) {
	missing := errors.New("missing")
	resolve := func(namespace, service, pod string) (string, error) {
		if service == "none" {
			return "", missing
		}
		return "<" + namespace + "|" + service + "|" + pod + ">", nil
	}
	for in, want := range map[string]string{
		"plain text":                          "plain text",
		"notify.pharos-system.svc":            "<pharos-system|notify|>",
		"http://notify.ns.svc:9095/hook":      "http://<ns|notify|>:9095/hook",
		"a.ns.svc.cluster.local:1,b.ns.svc:2": "<ns|a|>:1,<ns|b|>:2",
		"am-0.am.ns.svc:9094":                 "<ns|am|am-0>:9094",
		"notify.ns.svc.example.com":           "notify.ns.svc.example.com",
		"notify.ns.svcs":                      "notify.ns.svcs",
		"a.b.c.d.svc":                         "a.b.c.d.svc",
		"A.ns.svc":                            "A.ns.svc",
		"ns.svc":                              "ns.svc",
	} {
		got, err := podspec.ResolveNames(in, resolve)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	_, err := podspec.ResolveNames("http://none.ns.svc", resolve)
	require.ErrorIs(t, err, missing)
	require.ErrorContains(t, err, "none.ns.svc")
}

func TestFields(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", UID: "u", Labels: map[string]string{"b": "2", "a": `q"`}, Annotations: map[string]string{"x/y": "z"}},
		Spec:       corev1.PodSpec{NodeName: "n", ServiceAccountName: "sa"},
		Status:     corev1.PodStatus{PodIP: "127.0.0.2", HostIP: "127.0.0.1"},
	}
	for path, want := range map[string]string{
		"metadata.name": "p", "metadata.namespace": "ns", "metadata.uid": "u", "spec.nodeName": "n", "spec.serviceAccountName": "sa",
		"status.podIP": "127.0.0.2", "status.hostIP": "127.0.0.1", "metadata.labels": "a=\"q\\\"\"\nb=\"2\"",
		"metadata.labels['b']": "2", "metadata.labels['none']": "", "metadata.annotations['x/y']": "z",
	} {
		got, err := podspec.Field(pod, path)
		require.NoError(t, err, path)
		require.Equal(t, want, got, path)
	}
	for _, path := range []string{"", "spec.containers", "metadata.labels['b'", "status.phase"} {
		_, err := podspec.Field(pod, path)
		require.Error(t, err, path)
	}
}

// objects are ConfigMaps and Secrets by name.
type objects struct {
	configMaps map[string]map[string]string
	secrets    map[string]map[string][]byte
}

func (o objects) ConfigMap(name string) (*corev1.ConfigMap, error) {
	if data, ok := o.configMaps[name]; ok {
		return &corev1.ConfigMap{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (o objects) Secret(name string) (*corev1.Secret, error) {
	if data, ok := o.secrets[name]; ok {
		return &corev1.Secret{Data: data}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func ref(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func TestEnvironment(t *testing.T) {
	o := objects{
		configMaps: map[string]map[string]string{"cm": {"k": "v", "9bad key": "x"}},
		secrets:    map[string]map[string][]byte{"s": {"p": []byte("w")}},
	}
	yes := true
	env := podspec.NewEnvironment(map[string]string{"BASE": "b", "OVER": "1"})
	err := env.AddContainer(&corev1.Pod{}, &corev1.Container{
		EnvFrom: []corev1.EnvFromSource{
			{Prefix: "P_", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("cm")}},
			{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("s")}},
			{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("none"), Optional: &yes}},
		},
		Env: []corev1.EnvVar{
			{Name: "OVER", Value: "$(BASE)$(P_k)$(p)$(LATER)"},
			{Name: "LATER", Value: "l"},
			{Name: "K", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("cm"), Key: "k"}}},
			{Name: "NO", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("cm"), Key: "none", Optional: &yes}}},
			{Name: "NEITHER", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("none"), Key: "k", Optional: &yes}}},
		},
	}, o)
	require.NoError(t, err)
	require.Equal(t, []string{"BASE=b", "OVER=bvw$(LATER)", "P_k=v", "p=w", "LATER=l", "K=v"}, env.List(func(s string) string { return s }))
}

func TestEnvironmentSaysWhatIsMissing(t *testing.T) {
	o := objects{configMaps: map[string]map[string]string{"cm": {}}, secrets: map[string]map[string][]byte{"s": {}}}
	for want, c := range map[string]corev1.Container{
		`configmaps "none"`:               {EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: ref("none")}}}},
		`secrets "none"`:                  {EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: ref("none")}}}},
		`X: configmap "cm" has no key "k`: {Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: ref("cm"), Key: "k"}}}}},
		`X: secret "s" has no key "k`:     {Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: ref("s"), Key: "k"}}}}},
		`X: no such downward API field`:   {Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "x"}}}}},
		`X: this kind of valueFrom`:       {Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{}}}},
	} {
		require.ErrorContains(t, podspec.NewEnvironment(nil).AddContainer(&corev1.Pod{}, &c, o), want)
	}
}

func TestCommand(t *testing.T) {
	env := podspec.NewEnvironment(map[string]string{"A": "1"})
	for _, c := range []struct {
		container corev1.Container
		program   string
		args      []string
	}{
		{corev1.Container{Args: []string{"x", "$(A)"}}, "/bin dir/prometheus", []string{"x", "1"}},
		{corev1.Container{Command: []string{"prometheus", "y"}, Args: []string{"x"}}, "/bin dir/prometheus", []string{"y", "x"}},
		{corev1.Container{Command: []string{"/bin/prometheus"}}, "/bin dir/prometheus", []string{}},
		{corev1.Container{Command: []string{"sh", "-c"}, Args: []string{"echo"}}, "sh", []string{"-c", "echo"}},
	} {
		program, args := podspec.Command("/bin dir/prometheus", &c.container, env)
		require.Equal(t, c.program, program)
		require.Equal(t, c.args, args)
	}
}

func TestUnknownImageListsTheKnown(t *testing.T) {
	images := podspec.Images{"b:1": "/b", "a:1": "/a"}
	_, err := images.Find("c:1")
	require.EqualError(t, err, `image "c:1" is not one that this node can run; it knows: a:1, b:1`)
}

func TestUnsupported(t *testing.T) {
	yes, n := true, int64(1)
	always := corev1.ContainerRestartPolicyAlways
	bidirectional := corev1.MountPropagationBidirectional
	exec := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}}
	grpc := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{}}}
	configMap := corev1.Volume{Name: "v", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}
	with := func(c corev1.Container) corev1.PodSpec {
		c.Name = "c"
		return corev1.PodSpec{Containers: []corev1.Container{c}, Volumes: []corev1.Volume{configMap}}
	}
	for want, spec := range map[string]corev1.PodSpec{
		"spec.hostNetwork":           {HostNetwork: true},
		"spec.hostPID":               {HostPID: true},
		"spec.hostIPC":               {HostIPC: true},
		"spec.shareProcessNamespace": {ShareProcessNamespace: &yes},
		"spec.activeDeadlineSeconds": {ActiveDeadlineSeconds: &n},
		"spec.readinessGates":        {ReadinessGates: []corev1.PodReadinessGate{{}}},
		"spec.hostAliases":           {HostAliases: []corev1.HostAlias{{}}},
		"volume v: a kind other than configMap, secret, projected, downwardAPI, emptyDir and persistentVolumeClaim": {Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}},
		"volume v: clusterTrustBundle":            {Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &corev1.ClusterTrustBundleProjection{}}}}}}}},
		"volume v: resourceFieldRef":              {Volumes: []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: []corev1.DownwardAPIVolumeFile{{ResourceFieldRef: &corev1.ResourceFieldSelector{}}}}}}}},
		"c: restartPolicy of an init container":   {InitContainers: []corev1.Container{{Name: "c", RestartPolicy: &always}}},
		"c: lifecycle":                            with(corev1.Container{Lifecycle: &corev1.Lifecycle{}}),
		"c: tty":                                  with(corev1.Container{TTY: true}),
		"c: stdin":                                with(corev1.Container{Stdin: true}),
		"c: privileged":                           with(corev1.Container{SecurityContext: &corev1.SecurityContext{Privileged: &yes}}),
		"c: hostPort 80":                          with(corev1.Container{Ports: []corev1.ContainerPort{{HostPort: 80}}}),
		"c: variable X from a resource or a file": with(corev1.Container{Env: []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{}}}}}),
		"c: mount /x: subPathExpr":                with(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/x", SubPathExpr: "y"}}}),
		"c: mount /x: subPath of a volume that follows the API": with(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/x", SubPath: "y"}}}),
		"c: mount /: the root folder":                           with(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/"}}}),
		"c: mount /x: mountPropagation":                         with(corev1.Container{VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/x", MountPropagation: &bidirectional}}}),
		"c: livenessProbe by exec":                              with(corev1.Container{LivenessProbe: exec}),
		"c: readinessProbe by gRPC":                             with(corev1.Container{ReadinessProbe: grpc}),
		"c: startupProbe: terminationGracePeriodSeconds":        with(corev1.Container{StartupProbe: &corev1.Probe{TerminationGracePeriodSeconds: &n}}),
	} {
		require.Equal(t, []string{want}, podspec.Unsupported(&corev1.Pod{Spec: spec}))
	}
	require.Empty(t, podspec.Unsupported(&corev1.Pod{Spec: with(corev1.Container{
		VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/x"}}, SecurityContext: &corev1.SecurityContext{RunAsNonRoot: &yes},
	})}))
}
