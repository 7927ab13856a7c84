// Package plan represents decisions as data. A Decide function returns a Plan, and shared/apply carries it out. A plan explains itself: its
// reason and actions appear in the log, in Kubernetes Events and in the golden files of the tests.
package plan

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
)

// Kind is the kind of a decision.
type Kind string

const (
	KindNoop Kind = "noop" // nothing to do
	KindWait Kind = "wait" // something else has to happen first; an event or the tick will follow
	KindDo   Kind = "do"   // the actions, in order
)

// Plan is one decision.
type Plan struct {
	Kind    Kind
	Reason  api.Reason
	Detail  string
	Actions []Action
	// Announce is the type of the event that answers when the actions are done. It is empty if there is none.
	Announce string
	// Part and Data are the details of the announcement, see With.
	Part string
	Data any
	// Operation is the id of the announced operation.
	Operation string
	// Purpose is the kind of that operation, if several kinds make the same announcement.
	Purpose string
	// Wakes is another StatefulSet that the function is to observe after the actions. The answer then concerns this set, and announces
	// nothing. It is nil if there is none.
	Wakes *SetRef
	// Outcomes are the results of the actions that metrics count.
	Outcomes []Outcome
	// Soon marks a wait of moments for a controller of the platform. The same event is then worth another try.
	Soon bool
}

// SetRef names a StatefulSet.
type SetRef struct {
	Namespace, Name string
	UID             types.UID
}

// Outcome is the result of the cleanup of an ordinal.
type Outcome struct {
	Namespace, Set string
	Result         string // Succeeded or Failed
	Took           time.Duration
}

// Figure is the quantity of a Measurement.
type Figure string

const (
	// OperationSeconds is the duration of an operation that has ended, by kind and terminal phase.
	OperationSeconds Figure = "operation"
	// DowntimeSeconds is how long a member did not serve, by kind of the operation.
	DowntimeSeconds Figure = "downtime"
	// WakeSeconds is the duration of a wake-up.
	WakeSeconds Figure = "wake"
	// CopiedBytes is the size of a verified copy.
	CopiedBytes Figure = "copied"
)

// Measurement is a figure that the metrics get when the write of the action has succeeded.
type Measurement struct {
	Figure Figure
	Kind   api.Kind
	Phase  api.Phase // of OperationSeconds
	Value  float64
}

// Values of Outcome.Result.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
)

// Noop returns the decision to do nothing.
func Noop(reason api.Reason) Plan { return Plan{Kind: KindNoop, Reason: reason} }

// Wait returns the decision to wait until something else has happened.
func Wait(reason api.Reason, detail string, args ...any) Plan {
	return Plan{Kind: KindWait, Reason: reason, Detail: fmt.Sprintf(detail, args...)}
}

// WaitSoon returns a Wait for a step that a controller of Kubernetes takes within moments.
func WaitSoon(reason api.Reason, detail string, args ...any) Plan {
	p := Wait(reason, detail, args...)
	p.Soon = true
	return p
}

// Do returns the decision to act. Without actions it is a Noop.
func Do(reason api.Reason, actions ...Action) Plan {
	if len(actions) == 0 {
		return Noop(reason)
	}
	return Plan{Kind: KindDo, Reason: reason, Actions: actions}
}

// Then adds the event that answers when the actions are done.
func (p Plan) Then(eventType, operation string) Plan {
	p.Announce, p.Operation = eventType, operation
	return p
}

// Wake adds another StatefulSet that the function is to observe.
func (p Plan) Wake(set SetRef) Plan {
	p.Wakes = &set
	return p
}

// With adds details to the announcement. Part distinguishes it from other announcements of its type in the operation.
func (p Plan) With(part string, data any) Plan {
	p.Part, p.Data = part, data
	return p
}

// For adds the kind of the announced operation.
func (p Plan) For(kind api.Kind) Plan {
	p.Purpose = strings.ToLower(string(kind))
	return p
}

// String returns the plan on one line.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", p.Kind, p.Reason)
	if p.Detail != "" {
		fmt.Fprintf(&b, " (%s)", p.Detail)
	}
	for i, a := range p.Actions {
		if i == 0 {
			b.WriteString(":")
		} else {
			b.WriteString(";")
		}
		b.WriteString(" " + a.String())
	}
	if p.Announce != "" {
		b.WriteString(" -> " + strings.TrimPrefix(p.Announce, "dev.drydock."))
	}
	if p.Wakes != nil {
		fmt.Fprintf(&b, " -> wakes %s/%s", p.Wakes.Namespace, p.Wakes.Name)
	}
	return b.String()
}

// LogValue returns the plan for slog.
func (p Plan) LogValue() slog.Value { return slog.StringValue(p.String()) }

// Resource is the plural name of a kind that Drydock writes.
type Resource string

const (
	StatefulSets        Resource = "statefulsets"
	ControllerRevisions Resource = "controllerrevisions"
	Claims              Resource = "persistentvolumeclaims"
	Volumes             Resource = "persistentvolumes"
	Jobs                Resource = "jobs"
	Pods                Resource = "pods"
	Autoscalers         Resource = "horizontalpodautoscalers"
	Events              Resource = "events"
	ConfigMaps          Resource = "configmaps"
)

// Scalers are Drydock's own custom resources. ScalerStatus is their status subresource.
var (
	Scalers      = CustomResource("scalers", v1alpha1.GroupVersion)
	ScalerStatus = Scalers + "/status"
)

// Subresource splits the name of a subresource into its resource and its own name. The second is empty for a resource.
func (r Resource) Subresource() (of Resource, name string) {
	parent, name, _ := strings.Cut(string(r), "/")
	return Resource(parent), name
}

// CustomResource returns the name of a resource of a custom group, as kubectl writes it: plural.version.group.
func CustomResource(plural string, gv schema.GroupVersion) Resource {
	return Resource(plural + "." + gv.Version + "." + gv.Group)
}

// Custom returns the parts of such a name. It returns false for a resource of Kubernetes.
func (r Resource) Custom() (schema.GroupVersionResource, bool) {
	of, _ := r.Subresource()
	gvr, _ := schema.ParseResourceArg(string(of))
	if gvr == nil {
		return schema.GroupVersionResource{}, false
	}
	return *gvr, true
}

// Verb is the kind of an action.
type Verb string

const (
	VerbCreate Verb = "create"
	VerbPatch  Verb = "patch"
	VerbDelete Verb = "delete"
	// VerbEvict deletes a pod if the PodDisruptionBudgets allow it.
	VerbEvict Verb = "evict"
	VerbEvent Verb = "event"
	// VerbTry asks the API server by a dry run whether it would create the object. A rejection ends the plan before its next action.
	VerbTry Verb = "try"
	// VerbCheck reads an object. It ends the plan before the next action if the object has changed, or, without a UID, if it exists.
	VerbCheck Verb = "check"
)

// Action is one write to the cluster. Every write has a precondition. A create uses a name that derives from the operation. A patch
// replaces the resourceVersion that Decide saw. A delete carries the UID and resourceVersion. After a patch of the same object in the plan,
// that is the resourceVersion of the patched object, see Follow.
type Action struct {
	Verb      Verb
	Resource  Resource
	Namespace string
	Name      string

	Object runtime.Object // create, try
	Ops    []Op           // patch
	Words  []string       // patch: the changes, for readers

	Measurements []Measurement // patch: values for the metrics after the patch has succeeded

	UID             types.UID // delete, evict, check
	ResourceVersion string    // delete, check
	Orphan          bool      // delete: keep the dependents
	Try             bool      // evict: only ask

	Note Note // record
}

// Rebase returns the actions after a patch that has brought its object to the resourceVersion. A deletion of the same object gets this
// resourceVersion, because it was decided on the state before the patch. A second patch of the object keeps the former version and fails:
// its lists and indexes are those of the former state and would undo the first patch. The next event plans it again.
func Rebase(patch Action, version string, actions []Action) []Action {
	if patch.Verb != VerbPatch || version == "" || len(patch.Ops) == 0 {
		return actions
	}
	before, next := patch.Ops[0].Value, slices.Clone(actions)
	for i, a := range next {
		same := a.Resource == patch.Resource && a.Namespace == patch.Namespace && a.Name == patch.Name
		if same && a.Verb == VerbDelete && a.ResourceVersion == before {
			next[i].ResourceVersion = version
		}
	}
	return next
}

// Note is a Kubernetes Event on the StatefulSet.
type Note struct {
	Warning bool
	Reason  api.Reason
	Message string
	UID     types.UID
	// Operation distinguishes Events with the same text in two operations.
	Operation string
}

// Op is an operation of a JSON patch (RFC 6902).
type Op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// String returns the action for readers.
func (a Action) String() string {
	switch a.Verb {
	case VerbEvent:
		return fmt.Sprintf("event %s %q", a.Note.Reason, a.Note.Message)
	case VerbPatch:
		return fmt.Sprintf("patch %s %s {%s}", a.Resource, a.Name, strings.Join(a.Words, ", "))
	case VerbDelete:
		if a.Orphan {
			return fmt.Sprintf("delete %s %s (orphan)", a.Resource, a.Name)
		}
	}
	if a.Verb == VerbCheck && a.UID == "" {
		return fmt.Sprintf("check that there is no %s %s", a.Resource, a.Name)
	}
	if a.Try {
		return fmt.Sprintf("try to %s %s %s", a.Verb, a.Resource, a.Name)
	}
	return fmt.Sprintf("%s %s %s", a.Verb, a.Resource, a.Name)
}
