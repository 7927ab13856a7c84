package logs

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
)

// Scope describes the operation whose lines are wanted.
type Scope struct {
	Namespace string
	Set       string
	Operation string
	// Kind is the kind of the operation. It is empty if the set has no record of it any more.
	Kind api.Kind
	// From and Until limit the lines that name only the set. Both are zero if the operation has no record. Until is zero while it runs.
	From, Until time.Time

	trace     string // the id of the operation's trace, or ""
	path      string // the set's path in a subject
	templates []string
}

const (
	// beforeStart is how long before its recorded start the functions may have worked on an operation. Recorded times are whole seconds.
	beforeStart = 5 * time.Second
	// afterEnd is how long after its end they may work on it.
	afterEnd = time.Minute
)

// NewScope returns the scope of the set's operation with the id. Without an id, it is the active or else the latest operation.
func NewScope(set *appsv1.StatefulSet, id string) (Scope, error) {
	records := operation.Of(set)
	record := records.Find(id)
	switch {
	case id == "":
		if record = latest(records); record == nil {
			return Scope{}, fmt.Errorf("StatefulSet %s/%s has no operation. Name an older one with --operation: its id is in the Events of the set",
				set.Namespace, set.Name)
		}
	case !api.IsOperationID(id):
		return Scope{}, fmt.Errorf("%q is not the id of an operation. Copy the 12 hexadecimal digits from kubectl drydock status", id)
	}
	s := Scope{Namespace: set.Namespace, Set: set.Name, Operation: id,
		path: events.Object{Kind: events.KindStatefulSet, Namespace: set.Namespace, Name: set.Name}.Path()}
	for _, t := range set.Spec.VolumeClaimTemplates {
		s.templates = append(s.templates, t.Name)
	}
	if record != nil {
		s.addRecord(record.Head())
	}
	return s, nil
}

func (s *Scope) addRecord(head *api.Header) {
	s.Operation, s.Kind, s.From, s.trace = head.Operation, head.Kind, head.Started.Add(-beforeStart), traceID(head.Trace)
	if head.Finished != nil {
		s.Until = head.Finished.Add(afterEnd)
	}
}

// MayHavePods reports whether the operation has ended and may have had movers, hooks or cleanup pods.
func (s *Scope) MayHavePods() bool {
	return s.Kind != api.KindSleep && (s.From.IsZero() || !s.Until.IsZero())
}

// latest returns the active operation, or else the one that began last. Records of no operation do not count.
func latest(records operation.Records) operation.Record {
	var found operation.Record
	for _, record := range records.All() {
		head := record.Head()
		switch {
		case head.Reason == api.CleanupReady || head.Reason == api.ScalerReady:
		case found == nil,
			record.Active() && !found.Active(),
			record.Active() == found.Active() && head.Started.After(found.Head().Started.Time):
			found = record
		}
	}
	return found
}

// traceID returns the id of the trace in a W3C traceparent, or "".
func traceID(parent string) string {
	parts := strings.Split(parent, "-")
	if len(parts) != 4 || len(parts[1]) != 32 {
		return ""
	}
	return parts[1]
}

// concerns reports whether a line of a function belongs to the operation. It does if it has the trace or the id of the operation, or if it
// concerns the set and was written while the operation ran.
func (s *Scope) concerns(fields map[string]any, at time.Time) bool {
	if s.trace != "" && fields["trace_id"] == s.trace {
		return true
	}
	for _, value := range fields {
		if text, ok := value.(string); ok && strings.Contains(text, s.Operation) {
			return true
		}
	}
	return s.isNow(at) && (s.isSubject(fields["subject"]) || fields["set"] == s.Namespace+"/"+s.Set)
}

// isNow reports whether the operation has a record and ran at the time.
func (s *Scope) isNow(at time.Time) bool {
	return !s.From.IsZero() && !at.Before(s.From) && (s.Until.IsZero() || !at.After(s.Until))
}

// subjectPath matches the subject of an event: namespace, plural and name.
var subjectPath = regexp.MustCompile(`^/apis/(?:[a-z.0-9]+/)?v1[a-z0-9]*/namespaces/([^/]+)/([^/]+)/([^/]+)$`)

// isSubject reports whether the subject of an event is the set, one of its pods or one of its claims.
func (s *Scope) isSubject(value any) bool {
	subject, _ := value.(string)
	if subject == s.path {
		return true
	}
	parts := subjectPath.FindStringSubmatch(subject)
	if parts == nil || parts[1] != s.Namespace {
		return false
	}
	switch parts[2] {
	case "pods":
		return statefulset.IsMemberName(s.Set, parts[3])
	case "persistentvolumeclaims":
		return s.isClaim(parts[3])
	}
	return false
}

func (s *Scope) isClaim(name string) bool {
	for _, template := range s.templates {
		if member, found := strings.CutPrefix(name, template+"-"); found && statefulset.IsMemberName(s.Set, member) {
			return true
		}
	}
	return false
}

// Functions returns the functions that work on operations of the kind. It returns all of them for an unknown kind.
func Functions(kind api.Kind) []api.Function {
	resize := []api.Function{api.Sift, api.DetectResize, api.PauseOwner, api.Backup, api.Restore}
	switch kind {
	case api.KindResize, api.KindRollback:
		return resize
	case api.KindSleep:
		return []api.Function{api.Sift, api.PauseOwner, api.IdleTimeout}
	case api.KindCleanup:
		return []api.Function{api.Sift, api.CleanupPod}
	case api.KindScale:
		return []api.Function{api.Sift, api.ScaleFunction}
	}
	return append(resize, api.IdleTimeout, api.CleanupPod, api.ScaleFunction)
}
