package pauseowner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// agreementTimeout is how long an owner stays paused only because it asks for other sizes than the set. A paused operator replaces no
// failed pod, so it cannot be for ever.
const agreementTimeout = 24 * time.Hour

// awaitAgreement keeps the owner paused while it disagrees with the changes of a resize: its operator would create the set again, undo
// the resize, or do nothing any more. The problem says so. The end of the resize and later records of the set do not matter.
// By the annotation owner-policy, users end the pause, or let Drydock change the owner: the changes are then written together
// with the end of the pause.
func (in Input) awaitAgreement(operations operation.Records, record OwnerRecord) (changes []owners.Difference, problem string) {
	differences := in.disagreements(record)
	switch {
	case len(differences) == 0, in.isHandedOver(operations.Resize, record):
		return nil, ""
	case !operation.Within(in.Now, in.disagreesSince(record), agreementTimeout):
		return nil, ""
	}
	conflicts := record.Row.Conflicts(record.Object, differences, record.Sets)
	why := in.whyNotUpdated(operations.Resize, record, differences)
	if in.updatesOwner() && why == "" && len(conflicts) == 0 {
		return differences, ""
	}
	return nil, in.disagreement(record, differences, conflicts, why)
}

// disagreements returns the fields of a paused owner that disagree with the set since a resize has changed it.
func (in Input) disagreements(record OwnerRecord) []owners.Difference {
	if in.Set == nil || in.Set.DeletionTimestamp != nil || !statefulset.Managed(in.Set) || !ownersApply(in.Set) ||
		record.Err != nil || record.Object == nil || record.Object.GetDeletionTimestamp() != nil || record.holder() == nil {
		return nil
	}
	return record.Row.Differences(record.Object, in.Set, record.holder().Fields)
}

// holder returns the entry of the operation in the owner's annotation, or nil.
func (r OwnerRecord) holder() *api.Holder {
	return owners.HolderOf(r.Object, r.Link.Operation, r.Link.Set.Name)
}

// isHandedOver reports whether another resize needs the owner paused now. It has the fields of this one, so the wait continues
// after it.
func (in Input) isHandedOver(resize *api.Resize, record OwnerRecord) bool {
	return resize.Active() && resize.Operation != record.Link.Operation &&
		owners.HolderOf(record.Object, resize.Operation, in.Name) != nil
}

// holderOf returns the entry of the operation for the owner's annotation. If the owner is already paused for an earlier resize of the
// set, its operator last worked before that one. The write that pauses the owner has the fields, too, so that they are never those of
// another pause.
func (in Input) holderOf(planned operation.Record, o Owner) api.Holder {
	holder := api.Holder{Operation: planned.Head().Operation, Set: in.Set.Name}
	if isSleep(planned) {
		return holder
	}
	if pause, err := api.LoadPause(o.Object); err == nil && pause != nil {
		for _, h := range pause.Holders {
			if h.Set == in.Set.Name && len(h.Fields) > 0 {
				holder.Fields = h.Fields
				return holder
			}
		}
	}
	holder.Fields = o.Row.Followed(o.Object, in.Set)
	return holder
}

// disagreesSince returns since when the pause lasts only because the owner disagrees. If that cannot be stored, it is the beginning of the
// pause.
func (in Input) disagreesSince(record OwnerRecord) time.Time {
	since, err := time.Parse(time.RFC3339, record.Revision.Annotations[api.DisagreesSinceAnnotation])
	switch {
	case err == nil:
		return since
	case in.Failures.Of(plan.ControllerRevisions, record.Revision.Name) != nil:
		return record.Revision.CreationTimestamp.Time
	}
	return operation.Moment(in.Now).Time
}

// beginWait stores once since when the owner disagrees. The patch is empty if that is stored, or cannot be stored.
func (in Input) beginWait(record OwnerRecord) *plan.Patch {
	patch := plan.PatchOf(plan.ControllerRevisions, record.Revision)
	if in.Failures.Of(plan.ControllerRevisions, record.Revision.Name) != nil {
		return patch
	}
	return patch.Annotate(api.DisagreesSinceAnnotation, in.disagreesSince(record).UTC().Format(time.RFC3339))
}

// updatesOwner reports whether the user of the set wants Drydock to change its owner.
func (in Input) updatesOwner() bool {
	return api.OwnerPolicy(in.Set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerUpdate
}

// whyNotUpdated says why Drydock does not change an owner, although the user of the set wants it. The policy of a set is no consent: who
// may write a set may name any owner.
func (in Input) whyNotUpdated(resize *api.Resize, record OwnerRecord, differences []owners.Difference) string {
	if !in.updatesOwner() {
		return ""
	}
	err := in.Failures.Of(record.Resource, record.Owner.Name)
	changing := slices.IndexFunc(record.Sets, func(set *appsv1.StatefulSet) bool {
		resize, err := api.LoadResize(set)
		return set.Name != in.Name && (err != nil || resize.Active() && !operation.NoLongerStops(set, resize))
	})
	edited := slices.IndexFunc(differences, func(d owners.Difference) bool { return d.Edited })
	switch {
	case edited >= 0:
		return fmt.Sprintf("Drydock does not change it, because another client has written %s since its operator last worked",
			differences[edited].Path)
	case resize == nil || resize.Phase != api.Succeeded: // some claims may have the former size
		return "Drydock changes it only if the latest resize has succeeded"
	case err != nil:
		return fmt.Sprintf("The API server rejects Drydock's change: %v", err)
	case !record.Controls:
		return fmt.Sprintf("Drydock does not change it, because StatefulSet %s has another controller now, or none", in.Name)
	case !in.Consent.AllowsUpdate():
		return "The namespace does not let Drydock change it. Allow that with " + owners.UpdateConsentCommand(in.Namespace)
	case changing >= 0:
		return fmt.Sprintf("Drydock changes it when the resize of StatefulSet %s has ended", record.Sets[changing].Name)
	}
	return ""
}

// disagreement says why the owner stays paused, and what to do.
func (in Input) disagreement(record OwnerRecord, differences []owners.Difference, conflicts []owners.Conflict, why string) string {
	var fields []string
	for _, d := range differences {
		fields = append(fields, d.String())
	}
	sentences := []string{fmt.Sprintf("the data is safe and the pods run, but %s %s stays paused, because its operator would %s: %s",
		record.Owner.Kind, record.Owner.Name, record.Row.OnDifference.WouldDo(), strings.Join(fields, ", "))}
	if why != "" {
		sentences = append(sentences, why)
	}
	remedy := fmt.Sprintf("Change that with kubectl drydock resize -n %s sts/%s --update-owner", in.Namespace, in.Name)
	if len(conflicts) > 0 {
		remedy = fmt.Sprintf("But %s. Resize that first: %s", conflicts[0], conflicts[0].Command(in.Namespace))
	}
	return strings.Join(append(sentences, remedy, fmt.Sprintf("To end the pause without it, annotate the StatefulSet with %s=%s. It ends by "+
		"itself at %s", api.OwnerPolicyAnnotation, api.OwnerIgnore,
		in.disagreesSince(record).Add(agreementTimeout).UTC().Format(time.RFC3339))), ". ")
}
