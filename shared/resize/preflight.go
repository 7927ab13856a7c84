package resize

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/window"
	"drydock.dev/shared/world"
)

const (
	// maxClaims keeps the record well within the 256 KiB that all annotations of an object may have.
	maxClaims = 256
	// maxManifest leaves room in the same limit for the set's manifest, which is stored while the set is created again.
	maxManifest = 200 << 10
	// revisionHash is the longest hash that the StatefulSet controller appends to a set's name for the label
	// controller-revision-hash of its pods.
	revisionHash = 10
)

// Preflight returns everything that could stop the resize half way, before anything is touched. Each problem alone is a reason to refuse
// the request. The most important problems come first.
func Preflight(in Input, w *Changes) []Problem {
	var found []Problem
	for _, check := range []func(Input, *Changes) []Problem{
		checkGrowing, checkMethods, checkNames, checkNodeAccess, checkRuntime, checkOwner, checkMover, checkHooks, checkFields, checkClasses,
		checkProvisioners, checkTopology, checkClaims,
		checkFinalizers, checkAttributesClasses, checkAttributes, checkLimits, checkQuotas, checkRetained, checkAnnotationSizes,
	} {
		found = append(found, check(in, w)...)
	}
	return found
}

// checkGrowing refuses a smaller size while the storage grows the volume. The storage finishes what it has begun, so the volume would end
// larger than requested. A requested copy goes to another volume, and need not wait.
func checkGrowing(in Input, w *Changes) []Problem {
	if api.Method(in.Set.Annotations[api.ResizeMethodAnnotation]) == api.MethodCopy {
		return nil
	}
	var found []Problem
	for _, c := range w.Claims {
		target, size := w.targets[c.Template], statefulset.Requested(c.PersistentVolumeClaim)
		if statefulset.Shrinks(c.PersistentVolumeClaim, target) && statefulset.StorageGrows(c.PersistentVolumeClaim) {
			found = append(found, problem(api.ClaimBusy, "claim %s cannot become %s now, because the storage is growing its volume to %s. Wait "+
				"until that has ended; the request then shrinks the volume by a copy. If the growth does not end, set %s=%s", c.Name,
				&target.Size, &size, api.ResizeMethodAnnotation, api.MethodCopy))
		}
	}
	return found
}

// checkNames checks limits on names, numbers and sizes.
func checkNames(in Input, w *Changes) []Problem {
	var found []Problem
	if len(in.Set.Name)+1+revisionHash > validation.LabelValueMaxLength {
		found = append(found, problem(api.NameTooLong, "StatefulSet name %s has %d characters; with more than %d, the pods' label "+
			"controller-revision-hash becomes too long and they may not start again. Move the data to a set with a shorter name",
			in.Set.Name, len(in.Set.Name), validation.LabelValueMaxLength-1-revisionHash))
	}
	if len(w.Claims) > maxClaims {
		found = append(found, problem(api.TooManyClaims, "the request changes %d claims, but one operation takes at most %d. Name fewer "+
			"templates in %s", len(w.Claims), maxClaims, api.ResizeAnnotation))
	}
	if w.Recreate && len(api.EncodeManifest(in.Set)) > maxManifest {
		found = append(found, problem(api.TooManyClaims, "the manifest of StatefulSet %s has more than %d bytes, too many to store it "+
			"while the set is created again. Delete the set with --cascade=orphan and apply it with the new template", in.Set.Name, maxManifest))
	}
	return found
}

// checkNodeAccess refuses sets whose pods have access to their nodes, if the set has to be stopped or created again. An admission policy
// denies restore such pods, so that a stolen token of restore gives no access to nodes.
func checkNodeAccess(in Input, w *Changes) []Problem {
	by := statefulset.NodeAccess(&in.Set.Spec.Template.Spec)
	if by == "" || in.Cluster.NodeAccess || !w.ConcernsOwner() {
		return nil
	}
	return []Problem{problem(api.NodeAccessDenied, "the pods of StatefulSet %s get access to their nodes through %s, so Drydock does not "+
		"create the set again. Allow it with: kubectl label namespace %s %s=%s, then %s", in.Set.Name, by, in.Set.Namespace,
		api.NodeAccessLabel, api.AllowValue, operation.RetryCommand(in.Set))}
}

// checkRuntime finds pods whose volumes a mover beside them cannot read consistently: pods on Windows, and pods in a guest with a separate
// kernel and page cache. The name of the RuntimeClass has to reveal the guest, because only administrators may read its handler.
func checkRuntime(in Input, w *Changes) []Problem {
	pod := in.Set.Spec.Template.Spec
	system, class := pod.NodeSelector[corev1.LabelOSStable], ""
	if pod.OS != nil {
		system = string(pod.OS.Name)
	}
	if pod.RuntimeClassName != nil {
		class = *pod.RuntimeClassName
	}
	switch {
	case !w.replacesVolumes():
	case strings.EqualFold(system, string(corev1.Windows)):
		return []Problem{problem(api.RuntimeUnsupported, "the pods of StatefulSet %s run on Windows, and movers cannot read Windows file "+
			"systems. Grow the claims in place with %s=%s", in.Set.Name, api.ResizeMethodAnnotation, api.MethodExpand)}
	case strings.Contains(class, "kata") && statefulset.Replicas(in.Set) > 0:
		return []Problem{problem(api.RuntimeUnsupported, "the pods of StatefulSet %s run in guests (RuntimeClass %s), so a mover beside them "+
			"does not see their writes. Scale the set to zero, then retry with %s", in.Set.Name, class,
			operation.RetryCommand(in.Set))}
	}
	return nil
}

// ConcernsOwner reports whether an owner of the set would undo changes that the resize makes.
func (w *Changes) ConcernsOwner() bool { return w.Recreate || w.stopsMembers() }

// checkOwner refuses a set whose owner Drydock cannot pause.
func checkOwner(in Input, w *Changes) []Problem {
	owner := statefulset.Controller(in.Set)
	if !w.ConcernsOwner() || owner == nil || api.OwnerPolicy(in.Set.Annotations[api.OwnerPolicyAnnotation]) == api.OwnerIgnore {
		return nil
	}
	gv, err := schema.ParseGroupVersion(owner.APIVersion)
	row, known := in.Registry.Find(gv.Group, owner.Kind)
	switch {
	case err != nil || !known:
	case row.Supports(owners.ByPause) || row.PausedThroughController:
		return nil // pause-owner pauses it, or reports why it cannot
	default:
		return []Problem{problem(api.OwnerNotPausable, "the operator of %s %s can stop StatefulSet %s for a sleep, but cannot be paused for a "+
			"resize, and would undo its stop. Scale the operator's own Deployment to zero, then set the annotation %s=%s", owner.Kind,
			owner.Name, in.Set.Name, api.OwnerPolicyAnnotation, api.OwnerIgnore)}
	}
	return []Problem{problem(
		api.OwnerNotPausable,
		"%s %s (%s) controls StatefulSet %s and would undo its stop; %s. "+
			"Or pause it yourself, then set the annotation %s=%s",
		owner.Kind,
		owner.Name,
		owner.APIVersion,
		in.Set.Name,
		owners.UnknownKindMessage(gv.Group, owner.Kind),
		api.OwnerPolicyAnnotation,
		api.OwnerIgnore,
	)}
}

// checkMover finds problems with the user and the options of movers.
func checkMover(in Input, w *Changes) []Problem {
	if !w.replacesVolumes() {
		return nil
	}
	var found []Problem
	options, err := resources.MoverOptionsOf(in.Set, in.Cluster.MoverConfig)
	if _, err := resources.MoverUser(in.Set, admittedContext(in), options.RootAllowed(in.Cluster.RootMovers)); err != nil {
		found = append(found, problem(api.RootMoverNeeded, "%v", err))
	}
	if err != nil {
		found = append(found, problem(api.MoverInvalid, "%v. Correct it", err))
	}
	return found
}

// checkClasses finds StorageClasses that do not exist, each once.
func checkClasses(in Input, w *Changes) []Problem {
	var found []Problem
	reported := map[string]bool{}
	for _, t := range w.Templates {
		if t.Class != "" && in.Cluster.Classes[t.Class] == nil {
			reported[t.Class] = true
			found = append(found, problem(api.UnknownClass, "StorageClass %s, requested for template %s, does not exist. Name a class from "+
				"kubectl get storageclass", t.Class, t.Name))
		}
	}
	for _, c := range w.Claims {
		if class := w.futureClass(c); !reported[class] && (class == "" || in.Cluster.Classes[class] == nil) {
			found = append(found, problem(api.UnknownClass, "claim %s has StorageClass %q, which does not exist, so no new volume can be "+
				"provisioned. Name a class in %s", c.Name, class, api.ResizeAnnotation))
		}
	}
	return found
}

// checkClaims finds claims that are foreign, busy, or cannot be copied.
func checkClaims(in Input, w *Changes) []Problem {
	var found []Problem
	for _, c := range w.Claims {
		size, target := statefulset.VolumeSize(c.PersistentVolumeClaim), w.futureSize(c)
		if !statefulset.Belongs(c.PersistentVolumeClaim, in.Set) {
			found = append(found, problem(api.ForeignClaim, "claim %s has the name of a claim of StatefulSet %s, but it lacks the labels of the "+
				"set's selector or has another owner. If it belongs to the set, give it the labels %v", c.Name, in.Set.Name,
				in.Set.Spec.Selector.MatchLabels))
		}
		if c.DeletionTimestamp != nil {
			found = append(found, problem(api.ClaimBusy, "claim %s is being deleted. Wait until it is gone", c.Name))
		}
		if c.Method == api.MethodCopy && statefulset.IsBlock(c.PersistentVolumeClaim) && size.Cmp(target) > 0 {
			found = append(found, problem(api.ShrinkRefused, "claim %s is a raw block volume of %s. It cannot shrink to %s, because its used "+
				"size is unknown. Request at least %s", c.Name, &size, &target, &size))
		}
		found = append(found, checkUsers(in, c)...)
	}
	return found
}

// checkUsers finds foreign pods that use a claim whose member has to stop.
func checkUsers(in Input, c Claim) []Problem {
	if !c.StopsMember() {
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

// StartObstacles returns the obstacles to a start that usually pass by themselves. Only LinkInvalid does not, and leads to a refusal.
func StartObstacles(in Input, w *Changes) []Problem {
	var found []Problem
	if w.Recreate && statefulset.TwoRevisions(in.Set) {
		found = append(found, problem(api.RolloutRunning,
			"a partition keeps pods of an older revision, but a set that is created again loses that revision. Finish the rollout, or undo it"))
	}
	if old := podsToDelete(in); len(old) > 0 && w.stopsMembers() {
		found = append(found, problem(api.RolloutRunning, "the update strategy is OnDelete, and these pods have an older revision of the pod "+
			"template: %s. Wait until the operator of the set has deleted them, which it does not do while it is paused, or delete them one by one",
			strings.Join(old, ", ")))
	}
	for _, revision := range in.Journals {
		found = append(found, journalLeft(revision))
	}
	for _, c := range w.Claims {
		switch link, err := api.LoadLink(c); {
		case err != nil:
			found = append(found, problem(api.LinkInvalid, "%v", err))
		case link != nil:
			found = append(found, problem(api.CleaningUp, "claim %s still belongs to operation %s", c.Name, link.Operation))
		case c.Spec.VolumeName == "":
			found = append(found, problem(api.ClaimNotBound, "claim %s has no volume yet. Look at kubectl describe pvc -n %s %s", c.Name,
				c.Namespace, c.Name))
		case in.Volume(c.Spec.VolumeName) == nil:
			found = append(found, problem(api.ClaimNotBound, "volume %s of claim %s does not exist. Restore the volume, or delete the claim if its "+
				"data is no longer needed", c.Spec.VolumeName, c.Name))
		}
	}
	return found
}

// journalLeft returns the obstacle of a journal. No operation runs, so it belongs to one that lost its record and has to be undone, or that
// has ended and is not yet cleaned up. A new operation would take over its volumes, and then nobody could tell which of them its claims
// need.
func journalLeft(revision *appsv1.ControllerRevision) Problem {
	journal, err := api.LoadJournal(revision)
	if err != nil {
		return problem(api.LinkInvalid, "an earlier operation has left a journal that cannot be read, ControllerRevision %s: %v. Check that no "+
			"pod of the StatefulSet is held and that each claim has its volume. Then delete the journal", revision.Name, err)
	}
	return problem(api.CleaningUp, "operation %s is not cleaned up yet. Find the cause if that lasts: kubectl describe -n %s sts/%s",
		journal.Record.Operation, revision.Namespace, journal.Record.Set.Name)
}

// podsToDelete returns the pods of an OnDelete set that have another revision than their replacements. No member with such a pod is
// stopped, because the stop would also be a rollout.
func podsToDelete(in Input) []string {
	if in.Set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType {
		return nil
	}
	var old []string
	for ordinal := statefulset.Start(in.Set); ordinal < statefulset.Start(in.Set)+int(statefulset.Replicas(in.Set)); ordinal++ {
		pod := in.MemberPod(ordinal)
		if pod != nil && statefulset.IsPodOf(pod, in.Set) && in.OtherRevision(pod, ordinal) != "" {
			old = append(old, pod.Name)
		}
	}
	return old
}

// PassesByItself reports whether the problem passes by itself, so that the resize waits and is not refused.
func (p Problem) PassesByItself() bool {
	return p.Reason == api.RolloutRunning || p.Reason == api.CleaningUp || p.Reason == api.ClaimNotBound
}

// CutoverObstacle describes the approval or the window that the set's members wait for before they may be stopped. It is empty if they may
// be stopped now. The user chooses with api.CutoverAnnotation.
func CutoverObstacle(o *world.Observed, record *api.Resize) string {
	switch cutover := o.Set.Annotations[api.CutoverAnnotation]; cutover {
	case "", api.CutoverAuto:
		return ""
	case api.CutoverApprove:
		if o.Set.Annotations[api.ApproveAnnotation] == record.Operation {
			return ""
		}
		return fmt.Sprintf("an approval: kubectl drydock approve -n %s sts/%s, or the annotation %s=%s", o.Set.Namespace, o.Name,
			api.ApproveAnnotation, record.Operation)
	default:
		return closedWindows(cutover, o.Now)
	}
}

// closedWindows describes the windows if none of them is open now. It is empty if one is.
func closedWindows(cutover string, now time.Time) string {
	windows, err := window.Parse(cutover)
	switch {
	case err != nil:
		return fmt.Sprintf("a readable annotation %s: %v", api.CutoverAnnotation, err)
	case slices.ContainsFunc(windows, func(window window.Window) bool { return window.Open(now) }):
		return ""
	}
	return "the window " + cutover
}
