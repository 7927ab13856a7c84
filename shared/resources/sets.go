package resources

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
)

// MakeHeldSet is MakeSet for a set that the operation holds at zero. Claims are retained whatever happens to replicas, until
// the operation ends.
func MakeHeldSet(set *appsv1.StatefulSet, templates []api.TemplateTarget, status *api.Status) *appsv1.StatefulSet {
	held := MakeSet(set, templates, status)
	held.Spec.Replicas = ptr.To[int32](0)
	if held.Labels == nil {
		held.Labels = map[string]string{}
	}
	held.Labels[api.FrozenLabel] = "true"
	if policy := held.Spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		policy.WhenScaled = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	return held
}

// MakeSet builds the StatefulSet that replaces set: everything people wrote on it, the claim templates as given, and the
// status. Its UID and resourceVersion are still those of the set that it was made from.
func MakeSet(set *appsv1.StatefulSet, templates []api.TemplateTarget, status *api.Status) *appsv1.StatefulSet {
	made := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion,
			Labels: set.Labels, Annotations: set.Annotations,
			OwnerReferences: set.OwnerReferences, Finalizers: set.Finalizers,
		},
		Spec: set.Spec,
	}
	made = made.DeepCopy()
	if made.Annotations == nil {
		made.Annotations = map[string]string{}
	}
	made.Annotations[api.StatusAnnotation] = status.Encode()
	for i := range made.Spec.VolumeClaimTemplates {
		template := &made.Spec.VolumeClaimTemplates[i]
		template.Status = corev1.PersistentVolumeClaimStatus{}
		for _, target := range templates {
			if target.Name == template.Name {
				retarget(template, target)
			}
		}
	}
	return made
}

func retarget(template *corev1.PersistentVolumeClaim, target api.TemplateTarget) {
	template.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: target.Size}
	template.Spec.Resources.Limits = nil
	if len(target.Modes) > 0 {
		template.Spec.AccessModes = slices.Clone(target.Modes)
	}
	if target.Class != "" {
		template.Spec.StorageClassName = ptr.To(target.Class)
	}
}

// MakeJournal builds the operation's durable record. A ControllerRevision is Kubernetes' own place for such data: it
// cannot be changed once written, and whoever may read StatefulSets may usually read it too.
func MakeJournal(set *appsv1.StatefulSet, status *api.Status) *appsv1.ControllerRevision {
	journal := api.Journal{Version: api.StatusVersion, Status: *status}
	return record(set, status, api.RoleJournal, JournalName(status.Operation), journal.Encode())
}

// MakeSleepRecord builds the durable record of a sleep, in case the set's own document is lost.
func MakeSleepRecord(set *appsv1.StatefulSet, nap *api.Status) *appsv1.ControllerRevision {
	data := api.Journal{Version: api.StatusVersion, Status: *nap}
	return record(set, nap, api.RoleSleep, SleepRecordName(nap.Operation), data.Encode())
}

// MakeOwnerRecord builds the durable record of an owner that the operation pauses or stops.
func MakeOwnerRecord(set *appsv1.StatefulSet, status *api.Status, owner api.PausedOwner) *appsv1.ControllerRevision {
	return record(set, status, api.RoleOwner, OwnerRecordName(status.Operation, owner.UID), owner.Encode())
}

func record(set *appsv1.StatefulSet, status *api.Status, role api.Role, name string, data []byte) *appsv1.ControllerRevision {
	link := api.Link{Operation: status.Operation, Role: role, Namespace: set.Namespace, Set: status.Set}
	return &appsv1.ControllerRevision{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   set.Namespace,
			Name:        name,
			Labels:      map[string]string{api.OperationLabel: status.Operation},
			Annotations: map[string]string{api.OperationAnnotation: link.Encode()},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: 1,
	}
}
