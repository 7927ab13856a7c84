package events

import (
	"fmt"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
)

// HookRequest is the data of ScaleHookRequested. The answer has it as its data, too.
type HookRequest struct {
	api.HookFacts
	// Key is known to those who got the request, and shows that an answer is theirs.
	Key string `json:"key"`
	// Message says in an answer ScaleHookFailed what went wrong.
	Message string `json:"message,omitempty"`
}

// HookAnswer is what a function of the user's says about a hook.
type HookAnswer struct {
	Operation, Hook, Key string
	Failed               bool
	Message              string
}

// HookAnswerOf reads an answer; nil if the event is none. Everybody who reaches the Broker can send one: it counts only with a key that was
// sent with the request.
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
