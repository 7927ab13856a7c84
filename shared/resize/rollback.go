package resize

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// Rollback returns the claims that get back the old volumes of the operation, and the templates that the set had with them. Unsettled and
// PreflightRollback find the obstacles.
func Rollback(in Input, operation string) *Changes {
	// Without a record, the attempt is unknown. The seed makes the id differ from the id of the operation that is rolled back.
	request, _ := api.RequestOf(in.Set)
	changes := &Changes{
		Request:   request,
		Attempt:   1,
		seed:      api.RollbackRequest(operation),
		rollsBack: operation,
		targets:   map[string]api.Target{},
		restores:  map[string]restoredClaim{},
	}
	record, _ := in.Record() // the volumes are enough, and callers that write have checked Busy
	if record != nil {
		changes.Attempt = record.Attempt + 1
	}
	for _, c := range statefulset.ClaimsOf(in.Set, in.Claims) {
		found := retiredVolumes(in, operation, c.Name)
		lost := unavailableOldVolume(in, operation, c)
		if len(found) == 0 {
			lost = cmp.Or(lost, recordedOldVolume(record, operation, c))
		}
		if lost != "" {
			changes.addProblem(problem(api.RollbackImpossible, "volume %s, which operation %s retained for claim %s, has expired or is in use, "+
				"so the members would have data of different times. Request the earlier size with the annotation %s instead", lost, operation, c.Name,
				api.ResizeAnnotation))
		}
		if len(found) > 1 {
			changes.addProblem(problem(api.RollbackImpossible, "operation %s retained two volumes for claim %s, %s and %s, and one of them is only "+
				"a copy. Remove the label %s from the volume that must not be restored", operation, c.Name, found[0].Name, found[1].Name,
				api.OperationLabel))
		}
		if len(found) != 1 {
			continue
		}
		old := found[0]
		target := api.Target{Size: formerSize(record, operation, c.Name, old), Class: old.Spec.StorageClassName, Modes: old.Spec.AccessModes,
			Exact: true}
		changes.Claims, changes.restores[c.Name] = append(changes.Claims, Claim{c, api.MethodRollback}), restoredClaim{target, old.Name}
		if known, ok := changes.targets[c.Template]; !ok || known.Size.Cmp(target.Size) < 0 {
			changes.targets[c.Template] = target
		}
	}
	changes.restoreTemplates(in)
	return changes
}

// RequestedRollback returns the id of the operation that the set's annotation asks to roll back, or nothing. record belongs to the set's
// latest operation. An operator may copy annotations of its resource to its set again and again, so there an order counts only for the set
// that it names, and only if it is later than the one that was answered last.
func RequestedRollback(set *appsv1.StatefulSet, record *api.Resize) string {
	text := set.Annotations[api.RollbackAnnotation]
	order, valid := parseRollback(text)
	switch {
	case statefulset.Controller(set) == nil:
		return text
	case !valid || order.uid != string(set.UID) || order.at <= answeredRollback(set, record):
		return ""
	}
	return order.operation
}

// RollbackOrder returns the value of the annotation that asks, at the given time, for a rollback of the operation. On a set of an operator,
// it names the set, and it is later than the order that was answered last.
func RollbackOrder(set *appsv1.StatefulSet, record *api.Resize, operation string, now time.Time) string {
	if statefulset.Controller(set) == nil {
		return operation
	}
	return fmt.Sprintf("%s@%s/%d", operation, set.UID, max(now.Unix(), answeredRollback(set, record)+1))
}

// RollbackNamesNoSet reports whether an operator makes the set, and the rollback annotation does not name a set, so it has no effect.
func RollbackNamesNoSet(set *appsv1.StatefulSet) bool {
	_, valid := parseRollback(set.Annotations[api.RollbackAnnotation])
	return statefulset.Controller(set) != nil && !valid && set.Annotations[api.RollbackAnnotation] != ""
}

// rollbackOrder is an order for a rollback of an operation of the set with the UID, given at a time in seconds since 1970.
type rollbackOrder struct {
	operation, uid string
	at             int64
}

// parseRollback reads the value that RollbackOrder returns for the set of an operator.
func parseRollback(text string) (order rollbackOrder, valid bool) {
	operation, rest, named := strings.Cut(text, "@")
	uid, at, timed := strings.Cut(rest, "/")
	seconds, err := strconv.ParseInt(at, 10, 64)
	return rollbackOrder{operation, uid, seconds}, named && timed && err == nil && seconds > 0 && len(text) <= longestRollback
}

// longestRollback is more than any valid order has, in bytes. The record stores it.
const longestRollback = 100

// answeredRollback returns when the order was given that was answered last for the set, or zero.
func answeredRollback(set *appsv1.StatefulSet, record *api.Resize) int64 {
	if record == nil {
		return 0
	}
	order, valid := parseRollback(record.AnsweredRollback)
	if !valid || order.uid != string(set.UID) {
		return 0
	}
	return order.at
}

// AnswerRollback stores in the record that the set's order for a rollback is answered, if an operator makes the set.
func AnswerRollback(set *appsv1.StatefulSet, record *api.Resize) {
	if statefulset.Controller(set) != nil {
		record.AnsweredRollback = set.Annotations[api.RollbackAnnotation]
	}
}

// restoreTemplates sets the templates that fit the old volumes.
func (w *Changes) restoreTemplates(in Input) {
	for _, template := range in.Set.Spec.VolumeClaimTemplates {
		if target, ok := w.targets[template.Name]; ok {
			w.Templates = append(w.Templates, api.TemplateTarget{Name: template.Name, Size: target.Size, Class: target.Class,
				Modes: target.Modes})
			w.Recreate = w.Recreate || statefulset.TemplateNeedsChange(in.Set, template.Name, target)
		}
	}
}

// retiredVolumes returns the old volumes of the claim that the operation retired and that can be restored. There are two if the operation
// was rolled back and it was not clear which volume the claim needs. A volume that is in use again cannot be restored.
func retiredVolumes(in Input, operation, claim string) []*corev1.PersistentVolume {
	var found []*corev1.PersistentVolume
	for _, name := range slices.Sorted(maps.Keys(in.Volumes)) {
		if v := in.Volumes[name]; IsOldVolume(v, operation, in.Set.Name, claim) && !world.Expired(v, in.Now) {
			found = append(found, v)
		}
	}
	return found
}

// unavailableOldVolume returns the name of an old volume of this claim and operation that can no longer be restored, because its
// retention has expired or another claim uses it. It is empty if there is none.
func unavailableOldVolume(in Input, operation string, claim statefulset.Claim) string {
	for _, name := range slices.Sorted(maps.Keys(in.Volumes)) {
		v := in.Volumes[name]
		link, err := api.LoadLink(v)
		retired := err == nil && link != nil && link.Role == api.RoleOldVolume && link.Operation == operation && link.Set.Name == in.Set.Name &&
			link.Claim == claim.Name
		if retired && name != claim.Spec.VolumeName && (v.Status.Phase != corev1.VolumeReleased || world.Expired(v, in.Now)) {
			return name
		}
	}
	return ""
}

// recordedOldVolume returns the name of the claim's old volume from the record of the operation, or from the record of its failed rollback.
// It is empty if the claim was not moved.
func recordedOldVolume(record *api.Resize, operation string, claim statefulset.Claim) string {
	if record == nil {
		return ""
	}
	member, move := record.Member(claim.Ordinal), record.Move(claim.Name)
	switch {
	case move == nil || claim.Spec.VolumeName == move.OldVolume && record.Operation == operation:
		return "" // the claim never left its volume, or is back on it
	case record.Operation == operation && member.Phase == api.MemberMoved:
		return move.OldVolume
	case isFailedRollback(record, operation) && member.Phase != api.MemberMoved:
		return move.NewVolume
	}
	return ""
}

// isFailedRollback reports whether the record belongs to a failed rollback of the operation.
func isFailedRollback(record *api.Resize, operation string) bool {
	return record != nil && record.IsRollback() && record.Phase == api.Failed && record.RollsBack == operation
}

// IsOldVolume reports whether the volume is an old volume of the set's claim that the operation retired and that no claim uses.
func IsOldVolume(v *corev1.PersistentVolume, operation, set, claim string) bool {
	link, err := api.LoadLink(v)
	return err == nil && link != nil && link.Role == api.RoleOldVolume && link.Operation == operation && link.Set.Name == set &&
		link.Claim == claim &&
		v.Status.Phase == corev1.VolumeReleased
}

// formerSize returns the size that the claim requested on its old volume. It comes from the record of the operation, or of its failed
// rollback. Without such a record it is the volume's capacity.
func formerSize(record *api.Resize, operation, claim string, old *corev1.PersistentVolume) (size resource.Quantity) {
	size = old.Spec.Capacity[corev1.ResourceStorage]
	if record == nil || record.Move(claim) == nil {
		return size
	}
	move, known := record.Move(claim), resource.Quantity{}
	switch {
	case record.Operation == operation && move.OldVolume == old.Name:
		known = move.From
	case isFailedRollback(record, operation) && move.NewVolume == old.Name:
		known = move.To
	}
	if known.Sign() > 0 && known.Cmp(size) < 0 {
		return known
	}
	return size
}

// PreflightRollback returns everything that could stop a rollback half way.
func PreflightRollback(in Input, w *Changes, operation string) []Problem {
	if len(w.Claims) == 0 && len(w.Problems) == 0 {
		return []Problem{problem(api.RollbackImpossible, "operation %q has no old volume that is still retained for StatefulSet %s. "+
			"Look at the old volumes with kubectl get pv -l %s,%s=%s", operation, in.Set.Name, api.OperationLabel, api.NamespaceLabel,
			in.Set.Namespace)}
	}
	var found []Problem
	for _, check := range []func(Input, *Changes) []Problem{checkNames, checkNodeAccess, checkOwner, checkClasses, checkClaims,
		checkFinalizers,
		checkOldVolumes, checkOldVolumesReachable, checkLimits, checkQuotas, checkAnnotationSizes} {
		found = append(found, check(in, w)...)
	}
	return found
}

// checkOldVolumesReachable finds old volumes that no pod of the set could mount, because the set has moved to other nodes since, or another
// volume of the member has.
func checkOldVolumesReachable(in Input, w *Changes) []Problem {
	pods := statefulset.NodesOfPods(&in.Set.Spec.Template.Spec)
	future := map[int][]*corev1.PersistentVolume{} // the volumes after the rollback, by ordinal
	for _, c := range statefulset.ClaimsOf(in.Set, in.Claims) {
		name := c.Spec.VolumeName
		if back, ok := w.restores[c.Name]; ok {
			name = back.volume
		}
		if volume := in.Volume(name); volume != nil {
			future[c.Ordinal] = append(future[c.Ordinal], volume)
		}
	}
	for _, c := range w.Claims {
		old := in.Volume(w.restores[c.Name].volume)
		nodes := statefulset.NodesOfVolume(old)
		if nodes.Disjoint(pods) {
			return []Problem{problem(api.TopologyConflict, "old volume %s of claim %s is reachable only from nodes with %s, but the pods of "+
				"StatefulSet %s run only on nodes with %s. Change the pod template's node selector or affinity first, or request the earlier size "+
				"with the annotation %s instead", old.Name, c.Name, nodes, in.Set.Name, pods, api.ResizeAnnotation)}
		}
		for _, other := range future[c.Ordinal] {
			if away := statefulset.NodesOfVolume(other); nodes.Disjoint(away) {
				return []Problem{problem(api.TopologyConflict, "old volume %s of claim %s is reachable only from nodes with %s, but volume %s of "+
					"the same member only from nodes with %s, so no node could mount both. Roll back the operation that moved the other volume first, "+
					"or request the earlier size with the annotation %s instead", old.Name, c.Name, nodes, other.Name, away, api.ResizeAnnotation)}
			}
		}
	}
	return nil
}

// checkOldVolumes finds old volumes that the volume controller would not bind to the claim, because they do not match
// (kubernetes pkg/controller/volume/persistentvolume, checkVolumeSatisfyClaim). A rollback copies nothing, so it cannot change the volume.
func checkOldVolumes(in Input, w *Changes) []Problem {
	var found []Problem
	for _, c := range w.Claims {
		old := in.Volume(w.restores[c.Name].volume)
		class, attributes := statefulset.ClassOf(c.PersistentVolumeClaim), ptr.Deref(c.Spec.VolumeAttributesClassName, "")
		if old.Spec.StorageClassName != class {
			attributes = "" // a claim that changes its StorageClass loses its attributes class
		}
		for _, field := range []struct{ name, claim, volume string }{
			{"volumeMode", string(ptr.Deref(c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)),
				string(ptr.Deref(old.Spec.VolumeMode, corev1.PersistentVolumeFilesystem))},
			{"volumeAttributesClassName", attributes, ptr.Deref(old.Spec.VolumeAttributesClassName, "")},
		} {
			if field.claim != field.volume {
				found = append(found, problem(api.RollbackImpossible, "claim %s has the %s %q, but old volume %s has %q, so Kubernetes would not bind "+
					"them. Request the earlier size with the annotation %s instead", c.Name, field.name, field.claim, old.Name, field.volume,
					api.ResizeAnnotation))
			}
		}
		if old.Spec.StorageClassName == "" && class != "" {
			found = append(found, problem(api.RollbackImpossible, "claim %s has StorageClass %s, but old volume %s has none, so Kubernetes would "+
				"not bind them. Request the earlier size with the annotation %s instead", c.Name, class, old.Name, api.ResizeAnnotation))
		}
	}
	return found
}
