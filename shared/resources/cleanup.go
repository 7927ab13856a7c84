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

// MakeCleanupPod builds the pod that cleans up a replica's place: the template's, under the replica's name and on the
// replica's claims, and where the template does not say otherwise it runs as the replica did.
//
// The finalizer keeps the name while a claim may still have to be deleted: without it, a replica could start on a claim just before its
// deletion, when a user removes the pod.
//
// Its owner is the set, so that it ends with the set, but not its controller, which would have the StatefulSet controller take
// it for a replica. A set that is to be cleaned up when it is deleted is no owner: deletion in the foreground would end the
// very pod that it waits for.
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
			Labels:      with(template.Labels, api.OperationLabel, operation),
			Annotations: with(template.Annotations, api.OperationAnnotation, link.Encode()),
		},
		Spec: template.Spec,
	}
	if set.DeletionTimestamp == nil && !slices.Contains(set.Finalizers, api.CleanupFinalizer) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID}}
	}
	inherit(&pod.Spec, &set.Spec.Template.Spec)
	for _, t := range set.Spec.VolumeClaimTemplates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, claimVolume(t.Name, statefulset.ClaimName(set, t.Name, ordinal), false))
	}
	return pod
}

// inherit gives the cleanup pod the replica's settings, unless its template has others.
func inherit(pod, replica *corev1.PodSpec) {
	replica = replica.DeepCopy()
	pod.RestartPolicy = corev1.RestartPolicyOnFailure
	if pod.ServiceAccountName == "" {
		pod.ServiceAccountName = replica.ServiceAccountName
	}
	if pod.NodeSelector == nil {
		pod.NodeSelector = replica.NodeSelector
	}
	if pod.Tolerations == nil {
		pod.Tolerations = replica.Tolerations
	}
	if pod.ImagePullSecrets == nil {
		pod.ImagePullSecrets = replica.ImagePullSecrets
	}
	if pod.SecurityContext == nil {
		pod.SecurityContext = replica.SecurityContext
	}
	// So that a failure can be told without reading the pod's log: the kubelet puts its last lines into the pod's status.
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			if containers[i].TerminationMessagePolicy == "" {
				containers[i].TerminationMessagePolicy = corev1.TerminationMessageFallbackToLogsOnError
			}
		}
	}
}

func with(all map[string]string, key, value string) map[string]string {
	all = maps.Clone(all)
	if all == nil {
		all = map[string]string{}
	}
	all[key] = value
	return all
}
