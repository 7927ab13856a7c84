package cleanuppod

import (
	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
)

// isRetried reports whether the user requests a retry of a failed or refused cleanup.
func (in Input) isRetried(record *api.Cleanup) bool {
	return operation.CleanupRetried(in.Set, record) || in.Retry && operation.CleanupRests(record)
}

// isAborted reports whether the user requests an abort.
func (in Input) isAborted() bool {
	_, asked := in.Set.Annotations[api.AbortAnnotation]
	return asked
}
