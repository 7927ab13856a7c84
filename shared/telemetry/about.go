package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

// Describe adds attributes to the span.
func (h *Hop) Describe(attributes ...attribute.KeyValue) {
	if !h.traced() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.span == nil {
		h.about = append(h.about, attributes...)
		return
	}
	h.span.SetAttributes(attributes...)
}

// About says which StatefulSet the event is about, and of which operation it tells, if any. The span does not name that
// one before the objects have confirmed it.
func (h *Hop) About(namespace, name, operation string) {
	if h != nil {
		h.tells = operation
	}
	h.Describe(semconv.K8SNamespaceName(namespace), semconv.K8SStatefulSetName(name))
}

// Tells reports whether the event tells of the operation.
func (h *Hop) Tells(operation string) bool {
	return h != nil && operation != "" && h.tells == operation
}

// Decided says what was decided on the set. The last decision counts; the operation, once known, stays.
func (h *Hop) Decided(kind, reason, operation string) {
	h.Describe(planKindKey.String(kind), planReasonKey.String(reason))
	h.operation(operation)
}

func (h *Hop) operation(id string) {
	if id != "" {
		h.Describe(operationKey.String(id))
	}
}

// attributes are those of the semantic conventions for functions, messages and CloudEvents.
func (h *Hop) attributes() []attribute.KeyValue {
	found := []attribute.KeyValue{
		semconv.FaaSName(h.function), semconv.FaaSTriggerPubSub, semconv.FaaSColdstart(h.cold),
		semconv.MessagingSystemKey.String("knative"), // as Knative's own spans say (pkg/observability/key.go)
		semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
		semconv.CloudEventsEventID(h.event.ID()), semconv.CloudEventsEventType(h.event.Type()),
		semconv.CloudEventsEventSource(h.event.Source()), semconv.CloudEventsEventSpecVersion(h.event.SpecVersion()),
	}
	if subject := h.event.Subject(); subject != "" {
		found = append(found, semconv.CloudEventsEventSubject(subject))
	}
	return found
}
