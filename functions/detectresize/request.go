package detectresize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
)

// wantedChanges returns the changes that the request needs. If there are none, it returns the plan for that situation.
func wantedChanges(in Input) (*resize.Changes, plan.Plan) {
	wanted, reason, err := resize.NeededChanges(in.Input)
	switch {
	case wanted != nil:
		return wanted, plan.Plan{}
	case err != nil:
		return nil, plan.Do(reason, warn(in, "", reason, err.Error()))
	case slices.Contains([]api.Reason{api.UpToDate, api.NotRequested, api.AlreadyRefused}, reason) && operation.RetryNamesNothing(in.Set):
		return nil, explainRetry(in)
	case reason == api.UpToDate, reason == api.NotRequested && !operation.Of(in.Set).SleepRests():
		return nil, removeNeedlessRetry(in, reason)
	}
	return nil, plan.Noop(reason)
}

// requestedRollback returns the id of the operation that the user wants to roll back. It is empty if there is none, or if no operation may
// start now.
func requestedRollback(in Input) string {
	if reason, _ := resize.Busy(in.Input); reason != "" { // want reports it
		return ""
	}
	record, _ := in.Record() // Busy has read it
	return resize.RequestedRollback(in.Set, record)
}

// firstObstacle returns the first problem that prevents the resize, or nil. The dry run of the movers' pods comes last: it is made only if
// there is no other problem.
func firstObstacle(in Input, w *resize.Changes) *resize.Problem {
	for _, find := range []func(resize.Input, *resize.Changes) []resize.Problem{
		func(_ resize.Input, w *resize.Changes) []resize.Problem { return w.Problems }, resize.StartObstacles, resize.Preflight,
	} {
		if found := find(in.Input, w); len(found) > 0 {
			return &found[0]
		}
	}
	if in.PodRejected != "" {
		return &resize.Problem{Reason: api.Rejected, Message: "the API server would reject the pods of the movers: " + in.PodRejected +
			". Remove the cause, or change the movers with the annotation " + api.MoverAnnotation}
	}
	if in.HookDenied != "" {
		return &resize.Problem{Reason: api.Rejected, Message: "the API server would reject the pod of annotation " + in.HookDenied +
			". Remove the cause, or change the annotation"}
	}
	return nil
}

// moverToTry returns the pod of a mover for a dry run. It is nil if no resize would start now, or if it would copy nothing.
func moverToTry(in Input) *corev1.Pod {
	if wanted, _ := wantedChanges(in); wanted != nil && requestedRollback(in) == "" && firstObstacle(in, wanted) == nil {
		return resize.MoverPod(in.Input, wanted)
	}
	return nil
}
