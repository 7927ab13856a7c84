package deadletter

import (
	"encoding/base64"
	"log/slog"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
)

func TestDescribe(t *testing.T) {
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	const begin = "event dev.drydock.owner.paused could not be delivered to "
	const end = "; the next tick looks at the set again, or annotate it with drydock.dev/retry"
	for name, row := range map[string]struct {
		extensions map[string]any
		want       string
	}{
		"the subscriber said why": {
			map[string]any{"knativeerrordest": "http://backup", "knativeerrorcode": 422, "knativeerrordata": encoded("no room\n")},
			begin + "http://backup: HTTP 422: no room" + end},
		"it said much: the first line is enough": {
			map[string]any{"knativeerrordest": "http://backup", "knativeerrorcode": "500", "knativeerrordata": encoded("panic: x\ngoroutine 1\nmain.go:1")},
			begin + "http://backup: HTTP 500: panic: x" + end},
		"it said something that is no text": {
			map[string]any{"knativeerrordest": "http://backup", "knativeerrordata": encoded("a\xff\xfeb")},
			begin + "http://backup: a?b" + end},
		"what it said is not encoded as agreed": {
			map[string]any{"knativeerrordest": "http://backup", "knativeerrorcode": 503, "knativeerrordata": "%%%"},
			begin + "http://backup: HTTP 503" + end},
		"it was never reached": {
			map[string]any{"knativeerrordest": "http://backup"},
			begin + "http://backup" + end},
		"nothing is known at all": {nil, begin + "its subscriber" + end},
	} {
		t.Run(name, func(t *testing.T) {
			e := events.NewStep(api.PauseOwner, events.OwnerPaused, events.Ref{Namespace: "shop", Name: "web", Operation: "op"})
			for key, value := range row.extensions {
				e.SetExtension(key, value)
			}
			if got := Describe(e); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

func TestLetterAboutNobodyIsAccepted(t *testing.T) {
	e := event.New()
	e.SetType("com.example.other")
	if answer, err := New(nil, api.Settings{}, quiet()).Handle(t.Context(), e); answer != nil || err != nil {
		t.Errorf("answers %v, %v: a dead letter that fails would be lost", answer, err)
	}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
