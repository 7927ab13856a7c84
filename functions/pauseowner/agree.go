package pauseowner

import (
	"fmt"
	"strings"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/statefulset"
)

// agreementTimeout is how long after a resize its owner stays paused because it says another size than the claims. A paused operator
// replaces no failed pod, so it cannot be for ever.
const agreementTimeout = 24 * time.Hour

// awaitAgreement keeps the owner paused after a resize while it disagrees with the claims: its operator would create the set again, undo
// the resize, or do nothing any more. The problem says so. By the annotation owner-policy, users end the pause, or let Drydock change the
// owner: the changes are then written together with the end of the pause.
func (in Input) awaitAgreement(record OwnerRecord, current operation.Record) (changes []owners.Difference, problem string) {
	resize, ok := current.(*api.Resize)
	if !ok || !hasNewClaims(resize) || !statefulset.Managed(in.Set) || in.Set.DeletionTimestamp != nil ||
		record.Object == nil || record.Object.GetDeletionTimestamp() != nil || !owners.IsHeld(record.Object, resize.Operation) {
		return nil, ""
	}
	policy := api.OwnerPolicy(in.Set.Annotations[api.OwnerPolicyAnnotation])
	differences := record.Row.Differences(record.Object, in.Set.Name, resize.Templates)
	switch {
	case policy == api.OwnerIgnore, len(differences) == 0,
		resize.Finished != nil && !operation.Within(in.Now, resize.Finished.Time, agreementTimeout):
		return nil, ""
	case policy == api.OwnerUpdate && in.Failures.Of(record.Resource, record.Owner.Name) == nil:
		return differences, ""
	}
	return nil, in.disagreement(record, differences)
}

// hasNewClaims reports whether the resize has changed the claims of the set, and no longer stops members.
func hasNewClaims(resize *api.Resize) bool {
	return resize.Phase == api.Succeeded || resize.Phase == api.Finishing || resize.Phase == api.Moving
}

// disagreement says why the owner stays paused after the resize, and what to do.
func (in Input) disagreement(record OwnerRecord, differences []owners.Difference) string {
	var fields []string
	for _, d := range differences {
		fields = append(fields, d.String())
	}
	refused := ""
	if err := in.Failures.Of(record.Resource, record.Owner.Name); err != nil {
		refused = fmt.Sprintf(" The API server rejects Drydock's change: %v.", err)
	}
	return fmt.Sprintf("the data is safe and the pods run on the new volumes, but %s %s stays paused, because its operator would %s: "+
		"%s.%s Change that with kubectl drydock resize -n %s sts/%s --update-owner. To end the pause without it, annotate the "+
		"StatefulSet with %s=%s. It ends %.0f hours after the resize", record.Owner.Kind, record.Owner.Name, record.Row.OnDifference.WouldDo(),
		strings.Join(fields, ", "), refused, in.Namespace, in.Set.Name, api.OwnerPolicyAnnotation, api.OwnerIgnore, agreementTimeout.Hours())
}
