package serve

import (
	"context"
	"fmt"
	"net/http"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"drydock.dev/shared/fault"
	"drydock.dev/shared/telemetry"
	"drydock.dev/shared/text"
)

// answer is the function's answer to an event.
type answer struct {
	event event.Event // zero if the request has no valid event
	reply *event.Event
	telemetry.Result
}

// ResultOf returns the HTTP status and the outcome for a function's return values.
func ResultOf(reply *event.Event, err error) telemetry.Result {
	switch {
	case err != nil:
		return telemetry.Result{Code: fault.Status(err), Outcome: "failed", Err: err}
	case reply == nil:
		return telemetry.Result{Code: http.StatusNoContent, Outcome: "done"}
	}
	return telemetry.Result{Code: http.StatusOK, Outcome: "replied"}
}

// failure returns an answer without a reply.
func failure(code int, outcome string, err error) answer {
	return answer{Result: telemetry.Result{Code: code, Outcome: outcome, Err: err}}
}

// eventType returns "" if the request has no valid event.
func (a answer) eventType() string {
	if a.event.Context == nil {
		return ""
	}
	return a.event.Type()
}

// maxErrorBytes is the maximum size of an error's text with its newline. Knative encodes the text for the extension knativeerrordata of a
// dead letter, and panics if the result exceeds 1,024 characters (dispatchExecutionInfoTransformers in
// pkg/kncloudevents/event_dispatcher.go).
const maxErrorBytes = 1024 / 4 * 3

// write sends the answer: a complete event, an empty body, or the error's text. The log has the whole text.
func write(ctx context.Context, w http.ResponseWriter, a answer) error {
	switch {
	case a.Err != nil:
		http.Error(w, text.ClipMiddle(a.Err.Error(), maxErrorBytes-len("\n")), a.Code)
	case a.reply != nil:
		if err := cehttp.WriteResponseWriter(ctx, binding.ToMessage(a.reply), a.Code, w); err != nil {
			return fmt.Errorf("writing the reply: %w", err)
		}
	default:
		w.WriteHeader(a.Code)
	}
	return nil
}
