package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// handleGrowing expands the volumes of a stopped member. Its claims request the new size as soon as the volumes are detached. The member
// is released when all volumes have grown; their file systems grow when the pod mounts them. The stop can be cancelled at any time.
func (sw swapping) handleGrowing(member *api.Member) {
	switch {
	case sw.heldPod(member) == nil:
		sw.stopping().handleLostHold(member, fmt.Sprintf("the hold of pod %s-%d was removed before its volumes had grown", sw.Name,
			member.Ordinal))
		return
	case sw.stopping().interruptedByLoss(member):
		return
	case sw.Rejected != "":
		sw.override = revert(sw.Input, sw.Before, api.Rejected,
			fmt.Sprintf("the API server refuses the new sizes of the claims of pod %s-%d: %s. "+
				"Fix the cause, then %s", sw.Name, member.Ordinal, sw.Rejected, operation.HowToRetry(sw.Namespace, sw.Before)))
		return
	}
	waiting := ""
	for i := range member.Claims {
		if why := sw.growClaim(member, &member.Claims[i]); why != "" {
			waiting = why
		}
	}
	switch {
	case sw.override.Kind != "":
	case waiting == "":
		sw.releaseToStart(member)
	case sw.pastDeadline(member):
		sw.override = revert(sw.Input, sw.Before, api.DeadlineExceeded,
			fmt.Sprintf("the volumes of pod %s-%d did not grow within %s while it was "+
				"stopped: %s. Read kubectl describe pvc -n %s, then %s", sw.Name, member.Ordinal, sw.Settings.SwapTimeout, waiting, sw.Namespace,
				operation.HowToRetry(sw.Namespace, sw.Before)))
	default:
		sw.WaitFor(true, "%s", waiting)
	}
}

// growClaim plans the next step for one claim of a stopped member. It returns why the claim waits, or empty if its volume has grown.
func (sw swapping) growClaim(member *api.Member, move *api.Move) string {
	claim := sw.Claim(move.Claim) // not nil: reasonToGiveUp has checked
	request := operation.RequestSize(claim, move.To)
	move.Moved = move.Moved || sw.hasGrown(move)
	switch {
	case move.Moved:
		return ""
	case request.Empty() && statefulset.Infeasible(claim, move.To):
		sw.override = revert(sw.Input, sw.Before, api.ExpandInfeasible, operation.CannotGrow(claim, move.To))
	case sw.Attached(move.OldVolume):
		return fmt.Sprintf("volume %s is still attached to a node", move.OldVolume)
	case !member.Locked && !statefulset.Unmounted(sw.MemberPod(member.Ordinal)):
		return fmt.Sprintf("volume %s is not unmounted yet", move.OldVolume)
	}
	sw.Do(api.ExpansionRunning, request.Actions()...)
	return fmt.Sprintf("claim %s is growing", move.Claim)
}

// hasGrown reports whether the claim's volume has its new size. The file system on it grows when it is mounted.
func (in Input) hasGrown(move *api.Move) bool {
	claim := in.Claim(move.Claim)
	if claim == nil {
		return false
	}
	capacity := claim.Status.Capacity["storage"]
	return operation.RequestSize(claim, move.To).Empty() &&
		(capacity.Cmp(move.To) >= 0 || statefulset.FileSystemPending(claim, move.To) != nil)
}

// growingFileSystem returns which claim's file system has not grown although its pod runs, or empty.
func (sw swapping) growingFileSystem(member *api.Member) string {
	for _, move := range member.Claims {
		claim := sw.Claim(move.Claim)
		if claim == nil || !move.InPlace {
			continue
		}
		if capacity := claim.Status.Capacity["storage"]; capacity.Cmp(move.To) < 0 {
			return fmt.Sprintf("the file system of claim %s is growing", move.Claim)
		}
	}
	return ""
}

// lowerRequests makes a given-up member's claims request the sizes of their volumes if the storage has refused the new sizes. If the API
// server refuses that, the storage keeps trying to grow them while the set runs.
func (sw swapping) lowerRequests(member *api.Member) {
	for i := range member.Claims {
		move := &member.Claims[i]
		if claim := sw.Claim(move.Claim); move.InPlace && claim != nil && claim.UID == move.UID && sw.Rejected == "" {
			sw.Do(api.RollingBack, operation.LowerRequest(claim, move.From).Actions()...)
		}
	}
}

// finalPhase returns Moved for a member that was given up after all its volumes had grown, else the phase.
func (sw swapping) finalPhase(member *api.Member, phase api.MemberPhase) api.MemberPhase {
	for i := range member.Claims {
		if move := &member.Claims[i]; !move.InPlace || !sw.hasGrown(move) {
			return phase
		}
	}
	return api.MemberMoved
}

// claimAttributesClass returns the claim's VolumeAttributesClass, or empty. The volume controller binds a claim only to a volume with the
// same class (kubernetes pkg/controller/volume/persistentvolume/index.go).
func claimAttributesClass(claim *corev1.PersistentVolumeClaim) string {
	return ptr.Deref(claim.Spec.VolumeAttributesClassName, "")
}

// volumeAttributesClass returns the volume's VolumeAttributesClass, or empty.
func volumeAttributesClass(volume *corev1.PersistentVolume) string {
	return ptr.Deref(volume.Spec.VolumeAttributesClassName, "")
}

// offersModes reports whether the volume has all the access modes. The volume controller binds no other volume (kubernetes
// pkg/controller/volume/persistentvolume/index.go).
func offersModes(volume *corev1.PersistentVolume, modes []corev1.PersistentVolumeAccessMode) bool {
	return !slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(volume.Spec.AccessModes,
			m)
	})
}

// fittingSize returns the size that the claim requests, but at most the volume's capacity. A claim that failed to grow requests more, and
// Kubernetes binds no claim to a reserved volume that is too small.
func fittingSize(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) resource.Quantity {
	return smaller(statefulset.Requested(claim), volume.Spec.Capacity[corev1.ResourceStorage])
}

func smaller(a, b resource.Quantity) resource.Quantity {
	if a.Cmp(b) > 0 {
		return b
	}
	return a
}
