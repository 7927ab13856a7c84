package resize

import (
	"cmp"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/probe"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/window"
	"drydock.dev/shared/world"
)

// requestedMethod returns the method of the set's annotation. It is auto if the annotation is missing or unknown.
func requestedMethod(set *appsv1.StatefulSet) (api.Method, []Problem) {
	switch method := api.Method(set.Annotations[api.ResizeMethodAnnotation]); method {
	case "":
		return api.MethodAuto, nil
	case api.MethodAuto, api.MethodCopy, api.MethodExpand, api.MethodExpandOffline:
		return method, nil
	default:
		return api.MethodAuto, []Problem{problem(api.MethodUnknown, "%s=%q is not a method. Write %q, %q, %q or %q", api.ResizeMethodAnnotation,
			method, api.MethodAuto, api.MethodExpand, api.MethodExpandOffline, api.MethodCopy)}
	}
}

// stopProblems finds unreadable annotations that control how members stop.
func stopProblems(set *appsv1.StatefulSet) []Problem {
	var found []Problem
	strategy, known := api.StrategyOf(set)
	if !known {
		found = append(found, problem(api.StrategyUnknown, "%s=%q is not a strategy. Write %q or %q", api.StrategyAnnotation,
			set.Annotations[api.StrategyAnnotation], api.StrategyWhole, api.StrategyRolling))
	}
	if _, ok := api.MaxStop(set, strategy); !ok {
		found = append(found, problem(api.StrategyUnknown, "%s=%q is not a positive duration. Write a duration such as 30s",
			api.MaxStopAnnotation,
			set.Annotations[api.MaxStopAnnotation]))
	}
	switch set.Annotations[api.FirstPassAnnotation] {
	case "", api.FirstPassAuto, api.FirstPassOff:
	default:
		found = append(found, problem(api.StrategyUnknown, "%s=%q is unknown. Write %q or %q", api.FirstPassAnnotation,
			set.Annotations[api.FirstPassAnnotation], api.FirstPassAuto, api.FirstPassOff))
	}
	switch cutover := set.Annotations[api.CutoverAnnotation]; cutover {
	case "", api.CutoverAuto, api.CutoverApprove:
	default:
		if _, err := window.Parse(cutover); err != nil {
			found = append(found, problem(api.StrategyUnknown, "%s=%q is not a cutover: %v. Write %q, %q or windows", api.CutoverAnnotation, cutover,
				err, api.CutoverAuto, api.CutoverApprove))
		}
	}
	if _, err := probe.ParseMemberCheck(set); err != nil {
		found = append(found, problem(api.CheckInvalid, "the annotation %s cannot be read: %v", api.MemberCheckAnnotation, err))
	}
	return found
}

// chooseMethod returns how the claim reaches its target: on its present volume if possible, unless the user requests a copy.
func (in Input) chooseMethod(c *corev1.PersistentVolumeClaim, target api.Target, requested api.Method) api.Method {
	switch {
	case requested == api.MethodCopy, in.Cluster != nil && expansionObstacle(in, c, target) != "":
		return api.MethodCopy
	case requested == api.MethodExpandOffline && growsVolume(c, target):
		return api.MethodExpandOffline
	}
	return api.MethodExpand
}

// growsVolume reports whether the volume has less than the claim will request.
func growsVolume(c *corev1.PersistentVolumeClaim, target api.Target) bool {
	size := statefulset.GuaranteedSize(c)
	return size.Cmp(finalSize(c, target)) < 0
}

// lowersRequest reports whether the claim only requests less: the storage has refused the larger size, and the volume has no more than the
// target.
func lowersRequest(c *corev1.PersistentVolumeClaim, target api.Target) bool {
	size := statefulset.GuaranteedSize(c)
	return statefulset.Shrinks(c, target) && statefulset.GrowthRefused(c) && size.Cmp(target.Size) <= 0
}

// expansionObstacle returns why the claim cannot reach its target on its present volume. It is empty if it can.
func expansionObstacle(in Input, c *corev1.PersistentVolumeClaim, target api.Target) string {
	class := in.Cluster.Classes[statefulset.ClassOf(c)]
	switch {
	case statefulset.ChangesKind(c, target):
		return "another StorageClass or access mode needs another volume"
	case statefulset.Shrinks(c, target) && !lowersRequest(c, target):
		return "a volume cannot shrink"
	case !growsVolume(c, target):
		return "" // only the attributes or the request change
	case class == nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion:
		return "its StorageClass " + statefulset.ClassOf(c) + " does not allow volume expansion"
	}
	return ""
}

// checkMethods refuses a requested expansion that is impossible. It also refuses to stop members for growth by usage.
func checkMethods(in Input, w *Changes) []Problem {
	if w.GrowTo != "" {
		return checkGrowth(w)
	}
	method := api.Method(in.Set.Annotations[api.ResizeMethodAnnotation])
	if method != api.MethodExpand && method != api.MethodExpandOffline {
		return nil
	}
	var found []Problem
	for _, c := range w.Claims {
		t := w.templateTarget(c.Template)
		if obstacle := expansionObstacle(in, c.PersistentVolumeClaim, w.targets[c.Template]); obstacle != "" {
			found = append(found, problem(api.ExpandImpossible, "claim %s cannot become %s in place, which %s=%s requires: %s. Remove the "+
				"annotation or write %q", c.Name, &t.Size, api.ResizeMethodAnnotation, method, obstacle, api.MethodCopy))
		}
	}
	return found
}

// checkGrowth refuses growth by usage that would stop a member.
func checkGrowth(w *Changes) []Problem {
	var found []Problem
	for _, c := range w.Claims {
		if c.StopsMember() {
			found = append(found, problem(api.ExpandImpossible, "claim %s cannot grow beside its running pod, and no member is stopped for "+
				"growth by usage. Set allowVolumeExpansion in its StorageClass, or request another size with %s", c.Name, api.ResizeAnnotation))
		}
	}
	return found
}

// NextMember returns the member that a rolling resize moves next, or nil. Members without a pod come first, then unready members, then the
// highest ordinal, and the primary last.
func NextMember(o *world.Observed, record *api.Resize) *api.Member {
	var pending []*api.Member
	for i := range record.Members {
		if m := &record.Members[i]; m.Phase == api.MemberPending {
			pending = append(pending, m)
		}
	}
	rank := func(m *api.Member) int {
		pod := o.MemberPod(m.Ordinal)
		switch {
		case pod == nil:
			return 0
		case !statefulset.PodReady(pod):
			return 1
		case statefulset.IsPrimary(o.Set, pod):
			return 3
		}
		return 2
	}
	slices.SortStableFunc(pending, func(a, b *api.Member) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Ordinal, a.Ordinal))
	})
	if len(pending) == 0 {
		return nil
	}
	return pending[0]
}
