package podspec

import (
	"fmt"
	"regexp"
	"strings"
)

// serviceName matches name.namespace.svc and pod.name.namespace.svc, with or without the cluster's domain.
var serviceName = regexp.MustCompile(`(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\.){2,3}svc(?:\.cluster\.local)?`)

// Resolver gives the address of a Service, or of the pod of a StatefulSet behind one when pod is not empty.
type Resolver func(namespace, service, pod string) (string, error)

// ResolveNames replaces the DNS names of Services by addresses, because there is no DNS on the host. A port or path after
// the name stays. It returns the first error of the resolver.
func ResolveNames(s string, resolve Resolver) (string, error) {
	var b strings.Builder
	last := 0
	for _, m := range serviceName.FindAllStringIndex(s, -1) {
		if !wholeName(s, m[0], m[1]) {
			continue
		}
		address, err := resolveName(s[m[0]:m[1]], resolve)
		if err != nil {
			return "", fmt.Errorf("resolving %s: %w", s[m[0]:m[1]], err)
		}
		b.WriteString(s[last:m[0]] + address)
		last = m[1]
	}
	return b.String() + s[last:], nil
}

func resolveName(name string, resolve Resolver) (string, error) {
	parts := strings.Split(strings.TrimSuffix(strings.TrimSuffix(name, ".cluster.local"), ".svc"), ".")
	if len(parts) == 3 {
		return resolve(parts[2], parts[1], parts[0])
	}
	return resolve(parts[1], parts[0], "")
}

// wholeName says that a match is not a piece of a longer name.
func wholeName(s string, from, to int) bool {
	return (from == 0 || !partOfName(s[from-1])) && (to == len(s) || !partOfName(s[to]))
}

func partOfName(c byte) bool {
	return c == '.' || c == '-' || c == '_' ||
		'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}
