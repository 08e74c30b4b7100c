package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Field returns the value of a downward API field path, such as metadata.name or metadata.labels['app']. It returns an
// error for a path that the downward API does not know.
func Field(pod *corev1.Pod, path string) (string, error) {
	if value, ok := scalarFields(pod)[path]; ok {
		return value, nil
	}
	if key, ok := subscript(path, "metadata.labels"); ok {
		return pod.Labels[key], nil
	}
	if key, ok := subscript(path, "metadata.annotations"); ok {
		return pod.Annotations[key], nil
	}
	return "", fmt.Errorf("no such downward API field: %q", path)
}

func scalarFields(pod *corev1.Pod) map[string]string {
	return map[string]string{
		"metadata.name":           pod.Name,
		"metadata.namespace":      pod.Namespace,
		"metadata.uid":            string(pod.UID),
		"metadata.labels":         formatMap(pod.Labels),
		"metadata.annotations":    formatMap(pod.Annotations),
		"spec.nodeName":           pod.Spec.NodeName,
		"spec.serviceAccountName": pod.Spec.ServiceAccountName,
		"status.podIP":            pod.Status.PodIP,
		"status.podIPs":           pod.Status.PodIP,
		"status.hostIP":           pod.Status.HostIP,
		"status.hostIPs":          pod.Status.HostIP,
	}
}

func subscript(path, of string) (string, bool) {
	key, ok := strings.CutPrefix(path, of+"['")
	if !ok {
		return "", false
	}
	return strings.CutSuffix(key, "']")
}

// formatMap writes labels the way downward API files show them.
func formatMap(m map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(m)) {
		b.WriteString(k + "=" + strconv.Quote(m[k]) + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
