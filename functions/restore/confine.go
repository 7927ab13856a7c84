package restore

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// confine returns the input with only those volumes that belong to the recorded operation; without a record there are none. The status
// names volumes, too, but whoever may edit the set can write it. The journal and the volumes themselves only Drydock and cluster
// administrators can write. Nothing in this package reaches a volume of an operation in another way.
func confine(in Input, record *api.Resize) Input {
	observed := *in.Observed
	observed.Volumes = map[string]*corev1.PersistentVolume{}
	for name, volume := range in.Volumes {
		if record != nil && belongs(in, record, volume) {
			observed.Volumes[name] = volume
		}
	}
	in.Observed = &observed
	return in
}

// belongs reports whether the volume is one of the recorded operation's: the link on it says so, or it is bound to a claim that the
// journal names or to a temporary claim of the operation.
func belongs(in Input, record *api.Resize, volume *corev1.PersistentVolume) bool {
	link, err := api.LoadLink(volume)
	switch {
	case linked(volume.Labels, record.Operation) && (err != nil || link == nil):
		return namesVolume(record, volume.Name) // the label is there, and the link has been damaged
	case linked(volume.Labels, record.Operation):
		return link.Namespace == in.Namespace && link.Set.Name == in.Name && agrees(record.Claim(link.Claim), link.Role, volume.Name)
	}
	for i := range record.Claims {
		part := &record.Claims[i]
		claim := in.Claim(part.Name)
		if claim != nil && sts.Bound(claim, volume) || volume.Labels[api.OperationLabel] == "" && provisioned(in, record.Operation, part.Name, volume) {
			return true
		}
	}
	return false
}

// agrees reports whether the journal says the same of a claim as the link on a volume. A copy is made after the journal, which cannot
// name it.
func agrees(part *api.ClaimStatus, role api.Role, volume string) bool {
	switch {
	case part == nil:
		return false
	case role == api.RoleSource:
		return part.OldVolume == volume
	case role == api.RoleReturning:
		return part.Returns() && part.NewVolume == volume
	}
	return role == api.RoleTarget || role == api.RoleRetired
}

func namesVolume(record *api.Resize, volume string) bool {
	for _, part := range record.Claims {
		if part.OldVolume == volume || part.Returns() && part.NewVolume == volume {
			return true
		}
	}
	return false
}

// provisioned reports whether the volume was provisioned for a temporary claim of the operation. A volume whose claim is gone and that
// is older than the journal is not: anyone who may create claims can have had one of that name before.
func provisioned(in Input, operation, claim string, volume *corev1.PersistentVolume) bool {
	if !isCopy(volume, operation, claim) {
		return false
	}
	for _, target := range in.TargetClaims(operation) {
		if sts.Bound(target, volume) {
			return true
		}
	}
	return !older(in, operation, volume)
}

// older reports whether the volume is older than the operation's journal, or there is no journal.
func older(in Input, operation string, volume metav1.Object) bool {
	journal := in.Journal(operation)
	created := volume.GetCreationTimestamp()
	return journal == nil || created.Before(&journal.CreationTimestamp)
}

// proceed goes on with an operation that the status says is under way, as far as its journal bears it out.
func proceed(in Input, status *api.Resize) plan.Plan {
	journal, record := in.Journal(status.Operation), in.Recorded(status.Operation)
	if journal != nil && record == nil {
		return plan.Do(api.LinkInvalid, tell(in, api.LinkInvalid, fmt.Sprintf("ControllerRevision %s cannot be read, so no volume of operation %s is touched; "+
			"update Drydock, or look at its data", journal.Name, status.Operation)))
	}
	in = confine(in, record)
	switch problem := unrecorded(record, status); {
	case status.Phase == api.Starting:
		return starting(in, status)
	case problem != "" && astray(in, status):
		return distrust(in, status, problem)
	case status.Phase == api.RollingBack:
		return rollingBack(in, status)
	}
	return switching(in, status)
}

// unrecorded returns what the status says that the journal does not, or nothing.
func unrecorded(record *api.Resize, status *api.Resize) string {
	if record == nil {
		return fmt.Sprintf("ControllerRevision %s does not exist, or belongs to another controller", api.JournalName(status.Operation))
	}
	for _, part := range status.Claims {
		if !record.Records(part) {
			return fmt.Sprintf("ControllerRevision %s does not name claim %s on volume %s", api.JournalName(status.Operation), part.Name, part.OldVolume)
		}
	}
	return ""
}

// astray reports whether going on without a journal could give a claim the wrong volume, or start the set without one of its claims.
// An operation that changes no volumes needs no journal, and one that was given up before it had a journal has changed none.
func astray(in Input, status *api.Resize) bool {
	if status.Phase == api.Switching {
		return !status.Live() && status.Set.UID != "" // else the set's new identity is recorded first, which touches nothing else
	}
	if status.Stopped == nil || in.Set == nil || sts.Replicas(in.Set) != 0 || status.Replicas == 0 {
		return false
	}
	for _, part := range status.Claims {
		claim := in.Claim(part.Name)
		if !part.Settled() && (claim == nil || claim.DeletionTimestamp != nil || claim.Spec.VolumeName != part.OldVolume) {
			return true
		}
	}
	return false
}

// distrust ends an operation whose status is not borne out by a journal. Every volume and every claim stays as it is.
func distrust(in Input, status *api.Resize, problem string) plan.Plan {
	next := status.Clone()
	next.Phase, next.FailedAt, next.Reason, next.Finished, next.Deadline = api.Failed, api.Switching, api.StatusInvalid, operation.Moment(in.Now), nil
	what := "Remove the annotation: the operation is then undone as its journal says"
	if in.Journal(status.Operation) == nil {
		what = fmt.Sprintf("Remove the annotation if nobody asked for a resize; otherwise look at kubectl get pv -l %s=%s, and give the claims their volumes back by hand",
			api.OperationLabel, status.Operation)
	}
	next.Message = fmt.Sprintf("the annotation %s does not agree with the journal: %s. No volume was touched. %s", api.StatusAnnotation, problem, what)
	return conclude(in, next, events.OperationFailed)
}
