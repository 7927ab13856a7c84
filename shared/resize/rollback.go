package resize

import (
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
	wish := &Wish{Request: in.Set.Annotations[api.ResizeAnnotation], Attempt: 1, seed: "rollback " + operation, targets: map[string]api.Target{}, back: map[string]returning{}}
	status, err := in.Status()
	if err == nil && status != nil {
		wish.Attempt = status.Attempt + 1
	}
	for _, c := range sts.ClaimsOf(in.Set, in.Claims) {
		old := left(in, operation, c.Name)
		if old == nil {
			continue
		}
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

// left is the volume that the operation has left behind of the claim, and that is kept still; nil if there is none. A volume
// that somebody has put to use again is not kept any more.
func left(in Input, operation, claim string) *corev1.PersistentVolume {
	for _, v := range in.Volumes {
		if Kept(v, operation, in.Set.Name, claim) && !sts.Expired(v, in.Now) {
			return v
		}
	}
	return nil
}

// Kept reports whether the volume is one that the operation has left behind of the set's claim.
func Kept(v *corev1.PersistentVolume, operation, set, claim string) bool {
	link, err := api.LoadLink(v)
	return err == nil && link != nil && link.Role == api.RoleRetired && link.Operation == operation && link.Set.Name == set && link.Claim == claim &&
		v.Status.Phase == corev1.VolumeReleased
}

// asked is the size that the claim on the old volume asked for: the document knows it, if it is still the operation's; else it
// is what the volume has.
func asked(status *api.Status, operation, claim string, old *corev1.PersistentVolume) (size resource.Quantity) {
	size = old.Spec.Capacity[corev1.ResourceStorage]
	if status == nil || status.Operation != operation {
		return size
	}
	if part := status.Claim(claim); part != nil && part.OldVolume == old.Name && part.From.Cmp(size) < 0 {
		return part.From
	}
	return size
}

// PreflightRollback looks for everything that could stop a rollback half way.
func PreflightRollback(in Input, w *Wish, operation string) []Problem {
	if len(w.Claims) == 0 {
		return []Problem{problem(api.RollbackImpossible, "operation %q has left no volume behind that is still kept for StatefulSet %s; "+
			"kubectl get pv -l %s,%s=%s lists what there is", operation, in.Set.Name, api.OperationLabel, api.NamespaceLabel, in.Set.Namespace)}
	}
	var found []Problem
	for _, check := range []func(Input, *Wish) []Problem{checkNames, checkOwner, checkClasses, checkClaims, checkLimits} {
		found = append(found, check(in, w)...)
	}
	return found
}
