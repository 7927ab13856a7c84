package events

import (
	"fmt"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
)

// HookRequest is the data of ScaleHookRequested. The answer has it as its data, too.
type HookRequest struct {
	api.HookFacts
	// Key is a random text. An answer with the same key comes from a receiver of the request.
	Key string `json:"key"`
	// Message says what went wrong. Only an answer of the type ScaleHookFailed has it.
	Message string `json:"message,omitempty"`
}

// HookAnswer is the answer of a user's function to a request for a hook.
type HookAnswer struct {
	Operation, Hook, Key string
	Failed               bool
	Message              string
}

// HookAnswerOf returns the answer in the event; nil if the event has another type. Every client of the Broker can send an answer, so the
// caller compares its key with those of the requests.
func HookAnswerOf(e cloudevents.Event) (*HookAnswer, error) {
	if e.Type() != ScaleHookCompleted && e.Type() != ScaleHookFailed {
		return nil, nil
	}
	told := HookRequest{}
	if err := e.DataAs(&told); err != nil {
		return nil, fmt.Errorf("event %q of type %s: %w; send the data of the request back", e.ID(), e.Type(), err)
	}
	return &HookAnswer{Operation: told.Operation, Hook: told.Hook, Key: told.Key, Failed: e.Type() == ScaleHookFailed, Message: told.Message}, nil
}
