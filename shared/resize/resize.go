// Package resize judges what a StatefulSet asks of its claims: what is missing, how each claim would come by it, and what is
// in the way. It is pure, and it is the one judge: detect-resize acts on what it says, and kubectl drydock plan shows it.
package resize

import (
	"fmt"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/sts"
)

// Input is what a resize is judged on.
type Input struct {
	*sts.Observed
	Settings api.Settings
	Registry owners.Registry
	// Retry is what a retry event asks for; nil for any other event.
	Retry *Retry
	// Cluster is needed only where a resize is wanted; nil before that is known.
	Cluster *sts.Cluster
}

// Retry is what a retry event asks for: to take up again what failed or was refused.
type Retry struct {
	// Of is the operation that was seen to have ended so; empty means whichever did.
	Of string
}

// concerns reports whether there is something to take up again. A retry that names its operation does nothing when it
// comes again or late: what has failed by then is another operation.
func (r *Retry) concerns(status *api.Resize) bool {
	return status != nil && (status.Phase == api.Failed || status.Phase == api.Refused) && (r.Of == "" || r.Of == status.Operation)
}

// retried reports whether somebody asks to take up again what failed or was refused: by an event, or on the set itself.
func (in Input) retried() bool { return in.Retry != nil || operation.Of(in.Set).Retried(in.Set) }

// Problem is something in the way of a resize.
type Problem struct {
	Reason api.Reason `json:"reason"`
	// Message says what it is, and what to do.
	Message string `json:"message"`
}

func problem(reason api.Reason, format string, args ...any) Problem {
	return Problem{reason, fmt.Sprintf(format, args...)}
}
