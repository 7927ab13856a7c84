// Command hook-function is a Knative function that runs the hooks of Scalers. Put your code into moveData.
package main

import (
	"context"
	"fmt"
	"log"

	cloudevents "github.com/cloudevents/sdk-go/v2"
)

const (
	requested = "dev.drydock.scale.hook.requested"
	completed = "dev.drydock.scale.hook.completed"
	failed    = "dev.drydock.scale.hook.failed"
)

// facts is the part of the request that moveData needs.
type facts struct {
	Hook, Direction, Namespace, Set string
	Removed                         []int
}

// moveData moves data away from the members that will be removed. It can run more than once for a scaling, so it must be safe to repeat.
func moveData(_ context.Context, f facts) error {
	log.Printf("hook %q of %q in %q, direction %q, removed: %v", f.Hook, f.Set, f.Namespace, f.Direction, f.Removed)
	return nil
}

// answer runs the hook, and returns the request with the type of an answer. The answer contains the data of the request, because Drydock
// checks its key.
func answer(ctx context.Context, request cloudevents.Event) (*cloudevents.Event, error) {
	var f facts
	var data map[string]any
	if request.Type() != requested || request.DataAs(&f) != nil || request.DataAs(&data) != nil {
		return nil, cloudevents.NewHTTPResult(400, "event %q of type %s is not a hook request; check the filter of the Trigger",
			request.ID(), request.Type())
	}
	reply := request.Clone()
	reply.SetID(request.ID() + "/answer")
	reply.SetSource("hook-function")
	reply.SetType(completed)
	if err := moveData(ctx, f); err != nil {
		reply.SetType(failed)
		data["message"] = err.Error()
	}
	if err := reply.SetData(cloudevents.ApplicationJSON, data); err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return &reply, nil
}

func main() {
	client, err := cloudevents.NewClientHTTP() // port 8080
	if err != nil {
		log.Fatal(err)
	}
	log.Fatal(client.StartReceiver(context.Background(), answer))
}
