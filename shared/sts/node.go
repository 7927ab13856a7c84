package sts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// NodeAccess says by what a pod gets hold of its node: host namespaces, hostPath or a privileged container; empty if by nothing.
// config/policy/fence-sets.yaml refuses the same.
func NodeAccess(pod *corev1.PodSpec) string {
	privileged := func(c corev1.Container) bool {
		return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
	}
	switch {
	case pod.HostNetwork:
		return "hostNetwork"
	case pod.HostPID:
		return "hostPID"
	case pod.HostIPC:
		return "hostIPC"
	case slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }):
		return "a hostPath volume"
	case slices.ContainsFunc(pod.Containers, privileged), slices.ContainsFunc(pod.InitContainers, privileged):
		return "a privileged container"
	}
	return ""
}
