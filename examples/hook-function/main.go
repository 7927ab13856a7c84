// Command hook-function answers the hooks of Scalers, as a Knative function. Put your work into moveData.
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

// facts are what moveData needs of the request.
type facts struct {
	Hook, Direction, Namespace, Set string
	Removed                         []int
}

// moveData moves data away from the members that are to be removed. It can run more than once for a scaling.
func moveData(_ context.Context, f facts) error {
	log.Printf("hook %q of %q in %q, direction %q, removed: %v", f.Hook, f.Set, f.Namespace, f.Direction, f.Removed)
	return nil
}

// answer returns the request with the type of an answer. The data goes back too, since it has the key that Drydock looks for.
func answer(ctx context.Context, request cloudevents.Event) (*cloudevents.Event, error) {
	var f facts
	var data map[string]any
	if request.Type() != requested || request.DataAs(&f) != nil || request.DataAs(&data) != nil {
		return nil, cloudevents.NewHTTPResult(400, "event %q of type %s is no request for a hook; check the filter of the Trigger", request.ID(), request.Type())
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
