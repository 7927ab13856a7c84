//go:build cluster

package knative

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/seed"
)

// post sends an event to the Broker through the API server, as any client may who can reach it.
func (k *knative) post(e event.Event) error {
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "http://broker", http.NoBody)
	if err != nil {
		return fmt.Errorf("making a request: %w", err)
	}
	if err := cehttp.WriteRequest(context.Background(), binding.ToMessage(&e), request); err != nil {
		return fmt.Errorf("encoding event %s: %w", e.ID(), err)
	}
	body := &bytes.Buffer{}
	if request.Body != nil {
		if _, err := body.ReadFrom(request.Body); err != nil {
			return fmt.Errorf("encoding event %s: %w", e.ID(), err)
		}
	}
	call := k.Kube.CoreV1().RESTClient().Post().Namespace("knative-eventing").Resource("services").
		Name("http:broker-ingress:80").SubResource("proxy").Suffix(drydock, "default").Body(body.Bytes())
	for name, values := range request.Header {
		call.SetHeader(name, values...)
	}
	if err := call.Do(context.Background()).Error(); err != nil {
		return fmt.Errorf("posting event %s of type %s: %w", e.ID(), e.Type(), err)
	}
	return nil
}

// everyEvent returns an event of each type that a function handles, for the set.
func everyEvent(ref events.Ref) []event.Event {
	list := []event.Event{
		events.NewChanged(ref, "test", api.DetectResize, api.PauseOwner, api.Backup, api.Restore, api.IdleTimeout),
	}
	for eventType, from := range map[string]api.Function{
		events.ResizeRequested: api.Sift, events.ResizeDetected: api.DetectResize, events.OwnerPaused: api.PauseOwner,
		events.SleepDecided: api.IdleTimeout, events.WakeDecided: api.IdleTimeout, events.Scaled: api.IdleTimeout,
		events.BackupCompleted: api.Backup, events.RestoreCompleted: api.Restore, events.OperationFailed: api.Backup,
	} {
		list = append(list, events.NewStep(from, eventType, ref))
	}
	return list
}

// stormPause leaves two cores some time for the operation.
const stormPause = 50 * time.Millisecond

// storm posts every event twice, in random order, until stop, which returns their number.
func (k *knative) storm(t *testing.T, ref func() events.Ref, stop <-chan struct{}) int {
	chance := rand.New(rand.NewPCG(seed.Of(t), 0))
	posted := 0
	for {
		list := everyEvent(ref())
		list = append(list, list...)
		chance.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, e := range list {
			select {
			case <-stop:
				return posted
			case <-time.After(stormPause):
			}
			if err := k.post(e); err != nil {
				t.Error(err)
			}
			posted++
		}
	}
}
