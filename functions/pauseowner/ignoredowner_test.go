package pauseowner

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit/build"
)

// TestWaitingResizeThatIgnoresItsOwner: a sleep has ended, and its owner is still paused, for example because pause-owner has lost its
// rights. The user sets owner-policy=ignore and requests a resize, which waits for its turn. With owner-policy=ignore, observe lists the
// records of paused owners, and does not read the owners.
func TestWaitingResizeThatIgnoresItsOwner(t *testing.T) {
	_, planned := plannedUnderLimit()
	own := turn(planned.Operation, build.Namespace, "web", 1, false)
	own.UID = "uid-web"
	full := turnsOf(t, turn("1", "a", "x", 1, true), turn("2", "b", "y", 1, true), own)
	record := kedaScaler(t).held(t, owners.ByPause, build.SleepID).recorded(owners.ByPause)
	lists := listsWithTurns(build.Set("web", build.Status(planned), build.Annotation(api.OwnerPolicyAnnotation, "ignore")))
	lists["controllerrevisions"] = []metav1.Object{record.Revision}
	server := httptest.NewServer(lists)
	defer server.Close()
	settings := build.Settings()
	settings.Movers = 2
	f := New(kube.NewClient(&rest.Config{Host: server.URL}), settings, owners.BuiltIn(), slog.New(slog.DiscardHandler))
	in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
	if err != nil || len(in.OwnerRecords) != 1 {
		t.Fatalf("%v, %d records", err, len(in.OwnerRecords))
	}
	in.Turns = full
	defer func() {
		if p := recover(); p != nil {
			t.Errorf("pause-owner panics at every event until the resize has its turn: %s", fmt.Sprint(p))
		}
	}()
	for range 2 { // the first decision stores that it waits
		p := Decide(in)
		t.Logf("%s", p)
		if next := build.Stored(p); next != nil {
			in.Set = build.With(in.Set, build.Status(next))
		}
	}
}
