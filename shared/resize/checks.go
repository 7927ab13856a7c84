package resize

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// checkLimits finds sizes that a LimitRange does not allow.
func checkLimits(in Input, w *Changes) []Problem {
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

func checkLimit(w *Changes, name string, item corev1.LimitRangeItem) []Problem {
	var found []Problem
	for _, t := range w.Templates {
		if largest, ok := item.Max[corev1.ResourceStorage]; ok && t.Size.Cmp(largest) > 0 {
			found = append(found, problem(api.LimitExceeded, "LimitRange %s allows claims of at most %s, but the request gives template %s %s. "+
				"Raise the limit or request less", name, &largest, t.Name, &t.Size))
		}
		if least, ok := item.Min[corev1.ResourceStorage]; ok && t.Size.Cmp(least) < 0 {
			found = append(found, problem(api.LimitExceeded, "LimitRange %s requires claims of at least %s, but the request gives template %s %s. "+
				"Request more", name, &least, t.Name, &t.Size))
		}
	}
	return found
}

// maxAnnotations is how many bytes the annotations of one object may have: Kubernetes' limit (apimachinery pkg/api/validation,
// TotalAnnotationSizeLimitB), less a reserve for the links and policies that Drydock writes.
const maxAnnotations = 256<<10 - 8<<10

// maxClaimProgress is how many bytes the record of one claim may grow by during the copy: a digest, nodes, figures, the cause of a stall.
const maxClaimProgress = 800

// checkAnnotationSizes finds annotations that leave no room for Drydock's own: the record on the set, and the manifest of the claim on its
// volume. If the API server rejected such a write for its size, the member would stay stopped.
func checkAnnotationSizes(in Input, w *Changes) []Problem {
	record := w.Record(in)
	var found []Problem
	used := bytesOf(in.Set.Annotations) - len(in.Set.Annotations[api.StatusAnnotation])
	if used+len(record.Encode())+maxClaimProgress*len(record.Moves()) > maxAnnotations {
		found = append(found, problem(api.RecordTooLarge, "the annotations of StatefulSet %s have %d bytes and leave no room for the record "+
			"of the resize; an object may have %d. Remove the largest annotations", in.Set.Name, used, 256<<10))
	}
	for _, move := range record.Moves() {
		claim, volume := in.Claim(move.Claim), in.Volume(move.OldVolume)
		if claim == nil || volume == nil {
			continue
		}
		link := record.Link(api.RoleNewClaim, in.Set.Namespace).OfClaim(move.Claim)
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(claim)
		if err != nil {
			continue // unreachable: a claim has JSON
		}
		manifest := api.EncodeClaim(resources.MakeSuccessor(&unstructured.Unstructured{Object: fields}, volume, move.Target(), link))
		if bytesOf(volume.Annotations)+len(manifest) > maxAnnotations {
			found = append(found, problem(api.RecordTooLarge, "claim %s has %d bytes of annotations, too many to save them on its volume %s "+
				"while the claim is replaced; an object may have %d. Remove the largest annotations",
				move.Claim, bytesOf(claim.Annotations), volume.Name, 256<<10))
		}
	}
	return found
}

// bytesOf returns the size of annotations in bytes, as the API server counts it.
func bytesOf(annotations map[string]string) int {
	sum := 0
	for key, value := range annotations {
		sum += len(key) + len(value)
	}
	return sum
}

// checkFinalizers finds objects that Drydock would delete but that would stay because of another controller's finalizer: claims that are
// replaced, or a set that is created again.
func checkFinalizers(in Input, w *Changes) []Problem {
	var found []Problem
	if held := statefulset.HeldByOthers("StatefulSet", in.Set); w.Recreate && held != "" {
		found = append(found, problem(api.ForeignFinalizer, "%s", held))
	}
	for _, c := range w.Claims {
		if held := statefulset.HeldByOthers("claim", c.PersistentVolumeClaim); c.ChangesVolume() && held != "" {
			found = append(found, problem(api.ForeignFinalizer, "%s", held))
		}
	}
	return found
}

// noProvisioner is the provisioner of a class whose volumes an administrator creates
// (kubernetes component-helpers storage/volume, NotSupportedProvisioner).
const noProvisioner = "kubernetes.io/no-provisioner"

// checkProvisioners refuses to copy to a class without a provisioner, because every volume of such a class may hold data.
func checkProvisioners(in Input, w *Changes) []Problem {
	var found []Problem
	var reported []string
	for _, c := range w.Claims {
		class := w.futureClass(c)
		storageClass := in.Cluster.Classes[class]
		if !c.ChangesVolume() || storageClass == nil || storageClass.Provisioner != noProvisioner || slices.Contains(reported, class) {
			continue
		}
		reported = append(reported, class)
		found = append(found, problem(api.NotProvisioned, "StorageClass %s provisions no volumes, so claim %s cannot be copied to a new volume. "+
			"Name a StorageClass with a provisioner in %s", class, c.Name, api.ResizeAnnotation))
	}
	return found
}

// checkTopology finds classes whose volumes no mover could mount together with the claim's present volume, or that no pod could mount. A
// class without allowedTopologies may still provision an unreachable volume; backup checks the volume itself.
func checkTopology(in Input, w *Changes) []Problem {
	var found []Problem
	reported := map[string]bool{}
	for _, c := range w.Claims {
		if c.Method != api.MethodCopy {
			continue
		}
		class := w.futureClass(c)
		offered := statefulset.NodesOfClass(in.Cluster.Classes[class])
		if source := statefulset.NodesOfVolume(in.Volume(c.Spec.VolumeName)); source.Disjoint(offered) {
			found = append(found, problem(api.TopologyConflict, "StorageClass %s provisions volumes only for nodes with %s, but volume %s of "+
				"claim %s is reachable only from nodes with %s, so no node can mount both. Name a class with volumes on those nodes",
				class, offered, c.Spec.VolumeName, c.Name, source))
		}
		if pods := statefulset.NodesOfPods(&in.Set.Spec.Template.Spec); pods.Disjoint(offered) && !reported[class] {
			reported[class] = true
			found = append(found, problem(api.TopologyConflict, "StorageClass %s provisions volumes only for nodes with %s, but the pods of "+
				"StatefulSet %s run only on nodes with %s. Name a class with volumes on those nodes, or change the pod template's node selector "+
				"or affinity", class, offered, in.Set.Name, pods))
		}
	}
	return found
}

// HookPod returns the pod that the Job of a hook would create, for a dry run on the API server. It is nil if the set has no such hook.
func HookPod(set *appsv1.StatefulSet, hook resources.Hook, settings api.Settings) *corev1.Pod {
	template, err := resources.HookTemplate(set, hook)
	if err != nil || template == nil {
		return nil
	}
	link := api.Link{Operation: api.OperationID(set.UID, string(hook), 0), Role: api.RoleHook, Namespace: set.Namespace,
		Set: api.SetRef{Name: set.Name, UID: set.UID}, Member: new(int)}
	return resources.MakeMoverPod(resources.MakeHook(set, hook, template, link, 0, settings))
}

// checkHooks finds hooks that could not run before or after a member. Without a stop of members, no hook runs.
func checkHooks(in Input, w *Changes) []Problem {
	if !w.stopsMembers() {
		return nil
	}
	var found []Problem
	for _, hook := range resources.Hooks {
		template, err := resources.HookTemplate(in.Set, hook)
		switch {
		case err != nil:
			found = append(found, problem(api.HookInvalid, "%v", err))
		case template == nil || in.Cluster.NodeAccess:
		default:
			if by := statefulset.NodeAccess(&template.Spec); by != "" {
				found = append(found, problem(api.NodeAccessDenied, "the pod of annotation %s gets access to its node through %s, so Drydock does not "+
					"run it. Allow it with: kubectl label namespace %s %s=%s, then %s", hook.Annotation(), by, in.Set.Namespace,
					api.NodeAccessLabel, api.AllowValue, operation.RetryCommand(in.Set)))
			}
		}
	}
	return found
}
