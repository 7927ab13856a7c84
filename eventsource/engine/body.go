package engine

import (
	"context"
	"io"
	"net/http"

	"knative.dev/eventing/pkg/kncloudevents"
)

// closingBodies returns a CheckRetry that also makes the body of the response close itself at its end. CheckRetry is the only hook of
// Knative's dispatcher that gets each response. The dispatcher reads the body of a response that is an event, but does not close it
// (executeRequest in pkg/kncloudevents/event_dispatcher.go). net/http keeps a goroutine for the request until the body is closed, or else
// until the timeout of the Trigger.
func closingBodies(check kncloudevents.CheckRetry) kncloudevents.CheckRetry {
	return func(ctx context.Context, response *http.Response, err error) (bool, error) {
		if response != nil {
			response.Body = closingBody{response.Body}
		}
		return check(ctx, response, err)
	}
}

// closingBody closes itself when a read fails or reaches the end.
type closingBody struct{ io.ReadCloser }

func (b closingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		_ = b.Close() // the error of the read, if any, says more
	}
	return n, err
}
