package podspec

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Images maps an exact image reference to the absolute path of the program that stands for the image.
type Images map[string]string

// Find returns the program of an image. For an unknown image, it returns an error that lists the known ones.
func (i Images) Find(image string) (string, error) {
	if binary, ok := i[image]; ok {
		return binary, nil
	}
	known := slices.Sorted(maps.Keys(i))
	return "", fmt.Errorf("image %q is not one that this node can run; it knows: %s", image, strings.Join(known, ", "))
}

// Command returns the program and the arguments of a container, before any rewriting. The image's program is the entry
// point. A command replaces it, but a command that bears the program's name means the program.
func Command(binary string, c *corev1.Container, env *Environment) (program string, args []string) {
	command, args := expandAll(c.Command, env), expandAll(c.Args, env)
	if len(command) == 0 {
		return binary, args
	}
	args = append(command[1:], args...)
	if path.Base(command[0]) == filepath.Base(binary) {
		return binary, args
	}
	return command[0], args
}

func expandAll(in []string, env *Environment) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		out = append(out, Expand(s, env.Lookup))
	}
	return out
}
