package resize

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/sts"
)

// returning is a claim's old volume, and what the claim asked for on it.
type returning struct {
	api.Target
	volume string
}

// Rollback says which claims get back the volumes that the operation has left behind, and which templates the set had with
// them. Whether anything is in the way is for Unsettled and PreflightRollback to say.
func Rollback(in Input, operation string) *Wish {
	// Without its document the set tells of no attempt; the id must not be that of the operation which is rolled back.
	wish := &Wish{Request: in.Set.Annotations[api.ResizeAnnotation], Attempt: 1, seed: api.RollbackRequest(operation), undoes: operation,
		targets: map[string]api.Target{}, back: map[string]returning{}}
	status, _ := in.Status() //nolint:errcheck // the volumes tell without it, and whoever acts has asked Busy
	if status != nil {
		wish.Attempt = status.Attempt + 1
	}
	if status.Held() {
		wish.refuse(problem(api.RollbackImpossible, "operation %s was given up in the middle of the switch; mend the cause and go on with the annotation %s first",
			status.Operation, api.RetryAnnotation))
	}
	for _, c := range sts.ClaimsOf(in.Set, in.Claims) {
		found := left(in, operation, c.Name)
		lost := spent(in, operation, c)
		if len(found) == 0 {
			lost = cmp.Or(lost, moved(status, operation, c))
		}
		if lost != "" {
			wish.refuse(problem(api.RollbackImpossible, "volume %s, which operation %s has left behind of claim %s, is not kept any more, or is in use; "+
				"without it the replicas would have data of different times. Ask for the earlier size with the annotation %s instead", lost, operation, c.Name, api.ResizeAnnotation))
		}
		if len(found) > 1 {
			wish.refuse(problem(api.RollbackImpossible, "operation %s has left volumes %s and %s behind of claim %s, one of which is a copy; "+
				"take the label %s off the one that is not to come back", operation, found[0].Name, found[1].Name, c.Name, api.OperationLabel))
		}
		if len(found) != 1 {
			continue
		}
		old := found[0]
		target := api.Target{Size: asked(status, operation, c.Name, old), Class: old.Spec.StorageClassName, Modes: old.Spec.AccessModes, Exact: true}
		wish.Claims, wish.back[c.Name] = append(wish.Claims, Claim{c, api.MethodRollback}), returning{target, old.Name}
		if known, ok := wish.targets[c.Template]; !ok || known.Size.Cmp(target.Size) < 0 {
			wish.targets[c.Template] = target
		}
	}
	for _, template := range in.Set.Spec.VolumeClaimTemplates {
		if target, ok := wish.targets[template.Name]; ok {
			wish.Templates = append(wish.Templates, api.TemplateTarget{Name: template.Name, Size: target.Size, Class: target.Class, Modes: target.Modes})
			wish.Recreate = wish.Recreate || sts.Differs(in.Set, template.Name, target)
		}
	}
	return wish
}

// left are the volumes that the operation has left behind of the claim, and that are kept still: one, or none, or two where it was
// undone and nobody could tell which one the claim needs. A volume that somebody has put to use again is not kept any more.
func left(in Input, operation, claim string) []*corev1.PersistentVolume {
	var found []*corev1.PersistentVolume
	for _, name := range slices.Sorted(maps.Keys(in.Volumes)) {
		if v := in.Volumes[name]; Kept(v, operation, in.Set.Name, claim) && !sts.Expired(v, in.Now) {
			found = append(found, v)
		}
	}
	return found
}

// spent is a volume that says itself that the operation has left it behind of the claim, and that is not kept any more: its window is
// over, or somebody has put it to use. If that is the claim itself, it has its old volume back.
func spent(in Input, operation string, claim sts.Claim) string {
	for _, name := range slices.Sorted(maps.Keys(in.Volumes)) {
		v := in.Volumes[name]
		link, err := api.LoadLink(v)
		behind := err == nil && link != nil && link.Role == api.RoleRetired && link.Operation == operation && link.Set.Name == in.Set.Name && link.Claim == claim.Name
		if behind && name != claim.Spec.VolumeName && (v.Status.Phase != corev1.VolumeReleased || sts.Expired(v, in.Now)) {
			return name
		}
	}
	return ""
}

// moved is the volume that the operation has left behind of the claim, as far as its document tells, or that of a rollback of it which
// did not take place; empty if it has not.
func moved(status *api.Resize, operation string, claim sts.Claim) string {
	if status == nil {
		return ""
	}
	part := status.Claim(claim.Name)
	switch {
	case part == nil:
		return ""
	case claim.Spec.VolumeName == part.OldVolume && status.Operation == operation:
		return "" // somebody has put it back
	case status.Operation == operation && part.Phase == api.ClaimSwitched:
		return part.OldVolume
	case status.RollbackGivenUp() == operation && part.Returns():
		return part.NewVolume
	}
	return ""
}

// Kept reports whether the volume is one that the operation has left behind of the set's claim.
func Kept(v *corev1.PersistentVolume, operation, set, claim string) bool {
	link, err := api.LoadLink(v)
	return err == nil && link != nil && link.Role == api.RoleRetired && link.Operation == operation && link.Set.Name == set && link.Claim == claim &&
		v.Status.Phase == corev1.VolumeReleased
}

// asked is the size that the claim on the old volume asked for: the document knows it, if it is still the operation's, or that of a
// rollback of it which did not take place; else it is what the volume has.
func asked(status *api.Resize, operation, claim string, old *corev1.PersistentVolume) (size resource.Quantity) {
	size = old.Spec.Capacity[corev1.ResourceStorage]
	if status == nil || status.Claim(claim) == nil {
		return size
	}
	part, known := status.Claim(claim), resource.Quantity{}
	switch {
	case status.Operation == operation && part.OldVolume == old.Name:
		known = part.From
	case status.RollbackGivenUp() == operation && part.NewVolume == old.Name:
		known = part.To
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
	for _, check := range []func(Input, *Wish) []Problem{checkNames, checkNodeAccess, checkOwner, checkClasses, checkClaims, checkFinalizers, checkReturning, checkLimits, checkDocuments} {
		found = append(found, check(in, w)...)
	}
	return found
}

// checkReturning finds old volumes to which the claim would not be bound: the volume controller compares them
// (kubernetes pkg/controller/volume/persistentvolume, checkVolumeSatisfyClaim), and here nothing is copied that could differ.
func checkReturning(in Input, w *Wish) []Problem {
	var found []Problem
	for _, c := range w.Claims {
		old := in.Volume(w.back[c.Name].volume)
		class, attributes := sts.ClassOf(c.PersistentVolumeClaim), valueOr(c.Spec.VolumeAttributesClassName, "")
		if old.Spec.StorageClassName != class {
			attributes = "" // a claim of another class takes none along
		}
		for _, field := range []struct{ what, claim, volume string }{
			{"volumeMode", string(valueOr(c.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)), string(valueOr(old.Spec.VolumeMode, corev1.PersistentVolumeFilesystem))},
			{"volumeAttributesClassName", attributes, valueOr(old.Spec.VolumeAttributesClassName, "")},
		} {
			if field.claim != field.volume {
				found = append(found, problem(api.RollbackImpossible, "claim %s has the %s %q, volume %s has %q, so they would not be bound to each other. "+
					"Ask for the earlier size with the annotation %s instead", c.Name, field.what, field.claim, old.Name, field.volume, api.ResizeAnnotation))
			}
		}
		if old.Spec.StorageClassName == "" && class != "" {
			found = append(found, problem(api.RollbackImpossible, "volume %s has no storage class and claim %s is of %s, so they would not be bound to each other. "+
				"Ask for the earlier size with the annotation %s instead", old.Name, c.Name, class, api.ResizeAnnotation))
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
