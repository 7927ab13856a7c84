package restore

import (
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// bringBack gives the name of a claim that somebody deleted while the set was stopped to its old volume again. Otherwise the
// StatefulSet controller makes a new claim, and starts the replica on an empty volume. A claim that somebody has given another volume
// is left as it is.
func bringBack(in Input, status *api.Resize) (actions []plan.Action, waiting string) {
	if status.Stopped == nil || sts.Replicas(in.Set) != 0 {
		return nil, "" // its pods are there, and as long as they are, their claims are
	}
	for _, part := range status.Claims {
		claim, old := in.Claim(part.Name), in.Volume(part.OldVolume)
		if part.Settled() || !isSource(old, status.Operation, part.Name) || claim != nil && claim.Spec.VolumeName != "" && claim.Spec.VolumeName != old.Name {
			continue
		}
		part.Phase, part.NewVolume = api.ClaimPending, "" // no copy counts any more
		move := step(in, status, part)
		if claim != nil && claim.Spec.VolumeName == "" && reserved(old) == "" {
			move = act(reservation(old, fromTemplate(in, part, old, api.Target{Size: part.From})))
		}
		actions = append(actions, move.actions...)
		if move.waiting != "" {
			waiting = move.waiting
		}
	}
	return actions, waiting
}

// isSource reports whether the operation has held the volume for the claim: a status that names another one was not written by
// Drydock.
func isSource(volume *corev1.PersistentVolume, operation, claim string) bool {
	if volume == nil || !linked(volume.Labels, operation) {
		return false
	}
	link, err := api.LoadLink(volume)
	return err == nil && link != nil && link.Claim == claim
}
