// Package resize compares the request on a StatefulSet with its claims. It returns the claims that lag, the method for each, and the
// problems that prevent the resize. It is pure. detect-resize acts on the result, and kubectl drydock plan shows it.
package resize

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/world"
)

// Input is the state of the set and the cluster from which a resize is judged.
type Input struct {
	*world.Observed
	Settings api.Settings
	Registry owners.Registry
	// Retry is the content of a retry event; nil for any other event.
	Retry *Retry
	// Cluster is needed only where a resize is wanted; nil before that is known.
	Cluster *world.Cluster
}

// Retry asks to begin a failed or refused operation again.
type Retry struct {
	// Of is the operation to begin again. Empty means the latest one.
	Of string
}

// concerns reports whether the latest operation failed or was refused and is the one that the retry names. A retry that is delivered twice
// or late names an older operation and has no effect.
func (r *Retry) concerns(record *api.Resize) bool {
	return record != nil && (record.Phase == api.Failed || record.Phase == api.Refused) && (r.Of == "" || r.Of == record.Operation)
}

// retried reports whether an event or an annotation asks for a retry.
func (in Input) retried() bool { return in.Retry != nil || operation.Of(in.Set).Retried(in.Set) }

// Problem is something in the way of a resize.
type Problem struct {
	Reason api.Reason `json:"reason"`
	// Message describes the problem and the remedy.
	Message string `json:"message"`
}

func problem(reason api.Reason, format string, args ...any) Problem {
	return Problem{reason, fmt.Sprintf(format, args...)}
}
