package kit

import (
	"context"
	"encoding/base64"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/api"
)

// FailedDelivery is the response of a function that did not accept an event.
type FailedDelivery struct {
	Function api.Function
	Code     int
	Text     string
}

// DeadLetter sends an event to dead-letter, as a Broker does after its last attempt at delivery.
func (d *Drive) DeadLetter(ctx context.Context, e event.Event, answer FailedDelivery) error {
	e = e.Clone()
	e.SetExtension("knativebrokerttl", 254)
	e.SetExtension("knativeerrordest", "http://"+string(answer.Function)+".drydock.svc.cluster.local")
	e.SetExtension("knativeerrorcode", answer.Code)
	e.SetExtension("knativeerrordata", base64.StdEncoding.EncodeToString([]byte(answer.Text)))
	_, err := d.functions[api.DeadLetter].Handle(ctx, e)
	return err
}
