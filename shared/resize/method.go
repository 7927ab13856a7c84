package resize

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/statefulset"
)

// methodOf is the method that the set asks for; auto where that is none.
func methodOf(set *appsv1.StatefulSet) (api.Method, []Problem) {
	switch method := api.Method(set.Annotations[api.ResizeMethodAnnotation]); method {
	case "":
		return api.MethodAuto, nil
	case api.MethodAuto, api.MethodCopy, api.MethodExpand, api.MethodExpandOffline:
		return method, nil
	default:
		return api.MethodAuto, []Problem{problem(api.MethodUnknown, "%s=%q is not a method; write %q, %q, %q or %q", api.ResizeMethodAnnotation,
			method, api.MethodAuto, api.MethodExpand, api.MethodExpandOffline, api.MethodCopy)}
	}
}

// strategyOf returns the annotations about the stop of members that cannot be read.
func strategyOf(set *appsv1.StatefulSet) []Problem {
	var found []Problem
	strategy, known := api.StrategyOf(set)
	if !known {
		found = append(found, problem(api.StrategyUnknown, "%s=%q is not a strategy; write %q or %q", api.StrategyAnnotation,
			set.Annotations[api.StrategyAnnotation], api.StrategyWhole, api.StrategyRolling))
	}
	if _, ok := api.MaxStop(set, strategy); !ok {
		found = append(found, problem(api.StrategyUnknown, "%s=%q is not a positive duration; write one as 30s", api.MaxStopAnnotation,
			set.Annotations[api.MaxStopAnnotation]))
	}
	switch cutover := set.Annotations[api.CutoverAnnotation]; cutover {
	case "", api.CutoverAuto, api.CutoverApprove:
	default:
		if _, err := idle.ParseWindows(cutover); err != nil {
			found = append(found, problem(api.StrategyUnknown, "%s=%q is neither %q nor %q, and no windows: %v", api.CutoverAnnotation, cutover,
				api.CutoverAuto, api.CutoverApprove, err))
		}
	}
	if _, err := idle.MemberCheckOf(set); err != nil {
		found = append(found, problem(api.CheckInvalid, "the annotation %s cannot be read: %v", api.MemberCheckAnnotation, err))
	}
	return found
}

// methodFor chooses how the claim reaches its target: on its present volume if possible, unless the user asks for a copy.
func (in Input) methodFor(c *corev1.PersistentVolumeClaim, target api.Target, asked api.Method) api.Method {
	if asked == api.MethodCopy || in.Cluster != nil && cannotExpand(in, c, target) != "" {
		return api.MethodCopy
	}
	if asked == api.MethodExpandOffline && (statefulset.Grows(c, target) || statefulset.Growing(c)) {
		return api.MethodExpandOffline
	}
	return api.MethodExpand
}

// cannotExpand returns why the claim cannot reach its target on its present volume; empty if it can.
func cannotExpand(in Input, c *corev1.PersistentVolumeClaim, target api.Target) string {
	class := in.Cluster.Classes[statefulset.ClassOf(c)]
	switch {
	case statefulset.ChangesKind(c, target):
		return "another StorageClass or access mode needs another volume"
	case statefulset.Shrinks(c, target):
		return "a volume cannot shrink"
	case !statefulset.Grows(c, target) && !statefulset.Growing(c):
		return "" // only its attributes change
	case class == nil || class.AllowVolumeExpansion == nil || !*class.AllowVolumeExpansion:
		return "its StorageClass " + statefulset.ClassOf(c) + " does not allow volume expansion"
	}
	return ""
}

// checkMethods refuses an expansion that the user asks for and that is not possible, and a stop of members for growth.
func checkMethods(in Input, w *Wish) []Problem {
	if api.AskedByGrowth(in.Set, w.Request) {
		return checkGrowth(w)
	}
	method := api.Method(in.Set.Annotations[api.ResizeMethodAnnotation])
	if method != api.MethodExpand && method != api.MethodExpandOffline {
		return nil
	}
	var found []Problem
	for _, c := range w.Claims {
		t := w.target(c.Template)
		if why := cannotExpand(in, c.PersistentVolumeClaim, w.targets[c.Template]); why != "" {
			found = append(found, problem(api.ExpandImpossible, "claim %s cannot become %s in place, as %s=%s asks: %s; remove the annotation or "+
				"write %q", c.Name, &t.Size, api.ResizeMethodAnnotation, method, why, api.MethodCopy))
		}
	}
	return found
}

// checkGrowth refuses every other way than to grow beside a running pod: growth must stop no member.
func checkGrowth(w *Wish) []Problem {
	var found []Problem
	for _, c := range w.Claims {
		if c.Held() {
			found = append(found, problem(api.ExpandImpossible, "claim %s cannot grow beside its running pod, and no member is stopped for growth by usage. Set "+
				"allowVolumeExpansion in its StorageClass, or ask for another size with %s", c.Name, api.ResizeAnnotation))
		}
	}
	return found
}
