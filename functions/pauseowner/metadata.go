package pauseowner

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
)

// hasCopy reports whether the set has the annotation with the record of a pause, which belongs on a custom resource.
func hasCopy(in Input) bool {
	_, copied := in.Set.Annotations[api.OwnerPausedAnnotation]
	return copied
}

// mendMetadata undoes what an operator did to the metadata of a set without operations, or reports it.
func mendMetadata(in Input) plan.Plan {
	switch {
	case in.Controller == nil:
		return plan.Noop(api.NotOurPhase)
	case in.OptInAdvice != "":
		return plan.Do(api.OptInLost, plan.Event(in.Set.Namespace, in.Set.Name, plan.Note{Warning: true, Reason: api.OptInLost,
			UID: in.Set.UID, Message: fmt.Sprintf("StatefulSet %s has lost its label, so Drydock does not touch it any more: %s. If you "+
				"removed the label yourself, do nothing", in.Set.Name, in.OptInAdvice)}))
	case !statefulset.Managed(in.Set) || !hasCopy(in):
		return plan.Noop(api.NotManaged)
	case in.Controller.Problem != "":
		return plan.Noop(api.OwnerStays) // as long as the resource has the record, its operator would copy it again
	case in.Controller.Object != nil && in.Controller.Object.GetAnnotations()[api.OwnerPausedAnnotation] != "":
		return plan.Noop(api.OwnerStays)
	}
	return plan.Do(api.OwnerResumed, plan.PatchOf(plan.StatefulSets, in.Set).Unannotate(api.OwnerPausedAnnotation).Actions()...)
}
