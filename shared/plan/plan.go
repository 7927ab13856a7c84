// Package plan holds decisions as data. A Decide function returns a Plan; shared/apply carries it out. A plan explains
// itself: its reason and actions end in the log, in Kubernetes Events and in the tables of the tests.
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

// Kind is what sort of decision a plan is.
type Kind string

const (
	KindNoop Kind = "noop" // nothing to do
	KindWait Kind = "wait" // something has to happen first; an event or the tick comes again
	KindDo   Kind = "do"   // the actions, in order
)

// Plan is one decision.
type Plan struct {
	Kind    Kind
	Reason  api.Reason
	Detail  string
	Actions []Action
	// Announce is the type of the event to answer with when the actions are done; empty if there is none.
	Announce string
	// Part and Data are what With says of it.
	Part string
	Data any
	// Operation is the id of the operation that the announcement belongs to.
	Operation string
	// Purpose is the kind of that operation, where the announcement is one that several kinds make.
	Purpose string
	// Outcomes are the ends of pieces of work that the actions bring about, to be counted.
	Outcomes []Outcome
	// Soon marks a wait for a controller of the platform that takes moments: worth looking again within the same event.
	Soon bool
}

// Outcome is the end of the cleanup of an ordinal.
type Outcome struct {
	Namespace, Set string
	Result         string // Succeeded or Failed
	Took           time.Duration
}

// Results of a piece of work.
const (
	Succeeded = "succeeded"
	Failed    = "failed"
)

// Noop is a decision that there is nothing to do.
func Noop(reason api.Reason) Plan { return Plan{Kind: KindNoop, Reason: reason} }

// Wait is a decision that something else has to happen first.
func Wait(reason api.Reason, detail string, args ...any) Plan {
	return Plan{Kind: KindWait, Reason: reason, Detail: fmt.Sprintf(detail, args...)}
}

// WaitSoon is a Wait for a step that a controller of Kubernetes takes within moments.
func WaitSoon(reason api.Reason, detail string, args ...any) Plan {
	p := Wait(reason, detail, args...)
	p.Soon = true
	return p
}

// Do is a decision to act. Without actions it is a Noop.
func Do(reason api.Reason, actions ...Action) Plan {
	if len(actions) == 0 {
		return Noop(reason)
	}
	return Plan{Kind: KindDo, Reason: reason, Actions: actions}
}

// Then adds the event to answer with once the actions are done.
func (p Plan) Then(eventType, operation string) Plan {
	p.Announce, p.Operation = eventType, operation
	return p
}

// With gives the announcement something to tell. Part tells it from other announcements of its type in the operation.
func (p Plan) With(part string, data any) Plan {
	p.Part, p.Data = part, data
	return p
}

// For adds the kind of the announced operation.
func (p Plan) For(kind api.Kind) Plan {
	p.Purpose = strings.ToLower(string(kind))
	return p
}

// String renders the plan on one line.
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
	return b.String()
}

// LogValue renders the plan for slog.
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
)

// Scalers are Drydock's own custom resources. ScalerStatus is their status, which is written on its own.
var (
	Scalers      = CustomResource("scalers", v1alpha1.GroupVersion)
	ScalerStatus = Scalers + "/status"
)

// Subresource splits the name of a subresource from that of its resource; the second is empty if the name is a resource's.
func (r Resource) Subresource() (of Resource, name string) {
	parent, name, _ := strings.Cut(string(r), "/")
	return Resource(parent), name
}

// CustomResource names a resource of a custom group, as kubectl does: plural.version.group.
func CustomResource(plural string, gv schema.GroupVersion) Resource {
	return Resource(plural + "." + gv.Version + "." + gv.Group)
}

// Custom takes such a name apart. It reports false for a resource that Kubernetes has itself.
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
	VerbEvict  Verb = "evict"
	VerbRecord Verb = "record"
	// VerbTry asks the API server, by a dry run, whether it would create the object. A refusal ends the plan before its next action.
	VerbTry Verb = "try"
	// VerbCheck reads an object, and ends the plan before its next action if it is not as it was. Without a UID, there must be none.
	VerbCheck Verb = "check"
)

// Action is one write to the cluster. Every write has a precondition: a create uses a name that derives from the
// operation, a patch replaces the resourceVersion that Decide saw, a delete carries UID and resourceVersion: after a patch of the same
// object in the plan, the one that the patch has left, see Follow.
type Action struct {
	Verb      Verb
	Resource  Resource
	Namespace string
	Name      string

	Object runtime.Object // create, try
	Ops    []Op           // patch
	Words  []string       // what a patch changes, for people

	UID             types.UID // delete, evict, check
	ResourceVersion string    // delete, check
	Orphan          bool      // delete: leave the dependents
	Try             bool      // evict: ask only

	Note Note // record
}

// Follow returns the actions that come after a patch, which has brought its object to the resourceVersion: a deletion of the same object
// was decided on its state before the patch, so it follows that state. A second patch of the object fails, and is planned again: its
// operations have lists and indexes of the state before, and would undo the first one's writes.
func Follow(patch Action, version string, actions []Action) []Action {
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
	// Operation keeps the same words about two operations apart.
	Operation string
}

// Op is an operation of a JSON patch (RFC 6902).
type Op struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

// String renders the action for people.
func (a Action) String() string {
	switch a.Verb {
	case VerbRecord:
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
