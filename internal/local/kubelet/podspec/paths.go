package podspec

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Paths moves a container's mount paths below its root folder. There is no mount namespace, so the paths in commands,
// arguments and environment must be the host's.
type Paths struct {
	root   string
	mounts []string
}

// NewPaths returns the Paths of a container whose root folder on the host is root.
func NewPaths(root string, mounts []corev1.VolumeMount) Paths {
	p := Paths{root: root}
	for _, m := range mounts {
		p.mounts = append(p.mounts, path.Clean("/"+m.MountPath))
	}
	// The longest first, so that a mount inside another is seen.
	slices.SortFunc(p.mounts, func(a, b string) int { return len(b) - len(a) })
	return p
}

// Host returns where a path of the container is on the host.
func (p Paths) Host(containerPath string) string {
	return filepath.Join(p.root, filepath.FromSlash(path.Clean("/"+containerPath)))
}

// Rewrite moves each mount path in a text. A mount path is seen where a path may begin (at the start, or after a sign
// that is no part of a path or URL), and only as whole path elements: /etc/app does not match in /etc/app.yml.
func (p Paths) Rewrite(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		mount, ok := p.at(s, i)
		if !ok {
			b.WriteByte(s[i])
			i++
			continue
		}
		b.WriteString(p.root + mount)
		i += len(mount)
	}
	return b.String()
}

// at returns the mount path that stands at a position of the text.
func (p Paths) at(s string, i int) (string, bool) {
	if s[i] != '/' || (i > 0 && partOfPath(s[i-1])) {
		return "", false
	}
	for _, mount := range p.mounts {
		rest, ok := strings.CutPrefix(s[i:], mount)
		if ok && (rest == "" || rest[0] == '/' || !partOfPath(rest[0])) {
			return mount, true
		}
	}
	return "", false
}

func partOfPath(c byte) bool {
	return strings.IndexByte("/._-~%+", c) >= 0 || alphanumeric(c)
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
