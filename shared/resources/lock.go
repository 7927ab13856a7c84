package resources

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	klabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// lockGate keeps the pod that reserves the name of a stopped member from running.
const lockGate = api.Prefix + "lock"

const lockContainer = "lock"

var lockArgs = []string{"help"}

// MakeLock returns the pod that reserves the name of a member without a pod, so that the member cannot start while its claims are
// replaced. It runs only if another process removes its scheduling gate, and then ends at once. It names no claim, and no selector of the
// set matches it. The set owns it but is not its controller, because the StatefulSet controller would adopt it as a member.
func MakeLock(set *appsv1.StatefulSet, operation string, ordinal int, settings api.Settings) *corev1.Pod {
	link := api.Link{Operation: operation, Role: api.RoleHeld, Namespace: set.Namespace, Set: api.SetRef{Name: set.Name, UID: set.UID},
		Member: &ordinal}
	labels, annotations := lockMetadata(set)
	labels[api.OperationLabel], annotations[api.OperationAnnotation] = operation, link.Encode()
	return &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: statefulset.PodName(set, ordinal), Finalizers: []string{api.HoldFinalizer},
			Labels:          labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID}},
		},
		Spec: corev1.PodSpec{
			SchedulingGates:              []corev1.PodSchedulingGate{{Name: lockGate}},
			RestartPolicy:                corev1.RestartPolicyNever,
			AutomountServiceAccountToken: ptr.To(false),
			EnableServiceLinks:           ptr.To(false),
			// No user is named, because some clusters admit only a range of them (OpenShift's restricted-v2).
			SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: ptr.To(true),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
			Containers: []corev1.Container{{Name: lockContainer, Image: settings.Image, Args: lockArgs,
				SecurityContext: moverSecurity(false), Resources: lockResources()}},
		},
	}
}

// lockMetadata returns the labels and annotations of a lock: the opt-outs of injectors, and the keys that the set's user gives its movers,
// because a policy of the namespace may require them. They must not make the lock a member of the set.
func lockMetadata(set *appsv1.StatefulSet) (labels, annotations map[string]string) {
	options, err := MoverOptionsOf(set, nil)
	if err != nil {
		options = MoverOptions{} // backup reports it
	}
	labels, annotations = maps.Clone(optOutLabels), maps.Clone(optOutAnnotations)
	copyUserKeys(labels, options.Labels)
	copyUserKeys(annotations, options.Annotations)
	if selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector); err != nil || selector.Matches(klabels.Set(labels)) {
		labels = maps.Clone(optOutLabels)
	}
	return labels, annotations
}

// lockResources returns requests and limits: a ResourceQuota may require both. The lock never runs, and a quota counts it nevertheless.
func lockResources() corev1.ResourceRequirements {
	resources := moverResources()
	resources.Limits = resources.Requests.DeepCopy()
	return resources
}

// IsLockPod reports whether the pod was built by MakeLock, even if another process has removed its scheduling gate.
func IsLockPod(pod *corev1.Pod) bool {
	claims := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
	return metav1.GetControllerOf(pod) == nil && !claims && slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return c.Name == lockContainer && slices.Equal(c.Args, lockArgs) // an injector may put its container first
	})
}

// IsHeldLockOf reports whether the pod is a held lock of the operation.
func IsHeldLockOf(pod *corev1.Pod, operation string) bool {
	return IsLockPod(pod) && statefulset.Held(pod) && api.HasLink(pod, operation, api.RoleHeld)
}
