package deadletter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/events"
	"drydock.dev/shared/text"
)

// Limits of a letter in bytes. With them, the longest list takes a fraction of the 256 KiB that all annotations of an object may have.
const (
	maxAttribute = 512
	maxMessage   = 256
	maxData      = 1 << 10
)

// setOf returns the StatefulSet of an event, for a source event with the UID that its data has. Most events name the set. A source event
// about another object has a copy of that object, and the set comes from the link on the copy or from the target of a Scaler. A link into
// another namespace is forged and leads to an error.
func setOf(e event.Event) (events.Ref, error) {
	object, err := events.ObjectOf(e)
	if err != nil || !events.IsSource(e.Type()) {
		return events.SetOf(e)
	}
	if object.Kind == events.KindScaler {
		return targetOf(e, object)
	}
	metadata := &metav1.PartialObjectMetadata{}
	unreadable := bounded.JSON(e.Data(), metadata)
	if object.Kind == events.KindStatefulSet {
		ref, err := events.SetOf(e)
		ref.UID = metadata.UID // "" if the data is unreadable
		return ref, err
	}
	if unreadable != nil {
		return events.Ref{}, fmt.Errorf("reading the object in event %q: %w", e.ID(), unreadable)
	}
	link, err := api.LoadLink(metadata)
	switch {
	case err != nil:
		return events.Ref{}, err
	case link == nil || link.Namespace != object.Namespace || len(validation.IsDNS1123Subdomain(link.Set.Name)) > 0:
		return events.Ref{}, fmt.Errorf("event %q concerns %s, which has no link to a StatefulSet of its namespace", e.ID(), object.Path())
	}
	return events.Ref{Namespace: link.Namespace, Name: link.Set.Name, UID: link.Set.UID, Operation: link.Operation}, nil
}

// targetOf returns the StatefulSet that the Scaler in the event scales.
func targetOf(e event.Event, object events.Object) (events.Ref, error) {
	scaler := &v1alpha1.Scaler{}
	if err := bounded.JSON(e.Data(), scaler); err != nil {
		return events.Ref{}, fmt.Errorf("reading the Scaler in event %q: %w", e.ID(), err)
	}
	target := scaler.Spec.Target
	if len(validation.IsDNS1123Subdomain(target)) > 0 {
		return events.Ref{}, fmt.Errorf("event %q concerns %s, whose target is not the name of a StatefulSet", e.ID(), object.Path())
	}
	ref := events.Ref{Namespace: object.Namespace, Name: target}
	if scaled := scaler.Status.Target; scaled != nil {
		ref.UID = scaled.UID
	}
	return ref, nil
}

// letterOf returns the letter of an event, without operation and time. It copies only data of Drydock's own event types, because the
// content of an event is untrusted input, and every user who may read the set can read the letter.
func letterOf(e event.Event) api.UndeliveredEvent {
	letter := api.UndeliveredEvent{Type: e.Type(), Source: e.Source(), ID: e.ID(), Extensions: events.OwnExtensions(e),
		Destination: withoutSecrets(extension(e, "knativeerrordest")), Message: firstLine(extension(e, "knativeerrordata"))}
	if code, err := strconv.Atoi(extension(e, "knativeerrorcode")); err == nil && code >= 100 && code <= 599 {
		letter.Code = code // Knative sends -1 if there was no answer
	}
	if object, err := events.ObjectOf(e); err == nil && object.Watched() {
		letter.Subject = object.Path()
	}
	if events.IsOwn(e.Type()) && !events.IsHook(e.Type()) {
		letter.Data = smallJSON(e.Data())
	}
	return letter
}

// extension returns the event's extension as text. It is empty if there is none.
func extension(e event.Event, name string) string {
	if value, ok := e.Extensions()[name]; ok {
		return fmt.Sprint(value)
	}
	return ""
}

// withoutSecrets returns the URL without user, password, query and fragment, which may be secret. It is empty for a text that is no URL.
func withoutSecrets(text string) string {
	text, _, _ = strings.Cut(text, "?")
	text, _, _ = strings.Cut(text, "#")
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || !isPlain(text) {
		return ""
	}
	host, path, _ := strings.Cut(rest, "/")
	if at := strings.LastIndex(host, "@"); at >= 0 {
		host = host[at+1:]
	}
	return strings.TrimSuffix(scheme+"://"+host+"/"+path, "/")
}

// firstLine returns the printable first line of the subscriber's answer. The answer is base64 of at most 1,024 characters, and the last
// character may be incomplete (knative.dev/eventing pkg/kncloudevents).
func firstLine(encoded string) string {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(raw)), "\n")
	return text.Line(line, maxMessage)
}

// smallJSON returns the data in the form that will be stored, if it is a small JSON document. Otherwise it returns nil.
func smallJSON(data []byte) json.RawMessage {
	var compact, stored bytes.Buffer
	if len(data) > maxData || json.Compact(&compact, data) != nil {
		return nil
	}
	if json.HTMLEscape(&stored, compact.Bytes()); stored.Len() > maxData || stored.Len() == 0 {
		return nil
	}
	return stored.Bytes()
}

// malformedReason returns why an event is malformed and must not be listed. It is empty for every event that Drydock and Knative send.
func malformedReason(l api.UndeliveredEvent) string {
	if !events.IsOwn(l.Type) && !events.IsSource(l.Type) {
		return "Drydock does not know its type"
	}
	attributes := []string{l.Source, l.ID, l.Subject}
	for _, value := range attributes {
		if value == "" {
			return "its source, id or subject is missing"
		}
	}
	for _, value := range l.Extensions {
		attributes = append(attributes, value)
	}
	for _, value := range append(attributes, l.Operation) {
		if !isPlain(value) {
			return fmt.Sprintf("one of its attributes is longer than %d bytes or has characters that Drydock never uses", maxAttribute)
		}
	}
	return ""
}

// isPlain reports whether the text is short printable ASCII that needs no escapes in JSON.
func isPlain(text string) bool {
	return len(text) <= maxAttribute && !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r)
	})
}

// describe returns a sentence with the type of the undelivered event, its destination and the error.
func describe(l api.UndeliveredEvent) string {
	to := l.Destination
	if to == "" {
		to = "its subscriber"
	}
	message := fmt.Sprintf("event %s could not be delivered to %s", l.Type, to)
	if l.Code != 0 {
		message += fmt.Sprintf(": HTTP %d", l.Code)
	}
	if l.Message != "" {
		message += ": " + l.Message
	}
	return message
}
