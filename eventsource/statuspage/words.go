package statuspage

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/overview"
	"drydock.dev/shared/progress"
	"drydock.dev/shared/text"
)

// maxText limits each text on a page, in bytes. Users write some of them.
const maxText = 400

// printable returns the text as one short line. Every text that is not a constant passes it.
func printable(s string) string { return text.Line(s, maxText) }

// when is a time on a page.
type when struct {
	ISO   string // for machines, and as a tooltip
	Words string // relative to now
}

// past returns the time of a past event, or nil.
func past(at *metav1.Time, now time.Time) *when {
	if at == nil || at.IsZero() {
		return nil
	}
	return &when{ISO: isoOf(at.Time), Words: progress.Age(now.Sub(at.Time)) + " ago"}
}

// future returns the time until which something lasts, or nil.
func future(at *metav1.Time, now time.Time) *when {
	if at == nil || at.IsZero() {
		return nil
	}
	if at.Time.Before(now) {
		return &when{ISO: isoOf(at.Time), Words: "passed " + progress.Age(now.Sub(at.Time)) + " ago"}
	}
	return &when{ISO: isoOf(at.Time), Words: "in " + progress.Age(at.Sub(now))}
}

func isoOf(at time.Time) string { return at.UTC().Format(time.RFC3339) }

// plural returns the number with the noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// mood is the class of the style that a phase or state has.
type mood string

const (
	good  mood = "good"
	busy  mood = "busy"
	bad   mood = "bad"
	quiet mood = "quiet"
)

// moodOfPhase returns the mood of an operation. A phase that is empty belongs to an unreadable record.
func moodOfPhase(phase api.Phase) mood {
	switch {
	case phase == api.Succeeded:
		return good
	case progress.IsTrouble(phase):
		return bad
	}
	return busy
}

func moodOfMember(phase api.MemberPhase) mood {
	switch phase {
	case api.MemberMoved:
		return good
	case api.MemberKept, api.MemberPending:
		return quiet
	}
	return busy
}

func moodOfState(state overview.State) mood {
	switch state {
	case overview.Awake:
		return good
	case overview.Asleep, overview.AtZero:
		return quiet
	}
	return busy
}

// stateWords returns the state in lower-case words.
func stateWords(state overview.State) string {
	switch state {
	case overview.FallingAsleep:
		return "falling asleep"
	case overview.WakingUp:
		return "waking up"
	case overview.AtZero:
		return "at zero"
	}
	return strings.ToLower(string(state))
}

// operationWords returns the kind and request of an operation, for example "resize data=20Gi".
func operationWords(kind api.Kind, request string) string {
	words := strings.ToLower(string(kind))
	if kind == api.KindResize || kind == api.KindScale {
		words = strings.TrimSpace(words + " " + request)
	}
	return printable(words)
}

// joined joins the texts that are not empty with a colon.
func joined(texts ...string) string { return joinedBy(": ", texts...) }

func joinedBy(separator string, texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(s string) bool { return s == "" }), separator)
}
