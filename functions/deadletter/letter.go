package deadletter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/cloudevents/sdk-go/v2/event"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/events"
)

// Bounds of a letter. With them the longest list is a fraction of the 256 KiB that all annotations of an object may have.
const (
	maxAttribute = 512
	maxMessage   = 256
	maxData      = 1 << 10
)

// setOf says which StatefulSet an event is about: the one that it names, or, where a source event is about another
// object, the one that the link on the copy of that object names, or a Scaler its target. A link into another namespace is forged.
func setOf(e event.Event) (events.Ref, error) {
	object, err := events.ObjectOf(e)
	if err != nil || object.Kind == events.KindStatefulSet || !events.IsSource(e.Type()) {
		return events.SetOf(e)
	}
	if object.Kind == events.KindScaler {
		return targetOf(e, object)
	}
	copied := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(e.Data(), copied); err != nil {
		return events.Ref{}, fmt.Errorf("reading the object in event %q: %w", e.ID(), err)
	}
	link, err := api.LoadLink(copied)
	switch {
	case err != nil:
		return events.Ref{}, err
	case link == nil || link.Namespace != object.Namespace || len(validation.IsDNS1123Subdomain(link.Set.Name)) > 0:
		return events.Ref{}, fmt.Errorf("event %q is about %s, which is linked to no StatefulSet of its namespace", e.ID(), object.Path())
	}
	return events.Ref{Namespace: link.Namespace, Name: link.Set.Name, Operation: link.Operation}, nil
}

// targetOf reads which StatefulSet the Scaler of the event scales.
func targetOf(e event.Event, object events.Object) (events.Ref, error) {
	scaler := &v1alpha1.Scaler{}
	if err := bounded.JSON(e.Data(), scaler); err != nil {
		return events.Ref{}, fmt.Errorf("reading the Scaler in event %q: %w", e.ID(), err)
	}
	target := scaler.Spec.Target
	if len(validation.IsDNS1123Subdomain(target)) > 0 {
		return events.Ref{}, fmt.Errorf("event %q is about %s, which names no StatefulSet", e.ID(), object.Path())
	}
	return events.Ref{Namespace: object.Namespace, Name: target}, nil
}

// letterOf makes the letter of an event, without operation and time. It takes nothing over that is not Drydock's own: the
// content of an event is hostile input, and the letter will be readable by whoever may read the set.
func letterOf(e event.Event) api.Letter {
	letter := api.Letter{Type: e.Type(), Source: e.Source(), ID: e.ID(), Extensions: events.OwnExtensions(e),
		Destination: withoutSecrets(extension(e, "knativeerrordest")), Message: firstLine(extension(e, "knativeerrordata"))}
	if code, err := strconv.Atoi(extension(e, "knativeerrorcode")); err == nil && code >= 100 && code <= 599 {
		letter.Code = code // -1 stands for no answer
	}
	if object, err := events.ObjectOf(e); err == nil && object.Watched() {
		letter.Subject = object.Path()
	}
	if events.IsOwn(e.Type()) {
		letter.Data = smallJSON(e.Data())
	}
	return letter
}

func extension(e event.Event, name string) string {
	if value, ok := e.Extensions()[name]; ok {
		return fmt.Sprint(value)
	}
	return ""
}

// withoutSecrets is the URL without what may be secret in one.
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

// firstLine is the first line of what the subscriber said, fit to be printed: base64 over at most 1,024 characters
// (knative.dev/eventing pkg/kncloudevents), the last of which may be cut off.
func firstLine(encoded string) string {
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(strings.TrimSpace(strings.ToValidUTF8(string(raw), "?")), "\n")
	line = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, line)
	if len(line) > maxMessage {
		line = strings.ToValidUTF8(line[:maxMessage-3], "") + "..."
	}
	return line
}

// smallJSON is the data if it is a small JSON document as it will be written, else nothing.
func smallJSON(data []byte) json.RawMessage {
	var compact, written bytes.Buffer
	if len(data) > maxData || json.Compact(&compact, data) != nil {
		return nil
	}
	if json.HTMLEscape(&written, compact.Bytes()); written.Len() > maxData || written.Len() == 0 {
		return nil
	}
	return written.Bytes()
}

// malformedReason says why an event cannot be listed, or is empty. What Drydock and Knative send is well-formed.
func malformedReason(l api.Letter) string {
	if !events.IsOwn(l.Type) && !events.IsSource(l.Type) {
		return "its type is none that Drydock knows"
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
			return fmt.Sprintf("one of its attributes is longer than %d bytes or has characters that none of Drydock's has", maxAttribute)
		}
	}
	return ""
}

// isPlain reports whether the text is printable ASCII that JSON writes as it is.
func isPlain(text string) bool {
	return len(text) <= maxAttribute && !strings.ContainsFunc(text, func(r rune) bool {
		return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r)
	})
}

// describe says in a sentence which event was given up, where, and why.
func describe(l api.Letter) string {
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
