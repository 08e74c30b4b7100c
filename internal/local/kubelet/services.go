package kubelet

import (
	"context"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// serveServices keeps the service proxy like the Services and pods, until the context ends.
func (k *Kubelet) serveServices(ctx context.Context) {
	defer k.proxy.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.caches.servicesChanged:
		}
		services, _ := k.caches.services.Lister().List(labels.Everything()) // listing a cache does not fail
		pods, _ := k.caches.nodePods.Lister().List(labels.Everything())
		k.proxy.Sync(serviceBackends(services, pods))
	}
}

// serviceBackends returns, for each TCP port of each Service with a loopback cluster IP and a selector, the addresses of
// the pods that take its connections.
func serviceBackends(services []*corev1.Service, pods []*corev1.Pod) map[string][]string {
	out := map[string][]string{}
	for _, s := range services {
		if !isLoopback(s.Spec.ClusterIP) || len(s.Spec.Selector) == 0 {
			continue
		}
		for _, port := range s.Spec.Ports {
			if port.Protocol == corev1.ProtocolTCP || port.Protocol == "" {
				address := net.JoinHostPort(s.Spec.ClusterIP, strconv.Itoa(int(port.Port)))
				out[address] = backendsOf(s, port, pods)
			}
		}
	}
	return out
}

func backendsOf(s *corev1.Service, port corev1.ServicePort, pods []*corev1.Pod) []string {
	selector := labels.SelectorFromSet(s.Spec.Selector)
	var out []string
	for _, pod := range pods {
		if pod.Namespace != s.Namespace || !selector.Matches(labels.Set(pod.Labels)) || !takesConnections(pod, s) {
			continue
		}
		if n, ok := targetPort(pod, port); ok {
			out = append(out, net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(int(n))))
		}
	}
	slices.Sort(out)
	return out
}

func takesConnections(pod *corev1.Pod, s *corev1.Service) bool {
	if pod.DeletionTimestamp != nil || pod.Status.PodIP == "" {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return s.Spec.PublishNotReadyAddresses
}

func targetPort(pod *corev1.Pod, port corev1.ServicePort) (int32, bool) {
	var ports []corev1.ContainerPort
	for _, c := range pod.Spec.Containers {
		ports = append(ports, c.Ports...)
	}
	n, ok := portNumber(ports, port.TargetPort)
	if ok && n == 0 {
		return port.Port, true
	}
	return n, ok
}
