package restore

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
	"drydock.dev/shared/world"
)

// Input has everything that the decision depends on.
type Input struct {
	*world.Observed
	Namespace string
	Settings  api.Settings
	// Waited is the time since this event's first wait after its last write. It is zero if its latest plan was not a wait.
	Waited time.Duration
	// Rejected is why the API server permanently rejected a write of this event. It is empty if it did not.
	Rejected string
	// CreationRefused is the API server's error if a dry run of the StatefulSet's creation failed, else empty.
	CreationRefused string
	// WriteFailed is the API server's error if it failed to carry out a write of this event, else empty. A retry may succeed.
	WriteFailed string
	// NamespaceTerminating is true if the API server refused to create an object because the namespace is being deleted.
	NamespaceTerminating bool
	// BudgetRefusal is the API server's error if a PodDisruptionBudget does not allow the member's eviction now, else empty.
	BudgetRefusal string
	// Checks has the answers to the member check, by the UID of the pod: why the pod has not caught up, or empty if it has.
	Checks map[types.UID]string
	// Kills has the Events about the ends of the hooks' pods whose success they decide.
	Kills podend.Kills
}

// ifSetUnchanged puts a check before the writes: they happen only if the set has not changed since it was read. Use it for writes that
// depend on the record but do not write to the set. The other objects are read after the set, so they may belong to a newer record. For
// example, another process may have stored a newer record and then held a pod.
func (in Input) ifSetUnchanged(actions []plan.Action) []plan.Action {
	if in.Set == nil {
		return actions
	}
	return append([]plan.Action{plan.CheckUnchanged(plan.StatefulSets, in.Set)}, actions...)
}

// warnOnSet returns a Warning Event on the StatefulSet. The StatefulSet may be missing.
func warnOnSet(in Input, reason api.Reason, message string) plan.Action {
	note := plan.Note{Warning: true, Reason: reason, Message: message}
	if in.Set != nil {
		note.UID = in.Set.UID
	}
	return plan.Event(in.Namespace, in.Name, note)
}

// lastWait is how long an event must have waited before a passed deadline counts. It is shorter than the executor's patience, so that an
// event can wait that long.
const lastWait = 5 * time.Second

// waitExpired reports whether the deadline has passed and this event has waited, too. Without the second condition, functions that were
// down until after the deadline would give up although the awaited change has happened or will happen soon.
func waitExpired(in Input, record *api.Resize) bool {
	return operation.Overdue(record, in.Now) && in.Waited >= lastWait
}
