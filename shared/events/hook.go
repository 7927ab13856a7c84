package events

import (
	"fmt"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
)

// HookRequest is the data of ScaleHookRequested. The answer repeats it.
type HookRequest struct {
	api.HookFacts
	// Key is a random text. An answer with the same key comes from a receiver of the request.
	Key string `json:"key"`
	// Message is the error. Only an answer of the type ScaleHookFailed has it.
	Message string `json:"message,omitempty"`
}

// HookAnswer is the answer of a user's function to a request for a hook.
type HookAnswer struct {
	Operation, Hook, Key string
	Failed               bool
	Message              string
}

// HookAnswerOf returns the answer in the event, or nil for another type. Every client of the Broker can send an answer, so the caller must
// compare its key with the keys of the requests.
func HookAnswerOf(e cloudevents.Event) (*HookAnswer, error) {
	if e.Type() != ScaleHookCompleted && e.Type() != ScaleHookFailed {
		return nil, nil
	}
	answer := HookRequest{}
	if err := e.DataAs(&answer); err != nil {
		return nil, fmt.Errorf("event %q of type %s: %w; send the data of the request back", e.ID(), e.Type(), err)
	}
	return &HookAnswer{
		Operation: answer.Operation, Hook: answer.Hook, Key: answer.Key, Failed: e.Type() == ScaleHookFailed, Message: answer.Message,
	}, nil
}
