package statefulset

import (
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// powers matches the capabilities that give a container access to its node, if it shares the node's user namespace. Runtimes accept them in
// upper and lower case, with and without their prefix.
var powers = regexp.MustCompile(`(?i)^(CAP_)?(ALL|BPF|DAC_READ_SEARCH|SYS_ADMIN|SYS_BOOT|SYS_MODULE|SYS_RAWIO)$`)

// NodeAccess returns the pod's means of access to its node, or "": host namespaces, a volume on the node, a privileged container or a
// capability. config/policy/fence-sets.yaml refuses the same.
func NodeAccess(pod *corev1.PodSpec) string {
	switch {
	case pod.HostNetwork:
		return "hostNetwork"
	case pod.HostPID:
		return "hostPID"
	case pod.HostIPC:
		return "hostIPC"
	case slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.HostPath != nil }):
		return "a hostPath volume"
	case slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.FlexVolume != nil }):
		return "a flexVolume, whose driver runs on the node"
	}
	own := pod.HostUsers != nil && !*pod.HostUsers
	for _, c := range slices.Concat(pod.Containers, pod.InitContainers) {
		switch {
		case c.SecurityContext == nil:
		case c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged:
			return "a privileged container"
		case c.SecurityContext.Capabilities != nil && !own:
			for _, added := range c.SecurityContext.Capabilities.Add {
				if powers.MatchString(string(added)) {
					return "the capability " + string(added)
				}
			}
		}
	}
	return ""
}
