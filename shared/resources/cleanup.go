package resources

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// MakeCleanupPod returns the pod that cleans up after a removed member. It has the member's name and claims. Settings that the template
// does not have come from the set's pod template.
//
// The finalizer keeps the name reserved while a claim may still have to be deleted. Without it, a user could delete the pod, and the
// member could start on a claim just before the claim's deletion.
//
// The set owns the pod, so that the pod ends with the set. It is not the controller, because the StatefulSet controller would then adopt
// the pod as a member. A set that is cleaned up on deletion does not own the pod: foreground deletion would end the pod that it waits
// for.
func MakeCleanupPod(set *appsv1.StatefulSet, template *corev1.PodTemplateSpec, operation string, ordinal int,
	claims []*corev1.PersistentVolumeClaim) *corev1.Pod {
	link := api.Link{Operation: operation, Role: api.RoleCleaner, Namespace: set.Namespace,
		Set: api.SetRef{Name: set.Name, UID: set.UID}, Claims: map[string]types.UID{}}
	for _, c := range claims {
		link.Claims[c.Name] = c.UID
	}
	template = template.DeepCopy()
	pod := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: statefulset.PodName(set, ordinal), Finalizers: []string{api.CleanupFinalizer},
			Labels:      withEntry(template.Labels, api.OperationLabel, operation),
			Annotations: withEntry(template.Annotations, api.OperationAnnotation, link.Encode()),
		},
		Spec: template.Spec,
	}
	if set.DeletionTimestamp == nil && !slices.Contains(set.Finalizers, api.CleanupFinalizer) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID}}
	}
	inheritSettings(&pod.Spec, &set.Spec.Template.Spec)
	for _, t := range set.Spec.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, claimVolume(t.Name, statefulset.ClaimName(set, t.Name, ordinal), false))
	}
	return pod
}

// inheritSettings gives a cleanup pod or a hook the settings of the set's pods, unless its own template has them.
func inheritSettings(pod, workload *corev1.PodSpec) {
	workload = workload.DeepCopy()
	pod.RestartPolicy = corev1.RestartPolicyOnFailure
	if pod.ServiceAccountName == "" {
		pod.ServiceAccountName = workload.ServiceAccountName
	}
	if pod.NodeSelector == nil {
		pod.NodeSelector = workload.NodeSelector
	}
	if pod.Tolerations == nil {
		pod.Tolerations = workload.Tolerations
	}
	if pod.ImagePullSecrets == nil {
		pod.ImagePullSecrets = workload.ImagePullSecrets
	}
	if pod.SecurityContext == nil {
		pod.SecurityContext = workload.SecurityContext
	}
	// The kubelet copies the last lines of the log into the pod's status, so that a failure can be reported without reading the log.
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			if containers[i].TerminationMessagePolicy == "" {
				containers[i].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			}
		}
	}
}

// withEntry returns a copy of the map with the entry.
func withEntry(all map[string]string, key, value string) map[string]string {
	all = maps.Clone(all)
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}
