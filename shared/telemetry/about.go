package telemetry

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.40.0"
)

// Describe adds attributes to the span.
func (h *Invocation) Describe(attributes ...attribute.KeyValue) {
	if !h.traced() {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.span == nil {
		h.pendingAttributes = append(h.pendingAttributes, attributes...)
		return
	}
	h.span.SetAttributes(attributes...)
}

// SetObject sets the StatefulSet of the event, and the operation that the event names, if any. The span gets the operation
// only after the objects have confirmed it.
func (h *Invocation) SetObject(namespace, name, operation string) {
	if h != nil {
		h.eventOperation = operation
	}
	h.Describe(semconv.K8SNamespaceName(namespace), semconv.K8SStatefulSetName(name))
}

// NamesOperation reports whether the event names the operation.
func (h *Invocation) NamesOperation(operation string) bool {
	return h != nil && operation != "" && h.eventOperation == operation
}

// SetDecision records the decision on the set. The last decision counts. A known operation stays.
func (h *Invocation) SetDecision(kind, reason, operation string) {
	h.Describe(planKindKey.String(kind), planReasonKey.String(reason))
	h.setOperation(operation)
}

func (h *Invocation) setOperation(id string) {
	if id != "" {
		h.Describe(operationKey.String(id))
	}
}

// attributes returns the attributes of the semantic conventions for functions, messages and CloudEvents.
func (h *Invocation) attributes() []attribute.KeyValue {
	found := []attribute.KeyValue{
		semconv.FaaSName(h.function), semconv.FaaSTriggerPubSub, semconv.FaaSColdstart(h.cold),
		semconv.MessagingSystemKey.String("knative"), // as in Knative's spans (pkg/observability/key.go)
		semconv.MessagingOperationName("process"), semconv.MessagingOperationTypeProcess,
		semconv.CloudEventsEventID(h.event.ID()), semconv.CloudEventsEventType(h.event.Type()),
		semconv.CloudEventsEventSource(h.event.Source()), semconv.CloudEventsEventSpecVersion(h.event.SpecVersion()),
	}
	if subject := h.event.Subject(); subject != "" {
		found = append(found, semconv.CloudEventsEventSubject(subject))
	}
	return found
}
