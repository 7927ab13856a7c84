package serve

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"

	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
)

// Access asks the API server for the owner of a bearer token, and whether this user may patch a StatefulSet. An empty
// name means any StatefulSet of the namespace. If the user may not, it returns an error that package fault classifies as
// permanent.
type Access interface {
	MayPatchSet(ctx context.Context, token, namespace, name string) error
}

// Orders decides who may send an event that changes a set's behaviour: sleep, wake, activity and retry. All other events
// only make a function read the live objects, and need no permission.
type Orders struct {
	// Access checks the sender's token. Nil trusts every sender, because the Broker has authenticated it.
	Access Access
}

// errNoToken returns an error that tells the sender how to send an order.
func errNoToken(eventType string) error {
	return fmt.Errorf("%s is an order, but the request has no token of its sender. "+
		"Send it with the header Authorization: Bearer TOKEN of an account "+
		"that may patch the StatefulSet, or write the annotation %s on the StatefulSet", eventType, events.OrderAnnotation(eventType))
}

// permit returns 0 if the event is allowed, or the HTTP status and the error of the refusal.
func (o Orders) permit(ctx context.Context, header http.Header, e event.Event) (int, error) {
	if o.Access == nil || !events.IsOrder(e.Type()) {
		return 0, nil
	}
	token, ok := strings.CutPrefix(header.Get("Authorization"), "Bearer ")
	if !ok || token == "" {
		return http.StatusForbidden, errNoToken(e.Type())
	}
	x := e.Extensions()
	namespace, _ := x["namespace"].(string)
	name, _ := x["name"].(string)
	if namespace == "" {
		return http.StatusBadRequest, fmt.Errorf("event %q has no extension namespace", e.ID())
	}
	err := o.Access.MayPatchSet(ctx, token, namespace, name)
	switch {
	case err == nil:
		return 0, nil
	case fault.IsPermanent(err):
		return http.StatusForbidden, err // the Broker does not retry it, unlike 401 and 409 of a proxy
	}
	return http.StatusServiceUnavailable, err
}

// Guard refuses orders without permission before they reach a Broker, which does not store the sender.
func (o Orders) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBytes))
		if err != nil {
			http.Error(w, fmt.Sprintf("the event is larger than %d bytes or incomplete", MaxBytes), http.StatusRequestEntityTooLarge)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		e, code, err := read(w, r)
		if err == nil {
			code, err = o.permit(r.Context(), r.Header, *e)
		}
		if err != nil {
			http.Error(w, err.Error(), code)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		r.Header.Del("Authorization") // the Broker does not need it
		next.ServeHTTP(w, r)
	})
}
