package restore

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
)

// tidy removes everything that the operation made, except the terminal record and the old volumes in their window.
// It reports false when nothing is left to do. The journal goes last: as long as it is there, the sweep finds the rest.
func tidy(in Input, operation string, parts []part) (plan.Plan, bool) {
	jobs := append(in.JobsOf(operation), in.HooksOf(operation)...)
	actions := deleteJobs(jobs)
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
	if len(jobs) > 0 {
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
	// started is when the operation began. An older volume is no copy of this operation.
	started time.Time
	// copies are the volumes that the operation had provisioned for the claim, or was to put back.
	copies []string
	// returning is the old volume that the claim was to get back, in a rollback.
	returning string
	// replacedSet is the UID of the set that the operation has replaced by the present one; empty if it has not.
	replacedSet types.UID
}

// partsOf are the claims of an operation as its journal has them, which is gone once everything is tidied up. Only the record on the set
// knows which copy a claim was given.
func partsOf(in Input, record *api.Resize) []part {
	var parts []part
	written, started := record, record.Started.Time
	if journal := in.Recorded(record.Operation); journal != nil {
		written, started = journal, in.Journal(record.Operation).CreationTimestamp.Time
	}
	replaced := replacedSet(in, record)
	for _, move := range written.Moves() {
		p := part{operation: record.Operation, name: move.Claim, oldVolume: move.OldVolume, started: started, replacedSet: replaced}
		if record.IsRollback() {
			p.returning = move.NewVolume
		} else if now := record.Move(move.Claim); now != nil {
			move.NewVolume = now.NewVolume
		}
		p.copies = copiesOf(in, record.Operation, move)
		parts = append(parts, p)
	}
	return parts
}

// replacedSet returns the UID that the set had when the operation began, if the operation has created it again since.
func replacedSet(in Input, record *api.Resize) types.UID {
	written := in.Recorded(record.Operation)
	if written == nil || in.Set == nil || record.Set.UID != in.Set.UID || written.Set.UID == in.Set.UID {
		return ""
	}
	return written.Set.UID
}

// copiesOf returns the volumes that the operation had provisioned for the claim, or was to put back: the volume that the record names, and
// every volume with such a link or with a temporary claim of the operation.
func copiesOf(in Input, id string, move *api.Move) []string {
	names := []string{move.NewVolume}
	for name, volume := range in.Volumes {
		if link, err := api.LoadLink(volume); err == nil && link != nil &&
			link.Operation == id && (link.Role == api.RoleTarget || link.Role == api.RoleReturning) && link.Claim == move.Claim {
			names = append(names, name)
		}
	}
	for _, target := range in.TargetClaims(id) {
		if link, _ := api.LoadLink(target); link != nil && link.Claim == move.Claim { // TargetClaims returns linked ones only
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

// tidyOld keeps the volume of a claim that another process deleted during the operation.
func (p part) tidyOld(in Input, claim *corev1.PersistentVolumeClaim, old *corev1.PersistentVolume) *plan.Patch {
	if has(claim, old) {
		return world.ReleaseVolume(old)
	}
	return p.keep(in, old)
}

// has reports whether the claim is bound to the volume, and stays so.
func has(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	return claim != nil && claim.DeletionTimestamp == nil && claim.Spec.VolumeName == volume.Name
}

// tidyCopy discards a copy only if it says itself that it is one, while the claim is known to be on its old volume or on another
// round's copy; in any doubt it keeps it for the window, as an old one. A claim that another process deleted takes its volume along, as
// its reclaim policy says.
func (p part) tidyCopy(in Input, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) *plan.Patch {
	ours := linked(volume.Labels, p.operation)
	made := volume.Name != p.returning && (api.Linked(volume, p.operation, api.RoleTarget) || isCopy(volume, p.operation, p.name)) &&
		!older(in, p.operation, volume)
	switch {
	case api.Linked(volume, p.operation, api.RoleRetired):
		return plan.PatchOf(plan.Volumes, volume) // kept already
	case made && claim != nil && claim.Spec.VolumeName != volume.Name && p.knows(claim.Spec.VolumeName):
		return world.DiscardVolume(volume, p.started.Add(-clockSkew))
	case !ours:
		return plan.PatchOf(plan.Volumes, volume)
	case has(claim, volume), made && (claim == nil || claim.Spec.VolumeName == volume.Name):
		return world.ReleaseVolume(volume)
	}
	return p.keep(in, volume) // also an old volume that was to come back: it was never a copy
}

// knows reports whether the volume is one of the claim's, before or after.
func (p part) knows(volume string) bool {
	return volume == p.oldVolume || slices.Contains(p.copies, volume)
}

func deleteJobs(jobs []*batchv1.Job) []plan.Action {
	var actions []plan.Action
	for _, job := range jobs {
		if job.DeletionTimestamp == nil {
			actions = append(actions, plan.Delete(plan.Jobs, job))
		}
	}
	return actions
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
	if link.Before != "" { // it does not come back, so its link is that from before the rollback
		link.Operation, link.Before = link.Before, ""
	}
	return retain(in, old, *link)
}

// retain gives a volume that an operation has left behind its window.
func retain(in Input, volume *corev1.PersistentVolume, link api.Link) *plan.Patch {
	link.Role = api.RoleRetired
	until := in.Now.Add(in.Settings.Retention).UTC().Truncate(time.Second).Format(time.RFC3339)
	return world.HoldVolume(volume, link).Annotate(api.RetainedUntilAnnotation, until).Unannotate(api.ClaimManifestAnnotation)
}
