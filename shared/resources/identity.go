package resources

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
)

// MoverUser reports whether the mover runs as root: it does where the namespace allows it. Else it runs as the user in the pod template, or
// as the user that admission has given to the pods. It is an error if there is no such user, or it is root.
func MoverUser(set *appsv1.StatefulSet, admitted *corev1.PodSecurityContext, rootAllowed bool) (root bool, err error) {
	if rootAllowed {
		return true, nil
	}
	user := workloadUser(withAdmitted(&set.Spec.Template.Spec, admitted))
	if user != nil && *user != 0 {
		return false, nil
	}
	who := "as a user that neither its pod template nor a running pod names"
	if user != nil {
		who = "as root"
	}
	return false, fmt.Errorf("StatefulSet %s/%s runs %s, so only a root mover can copy its files with their owners; "+
		"set runAsUser in the pod template's securityContext, or allow root movers with: kubectl label namespace %s %s=%s",
		set.Namespace, set.Name, who, set.Namespace, api.RootMoverLabel, api.AllowValue)
}

// Admitted returns the user, group and SELinux options that admission has given to all of the set's pods and that the pod template does
// not name. OpenShift's SecurityContextConstraints do so. It is nil if there are none, if the pods differ, or if there is no pod.
func Admitted(set *appsv1.StatefulSet, pods []*corev1.Pod) *corev1.PodSecurityContext {
	named := identity(&set.Spec.Template.Spec)
	var all *corev1.PodSecurityContext
	for _, pod := range pods {
		is := identity(&pod.Spec)
		added := &corev1.PodSecurityContext{RunAsUser: unnamed(named.RunAsUser, is.RunAsUser),
			RunAsGroup: unnamed(named.RunAsGroup, is.RunAsGroup),
			FSGroup:    unnamed(named.FSGroup, is.FSGroup), SELinuxOptions: unnamed(named.SELinuxOptions, is.SELinuxOptions)}
		if all != nil && !equality.Semantic.DeepEqual(all, added) {
			return nil
		}
		all = added
	}
	if all == nil || equality.Semantic.DeepEqual(all, &corev1.PodSecurityContext{}) {
		return nil
	}
	return all
}

// unnamed returns the pod's value if the template names none.
func unnamed[T any](named, is *T) *T {
	if named != nil {
		return nil
	}
	return is
}

// identity returns the user, group and SELinux options of the pod's containers.
func identity(pod *corev1.PodSpec) *corev1.PodSecurityContext {
	is := &corev1.PodSecurityContext{RunAsUser: workloadUser(pod), RunAsGroup: workloadGroup(pod), SELinuxOptions: workloadSELinux(pod)}
	if pod.SecurityContext != nil {
		is.FSGroup = pod.SecurityContext.FSGroup
	}
	return is
}

// withAdmitted returns the workload with the values of Admitted.
func withAdmitted(workload *corev1.PodSpec, admitted *corev1.PodSecurityContext) *corev1.PodSpec {
	if admitted == nil {
		return workload
	}
	pod := workload.DeepCopy()
	pod.SecurityContext = cmp.Or(pod.SecurityContext, &corev1.PodSecurityContext{})
	is := pod.SecurityContext
	is.RunAsUser, is.RunAsGroup = cmp.Or(is.RunAsUser, admitted.RunAsUser), cmp.Or(is.RunAsGroup, admitted.RunAsGroup)
	is.FSGroup, is.SELinuxOptions = cmp.Or(is.FSGroup, admitted.FSGroup), cmp.Or(is.SELinuxOptions, admitted.SELinuxOptions)
	return pod
}

// workloadUser returns the user of the pod, or the user that all containers name instead.
func workloadUser(pod *corev1.PodSpec) *int64 {
	return common(pod, func(c *corev1.PodSecurityContext) *int64 { return c.RunAsUser },
		func(c *corev1.SecurityContext) *int64 { return c.RunAsUser })
}

// workloadGroup returns the primary group of the pod, or the group that all containers name instead.
func workloadGroup(pod *corev1.PodSpec) *int64 {
	return common(pod, func(c *corev1.PodSecurityContext) *int64 { return c.RunAsGroup },
		func(c *corev1.SecurityContext) *int64 { return c.RunAsGroup })
}

// workloadSELinux returns the SELinux options of the pod, or the options that all containers name instead: the files have these labels.
func workloadSELinux(pod *corev1.PodSpec) *corev1.SELinuxOptions {
	return common(pod, func(c *corev1.PodSecurityContext) *corev1.SELinuxOptions { return c.SELinuxOptions },
		func(c *corev1.SecurityContext) *corev1.SELinuxOptions { return c.SELinuxOptions }).DeepCopy()
}

// common returns the value that holds for all containers: each one's own, or else the pod's. It is nil if they differ.
func common[T comparable](pod *corev1.PodSpec, ofPod func(*corev1.PodSecurityContext) *T, own func(*corev1.SecurityContext) *T) *T {
	var pods, all *T
	if pod.SecurityContext != nil {
		pods = ofPod(pod.SecurityContext)
	}
	all = pods
	for i, c := range pod.Containers {
		is := pods
		if c.SecurityContext != nil {
			if named := own(c.SecurityContext); named != nil {
				is = named
			}
		}
		if i == 0 {
			all = is
		} else if is == nil || all == nil || *is != *all {
			return nil
		}
	}
	return all
}

// moverPodSecurity returns the workload's own security context, so that the mover may read the workload's files. A group change over the
// whole volume at each mount, as fsGroup does by default, would alter files that are copied already.
func moverPodSecurity(workload *corev1.PodSpec, root bool) *corev1.PodSecurityContext {
	security := &corev1.PodSecurityContext{}
	if root {
		security.RunAsUser, security.RunAsGroup = ptr.To[int64](0), ptr.To[int64](0)
	} else {
		if workload.SecurityContext != nil {
			security = workload.SecurityContext.DeepCopy()
			security.Sysctls = nil
		}
		security.RunAsUser, security.RunAsNonRoot = workloadUser(workload), ptr.To(true)
		if group := workloadGroup(workload); group != nil {
			security.RunAsGroup = group
		}
	}
	security.SELinuxOptions = workloadSELinux(workload)
	if security.FSGroup != nil {
		security.FSGroupChangePolicy = ptr.To(corev1.FSGroupChangeOnRootMismatch)
	}
	security.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	return security
}
