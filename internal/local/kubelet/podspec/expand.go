// Package podspec reads a pod's specification: what a container's environment, command and paths come to on a host
// without containers, and what such a host cannot do. Everything here is a pure function.
package podspec

import "strings"

// Expand replaces each $(NAME) by the variable's value, as Kubernetes does: an unknown name stays as it is, and $$ is a
// single dollar sign.
func Expand(s string, lookup func(string) (string, bool)) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text, rest := expandOne(after, lookup)
		b.WriteString(text)
		s = rest
	}
}

// expandOne resolves what follows a dollar sign, and returns the text for it and what is left to read.
func expandOne(after string, lookup func(string) (string, bool)) (text, rest string) {
	if rest, ok := strings.CutPrefix(after, "$"); ok {
		return "$", rest
	}
	name, rest, ok := strings.Cut(after, ")")
	if !ok || !strings.HasPrefix(name, "(") {
		return "$", after
	}
	if value, known := lookup(name[1:]); known {
		return value, rest
	}
	return "$" + name + ")", rest
}
