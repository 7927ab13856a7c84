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

// Access asks the API server who the owner of a bearer token is, and whether this user may patch a StatefulSet. An empty name means
// any StatefulSet of the namespace. It returns an error that package fault calls permanent if the answer is no.
type Access interface {
	MayPatchSet(ctx context.Context, token, namespace, name string) error
}

// Orders decides who may send an event that changes what a set does: sleep, wake, activity and retry. All other events make a
// function look at the live objects, and need no permission.
type Orders struct {
	// Access checks the sender's token. Nil trusts every sender: the Broker has authenticated it.
	Access Access
}

// errNoToken tells a sender what to do instead.
func errNoToken(eventType string) error {
	return fmt.Errorf("%s is an order, and no token shows who sends it. Send it with the header Authorization: Bearer TOKEN of an account "+
		"that may patch the StatefulSet, or write the annotation %s on the StatefulSet", eventType, events.OrderAnnotation(eventType))
}

// permit returns the HTTP status and the error with which the event is refused, or 0.
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

// Guard refuses orders before they reach a Broker that keeps nothing of who has sent them.
func (o Orders) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBytes))
		if err != nil {
			http.Error(w, fmt.Sprintf("event larger than %d bytes, or cut off", MaxBytes), http.StatusRequestEntityTooLarge)
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
		r.Header.Del("Authorization") // it has done its work, and the Broker has no use for it
		next.ServeHTTP(w, r)
	})
}
