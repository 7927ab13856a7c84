package backup

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
)

// clockSkew is how far the clocks of two API servers may differ: one stamps the temporary claim, another one its volume.
const clockSkew = 10 * time.Second

// checkTargets returns why a target must not be written to, or nothing. The mover deletes what it finds on a target, so a volume
// that was there before the temporary claim is never one.
func checkTargets(in Input, status *api.Resize) (api.Reason, string) {
	for _, part := range pending(status) {
		target := in.TargetClaim(status.Operation, part.Name, status.Round)
		if part.Returns() || target == nil || target.Spec.VolumeName == "" {
			continue
		}
		volume := in.Volume(target.Spec.VolumeName)
		if volume == nil {
			return api.ClaimLost, fmt.Sprintf("volume %s of temporary claim %s is gone; look at kubectl describe pvc %s, then %s",
				target.Spec.VolumeName, target.Name, target.Name, operation.AskAgain(status))
		}
		if sameStorage(in, part, volume.Name) {
			return api.NotProvisioned, fmt.Sprintf("volume %s, provisioned for the copy of claim %s, is the same storage as its volume %s. "+
				"It is kept, and its reclaim policy is Retain now: whoever deletes it deletes the data. Name a StorageClass that provisions a folder of its own, then %s",
				volume.Name, part.Name, part.OldVolume, operation.AskAgain(status))
		}
		if !plan.ProvisionedSince(volume, target.CreationTimestamp.Add(-clockSkew)) {
			return api.NotProvisioned, fmt.Sprintf("temporary claim %s for the copy of claim %s was bound to volume %s, which was not provisioned for it. "+
				"Nothing is copied to a volume that may hold data. Reserve volume %s for its owner with spec.claimRef, or name a StorageClass that provisions volumes, then %s",
				target.Name, part.Name, volume.Name, volume.Name, operation.AskAgain(status))
		}
	}
	return "", ""
}

// checkUnclaimed returns which existing volume Kubernetes would bind to a temporary claim instead of provisioning one, or nothing.
// It is asked before the claim is created, since a mover can start before the binding is seen.
func checkUnclaimed(in Input, claim *corev1.PersistentVolumeClaim, part api.ClaimStatus, status *api.Resize) string {
	i := slices.IndexFunc(in.Unclaimed, func(v *corev1.PersistentVolume) bool { return satisfies(v, claim) })
	if i < 0 {
		return ""
	}
	volume := in.Unclaimed[i].Name
	return fmt.Sprintf("volume %s of StorageClass %q has no claim, so Kubernetes would bind it to the copy of claim %s instead of provisioning a volume. "+
		"Nothing is copied to a volume that may hold data. Reserve volume %s for its owner with spec.claimRef, or name a StorageClass that provisions volumes, then %s",
		volume, className(claim), part.Name, volume, operation.AskAgain(status))
}

// satisfies reports whether Kubernetes may bind the unclaimed volume to the claim. It asks the same as the volume binder, except
// for node affinity, which depends on where the pod goes.
func satisfies(volume *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) bool {
	spec := volume.Spec
	if ref := spec.ClaimRef; ref != nil { // reserved: the binder asks nothing else
		return ref.Namespace == claim.Namespace && ref.Name == claim.Name
	}
	request, capacity := claim.Spec.Resources.Requests[corev1.ResourceStorage], spec.Capacity[corev1.ResourceStorage]
	switch {
	case volume.DeletionTimestamp != nil, spec.StorageClassName != className(claim), capacity.Cmp(request) < 0:
		return false
	case modeOf(spec.VolumeMode) != modeOf(claim.Spec.VolumeMode), text(spec.VolumeAttributesClassName) != text(claim.Spec.VolumeAttributesClassName):
		return false
	}
	return !slices.ContainsFunc(claim.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(spec.AccessModes, m) })
}

func className(claim *corev1.PersistentVolumeClaim) string { return text(claim.Spec.StorageClassName) }

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func modeOf(mode *corev1.PersistentVolumeMode) corev1.PersistentVolumeMode {
	if mode == nil {
		return corev1.PersistentVolumeFilesystem
	}
	return *mode
}

// lacksTarget reports whether a temporary claim is to be created.
func lacksTarget(in Input, status *api.Resize) bool {
	return slices.ContainsFunc(pending(status), func(part api.ClaimStatus) bool {
		return !part.Returns() && in.TargetClaim(status.Operation, part.Name, status.Round) == nil
	})
}

// makeTargets creates the temporary claims: a quota that has no room for them says so while the set still runs.
func makeTargets(in Input, status *api.Resize) (plan.Plan, bool) {
	var actions []plan.Action
	for _, part := range pending(status) {
		if part.Returns() || in.TargetClaim(status.Operation, part.Name, status.Round) != nil {
			continue
		}
		claim := resources.MakeTargetClaim(in.Claim(part.Name), part, linkOf(in, status, part, api.RoleTarget))
		if problem := checkUnclaimed(in, claim, part, status); problem != "" {
			return giveUp(in, status, api.NotProvisioned, problem), true
		}
		actions = append(actions, plan.Create(plan.Claims, claim))
	}
	return plan.Do(api.Preparing, actions...), len(actions) > 0
}
