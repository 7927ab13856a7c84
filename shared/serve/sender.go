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

// sendTimeout bounds one POST. It is longer than a cold start of what is behind a synchronous Broker, shorter than a
// function's deadline.
const sendTimeout = 20 * time.Second

// maxErrorText bounds how much of an answer goes into an error.
const maxErrorText = 256

// Sender posts events to a sink, in binary mode.
type Sender struct {
	sink   string
	client *http.Client
}

// NewSender sends to the sink's URL over the transport; nil is a transport of its own.
func NewSender(sink string, transport http.RoundTripper) *Sender {
	if transport == nil {
		transport = NewTransport()
	}
	return &Sender{sink: sink, client: &http.Client{Transport: transport, Timeout: sendTimeout}}
}

// NewTransport makes the transport of a Sender, for who wraps it.
func NewTransport() http.RoundTripper {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 8, IdleConnTimeout: idleTimeout}
}

// Send posts the event, with the trace context of the work under way. Anything but a 2xx answer is an error.
func (s *Sender) Send(ctx context.Context, e event.Event) error {
	if s.sink == "" {
		return errors.New("no sink to send events to; set K_SINK to the Broker's URL")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.sink, http.NoBody)
	if err != nil {
		return fmt.Errorf("making a request to %s: %w", s.sink, err)
	}
	e = e.Clone() // the caller's stays as it is
	telemetry.Stamp(ctx, &e)
	telemetry.StampHeader(ctx, request.Header)
	if err := cehttp.WriteRequest(ctx, binding.ToMessage(&e), request); err != nil {
		return fmt.Errorf("encoding event %s of type %s: %w", e.ID(), e.Type(), err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("sending event %s of type %s: %w", e.ID(), e.Type(), err)
	}
	defer response.Body.Close() //nolint:errcheck // nothing was written
	text, _ := io.ReadAll(io.LimitReader(response.Body, maxErrorText))
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return fmt.Errorf("sending event %s of type %s: %s answered %s: %s", e.ID(), e.Type(), s.sink, response.Status, text)
	}
	return nil
}
