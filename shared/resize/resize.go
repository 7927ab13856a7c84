// Package resize compares the request on a StatefulSet with its claims. It returns the claims that differ, the method for each, and the
// problems that prevent the resize. It is pure. detect-resize acts on the result, and kubectl drydock plan shows it.
package resize

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/world"
)

// Input is the state of the set and the cluster that a resize depends on.
type Input struct {
	*world.Observed
	Settings api.Settings
	Registry owners.Registry
	// Retry is the content of a retry event; nil for any other event.
	Retry *Retry
	// Cluster is nil until a resize turns out to be necessary. Only then it is read.
	Cluster *world.Cluster
}

// Retry is a user's request to repeat a failed or refused operation.
type Retry struct {
	// Operation is the id of the operation to repeat. Empty means the latest operation.
	Operation string
}

// names reports whether the retry names the set's latest operation, and that operation failed or was refused. A retry that is delivered
// twice or late names an older operation and has no effect.
func (r *Retry) names(record *api.Resize) bool {
	return record != nil && (record.Phase == api.Failed || record.Phase == api.Refused) &&
		(r.Operation == "" || r.Operation == record.Operation)
}

// retryRequested reports whether an event or an annotation requests a retry.
func (in Input) retryRequested() bool {
	return in.Retry != nil || operation.Of(in.Set).ResizeRetried(in.Set)
}

// Problem is an obstacle to a resize.
type Problem struct {
	Reason api.Reason `json:"reason"`
	// Message describes the problem and the remedy.
	Message string `json:"message"`
}

func problem(reason api.Reason, format string, args ...any) Problem {
	return Problem{reason, fmt.Sprintf(format, args...)}
}
