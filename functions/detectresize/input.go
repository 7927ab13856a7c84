package detectresize

import "drydock.dev/shared/resize"

// Input is everything that Decide considers.
type Input struct {
	// Input has the facts that a resize depends on. Its Cluster is read only if the request needs changes.
	resize.Input
	// PodRejected is why the API server would reject the pods of the movers. It is empty if it accepts them, or if nothing is copied.
	PodRejected string
	// HookDenied is why the API server would reject the pod of a hook, with the hook's annotation. It is empty if it accepts all hooks.
	HookDenied string
	// Rejected is why the API server rejected a write of this event for good. It is empty if it did not.
	Rejected string
	// Budget is why a PodDisruptionBudget did not allow the eviction of a pod in this event. It is empty if nothing was denied.
	Budget string
	// Trace is the traceparent of an operation that starts now. It is empty if tracing is off.
	Trace string
}
