package resize

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
)

// checkRetained bounds how many old volumes of one claim are kept at once: no quota counts them.
func checkRetained(in Input, w *Wish) []Problem {
	if in.Settings.RetainedVolumes <= 0 {
		return nil
	}
	var found []Problem
	for _, c := range w.Claims {
		if c.Method != api.MethodCopy {
			continue
		}
		if kept := retainedOf(in, c.Name); len(kept) >= in.Settings.RetainedVolumes {
			found = append(found, problem(api.TooManyRetained, "%d old volumes of claim %s are kept, and DRYDOCK_RETAINED_VOLUMES allows %d. "+
				"Wait until volume %s is given up at %s, or have an administrator delete an old volume: kubectl get pv -l %s=%s",
				len(kept), c.Name, in.Settings.RetainedVolumes, kept[0].Name, kept[0].Annotations[api.RetainedUntilAnnotation],
				api.NamespaceLabel, in.Set.Namespace))
		}
	}
	return found
}

// retainedOf returns the old volumes of the set's claim, by the end of their windows, earliest first.
func retainedOf(in Input, claim string) []*corev1.PersistentVolume {
	kept := slices.DeleteFunc(in.Retained(), func(v *corev1.PersistentVolume) bool {
		link, err := api.LoadLink(v)
		return err != nil || link.Set.Name != in.Set.Name || link.Claim != claim
	})
	slices.SortFunc(kept, func(a, b *corev1.PersistentVolume) int {
		return cmp.Or(cmp.Compare(a.Annotations[api.RetainedUntilAnnotation], b.Annotations[api.RetainedUntilAnnotation]),
			cmp.Compare(a.Name, b.Name))
	})
	return kept
}

// retainedStorage returns how much storage the namespace has in old volumes, under each name that a quota may give it. A resize that copies
// adds to them, and no quota counts a volume without a claim.
func retainedStorage(in Input, w *Wish) corev1.ResourceList {
	kept := corev1.ResourceList{}
	if !w.copies() {
		return kept
	}
	for _, volume := range in.Retained() {
		for _, name := range storageNames(volume.Spec.StorageClassName) {
			addTo(kept, name, volume.Spec.Capacity[corev1.ResourceStorage])
		}
	}
	return kept
}

// storageNames are the names under which a quota counts storage of the class.
func storageNames(class string) []string {
	return []string{string(corev1.ResourceRequestsStorage), class + ".storageclass.storage.k8s.io/" + string(corev1.ResourceRequestsStorage)}
}

func addTo(list corev1.ResourceList, name string, quantity resource.Quantity) {
	sum := list[corev1.ResourceName(name)]
	sum.Add(quantity)
	list[corev1.ResourceName(name)] = sum
}
