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
)

const (
	// DeadLettersVersion is the version of the document in DeadLettersAnnotation that this code writes.
	DeadLettersVersion = 1

	// MaxDeadLetters is how many letters a set lists. A full list takes nothing more. If it made room instead, events that
	// fail because of the very write that lists them could push one another out for ever.
	MaxDeadLetters = 8
)

// Letter is a dead letter: what is needed to send an event again that no try could deliver, and why it was given up.
type Letter struct {
	Type   string `json:"type"`
	Source string `json:"source"`
	ID     string `json:"id"`
	// Subject is the API path of the object that the event is about.
	Subject string `json:"subject"`
	// Operation is the id of the operation that the event belongs to.
	Operation string `json:"operation,omitempty"`
	// Extensions are Drydock's own, beside the operation; what Knative added on the way is left out.
	Extensions map[string]string `json:"extensions,omitempty"`
	// Data is there only when it is small, and never in an event that carries an object.
	Data json.RawMessage `json:"data,omitempty"`
	// Destination is the URL that did not take the event, Code its HTTP status, 0 if it did not answer, and Message the
	// first line of what it said.
	Destination string      `json:"destination,omitempty"`
	Code        int         `json:"code,omitempty"`
	Message     string      `json:"message,omitempty"`
	Time        metav1.Time `json:"time"`
	// Resent is when the event was about to be sent again. If it fails once more, the letter is written anew without it.
	Resent *metav1.Time `json:"resent,omitempty"`
}

// Key names the letter: eight hexadecimal digits. Two letters with the same key are the same failure, whenever and in
// whatever words: the same kind of event about the same object and operation, at the same place, with the same answer.
func (l Letter) Key() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{l.Type, l.Subject, l.Operation, l.Destination, strconv.Itoa(l.Code)}, "\x00")))
	return hex.EncodeToString(sum[:4])
}

type deadLetters struct {
	Version int      `json:"version"`
	Letters []Letter `json:"letters"`
}

// EncodeDeadLetters renders the document for DeadLettersAnnotation.
func EncodeDeadLetters(letters []Letter) string {
	return mustJSON(deadLetters{Version: DeadLettersVersion, Letters: letters})
}

// LoadDeadLetters reads the events about the StatefulSet that were given up. A set without such a list yields nil; text
// that cannot be read is an error, so that nobody writes over what somebody may still want to send.
func LoadDeadLetters(set *appsv1.StatefulSet) ([]Letter, error) {
	text, ok := set.Annotations[DeadLettersAnnotation]
	if !ok {
		return nil, nil
	}
	var list deadLetters
	if err := json.Unmarshal([]byte(text), &list); err != nil {
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
		return fmt.Errorf("there are %d letters, Drydock writes at most %d; remove the annotation to begin a new list", len(d.Letters), MaxDeadLetters)
	}
	for i, l := range d.Letters {
		if l.Type == "" || l.ID == "" || l.Source == "" || l.Subject == "" || l.Time.IsZero() {
			return fmt.Errorf("type, source, id, subject or time of letter %d is missing; remove the annotation to begin a new list", i)
		}
	}
	return nil
}
