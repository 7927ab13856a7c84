package resize

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// returning is a claim's old volume, with the size, class and modes that the claim had on it.
type returning struct {
	api.Target
	volume string
}

// Rollback says which claims get back the volumes that the operation has left behind, and which templates the set had with
// them. Whether anything is in the way is for Unsettled and PreflightRollback to say.
func Rollback(in Input, operation string) *Wish {
	// Without a record, the attempt is not known; the id must differ from that of the operation to be rolled back.
	wish := &Wish{Request: in.Set.Annotations[api.ResizeAnnotation], Attempt: 1, seed: api.RollbackRequest(operation), undoes: operation,
		targets: map[string]api.Target{}, back: map[string]returning{}}
	record, _ := in.Record() //nolint:errcheck // the volumes are enough, and callers that write have asked Busy
	if record != nil {
		wish.Attempt = record.Attempt + 1
	}
	for _, c := range statefulset.ClaimsOf(in.Set, in.Claims) {
		found := left(in, operation, c.Name)
		lost := spent(in, operation, c)
		if len(found) == 0 {
			lost = cmp.Or(lost, moved(record, operation, c))
		}
		if lost != "" {
			wish.refuse(problem(api.RollbackImpossible, "volume %s, which operation %s has left behind of claim %s, is not kept any more, or is "+
				"in use; without it the replicas would have data of different times. Ask for the earlier size with the annotation %s "+
				"instead", lost, operation, c.Name, api.ResizeAnnotation))
		}
		if len(found) > 1 {
			wish.refuse(problem(api.RollbackImpossible, "operation %s has left volumes %s and %s behind of claim %s, one of which is a copy; "+
				"take the label %s off the one that is not to come back", operation, found[0].Name, found[1].Name, c.Name, api.OperationLabel))
		}
		if len(found) != 1 {
			continue
		}
		old := found[0]
		target := api.Target{Size: asked(record, operation, c.Name, old), Class: old.Spec.StorageClassName, Modes: old.Spec.AccessModes,
			Exact: true}
		wish.Claims, wish.back[c.Name] = append(wish.Claims, Claim{c, api.MethodRollback}), returning{target, old.Name}
		if known, ok := wish.targets[c.Template]; !ok || known.Size.Cmp(target.Size) < 0 {
			wish.targets[c.Template] = target
		}
	}
	wish.formerTemplates(in)
	return wish
}

// formerTemplates gives the set the templates that fit the old volumes.
func (w *Wish) formerTemplates(in Input) {
	for _, template := range in.Set.Spec.VolumeClaimTemplates {
		if target, ok := w.targets[template.Name]; ok {
			w.Templates = append(w.Templates, api.TemplateTarget{Name: template.Name, Size: target.Size, Class: target.Class,
				Modes: target.Modes})
			w.Recreate = w.Recreate || statefulset.Differs(in.Set, template.Name, target)
		}
	}
}

// left returns the kept old volumes of the claim from the operation: none, one, or two if the operation was undone and it was not clear
// which one the claim needs. A volume that is in use again is not kept any more.
func left(in Input, operation, claim string) []*corev1.PersistentVolume {
	var found []*corev1.PersistentVolume
	for _, name := range slices.Sorted(maps.Keys(in.Volumes)) {
		if v := in.Volumes[name]; Kept(v, operation, in.Set.Name, claim) && !world.Expired(v, in.Now) {
			found = append(found, v)
		}
	}
	return found
}

// spent returns an old volume of the claim from the operation that cannot be restored any more: its window is over, or it is in use by
// another claim. Empty if there is none.
func spent(in Input, operation string, claim statefulset.Claim) string {
	for _, name := range slices.Sorted(maps.Keys(in.Volumes)) {
		v := in.Volumes[name]
		link, err := api.LoadLink(v)
		behind := err == nil && link != nil && link.Role == api.RoleRetired && link.Operation == operation && link.Set.Name == in.Set.Name &&
			link.Claim == claim.Name
		if behind && name != claim.Spec.VolumeName && (v.Status.Phase != corev1.VolumeReleased || world.Expired(v, in.Now)) {
			return name
		}
	}
	return ""
}

// moved returns the old volume of the claim according to the record of the operation, or of a failed rollback of it; empty if the claim was
// not moved.
func moved(record *api.Resize, operation string, claim statefulset.Claim) string {
	if record == nil {
		return ""
	}
	member, move := record.Member(claim.Ordinal), record.Move(claim.Name)
	switch {
	case move == nil || claim.Spec.VolumeName == move.OldVolume && record.Operation == operation:
		return "" // it never left its volume, or is back on it
	case record.Operation == operation && member.Phase == api.MemberMoved:
		return move.OldVolume
	case gaveUpRollback(record, operation) && member.Phase != api.MemberMoved:
		return move.NewVolume
	}
	return ""
}

// gaveUpRollback reports whether the record is of a rollback of the operation that failed.
func gaveUpRollback(record *api.Resize, operation string) bool {
	return record.IsRollback() && record.Phase == api.Failed && record.RollsBack == operation
}

// Kept reports whether the volume is a kept old volume of the set's claim from the operation.
func Kept(v *corev1.PersistentVolume, operation, set, claim string) bool {
	link, err := api.LoadLink(v)
	return err == nil && link != nil && link.Role == api.RoleRetired && link.Operation == operation && link.Set.Name == set &&
		link.Claim == claim &&
		v.Status.Phase == corev1.VolumeReleased
}

// asked returns the size that the claim asked for on its old volume: from the record of the operation, or of a failed rollback of it; else
// the volume's capacity.
func asked(record *api.Resize, operation, claim string, old *corev1.PersistentVolume) (size resource.Quantity) {
	size = old.Spec.Capacity[corev1.ResourceStorage]
	if record == nil || record.Move(claim) == nil {
		return size
	}
	move, known := record.Move(claim), resource.Quantity{}
	switch {
	case record.Operation == operation && move.OldVolume == old.Name:
		known = move.From
	case gaveUpRollback(record, operation) && move.NewVolume == old.Name:
		known = move.To
	}
	if known.Sign() > 0 && known.Cmp(size) < 0 {
		return known
	}
	return size
}

// PreflightRollback looks for everything that could stop a rollback half way.
func PreflightRollback(in Input, w *Wish, operation string) []Problem {
	if len(w.Claims) == 0 && len(w.Problems) == 0 {
		return []Problem{problem(api.RollbackImpossible, "operation %q has left no volume behind that is still kept for StatefulSet %s; "+
			"kubectl get pv -l %s,%s=%s lists what there is", operation, in.Set.Name, api.OperationLabel, api.NamespaceLabel, in.Set.Namespace)}
	}
	var found []Problem
	for _, check := range []func(Input, *Wish) []Problem{checkNames, checkNodeAccess, checkOwner, checkClasses, checkClaims, checkFinalizers,
		checkReturning, checkLimits, checkDocuments} {
		found = append(found, check(in, w)...)
	}
	return found
}

// checkReturning finds old volumes that the volume controller would not bind to the claim, because they do not match
// (kubernetes pkg/controller/volume/persistentvolume, checkVolumeSatisfyClaim). A rollback copies nothing, so both must match as they are.
func checkReturning(in Input, w *Wish) []Problem {
	var found []Problem
	for _, c := range w.Claims {
		old := in.Volume(w.back[c.Name].volume)
		class, attributes := statefulset.ClassOf(c.PersistentVolumeClaim), valueOr(c.Spec.VolumeAttributesClassName, "")
		if old.Spec.StorageClassName != class {
			attributes = "" // a claim of another class takes none along
		}
		for _, field := range []struct{ what, claim, volume string }{
			{"volumeMode", string(valueOr(c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)),
				string(valueOr(old.Spec.VolumeMode, corev1.PersistentVolumeFilesystem))},
			{"volumeAttributesClassName", attributes, valueOr(old.Spec.VolumeAttributesClassName, "")},
		} {
			if field.claim != field.volume {
				found = append(found, problem(api.RollbackImpossible, "claim %s has the %s %q, volume %s has %q, so they would not be bound to each "+
					"other. "+
					"Ask for the earlier size with the annotation %s instead", c.Name, field.what, field.claim, old.Name, field.volume,
					api.ResizeAnnotation))
			}
		}
		if old.Spec.StorageClassName == "" && class != "" {
			found = append(found, problem(api.RollbackImpossible, "volume %s has no storage class and claim %s is of %s, so they would not be "+
				"bound to each other. Ask for the earlier size with the annotation %s instead", old.Name, c.Name, class, api.ResizeAnnotation))
		}
	}
	return found
}

func valueOr[T any](p *T, otherwise T) T {
	if p == nil {
		return otherwise
	}
	return *p
}
