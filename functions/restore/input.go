package restore

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/world"
)

// Input is everything that Decide depends on.
type Input struct {
	*world.Observed
	Namespace string
	Settings  api.Settings
	// Waited is how long this event has waited for the same thing.
	Waited time.Duration
	// WriteRefused is the API server's reason for permanently refusing a write of this event, or empty.
	WriteRefused string
	// CreationRefused is the reason why a dry run of the StatefulSet's creation failed. It is empty if the dry run succeeded or was not
	// needed.
	CreationRefused string
	// WriteFailed is the API server's error for a write of this event that it could not carry out, or empty.
	WriteFailed string
	// NamespaceTerminating is true if the namespace is being deleted, so the API server refused to create an object in it.
	NamespaceTerminating bool
	// BudgetRefusal is the reason why a PodDisruptionBudget forbids the stop of a member now. It is empty if the stop is allowed or was
	// not tried.
	BudgetRefusal string
	// Checks holds the answers of pods to the member check: why a pod has not caught up, or empty if it has.
	Checks map[types.UID]string
}

// ifSetUnchanged puts a check of the set before writes that depend on its record but do not write to the set. Other objects are read
// after the set. So a new hold, for example, may come from another process that has already stored a newer record.
func (in Input) ifSetUnchanged(actions []plan.Action) []plan.Action {
	if in.Set == nil {
		return actions
	}
	return append([]plan.Action{plan.CheckUnchanged(plan.StatefulSets, in.Set)}, actions...)
}

// warnOnSet returns a Warning Event on a StatefulSet that may not exist.
func warnOnSet(in Input, reason api.Reason, message string) plan.Action {
	note := plan.Note{Warning: true, Reason: reason, Message: message}
	if in.Set != nil {
		note.UID = in.Set.UID
	}
	return plan.Record(in.Namespace, in.Name, note)
}

// lastWait is how long a wait must last after the deadline before it counts. It is shorter than the executor's patience.
const lastWait = 5 * time.Second

// waitExpired reports whether a wait has passed its deadline, and not only because the functions were down.
func waitExpired(in Input, record *api.Resize) bool {
	return operation.Overdue(record, in.Now) && in.Waited >= lastWait
}
