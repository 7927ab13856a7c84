package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"drydock.dev/shared/telemetry"
)

// sendTimeout is the time limit of one POST. It is longer than a cold start behind a synchronous Broker, and shorter
// than a function's deadline.
const sendTimeout = 20 * time.Second

// maxErrorText is the number of bytes of an answer that go into an error.
const maxErrorText = 256

// Sender posts events to a sink, in binary mode.
type Sender struct {
	sink   string
	client *http.Client
}

// NewSender returns a sender to the sink's URL. A nil transport means a new one.
func NewSender(sink string, transport http.RoundTripper) *Sender {
	if transport == nil {
		transport = NewTransport()
	}
	return &Sender{sink: sink, client: &http.Client{Transport: transport, Timeout: sendTimeout}}
}

// NewTransport returns the transport of a Sender, for callers that wrap it.
func NewTransport() http.RoundTripper {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 8, IdleConnTimeout: idleTimeout}
}

// Send posts the event, with the trace context of the current work. Any answer other than 2xx is an error.
func (s *Sender) Send(ctx context.Context, e event.Event) error {
	if s.sink == "" {
		return errors.New("there is no sink for events. Set K_SINK to the Broker's URL")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.sink, http.NoBody)
	if err != nil {
		return fmt.Errorf("making a request to %s: %w", s.sink, err)
	}
	e = e.Clone() // the caller's event must not change
	telemetry.Stamp(ctx, &e)
	telemetry.StampHeader(ctx, request.Header)
	if err := cehttp.WriteRequest(ctx, binding.ToMessage(&e), request); err != nil {
		return fmt.Errorf("encoding event %s of type %s: %w", e.ID(), e.Type(), err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("sending event %s of type %s: %w", e.ID(), e.Type(), err)
	}
	defer response.Body.Close() // nothing was written
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorText))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("sending event %s of type %s: %s answered %s: %s", e.ID(), e.Type(), s.sink, response.Status, text)
	}
	return nil
}
