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

// answer is what the function made of an event.
type answer struct {
	event event.Event // zero when the request held none
	reply *event.Event
	telemetry.Result
}

// ResultOf says how a function's answer ends on the wire.
func ResultOf(reply *event.Event, err error) telemetry.Result {
	switch {
	case err != nil:
		return telemetry.Result{Code: fault.Status(err), Outcome: "failed", Err: err}
	case reply == nil:
		return telemetry.Result{Code: http.StatusNoContent, Outcome: "done"}
	}
	return telemetry.Result{Code: http.StatusOK, Outcome: "replied"}
}

// fails is an answer without a reply.
func fails(code int, outcome string, err error) answer {
	return answer{Result: telemetry.Result{Code: code, Outcome: outcome, Err: err}}
}

// eventType is empty when the request held no event.
func (a answer) eventType() string {
	if a.event.Context == nil {
		return ""
	}
	return a.event.Type()
}

// write sends the answer: a complete event, an empty body, or the error's text, of which a Broker keeps the beginning in
// the extension knativeerrordata of a dead letter.
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
