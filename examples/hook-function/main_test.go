package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2"
	"github.com/cloudevents/sdk-go/v2/binding"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
)

// request returns a hook request like the ones of scale, with the type.
func request(t *testing.T, eventType string) cloudevents.Event {
	t.Helper()
	e := events.NewStep(api.ScaleFunction, eventType, events.Ref{Namespace: "shop", Name: "web", UID: "uid-web", Operation: "c0ffee012345"})
	data := events.HookRequest{Key: "secret", HookFacts: api.HookFacts{Hook: "pre", Direction: "down", Current: 2, Desired: 1,
		Added: []int{}, Removed: []int{1}, Namespace: "shop", Set: "web", Scaler: "web", Operation: "c0ffee012345"}}
	if err := e.SetData(cloudevents.ApplicationJSON, data); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestReplyOverHTTPIsValidHookAnswer: the handler receives a request like a Broker's. scale accepts its reply, which names the same
// set.
func TestReplyOverHTTPIsValidHookAnswer(t *testing.T) {
	protocol, err := cloudevents.NewHTTP()
	if err != nil {
		t.Fatal(err)
	}
	handler, err := cloudevents.NewHTTPReceiveHandler(t.Context(), protocol, answer)
	if err != nil {
		t.Fatal(err)
	}
	sent := request(t, events.ScaleHookRequested)
	call := httptest.NewRequest(http.MethodPost, "/", nil)
	if err := cehttp.WriteRequest(t.Context(), binding.ToMessage(&sent), call); err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, call)
	reply, err := cloudevents.NewEventFromHTTPResponse(recorder.Result())
	if err != nil {
		t.Fatalf("%d: %v", recorder.Code, err)
	}
	ref, err := events.SetOf(*reply)
	if err != nil || ref.String() != "shop/web" || reply.ID() == sent.ID() {
		t.Errorf("the reply %q names %s: %v", reply.ID(), ref, err)
	}
	got, err := events.HookAnswerOf(*reply)
	if want := (events.HookAnswer{Operation: "c0ffee012345", Hook: "pre", Key: "secret"}); err != nil || got == nil || *got != want {
		t.Errorf("the answer is %+v, %v, want %+v", got, err, want)
	}
}

func TestEventOfAnotherTypeIsRefused(t *testing.T) {
	reply, err := answer(t.Context(), request(t, events.ScaleCompleted))
	if reply != nil || cloudevents.IsACK(err) || !strings.Contains(err.Error(), "check the filter of the Trigger") {
		t.Errorf("%v, %v", reply, err)
	}
}
