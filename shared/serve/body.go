package serve

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"unicode/utf8"

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
	if err := checkText(e); err != nil {
		return nil, http.StatusBadRequest, err
	}
	return e, 0, nil
}

// checkText returns an error if an attribute is not UTF-8. CloudEvents requires UTF-8, but the SDK takes any bytes of a header. They would
// reach metrics and traces, whose formats accept only UTF-8: all metrics of the process would be lost.
func checkText(e *event.Event) error {
	texts := map[string]any{"id": e.ID(), "type": e.Type(), "source": e.Source(), "subject": e.Subject()}
	maps.Copy(texts, e.Extensions())
	for name, value := range texts {
		if text, ok := value.(string); ok && !utf8.ValidString(text) {
			return fmt.Errorf("attribute %s of the event is not UTF-8", name)
		}
	}
	return nil
}
