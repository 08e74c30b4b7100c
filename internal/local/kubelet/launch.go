package kubelet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/pharos-fleet/pharos/internal/local/kubelet/podspec"
	"github.com/pharos-fleet/pharos/internal/local/kubelet/process"
)

const (
	// podDirVariable marks every process of a pod with the pod's folder, so that none can be lost.
	podDirVariable = "PHAROS_POD_DIR"
	// fleetVariable marks every process of a local fleet, and is inherited.
	fleetVariable = "PHAROS_FLEET"
	// serviceAccountPath is where programs look for the token of their service account.
	serviceAccountPath = "/var/run/secrets/kubernetes.io/serviceaccount"
	// hostPath is where programs that a command names are looked for.
	hostPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// rootOf returns the folder that takes the place of a container's root.
func (w *worker) rootOf(container string) string { return filepath.Join(w.dir, "root", container) }

// launchSpec says how to start a container now: the newest specification, with everything resolved to the host's paths and
// addresses. It returns an error that says what is missing.
func (w *worker) launchSpec(name string) (process.Spec, error) {
	pod := w.podWithAddress()
	c := findContainer(pod, name)
	binary, err := w.k.opts.images().Find(c.Image)
	if err != nil {
		return process.Spec{}, err
	}
	env, err := w.environment(pod, c)
	if err != nil {
		return process.Spec{}, err
	}
	paths := podspec.NewPaths(w.rootOf(name), c.VolumeMounts)
	program, args := podspec.Command(binary, c, env)
	t := translator{paths: paths, resolve: w.resolver()}
	spec := process.Spec{Args: t.all(args), Env: env.List(t.one), Dir: paths.Host(c.WorkingDir)}
	if spec.Path, err = locate(t.one(program)); err != nil {
		return process.Spec{}, err
	}
	if t.err != nil {
		return process.Spec{}, t.err
	}
	if err := os.MkdirAll(spec.Dir, 0o700); err != nil {
		return process.Spec{}, fmt.Errorf("creating working folder: %w", err)
	}
	return spec, nil
}

// podWithAddress returns the pod with the addresses in its status that the downward API shows.
func (w *worker) podWithAddress() *corev1.Pod {
	s := w.snapshot()
	pod := s.Pod.DeepCopy()
	pod.Status.PodIP, pod.Status.HostIP = s.Address, s.Host
	return pod
}

// translator rewrites texts of the container for the host, and keeps the first error.
type translator struct {
	paths   podspec.Paths
	resolve podspec.Resolver
	err     error
}

func (t *translator) one(s string) string {
	if t.resolve == nil {
		return t.paths.Rewrite(s)
	}
	out, err := podspec.ResolveNames(t.paths.Rewrite(s), t.resolve)
	if err != nil && t.err == nil {
		t.err = err
	}
	return out
}

func (t *translator) all(in []string) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		out = append(out, t.one(s))
	}
	return out
}

// locate finds a program by path or by name.
func locate(program string) (string, error) {
	if strings.ContainsRune(program, filepath.Separator) {
		return program, nil
	}
	for _, dir := range filepath.SplitList(hostPath) {
		candidate := filepath.Join(dir, program)
		if _, err := exec.LookPath(candidate); err == nil {
			return candidate, nil
		}
	}
	return "", fmt.Errorf("finding program %q: %w", program, exec.ErrNotFound)
}

// environment returns the variables of a container: few of the node's own, then what the pod defines.
func (w *worker) environment(pod *corev1.Pod, c *corev1.Container) (*podspec.Environment, error) {
	host, port, err := w.k.apiServer()
	if err != nil {
		return nil, err
	}
	base := map[string]string{
		"PATH":                    hostPath,
		"HOME":                    w.rootOf(c.Name),
		"TMPDIR":                  filepath.Join(w.dir, "tmp"),
		"HOSTNAME":                pod.Name,
		"KUBERNETES_SERVICE_HOST": host,
		"KUBERNETES_SERVICE_PORT": port,
		podDirVariable:            w.dir,
	}
	if fleet, ok := os.LookupEnv(fleetVariable); ok {
		base[fleetVariable] = fleet
	}
	if kubeconfig, err := w.kubeconfig(c); err != nil {
		return nil, err
	} else if kubeconfig != "" {
		base["KUBECONFIG"] = kubeconfig
	}
	env := podspec.NewEnvironment(base)
	if err := env.AddContainer(pod, c, podConfigs{w.k.caches, w.namespace}); err != nil {
		return nil, err
	}
	env.Set(podDirVariable, w.dir) // not the pod's to change
	return env, nil
}

// kubeconfig writes the kubeconfig of a container that has a service account's token, and returns its path.
func (w *worker) kubeconfig(c *corev1.Container) (string, error) {
	for _, m := range c.VolumeMounts {
		if path.Clean(m.MountPath) != serviceAccountPath {
			continue
		}
		file := filepath.Join(w.dir, "kubeconfig-"+c.Name+".yaml")
		token := filepath.Join(w.rootOf(c.Name), serviceAccountPath, corev1.ServiceAccountTokenKey)
		return file, podKubeconfig(file, token, w.k.opts.Config)
	}
	return "", nil
}

// errNoService says that a name in an argument leads nowhere yet.
var errNoService = errors.New("no Service of that name with a cluster IP exists")

// resolver finds the addresses of Services. Without a service proxy nobody listens on them, so that names stay names.
func (w *worker) resolver() podspec.Resolver {
	if !w.k.opts.ServiceProxy {
		return nil
	}
	return func(namespace, service, pod string) (string, error) {
		if pod != "" {
			return w.k.podAddress(namespace, pod), nil
		}
		s, err := w.k.caches.services.Lister().Services(namespace).Get(service)
		if err != nil || s.Spec.ClusterIP == "" || s.Spec.ClusterIP == corev1.ClusterIPNone {
			return "", errNoService
		}
		return s.Spec.ClusterIP, nil
	}
}

// podAddress returns the address of a pod, or the one that it will most likely have.
func (k *Kubelet) podAddress(namespace, name string) string {
	pod, err := k.caches.nodePods.Lister().Pods(namespace).Get(name)
	if err == nil && pod.Status.PodIP != "" {
		return pod.Status.PodIP
	}
	return k.addrs.home(namespace + "/" + name).String()
}
