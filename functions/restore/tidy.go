package restore

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
)

// tidy removes everything that the operation made, but for the terminal status and the old volumes in their window.
// It reports false when nothing is left to do. The journal goes last: as long as it is there, the sweep finds the rest.
func tidy(in Input, operation string, parts []part) (plan.Plan, bool) {
	actions := deleteJobs(in.JobsOf(operation))
	for _, p := range parts {
		actions = append(actions, p.tidy(in)...)
	}
	for _, target := range in.TargetClaims(operation) { // after the volumes, which they lead to
		if target.DeletionTimestamp == nil {
			actions = append(actions, plan.Delete(plan.Claims, target))
		}
	}
	if len(actions) > 0 {
		return plan.Do(api.CleaningUp, actions...), true
	}
	if targets := in.TargetClaims(operation); len(targets) > 0 {
		return plan.WaitSoon(api.CleaningUp, "temporary claim %s is being deleted", targets[0].Name), true
	}
	if jobs := in.JobsOf(operation); len(jobs) > 0 {
		return plan.WaitSoon(api.CleaningUp, "job %s is being deleted", jobs[0].Name), true
	}
	if journal := in.Journal(operation); journal != nil {
		return plan.Do(api.CleaningUp, plan.Delete(plan.ControllerRevisions, journal)), true
	}
	return plan.Plan{}, false
}

// clockSkew is how far the clocks of a function and of the API server may differ.
const clockSkew = time.Minute

// part is one claim with its volumes at the end of an operation.
type part struct {
	operation string
	name      string
	oldVolume string
	// started is when the operation began: what is older is no copy of its own.
	started time.Time
	// copies are the volumes that the operation had provisioned for the claim, one a round.
	copies []string
	// returning is the old volume that the claim was to get back, in a rollback.
	returning string
	// replacedSet is the UID of the set that the operation has replaced by the present one; empty if it has not.
	replacedSet types.UID
}

// partsOf are the claims of an operation as its journal has them, which is gone once everything is tidied up. Only the status knows which
// copy a claim was given.
func partsOf(in Input, status *api.Resize) []part {
	var parts []part
	claims, started := status.Claims, status.Started.Time
	if record := in.Recorded(status.Operation); record != nil {
		claims, started = record.Claims, in.Journal(status.Operation).CreationTimestamp.Time
	}
	replaced := replacedSet(in, status)
	for _, c := range claims {
		if now := status.Claim(c.Name); now != nil && !c.Returns() {
			c.NewVolume = now.NewVolume
		}
		p := part{operation: status.Operation, name: c.Name, oldVolume: c.OldVolume, started: started,
			copies: copiesOf(in, status.Operation, c), replacedSet: replaced}
		if c.Returns() {
			p.returning = c.NewVolume
		}
		parts = append(parts, p)
	}
	return parts
}

// replacedSet returns the UID that the set had when the operation began, if the operation has created it again since.
func replacedSet(in Input, status *api.Resize) types.UID {
	record := in.Recorded(status.Operation)
	if record == nil || in.Set == nil || status.Set.UID != in.Set.UID || record.Set.UID == in.Set.UID {
		return ""
	}
	return record.Set.UID
}

// copiesOf are the volumes that the operation had provisioned for the claim, or was to put back: the one that the status names, and those
// that say so themselves, by their link or by the temporary claim that has them.
func copiesOf(in Input, operation string, c api.ClaimStatus) []string {
	names := []string{c.NewVolume}
	for name, volume := range in.Volumes {
		if link, err := api.LoadLink(volume); err == nil && link != nil &&
			link.Operation == operation && (link.Role == api.RoleTarget || link.Role == api.RoleReturning) && link.Claim == c.Name {
			names = append(names, name)
		}
	}
	for _, target := range in.TargetClaims(operation) {
		if link, _ := api.LoadLink(target); link != nil && link.Claim == c.Name {
			names = append(names, target.Spec.VolumeName)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// tidy releases the claim and the volume it has, and lets the other one go: the old volume after its window, an unused
// copy at once.
func (p part) tidy(in Input) []plan.Action {
	claim := in.Claim(p.name)
	var actions []plan.Action
	if claim != nil {
		patch := plan.PatchOf(plan.Claims, claim).RemoveFinalizer(api.SwitchFinalizer)
		if linked(claim.Labels, p.operation) {
			patch.Unlink()
		}
		if of := claim.Annotations[api.ReplicaOfAnnotation]; of != "" && of == string(p.replacedSet) { // else it would never be cleaned up
			patch.Annotate(api.ReplicaOfAnnotation, string(in.Set.UID))
		}
		actions = patch.Actions()
	}
	if old := in.Volume(p.oldVolume); old != nil && linked(old.Labels, p.operation) {
		actions = append(actions, p.tidyOld(in, claim, old).Actions()...)
	}
	for _, name := range p.copies {
		if fresh := in.Volume(name); fresh != nil && name != p.oldVolume {
			actions = append(actions, p.tidyCopy(in, claim, fresh).Actions()...)
		}
	}
	return actions
}

// tidyOld keeps the volume of a claim that somebody deleted during the operation.
func (p part) tidyOld(in Input, claim *corev1.PersistentVolumeClaim, old *corev1.PersistentVolume) *plan.Patch {
	if has(claim, old) {
		return plan.ReleaseVolume(old)
	}
	return p.keep(in, old)
}

// has reports whether the claim is bound to the volume, and stays so.
func has(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	return claim != nil && claim.DeletionTimestamp == nil && claim.Spec.VolumeName == volume.Name
}

// tidyCopy discards a copy only if it says itself that it is one, while the claim is known to be on its old volume or on another
// round's copy; in any doubt it keeps it for the window, as an old one. A claim that somebody deleted takes its volume along, as
// its reclaim policy says.
func (p part) tidyCopy(in Input, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) *plan.Patch {
	ours := linked(volume.Labels, p.operation)
	made := volume.Name != p.returning && (api.Linked(volume, p.operation, api.RoleTarget) || isCopy(volume, p.operation, p.name)) &&
		!older(in, p.operation, volume)
	switch {
	case api.Linked(volume, p.operation, api.RoleRetired):
		return plan.PatchOf(plan.Volumes, volume) // kept already
	case made && claim != nil && claim.Spec.VolumeName != volume.Name && p.knows(claim.Spec.VolumeName):
		return plan.DiscardVolume(volume, p.started.Add(-clockSkew))
	case !ours:
		return plan.PatchOf(plan.Volumes, volume)
	case has(claim, volume), made && (claim == nil || claim.Spec.VolumeName == volume.Name):
		return plan.ReleaseVolume(volume)
	}
	return p.keep(in, volume) // also what was to come back: it was never a copy
}

// knows reports whether the volume is one of the claim's, before or after.
func (p part) knows(volume string) bool {
	return volume == p.oldVolume || slices.Contains(p.copies, volume)
}

func linked(labels map[string]string, operation string) bool {
	return labels[api.OperationLabel] == operation
}

// keep retains an old volume for its window.
func (p part) keep(in Input, old *corev1.PersistentVolume) *plan.Patch {
	link, err := api.LoadLink(old)
	switch {
	case (err != nil || link == nil) && linked(old.Labels, p.operation): // without it the window would never end
		link = &api.Link{Operation: p.operation, Namespace: in.Namespace, Set: api.SetRef{Name: in.Name}, Claim: p.name}
	case err != nil || link == nil || link.Role == api.RoleRetired:
		return plan.PatchOf(plan.Volumes, old) // already kept
	}
	if link.Before != "" { // it does not come back: it is as it was before the rollback
		link.Operation, link.Before = link.Before, ""
	}
	return retain(in, old, *link)
}

// retain gives a volume that an operation has left behind its window.
func retain(in Input, volume *corev1.PersistentVolume, link api.Link) *plan.Patch {
	link.Role = api.RoleRetired
	until := in.Now.Add(in.Settings.Retention).UTC().Truncate(time.Second).Format(time.RFC3339)
	return plan.HoldVolume(volume, link).Annotate(api.RetainedUntilAnnotation, until).Unannotate(api.ClaimManifestAnnotation)
}
