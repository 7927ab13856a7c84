package resize

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
)

// checkRetained limits how many old volumes of one claim are retained at once, because no quota counts them.
func checkRetained(in Input, w *Changes) []Problem {
	if in.Settings.RetainedVolumes <= 0 {
		return nil
	}
	var found []Problem
	for _, c := range w.Claims {
		if c.Method != api.MethodCopy {
			continue
		}
		if old := oldVolumesOf(in, c.Name); len(old) >= in.Settings.RetainedVolumes {
			found = append(found, problem(api.TooManyRetained, "%d old volumes of claim %s are retained, and DRYDOCK_RETAINED_VOLUMES allows %d. "+
				"Wait until volume %s expires at %s, or let an administrator delete an old volume: kubectl get pv -l %s=%s",
				len(old), c.Name, in.Settings.RetainedVolumes, old[0].Name, old[0].Annotations[api.RetainedUntilAnnotation],
				api.NamespaceLabel, in.Set.Namespace))
		}
	}
	return found
}

// oldVolumesOf returns the old volumes of the set's claim, ordered by the end of their retention, earliest first.
func oldVolumesOf(in Input, claim string) []*corev1.PersistentVolume {
	old := slices.DeleteFunc(in.Retained(), func(v *corev1.PersistentVolume) bool {
		link, err := api.LoadLink(v)
		return err != nil || link.Set.Name != in.Set.Name || link.Claim != claim
	})
	slices.SortFunc(old, func(a, b *corev1.PersistentVolume) int {
		return cmp.Or(cmp.Compare(a.Annotations[api.RetainedUntilAnnotation], b.Annotations[api.RetainedUntilAnnotation]),
			cmp.Compare(a.Name, b.Name))
	})
	return old
}

// retainedStorage returns how much storage the namespace's old volumes use, under each name that a quota may use for it. No quota counts a
// volume without a claim. The result is empty for a resize that leaves no old volumes, and for a rollback: it only exchanges the volumes of
// claims with retained ones.
func retainedStorage(in Input, w *Changes) corev1.ResourceList {
	storage := corev1.ResourceList{}
	if !w.replacesVolumes() || w.rollsBack != "" {
		return storage
	}
	for _, volume := range in.Retained() {
		for _, name := range storageNames(volume.Spec.StorageClassName) {
			addTo(storage, name, volume.Spec.Capacity[corev1.ResourceStorage])
		}
	}
	return storage
}

// storageNames returns the names that a quota uses for storage of the class.
func storageNames(class string) []string {
	return []string{string(corev1.ResourceRequestsStorage), storageOfClass(class)}
}

// storageOfClass and claimsOfClass return the names that a quota uses for the storage and for the claims of one class.
func storageOfClass(class string) string {
	return class + ".storageclass.storage.k8s.io/" + string(corev1.ResourceRequestsStorage)
}

func claimsOfClass(class string) string {
	return class + ".storageclass.storage.k8s.io/" + string(corev1.ResourcePersistentVolumeClaims)
}

func addTo(list corev1.ResourceList, name string, quantity resource.Quantity) {
	sum := list[corev1.ResourceName(name)]
	sum.Add(quantity)
	list[corev1.ResourceName(name)] = sum
}
