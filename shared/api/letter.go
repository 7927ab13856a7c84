package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/bounded"
)

const (
	// DeadLettersVersion is the version of the list in DeadLettersAnnotation that this code writes.
	DeadLettersVersion = 1

	// MaxDeadLetters is the largest number of letters of a set. A full list accepts no more. If it dropped old letters instead, events
	// could replace each other for ever, because the write of the list causes events that may fail, too.
	MaxDeadLetters = 8
)

// UndeliveredEvent is a dead letter: an event that could not be delivered, with the data to send it again and the cause of the failure.
type UndeliveredEvent struct {
	Type   string `json:"type"`
	Source string `json:"source"`
	ID     string `json:"id"`
	// Subject is the API path of the event's object.
	Subject string `json:"subject"`
	// Operation is the id of the event's operation.
	Operation string `json:"operation,omitempty"`
	// Extensions are Drydock's extensions other than the operation. Extensions that Knative added are left out.
	Extensions map[string]string `json:"extensions,omitempty"`
	// Data is present only if it is small. It is never present for an event that carries an object.
	Data json.RawMessage `json:"data,omitempty"`
	// Destination is the URL that did not accept the event. Code is its HTTP status, or 0 without an answer. Message is the first line of
	// the answer.
	Destination string      `json:"destination,omitempty"`
	Code        int         `json:"code,omitempty"`
	Message     string      `json:"message,omitempty"`
	Time        metav1.Time `json:"time"`
	// Resent is when the event was sent again. If it fails once more, the letter is written without this time.
	Resent *metav1.Time `json:"resent,omitempty"`
}

// Key returns eight hexadecimal digits that identify the failure. Letters have the same key if event type, object, operation, destination
// and status are the same. Time and words do not matter.
func (l UndeliveredEvent) Key() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{l.Type, l.Subject, l.Operation, l.Destination, strconv.Itoa(l.Code)}, "\x00")))
	return hex.EncodeToString(sum[:4])
}

type deadLetters struct {
	Version int                `json:"version"`
	Letters []UndeliveredEvent `json:"letters"`
}

// EncodeDeadLetters returns the value of DeadLettersAnnotation.
func EncodeDeadLetters(letters []UndeliveredEvent) string {
	return mustJSON(deadLetters{Version: DeadLettersVersion, Letters: letters})
}

// LoadDeadLetters returns the dead letters of the StatefulSet, nil without a list. An unreadable list is an error, so that it is not
// overwritten while a user may still want to send its events.
func LoadDeadLetters(set *appsv1.StatefulSet) ([]UndeliveredEvent, error) {
	text, ok := set.Annotations[DeadLettersAnnotation]
	if !ok {
		return nil, nil
	}
	var list deadLetters
	if err := bounded.Document([]byte(text), &list); err != nil {
		return nil, fmt.Errorf("reading annotation %s of StatefulSet %s/%s: %w; remove the annotation to begin a new list",
			DeadLettersAnnotation, set.Namespace, set.Name, err)
	}
	if err := list.validate(); err != nil {
		return nil, fmt.Errorf("annotation %s of StatefulSet %s/%s: %w", DeadLettersAnnotation, set.Namespace, set.Name, err)
	}
	return list.Letters, nil
}

func (d deadLetters) validate() error {
	if d.Version != DeadLettersVersion {
		return fmt.Errorf("version is %d, this Drydock reads version %d; update Drydock", d.Version, DeadLettersVersion)
	}
	if len(d.Letters) > MaxDeadLetters {
		return fmt.Errorf("there are %d letters, Drydock writes at most %d; remove the annotation to begin a new list",
			len(d.Letters), MaxDeadLetters)
	}
	for i, l := range d.Letters {
		if l.Type == "" || l.ID == "" || l.Source == "" || l.Subject == "" || l.Time.IsZero() {
			return fmt.Errorf("type, source, id, subject or time of letter %d is missing; remove the annotation to begin a new list", i)
		}
	}
	return nil
}
