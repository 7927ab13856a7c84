package model

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

const (
	binder    = "volume binder"
	protector = "claim protection"

	volumeProtection = "kubernetes.io/pv-protection"
)

// volumeBinder models kubernetes pkg/controller/volume/persistentvolume (pv_controller.go: syncUnboundClaim, syncVolume), with an external
// provisioner for every StorageClass.
func volumeBinder(w *World) []Step {
	var steps []Step
	for _, claim := range all[*corev1.PersistentVolumeClaim](w, plan.Claims) {
		switch {
		case claim.DeletionTimestamp != nil:
		case claim.Status.Phase == corev1.ClaimBound, claim.Status.Phase == corev1.ClaimLost:
			steps = append(steps, syncBound(w, claim)...)
		default:
			steps = append(steps, bind(w, claim)...)
		}
	}
	for _, v := range all[*corev1.PersistentVolume](w, plan.Volumes) {
		steps = append(steps, syncVolume(w, v)...)
	}
	return steps
}

// bind models pv_controller.go, bind. It needs three writes: the volume's claimRef, the claim's volumeName, the claim's status.
func bind(w *World, claim *corev1.PersistentVolumeClaim) []Step {
	v := match(w, claim)
	switch {
	case v == nil && claim.Spec.VolumeName == "":
		return []Step{{Who: binder, What: "provisions an empty volume for claim " + claim.Name, do: func(w *World) { w.provision(claim) }}}
	case v == nil:
		return nil
	case v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID == "":
		return []Step{{Who: binder, What: "binds volume " + v.Name + " to claim " + claim.Name, do: func(w *World) {
			edit(w, plan.Volumes, v.Name, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = refTo(claim) })
		}}}
	case v.Status.Phase != corev1.VolumeBound:
		return nil // wait for syncVolume
	case claim.Spec.VolumeName == "":
		return []Step{{Who: binder, What: "claim " + claim.Name + " names volume " + v.Name, do: func(w *World) {
			edit(w, plan.Claims, claim.Name, func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeName = v.Name })
		}}}
	}
	return []Step{{Who: binder, What: "claim " + claim.Name + " is bound to volume " + v.Name, do: func(w *World) {
		edit(w, plan.Claims, claim.Name, func(c *corev1.PersistentVolumeClaim) {
			c.Status.Phase, c.Status.Capacity, c.Status.AccessModes = corev1.ClaimBound, v.Spec.Capacity, v.Spec.AccessModes
		})
	}}}
}

// syncBound checks a claim that was bound before. The claim is Lost while its volume's claimRef names another claim, or has no UID
// (pv_controller.go, syncBoundClaim).
func syncBound(w *World, claim *corev1.PersistentVolumeClaim) []Step {
	phase, v := corev1.ClaimLost, w.volume(claim.Spec.VolumeName)
	switch {
	case v != nil && v.Spec.ClaimRef == nil:
		return []Step{{Who: binder, What: "binds volume " + v.Name + " to claim " + claim.Name + " again", do: func(w *World) {
			edit(w, plan.Volumes, v.Name, func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = refTo(claim) })
		}}}
	case v != nil && v.Spec.ClaimRef.UID == claim.UID:
		phase = corev1.ClaimBound
	}
	if phase == claim.Status.Phase {
		return nil
	}
	return []Step{{Who: binder, What: "claim " + claim.Name + " is " + string(phase), do: func(w *World) {
		edit(w, plan.Claims, claim.Name, func(c *corev1.PersistentVolumeClaim) { c.Status.Phase = phase })
	}}}
}

// match returns the volume for the claim. The order is: the volume that the claim names, a volume reserved for the claim, any fitting
// volume (pkg/volume/util, FindMatchingVolume).
func match(w *World, claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	if claim.Spec.VolumeName != "" {
		if v := w.volume(claim.Spec.VolumeName); v != nil && (v.Spec.ClaimRef == nil || refers(v, claim)) {
			return v
		}
		return nil
	}
	var fits *corev1.PersistentVolume
	for _, v := range all[*corev1.PersistentVolume](w, plan.Volumes) {
		has, wants := v.Spec.Capacity[corev1.ResourceStorage], statefulset.Requested(claim)
		switch {
		case v.DeletionTimestamp != nil, has.Cmp(wants) < 0, v.Spec.StorageClassName != statefulset.ClassOf(claim):
		case v.Spec.ClaimRef != nil && refers(v, claim):
			return v
		case v.Spec.ClaimRef == nil && v.Status.Phase == corev1.VolumeAvailable:
			fits = v
		}
	}
	return fits
}

// refers reports whether the volume is reserved for the claim or bound to it.
func refers(v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	ref := v.Spec.ClaimRef
	return ref != nil && ref.Name == claim.Name && (ref.UID == "" || ref.UID == claim.UID)
}

func refTo(claim *corev1.PersistentVolumeClaim) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "PersistentVolumeClaim", Namespace: namespace, Name: claim.Name, UID: claim.UID}
}

// syncVolume sets the volume's phase. A released volume with the reclaim policy Delete is deleted with its data: first the storage, then
// the object, which its finalizer protects until then (kubernetes pkg/controller/volume/pvprotection).
func syncVolume(w *World, v *corev1.PersistentVolume) []Step {
	phase := phaseOf(w, v)
	if phase != v.Status.Phase {
		return []Step{{Who: binder, What: "volume " + v.Name + " is " + string(phase), do: func(w *World) {
			edit(w, plan.Volumes, v.Name, func(v *corev1.PersistentVolume) { v.Status.Phase = phase })
		}}}
	}
	switch {
	case v.DeletionTimestamp != nil && phase != corev1.VolumeBound:
		return []Step{{Who: protector, What: "releases volume " + v.Name, do: func(w *World) {
			edit(w, plan.Volumes, v.Name, func(v *corev1.PersistentVolume) { v.Finalizers = nil })
		}}}
	case phase == corev1.VolumeReleased && v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete:
		return []Step{{Who: binder, What: "deletes volume " + v.Name + " with its data", do: func(w *World) {
			delete(w.contents, v.Name)
			_ = w.delete(plan.Volumes, v.Name, v.UID, "", false)
		}}}
	}
	return nil
}

func phaseOf(w *World, v *corev1.PersistentVolume) corev1.PersistentVolumePhase {
	ref := v.Spec.ClaimRef
	if ref == nil || ref.UID == "" {
		return corev1.VolumeAvailable
	}
	claim := w.claim(ref.Name)
	if claim == nil || claim.UID != ref.UID || claim.Spec.VolumeName != "" && claim.Spec.VolumeName != v.Name {
		return corev1.VolumeReleased
	}
	return corev1.VolumeBound
}

// provision creates an empty volume for the claim.
func (w *World) provision(claim *corev1.PersistentVolumeClaim) {
	v := volumeFor("pv-"+string(claim.UID), claim.Spec, statefulset.Requested(claim))
	v.Spec.ClaimRef, v.Finalizers = refTo(claim), []string{volumeProtection}
	_ = w.create(plan.Volumes, v)
	w.contents[v.Name] = content{}
}

func volumeFor(name string, spec corev1.PersistentVolumeClaimSpec, size resource.Quantity) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "disk.example.com"}}}
	v.Spec = corev1.PersistentVolumeSpec{Capacity: corev1.ResourceList{corev1.ResourceStorage: size}, AccessModes: spec.AccessModes,
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimDelete, StorageClassName: *spec.StorageClassName,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "disk.example.com",
			VolumeHandle: name, FSType: "ext4"}}}
	return v
}

// claimProtection models kubernetes pkg/controller/volume/pvcprotection: it releases a terminating claim when no scheduled pod uses it.
func claimProtection(w *World) []Step {
	var steps []Step
	for _, claim := range all[*corev1.PersistentVolumeClaim](w, plan.Claims) {
		if claim.DeletionTimestamp == nil || !slices.Contains(claim.Finalizers, protection) || usedByScheduled(w, claim.Name) {
			continue
		}
		steps = append(steps, Step{Who: protector, What: "releases claim " + claim.Name, do: func(w *World) {
			edit(w, plan.Claims, claim.Name, func(c *corev1.PersistentVolumeClaim) {
				c.Finalizers = slices.DeleteFunc(slices.Clone(c.Finalizers), func(f string) bool { return f == protection })
			})
		}})
	}
	return steps
}

func usedByScheduled(w *World, claim string) bool {
	return slices.ContainsFunc(all[*corev1.Pod](w, plan.Pods),
		func(p *corev1.Pod) bool { return p.Spec.NodeName != "" && statefulset.Mounts(p, claim) })
}
