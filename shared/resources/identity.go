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

// MoverUser reports whether the mover runs as root. It does if the namespace allows it. Otherwise it runs as the user of the pod
// template, or as the user that admission set in the pods. If there is no such user, or the user is root, MoverUser returns an error.
func MoverUser(set *appsv1.StatefulSet, admitted *corev1.PodSecurityContext, rootAllowed bool) (root bool, err error) {
	if rootAllowed {
		return true, nil
	}
	user := workloadUser(withAdmitted(&set.Spec.Template.Spec, admitted))
	if user != nil && *user != 0 {
		return false, nil
	}
	account := "as an unknown user, because its pod template and its running pods name none"
	if user != nil {
		account = "as root"
	}
	return false, fmt.Errorf("StatefulSet %s/%s runs %s, so only a root mover can copy its files with their owners. "+
		"Set runAsUser in the pod template's securityContext, or allow root movers with: kubectl label namespace %s %s=%s",
		set.Namespace, set.Name, account, set.Namespace, api.RootMoverLabel, api.AllowValue)
}

// AdmittedContext returns the user, group and SELinux options that admission set in all of the set's pods although the pod template does
// not name them. OpenShift's SecurityContextConstraints do that. It is nil if there are none, if the pods differ, or if there is no pod.
func AdmittedContext(set *appsv1.StatefulSet, pods []*corev1.Pod) *corev1.PodSecurityContext {
	named := identity(&set.Spec.Template.Spec)
	var all *corev1.PodSecurityContext
	for _, pod := range pods {
		present := identity(&pod.Spec)
		added := &corev1.PodSecurityContext{
			RunAsUser:      addedByAdmission(named.RunAsUser, present.RunAsUser),
			RunAsGroup:     addedByAdmission(named.RunAsGroup, present.RunAsGroup),
			FSGroup:        addedByAdmission(named.FSGroup, present.FSGroup),
			SELinuxOptions: addedByAdmission(named.SELinuxOptions, present.SELinuxOptions),
		}
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

// addedByAdmission returns the pod's value if the template names none.
func addedByAdmission[T any](named, present *T) *T {
	if named != nil {
		return nil
	}
	return present
}

// identity returns the user, group and SELinux options of the pod's containers.
func identity(pod *corev1.PodSpec) *corev1.PodSecurityContext {
	security := &corev1.PodSecurityContext{RunAsUser: workloadUser(pod), RunAsGroup: workloadGroup(pod), SELinuxOptions: workloadSELinux(pod)}
	if pod.SecurityContext != nil {
		security.FSGroup = pod.SecurityContext.FSGroup
	}
	return security
}

// withAdmitted returns the workload with the admitted values where it has none.
func withAdmitted(workload *corev1.PodSpec, admitted *corev1.PodSecurityContext) *corev1.PodSpec {
	if admitted == nil {
		return workload
	}
	pod := workload.DeepCopy()
	pod.SecurityContext = cmp.Or(pod.SecurityContext, &corev1.PodSecurityContext{})
	s := pod.SecurityContext
	s.RunAsUser, s.RunAsGroup = cmp.Or(s.RunAsUser, admitted.RunAsUser), cmp.Or(s.RunAsGroup, admitted.RunAsGroup)
	s.FSGroup, s.SELinuxOptions = cmp.Or(s.FSGroup, admitted.FSGroup), cmp.Or(s.SELinuxOptions, admitted.SELinuxOptions)
	return pod
}

// workloadUser returns the user of the pod, or the user that all containers name instead.
func workloadUser(pod *corev1.PodSpec) *int64 {
	return commonValue(pod, func(c *corev1.PodSecurityContext) *int64 { return c.RunAsUser },
		func(c *corev1.SecurityContext) *int64 { return c.RunAsUser })
}

// workloadGroup returns the primary group of the pod, or the group that all containers name instead.
func workloadGroup(pod *corev1.PodSpec) *int64 {
	return commonValue(pod, func(c *corev1.PodSecurityContext) *int64 { return c.RunAsGroup },
		func(c *corev1.SecurityContext) *int64 { return c.RunAsGroup })
}

// workloadSELinux returns the SELinux options of the pod, or the options that all containers name instead. The files have these labels.
func workloadSELinux(pod *corev1.PodSpec) *corev1.SELinuxOptions {
	return commonValue(pod, func(c *corev1.PodSecurityContext) *corev1.SELinuxOptions { return c.SELinuxOptions },
		func(c *corev1.SecurityContext) *corev1.SELinuxOptions { return c.SELinuxOptions }).DeepCopy()
}

// commonValue returns the value that applies to all containers: a container's own value or, without one, the pod's. It is nil if they
// differ.
func commonValue[T comparable](pod *corev1.PodSpec, ofPod func(*corev1.PodSecurityContext) *T, own func(*corev1.SecurityContext) *T) *T {
	var podValue, common *T
	if pod.SecurityContext != nil {
		podValue = ofPod(pod.SecurityContext)
	}
	common = podValue
	for i, c := range pod.Containers {
		value := podValue
		if c.SecurityContext != nil {
			if named := own(c.SecurityContext); named != nil {
				value = named
			}
		}
		if i == 0 {
			common = value
		} else if value == nil || common == nil || *value != *common {
			return nil
		}
	}
	return common
}

// MayMountWritable reports whether a mover's pod may mount the volumes of a running pod writable. The kubelet gives a writable volume the
// SELinux label of the pod. Without a level in the workload, the container runtime makes up one for each pod, so the running pod would lose
// access to its files. A volume that is mounted read-only keeps its label.
func MayMountWritable(set *appsv1.StatefulSet, admitted *corev1.PodSecurityContext) bool {
	label := workloadSELinux(withAdmitted(&set.Spec.Template.Spec, admitted))
	return label != nil && label.Level != ""
}

// moverPodSecurity returns the workload's security context, so that the mover may read the workload's files. By default, fsGroup changes
// the group of all files at each mount. That would alter copied files, so the policy is OnRootMismatch.
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
