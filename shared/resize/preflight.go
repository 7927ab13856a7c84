package resize

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

const (
	// maxClaims keeps the status document well within the 256 KiB that all annotations of an object may have.
	maxClaims = 256
	// maxManifest leaves room in the same limit for the set's manifest while it is created again.
	maxManifest = 200 << 10
	// revisionHash is the longest hash that the StatefulSet controller appends to a set's name for the label
	// controller-revision-hash of its pods.
	revisionHash = 10
)

// Preflight looks for everything that could stop the resize half way, before anything is touched. Each problem alone is a
// refusal; the most important come first.
func Preflight(in Input, w *Wish) []Problem {
	var found []Problem
	for _, check := range []func(Input, *Wish) []Problem{
		checkMethods, checkNames, checkNodeAccess, checkRuntime, checkOwner, checkMover, checkHooks, checkFields, checkClasses, checkProvisioners,
		checkTopology, checkClaims,
		checkFinalizers, checkAttributesClasses, checkAttributes, checkLimits, checkQuotas, checkRetained, checkDocuments,
	} {
		found = append(found, check(in, w)...)
	}
	return found
}

func checkNames(in Input, w *Wish) []Problem {
	var found []Problem
	if len(in.Set.Name)+1+revisionHash > validation.LabelValueMaxLength {
		found = append(found, problem(api.NameTooLong, "StatefulSet name %s has %d characters; above %d its pods' label "+
			"controller-revision-hash gets too long and they may not start again after a stop; move the data to a set with a shorter name",
			in.Set.Name, len(in.Set.Name), validation.LabelValueMaxLength-1-revisionHash))
	}
	if len(w.Claims) > maxClaims {
		found = append(found, problem(api.TooManyClaims, "%d claims are to be resized, one operation takes at most %d; name fewer templates in "+
			"%s", len(w.Claims), maxClaims, api.ResizeAnnotation))
	}
	if w.Recreate && len(api.EncodeManifest(in.Set)) > maxManifest {
		found = append(found, problem(api.TooManyClaims, "the manifest of StatefulSet %s has more than %d bytes, too many to be kept safe "+
			"while the set is created again; delete it with --cascade=orphan and apply it with the new template yourself", in.Set.Name, maxManifest))
	}
	return found
}

// checkNodeAccess refuses pods that a policy would refuse when the set is created again: a stolen token of restore must not get hold of
// nodes.
func checkNodeAccess(in Input, w *Wish) []Problem {
	by := statefulset.NodeAccess(&in.Set.Spec.Template.Spec)
	if by == "" || in.Cluster.NodeAccess || !w.AsksOwner() {
		return nil
	}
	return []Problem{problem(api.NodeAccessDenied, "the pods of StatefulSet %s get hold of their node by %s, so Drydock does not create it "+
		"again. Allow it with: kubectl label namespace %s %s=%s; then ask again with "+
		"%s", in.Set.Name, by, in.Set.Namespace, api.NodeAccessLabel, api.AllowValue, api.RetryAnnotation)}
}

// checkRuntime finds pods whose volumes a mover beside them cannot read as they do: those of Windows, and those that run in a guest with a
// kernel and a page cache of its own. The name of the RuntimeClass has to tell, since only administrators may read its handler.
func checkRuntime(in Input, w *Wish) []Problem {
	pod := in.Set.Spec.Template.Spec
	system, class := pod.NodeSelector[corev1.LabelOSStable], ""
	if pod.OS != nil {
		system = string(pod.OS.Name)
	}
	if pod.RuntimeClassName != nil {
		class = *pod.RuntimeClassName
	}
	switch {
	case !w.copies():
	case strings.EqualFold(system, string(corev1.Windows)):
		return []Problem{problem(api.RuntimeUnsupported, "the pods of StatefulSet %s run on Windows, whose file systems no mover can read. "+
			"Grow the claims in place: %s=%s", in.Set.Name, api.ResizeMethodAnnotation, api.MethodExpand)}
	case strings.Contains(class, "kata") && statefulset.Replicas(in.Set) > 0:
		return []Problem{problem(api.RuntimeUnsupported, "the pods of StatefulSet %s run in guests (RuntimeClass %s), so no mover beside them "+
			"sees what they write. Scale the set to zero, then ask again with %s", in.Set.Name, class, api.RetryAnnotation)}
	}
	return nil
}

// AsksOwner reports whether an owner would undo changes of the resize.
func (w *Wish) AsksOwner() bool { return w.Recreate || w.holds() }

func checkOwner(in Input, w *Wish) []Problem {
	owner := statefulset.Controller(in.Set)
	if !w.AsksOwner() || owner == nil || api.OwnerPolicy(in.Set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerIgnore {
		return nil
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	if _, known := in.Registry.Find(gv.Group, owner.Kind); known && err == nil {
		return nil // pause-owner pauses it, or finds out why it cannot
	}
	return []Problem{problem(api.OwnerNotPausable, "%s %s (%s) controls StatefulSet %s and would undo its stop; %s: "+
		"pause it yourself, then set the annotation %s=%s",
		owner.Kind, owner.Name, owner.APIVersion, in.Set.Name, owners.Unknown(gv.Group, owner.Kind), api.OwnerPolicyAnnotation, api.OwnerIgnore)}
}

func checkMover(in Input, w *Wish) []Problem {
	if !w.copies() {
		return nil
	}
	var found []Problem
	options, err := resources.MoverOptionsOf(in.Set, in.Cluster.MoverConfig)
	if _, err := resources.MoverUser(in.Set, admitted(in), options.RootAllowed(in.Cluster.RootMovers)); err != nil {
		found = append(found, problem(api.RootMoverNeeded, "%v", err))
	}
	if err != nil {
		found = append(found, problem(api.MoverInvalid, "%v. Correct it", err))
	}
	return found
}

func checkClasses(in Input, w *Wish) []Problem {
	var found []Problem
	told := map[string]bool{}
	for _, t := range w.Templates {
		if t.Class != "" && in.Cluster.Classes[t.Class] == nil {
			told[t.Class] = true
			found = append(found, problem(api.UnknownClass, "storage class %s, asked for template %s, does not exist; name one of those that "+
				"kubectl get storageclass lists", t.Class, t.Name))
		}
	}
	for _, c := range w.Claims {
		if class := w.class(c); !told[class] && (class == "" || in.Cluster.Classes[class] == nil) {
			found = append(found, problem(api.UnknownClass, "claim %s is of storage class %q, which does not exist, so no new volume can be "+
				"provisioned; name a class in %s", c.Name, class, api.ResizeAnnotation))
		}
	}
	return found
}

func checkClaims(in Input, w *Wish) []Problem {
	var found []Problem
	for _, c := range w.Claims {
		size, target := statefulset.Requested(c.PersistentVolumeClaim), w.size(c)
		if !statefulset.Belongs(c.PersistentVolumeClaim, in.Set) {
			found = append(found, problem(api.ForeignClaim, "claim %s has the name of one of StatefulSet %s but not the labels of its selector, "+
				"or another owner; if it is the set's, give it the labels %v", c.Name, in.Set.Name, in.Set.Spec.Selector.MatchLabels))
		}
		if c.DeletionTimestamp != nil {
			found = append(found, problem(api.ClaimBusy, "claim %s is being deleted. Wait until it is gone", c.Name))
		}
		if c.Method == api.MethodCopy && statefulset.IsBlock(c.PersistentVolumeClaim) && size.Cmp(target) > 0 {
			found = append(found, problem(api.ShrinkRefused, "claim %s is a raw block volume of %s; nothing tells how much of it is in use, so it "+
				"cannot be copied to one of %s. Ask for at least %s", c.Name, &size, &target, &size))
		}
		found = append(found, checkUsers(in, c)...)
	}
	return found
}

func checkUsers(in Input, c Claim) []Problem {
	if !c.Held() {
		return nil
	}
	var found []Problem
	for _, pod := range in.Users(c.Name) {
		if !statefulset.IsPodOf(pod, in.Set) {
			found = append(found, problem(api.ForeignConsumer, "claim %s is in use by pod %s, which does not belong to StatefulSet %s. Delete the "+
				"pod, or wait until it has ended", c.Name, pod.Name, in.Set.Name))
		}
	}
	return found
}

func checkLimits(in Input, w *Wish) []Problem {
	var found []Problem
	for i := range in.Cluster.Limits {
		limits := &in.Cluster.Limits[i]
		for _, item := range limits.Spec.Limits {
			if item.Type == corev1.LimitTypePersistentVolumeClaim {
				found = append(found, checkLimit(w, limits.Name, item)...)
			}
		}
	}
	return found
}

func checkLimit(w *Wish, name string, item corev1.LimitRangeItem) []Problem {
	var found []Problem
	for _, t := range w.Templates {
		if largest, ok := item.Max[corev1.ResourceStorage]; ok && t.Size.Cmp(largest) > 0 {
			found = append(found, problem(api.LimitExceeded, "LimitRange %s allows claims of at most %s, template %s is to have %s; raise the "+
				"limit or ask for less", name, &largest, t.Name, &t.Size))
		}
		if least, ok := item.Min[corev1.ResourceStorage]; ok && t.Size.Cmp(least) < 0 {
			found = append(found, problem(api.LimitExceeded, "LimitRange %s asks claims for at least %s, template %s is to have %s; ask for more",
				name, &least, t.Name, &t.Size))
		}
	}
	return found
}
