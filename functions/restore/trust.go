package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// journalConflict returns why the operation cannot go on with its journal, or empty. An operation that was given up before it had a journal
// has changed nothing.
func journalConflict(in Input, record *api.Resize) string {
	if in.Journal(record.Operation) == nil && !needsNoJournal(in, record) {
		return fmt.Sprintf("ControllerRevision %s does not exist or belongs to another controller", api.JournalName(record.Operation))
	}
	return moving.JournalConflict(in.Observed, record)
}

// needsNoJournal reports whether the operation can continue without its journal, because it writes to no volume any more and creates no
// set. An operation that only gives the set new templates has no journal at first, but its id proves that Drydock made it.
func needsNoJournal(in Input, record *api.Resize) bool {
	switch record.Phase {
	case api.Finishing:
		return true
	case api.Reverting:
		return (nothingToRelease(record) || nothingTouched(in, record)) && !needsOldTemplates(in, record)
	}
	return len(record.Members) == 0 && record.HasIDOf(in.Set.UID)
}

// nothingToRelease reports whether no member still has to be released.
func nothingToRelease(record *api.Resize) bool {
	return !slices.ContainsFunc(record.Members, func(m api.Member) bool { return m.Phase != api.MemberMoved && m.Phase != api.MemberKept })
}

// nothingTouched reports whether no pod of the members is held and no claim is missing or being deleted.
func nothingTouched(in Input, record *api.Resize) bool {
	for i := range record.Members {
		if pod := in.MemberPod(record.Members[i].Ordinal); pod != nil && statefulset.Held(pod) {
			return false
		}
	}
	for _, move := range record.Moves() {
		if claim := in.Claim(move.Claim); claim == nil || claim.DeletionTimestamp != nil {
			return false
		}
	}
	return true
}

// failUntrusted ends an operation whose record contradicts its journal. Every volume and every claim stays unchanged.
func failUntrusted(in Input, record *api.Resize, problem string) plan.Plan {
	next := operation.ConcludeResize(record, api.Failed, in.Now)
	next.FailedAt, next.Reason = record.Phase, api.StatusInvalid
	remedy := "Remove the annotation; Drydock then undoes the operation from its journal"
	if in.Journal(record.Operation) == nil {
		remedy = fmt.Sprintf("Remove the annotation if no resize was requested; otherwise find the volumes with kubectl get pv -l %s=%s "+
			"and bind the claims to them by hand", api.OperationLabel, record.Operation)
	}
	next.Message = fmt.Sprintf("annotation %s contradicts the journal, so no volume was changed: %s. %s", api.StatusAnnotation, problem,
		remedy)
	return conclude(in, next, events.OperationFailed)
}

// confineVolumes returns the input with only those volumes that belong to the operation according to its journal. The record on the set
// also names volumes, but every user who may edit the set can write it. No code in this package reaches a volume in any other way.
func confineVolumes(in Input, id string) Input {
	observed := *in.Observed
	observed.Volumes = map[string]*corev1.PersistentVolume{}
	journal := in.JournalRecord(id)
	for name, volume := range in.Volumes {
		if journal != nil && belongsToOperation(in, journal, volume) {
			observed.Volumes[name] = volume
		}
	}
	in.Observed = &observed
	return in
}

// belongsToOperation reports whether the volume is part of the operation. Its link must say so, or it must be bound to a claim that the
// journal names or to a temporary claim of the operation.
func belongsToOperation(in Input, journal *api.Resize, volume *corev1.PersistentVolume) bool {
	link, err := api.LoadLink(volume)
	switch {
	case linked(volume.Labels, journal.Operation) && (err != nil || link == nil):
		return journalNamesVolume(journal, volume.Name) // the label is present, but the link was damaged
	case linked(volume.Labels, journal.Operation):
		return link.Namespace == in.Namespace && link.Set.Name == in.Name && journalAgrees(journal, link, volume.Name)
	}
	for _, move := range journal.Moves() {
		claim := in.Claim(move.Claim)
		if claim != nil && statefulset.Bound(claim, volume) || volume.Labels[api.OperationLabel] == "" &&
			provisionedForOperation(in, journal.Operation, move.Claim, volume) {
			return true
		}
	}
	return false
}

// journalAgrees reports whether the journal says the same about the claim as the link on its volume. A copy is made after the journal, so
// the journal cannot name it.
func journalAgrees(journal *api.Resize, link *api.Link, volume string) bool {
	move := journal.Move(link.Claim)
	switch {
	case move == nil:
		return false
	case link.Role == api.RoleSource:
		return move.OldVolume == volume
	case link.Role == api.RoleReturning:
		return journal.IsRollback() && move.NewVolume == volume
	}
	return link.Role == api.RoleTarget || link.Role == api.RoleOldVolume
}

// journalNamesVolume reports whether the journal names the volume as an old one or, in a rollback, as a returning one.
func journalNamesVolume(journal *api.Resize, volume string) bool {
	for _, move := range journal.Moves() {
		if move.OldVolume == volume || journal.IsRollback() && move.NewVolume == volume {
			return true
		}
	}
	return false
}

// provisionedForOperation reports whether the volume was provisioned for a temporary claim of the operation. A volume older than the
// journal does not count once its claim is gone: every user who may create claims could have created one with that name before.
func provisionedForOperation(in Input, id, claim string, volume *corev1.PersistentVolume) bool {
	if !isCopy(volume, id, claim) {
		return false
	}
	if target := in.Claim(volume.Spec.ClaimRef.Name); target != nil && statefulset.IsTarget(target, id) && statefulset.Bound(target,
		volume) {
		return true
	}
	return !olderThanJournal(in, id, volume)
}
