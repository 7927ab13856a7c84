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

// write sends the answer: a complete event, an empty body, or the error's text. A Broker stores the beginning of that
// text in the extension knativeerrordata of a dead letter.
func write(ctx context.Context, w http.ResponseWriter, a answer) error {
	switch {
	case a.Err != nil:
		http.Error(w, a.Err.Error(), a.Code)
	case a.reply != nil:
		if err := cehttp.WriteResponseWriter(ctx, binding.ToMessage(a.reply), a.Code, w); err != nil {
			return fmt.Errorf("writing the reply: %w", err)
		}
	default:
		w.WriteHeader(a.Code)
	}
	return nil
}
