package restore

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// disowned returns where the record on the set disagrees with the operation's journal; empty if they agree. Every user with the right to
// edit the set can write the record, but only Drydock and cluster administrators can write the journal. An operation that was given up
// before it had a journal has changed nothing.
func disowned(in Input, record *api.Resize) string {
	written := in.Recorded(record.Operation)
	switch {
	case written == nil && in.Journal(record.Operation) != nil:
		return fmt.Sprintf("ControllerRevision %s cannot be read", api.JournalName(record.Operation))
	case written == nil && restsWithoutJournal(in, record):
		return ""
	case written == nil:
		return fmt.Sprintf("ControllerRevision %s does not exist, or belongs to another controller", api.JournalName(record.Operation))
	}
	for _, move := range record.Moves() {
		if !written.Records(move) {
			return fmt.Sprintf("ControllerRevision %s does not name claim %s on volume %s", api.JournalName(record.Operation), move.Claim,
				move.OldVolume)
		}
	}
	return ""
}

// restsWithoutJournal reports whether the operation can go on without its journal: it writes to no volume any more, and creates no set. One
// that only gives the set new templates has no journal at first, but the id that Drydock derives.
func restsWithoutJournal(in Input, record *api.Resize) bool {
	switch record.Phase {
	case api.Finishing:
		return true
	case api.Reverting:
		return (settled(record) || untouched(in, record)) && !templatesBack(in, record)
	}
	return len(record.Members) == 0 && record.HasIDOf(in.Set.UID)
}

// settled reports whether no member is to be released any more.
func settled(record *api.Resize) bool {
	return !slices.ContainsFunc(record.Members, func(m api.Member) bool { return m.Phase != api.MemberMoved && m.Phase != api.MemberKept })
}

// untouched reports whether nothing of the set is held or on its way to another volume.
func untouched(in Input, record *api.Resize) bool {
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

// distrust ends an operation whose record disagrees with its journal. Every volume and every claim stays unchanged.
func distrust(in Input, record *api.Resize, problem string) plan.Plan {
	next := operation.End(record, api.Failed, in.Now)
	next.FailedAt, next.Reason = record.Phase, api.StatusInvalid
	what := "Remove the annotation: the operation is then undone as its journal says"
	if in.Journal(record.Operation) == nil {
		what = fmt.Sprintf("Remove the annotation if no resize was asked for; else look at kubectl get pv -l %s=%s, and give the claims their "+
			"volumes back by hand", api.OperationLabel, record.Operation)
	}
	next.Message = fmt.Sprintf("the annotation %s does not agree with the journal: %s. No volume was touched. %s", api.StatusAnnotation,
		problem, what)
	return conclude(in, next, events.OperationFailed)
}

// confine returns the input with only the volumes that belong to the operation according to its journal. The record on the set names
// volumes, too, but every user with the right to edit the set can write it. Nothing in this package reaches a volume in another way.
func confine(in Input, id string) Input {
	observed := *in.Observed
	observed.Volumes = map[string]*corev1.PersistentVolume{}
	journal := in.Recorded(id)
	for name, volume := range in.Volumes {
		if journal != nil && belongs(in, journal, volume) {
			observed.Volumes[name] = volume
		}
	}
	in.Observed = &observed
	return in
}

// belongs reports whether the volume is one of the operation's: the link on it says so, or it is bound to a claim that the journal names
// or to a temporary claim of the operation.
func belongs(in Input, journal *api.Resize, volume *corev1.PersistentVolume) bool {
	link, err := api.LoadLink(volume)
	switch {
	case linked(volume.Labels, journal.Operation) && (err != nil || link == nil):
		return namesVolume(journal, volume.Name) // the label is there, and the link has been damaged
	case linked(volume.Labels, journal.Operation):
		return link.Namespace == in.Namespace && link.Set.Name == in.Name && agrees(journal, link, volume.Name)
	}
	for _, move := range journal.Moves() {
		claim := in.Claim(move.Claim)
		if claim != nil && statefulset.Bound(claim, volume) || volume.Labels[api.OperationLabel] == "" &&
			provisioned(in, journal.Operation, move.Claim, volume) {
			return true
		}
	}
	return false
}

// agrees reports whether the journal says the same of a claim as the link on a volume. A copy is made after the journal, which cannot
// name it.
func agrees(journal *api.Resize, link *api.Link, volume string) bool {
	move := journal.Move(link.Claim)
	switch {
	case move == nil:
		return false
	case link.Role == api.RoleSource:
		return move.OldVolume == volume
	case link.Role == api.RoleReturning:
		return journal.IsRollback() && move.NewVolume == volume
	}
	return link.Role == api.RoleTarget || link.Role == api.RoleRetired
}

func namesVolume(journal *api.Resize, volume string) bool {
	for _, move := range journal.Moves() {
		if move.OldVolume == volume || journal.IsRollback() && move.NewVolume == volume {
			return true
		}
	}
	return false
}

// provisioned reports whether the volume was provisioned for a temporary claim of the operation. A volume whose claim is gone and that
// is older than the journal is not: anyone who may create claims can have had one of that name before.
func provisioned(in Input, id, claim string, volume *corev1.PersistentVolume) bool {
	if !isCopy(volume, id, claim) {
		return false
	}
	if target := in.Claim(volume.Spec.ClaimRef.Name); target != nil && statefulset.IsTarget(target, id) && statefulset.Bound(target, volume) {
		return true
	}
	return !older(in, id, volume)
}

// older reports whether the volume is older than the operation's journal, or there is no journal.
func older(in Input, id string, volume metav1.Object) bool {
	journal := in.Journal(id)
	created := volume.GetCreationTimestamp()
	return journal == nil || created.Before(&journal.CreationTimestamp)
}
