package serve

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
)

// MaxBytes is the maximum size of an event. A StatefulSet with its managedFields has about 10 to 30 KiB.
const MaxBytes = 1 << 20

// read returns the event of the request, or the HTTP status and the error if the request has no valid event.
func read(w http.ResponseWriter, r *http.Request) (*event.Event, int, error) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		return nil, http.StatusMethodNotAllowed, fmt.Errorf("method %s is not supported. Send a CloudEvent with POST", r.Method)
	}
	r.Body = http.MaxBytesReader(w, r.Body, MaxBytes)
	message := cehttp.NewMessageFromHttpRequest(r)
	if encoding := message.ReadEncoding(); encoding != binding.EncodingBinary && encoding != binding.EncodingStructured {
		return nil, http.StatusUnsupportedMediaType,
			errors.New("the request is not a single CloudEvent. " +
				"Send the header ce-specversion: 1.0, or the content type application/cloudevents+json")
	}
	e, err := binding.ToEvent(r.Context(), message)
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("event larger than %d bytes", tooLarge.Limit)
	case err != nil:
		return nil, http.StatusBadRequest, fmt.Errorf("reading the event: %w", err)
	}
	if err := e.Validate(); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("validating the event: %w", err)
	}
	return e, 0, nil
}
