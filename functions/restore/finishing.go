package restore

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// handleFinishing removes the objects of the operation and ends it.
func handleFinishing(in Input, record *api.Resize) plan.Plan {
	remark, p := cleanUp(in, record)
	if remark == "" && p.Kind != "" {
		return p
	}
	if grown := grownByOthers(in, record); len(grown) > 0 {
		next := operation.ConcludeResize(record, api.Failed, in.Now)
		next.Reason = api.ClaimsGrown
		next.Message = fmt.Sprintf("the data is on the new volumes, but another client has made %s larger again than requested, as an operator "+
			"does whose resource has another size. Change the size there, then %s%s", strings.Join(grown, ", "),
			operation.HowToRetry(in.Namespace, record), remark)
		return conclude(in, next, events.OperationFailed)
	}
	next := operation.ConcludeResize(record, api.Succeeded, in.Now)
	next.Reason, next.Message = api.ResizeCompleted, operation.Summary(record, in.Settings.Retention)+remark
	return conclude(in, next, events.RestoreCompleted)
}

// grownByOthers returns the claims that request more now than the operation gave them, because another client has made them larger since.
func grownByOthers(in Input, record *api.Resize) []string {
	var grown []string
	for _, m := range record.Moves() {
		claim := in.Claim(m.Claim)
		if claim == nil || !record.Copies() {
			continue
		}
		if size := statefulset.Requested(claim); size.Cmp(m.To) > 0 {
			grown = append(grown, fmt.Sprintf("claim %s (%s instead of %s)", m.Claim, &size, &m.To))
		}
	}
	return grown
}

// concludeRevert cleans up and ends the operation.
func concludeRevert(in Input, record *api.Resize) plan.Plan {
	remark, p := cleanUp(in, record)
	if remark == "" && p.Kind != "" {
		return p
	}
	next := operation.ConcludeResize(record, api.Failed, in.Now)
	if moved := movedSummary(record); moved != "" {
		next.Message += moved
	}
	next.Message += remark
	return conclude(in, next, events.OperationFailed)
}

// movedSummary returns how many members were moved, if only some were, and how to move the others.
func movedSummary(record *api.Resize) string {
	moved := 0
	for _, m := range record.Members {
		if m.Phase == api.MemberMoved {
			moved++
		}
	}
	if moved == 0 {
		return ""
	}
	if record.GrowsWhileStopped() {
		return fmt.Sprintf("; the volumes of %d of %d members have grown: kubectl drydock retry grows the others", moved,
			len(record.Members))
	}
	return fmt.Sprintf("; %d of %d members are on their new volumes: kubectl drydock retry moves the others, "+
		"kubectl drydock rollback moves these back", moved, len(record.Members))
}

// cleanUp removes the objects of the operation. After the deadline it stops waiting and returns a remark for the message. The journal
// then stays, so that the sweep finds the rest.
func cleanUp(in Input, record *api.Resize) (remark string, p plan.Plan) {
	p, busy := tidy(in, record.Operation, endedClaims(in, record))
	switch {
	case !busy:
		return "", plan.Plan{}
	case p.Kind == plan.KindWait && waitExpired(in, record):
		return "; the remaining objects are removed later: " + p.Detail, p
	}
	return "", p
}

// tidy removes everything that the operation made, except the final record and the retained old volumes. It reports false when nothing is
// left to do. The journal goes last, because the sweep finds the rest by it.
func tidy(in Input, operation string, claims []endedClaim) (plan.Plan, bool) {
	jobs := append(in.JobsOf(operation), in.HooksOf(operation)...)
	actions := moving.DeleteJobs(jobs, "")
	for _, e := range claims {
		actions = append(actions, e.tidy(in)...)
	}
	for _, target := range in.TargetClaims(operation) { // after the volumes, because the claims lead to them
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

// endedClaim is one claim with its volumes at the end of an operation.
type endedClaim struct {
	operation string
	name      string
	oldVolume string
	// started is when the operation began. An older volume is no copy of this operation.
	started time.Time
	// copies are the volumes that the operation had provisioned for the claim, or was to restore.
	copies []string
	// returning is the old volume that the claim was to get back in a rollback.
	returning string
	// replacedSet is the UID of the set that the operation has replaced with the present one, or empty.
	replacedSet types.UID
}

// endedClaims returns the claims that the operation's journal names, or the record's claims once the journal is gone. Only the record on
// the set knows which copy each claim was given.
func endedClaims(in Input, record *api.Resize) []endedClaim {
	var claims []endedClaim
	planned, started := record, record.Started.Time
	if journal := in.JournalRecord(record.Operation); journal != nil {
		planned, started = journal, in.Journal(record.Operation).CreationTimestamp.Time
	}
	replaced := replacedSet(in, record)
	for _, move := range planned.Moves() {
		e := endedClaim{operation: record.Operation, name: move.Claim, oldVolume: move.OldVolume, started: started, replacedSet: replaced}
		if record.IsRollback() {
			e.returning = move.NewVolume
		} else if current := record.Move(move.Claim); current != nil {
			move.NewVolume = current.NewVolume
		}
		e.copies = copiesOf(in, record.Operation, move)
		claims = append(claims, e)
	}
	return claims
}

// replacedSet returns the UID that the set had when the operation began, if the operation has created the set again since.
func replacedSet(in Input, record *api.Resize) types.UID {
	journal := in.JournalRecord(record.Operation)
	if journal == nil || in.Set == nil || record.Set.UID != in.Set.UID || journal.Set.UID == in.Set.UID {
		return ""
	}
	return journal.Set.UID
}

// copiesOf returns the volumes that the operation had provisioned for the claim, or was to restore. These are the volume that the record
// names, and every volume with such a link or with a temporary claim of the operation.
func copiesOf(in Input, id string, move *api.Move) []string {
	names := []string{move.NewVolume}
	for name, volume := range in.Volumes {
		if link, err := api.LoadLink(volume); err == nil && link != nil &&
			link.Operation == id && (link.Role == api.RoleTarget || link.Role == api.RoleReturning) && link.Claim == move.Claim {
			names = append(names, name)
		}
	}
	for _, target := range in.TargetClaims(id) {
		if link, _ := api.LoadLink(target); link != nil && link.Claim == move.Claim { // TargetClaims returns only linked claims
			names = append(names, target.Spec.VolumeName)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// tidy releases the claim and its volume, and gives up the other one: an old volume after its retention, an unused copy immediately.
func (e endedClaim) tidy(in Input) []plan.Action {
	claim := in.Claim(e.name)
	var actions []plan.Action
	if claim != nil {
		patch := plan.PatchOf(plan.Claims, claim).RemoveFinalizer(api.FreezeFinalizer)
		if linked(claim.Labels, e.operation) {
			patch.Unlink()
		}
		// Without this, the claim would never be cleaned up.
		if uid := claim.Annotations[api.ReplicaOfAnnotation]; uid != "" && uid == string(e.replacedSet) {
			patch.Annotate(api.ReplicaOfAnnotation, string(in.Set.UID))
		}
		actions = patch.Actions()
	}
	if old := in.Volume(e.oldVolume); old != nil && linked(old.Labels, e.operation) {
		actions = append(actions, e.tidyOld(in, claim, old).Actions()...)
	}
	for _, name := range e.copies {
		if volume := in.Volume(name); volume != nil && name != e.oldVolume {
			actions = append(actions, e.tidyCopy(in, claim, volume).Actions()...)
		}
	}
	return actions
}

// tidyOld releases the old volume if the claim is bound to it, and retains it otherwise. The claim may be missing because another process
// deleted it during the operation.
func (e endedClaim) tidyOld(in Input, claim *corev1.PersistentVolumeClaim, old *corev1.PersistentVolume) *plan.Patch {
	if boundTo(claim, old) {
		return world.ReleaseVolume(old)
	}
	return e.retainOld(in, old)
}

// boundTo reports whether the claim is bound to the volume and is not being deleted.
func boundTo(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	return claim != nil && claim.DeletionTimestamp == nil && claim.Spec.VolumeName == volume.Name
}

// tidyCopy discards a copy only if two things are certain: its own link or claimRef says that it is a copy, and the claim is on its old
// volume or on another round's copy. In any doubt it retains the copy like an old volume. A claim that another process deleted takes its
// volume along, by the reclaim policy.
func (e endedClaim) tidyCopy(in Input, claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) *plan.Patch {
	ownLink := linked(volume.Labels, e.operation)
	made := volume.Name != e.returning && (api.HasLink(volume, e.operation, api.RoleTarget) || isCopy(volume, e.operation, e.name)) &&
		!olderThanJournal(in, e.operation, volume)
	switch {
	case api.HasLink(volume, e.operation, api.RoleOldVolume):
		return plan.PatchOf(plan.Volumes, volume) // already retained
	case made && claim != nil && claim.Spec.VolumeName != volume.Name && e.isOwnVolume(claim.Spec.VolumeName):
		return world.DiscardVolume(volume, e.started.Add(-moving.SkewOfFunction))
	case !ownLink:
		return plan.PatchOf(plan.Volumes, volume)
	case boundTo(claim, volume), made && (claim == nil || claim.Spec.VolumeName == volume.Name):
		return world.ReleaseVolume(volume)
	}
	return e.retainOld(in, volume) // this also holds for a returning old volume, which was never a copy
}

// isOwnVolume reports whether the volume is one of the claim's, before or after the operation.
func (e endedClaim) isOwnVolume(volume string) bool {
	return volume == e.oldVolume || slices.Contains(e.copies, volume)
}

// retainOld retains an old volume.
func (e endedClaim) retainOld(in Input, old *corev1.PersistentVolume) *plan.Patch {
	link, err := api.LoadLink(old)
	switch {
	case (err != nil || link == nil) && linked(old.Labels, e.operation): // without a link the retention would never end
		link = &api.Link{Operation: e.operation, Namespace: in.Namespace, Set: api.SetRef{Name: in.Name}, Claim: e.name}
	case err != nil || link == nil || link.Role == api.RoleOldVolume:
		return plan.PatchOf(plan.Volumes, old) // already retained
	}
	if link.Before != "" { // the volume does not return, so it gets back its link from before the rollback
		link.Operation, link.Before = link.Before, ""
	}
	return retain(in, old, *link)
}

// retain starts the retention of a volume that an operation no longer uses.
func retain(in Input, volume *corev1.PersistentVolume, link api.Link) *plan.Patch {
	link.Role = api.RoleOldVolume
	until := in.Now.Add(in.Settings.Retention).UTC().Truncate(time.Second).Format(time.RFC3339)
	return world.HoldVolume(volume, link).Annotate(api.RetainedUntilAnnotation, until).Unannotate(api.ClaimManifestAnnotation)
}
