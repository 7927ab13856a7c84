//go:build cluster

package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiserver "knative.dev/eventing/pkg/adapter/apiserver/events"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/kit"
)

// deadLetters reads the dead letters on set web.
func deadLetters(t *testing.T, w *kit.World) []api.UndeliveredEvent {
	t.Helper()
	list, err := api.LoadDeadLetters(w.Set("web"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// refOf returns a reference to set web for events.
func refOf(w *kit.World) events.Ref {
	set := w.Set("web")
	return events.Ref{Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion,
		Operation: "0123456789ab"}
}

func sendToDeadLetter(t *testing.T, drive *kit.Drive, e event.Event, answer kit.FailedDelivery) {
	t.Helper()
	if err := drive.DeadLetter(context.Background(), e, answer); err != nil {
		t.Fatal(err)
	}
}

var noRoom = kit.FailedDelivery{Function: api.Backup, Code: 422, Text: "no room\nmore"}

// Invariants: I7.
func TestDeadLetterIsListedOnce(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	drive := w.Drive(nil)
	sendToDeadLetter(t, drive, events.NewStep(api.PauseOwner, events.OwnerPaused, refOf(w)), noRoom)
	list := deadLetters(t, w)
	if len(list) != 1 || list[0].Type != events.OwnerPaused || list[0].Code != 422 || list[0].Message != "no room" ||
		list[0].Operation != "0123456789ab" || list[0].Destination != "http://backup.drydock.svc.cluster.local" {
		t.Fatalf("%+v", list)
	}
	expectEvents(t, w, "web", "Warning DeadLettered")

	writes := &kit.Saboteur{}
	drive = w.Drive(writes)
	same := noRoom
	same.Text = "in other words"
	sendToDeadLetter(t, drive, events.NewStep(api.PauseOwner, events.OwnerPaused, refOf(w)), same)
	if err := drive.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	if n := writes.Writes(); len(n) != 0 {
		t.Errorf("the same failure is written again: %v", n)
	}
}

func TestConcurrentDeadLettersAreAllListed(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	drive, ref := w.Drive(nil), refOf(w)
	var all sync.WaitGroup
	for i := range 6 {
		all.Go(func() {
			answer := kit.FailedDelivery{Function: api.Restore, Code: 500 + i, Text: "no"}
			if err := drive.DeadLetter(context.Background(), events.NewStep(api.Backup, events.BackupCompleted, ref), answer); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list := deadLetters(t, w); len(list) != 6 {
		t.Errorf("%d of 6 are listed: %+v", len(list), list)
	}
}

func TestDeadLetterDoesNotWriteToSetWithoutOptIn(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 1, "64Mi", "data")
	delete(set.Labels, api.ManagedLabel)
	w.CreateSet(set)
	sendToDeadLetter(t, w.Drive(nil), events.NewStep(api.PauseOwner, events.OwnerPaused, refOf(w)), noRoom)
	if list := deadLetters(t, w); list != nil {
		t.Errorf("%+v", list)
	}
	if seen := w.Events("web"); len(seen) > 0 {
		t.Errorf("a Kubernetes Event about a set that has not opted in: %v", seen)
	}
}

// TestDeadLetterWithoutRoomCausesEvent: the annotations of an object have a limit, which the user's annotations may
// have used up.
// Invariants: I8.
func TestDeadLetterWithoutRoomCausesEvent(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 1, "64Mi", "data")
	set.Annotations["notes"] = strings.Repeat("x", 256<<10-100)
	w.CreateSet(set)
	w.Expect(http.StatusUnprocessableEntity, api.DeadLetter, "the annotations of the set are full")
	sendToDeadLetter(t, w.Drive(nil), events.NewStep(api.PauseOwner, events.OwnerPaused, refOf(w)), noRoom)
	if list := deadLetters(t, w); list != nil {
		t.Fatalf("there was room: %+v", list)
	}
	expectEvents(t, w, "web", "Warning DeadLettered")
}

// TestDeadLettersOfOperationDisappearWithItsSuccess: source events of the operation's objects are on the set's list,
// too.
func TestDeadLettersOfOperationDisappearWithItsSuccess(t *testing.T) {
	w, drive := readyWorld(t, kit.WorldSet("web", 2, "64Mi", "data"))
	holdFirstPass(w, true)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	untilFirstPasses(t, w, drive, 2)
	claim := w.Claim("data-web-0")
	sendToDeadLetter(
		t,
		drive,
		sourceEvent(t, "v1", "PersistentVolumeClaim", claim),
		kit.FailedDelivery{Function: api.Sift, Code: 503, Text: "away"},
	)
	sendToDeadLetter(t, drive, events.NewStep(api.PauseOwner, events.OwnerPaused, refOf(w)), noRoom)
	list := deadLetters(t, w)
	if len(list) != 2 || list[0].Operation != w.Status("web").Operation || len(list[0].Data) > 0 ||
		!strings.HasSuffix(list[0].Subject, "/persistentvolumeclaims/data-web-0") {
		t.Fatalf("%+v", list)
	}
	holdFirstPass(w, false)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	if _, there := w.Set("web").Annotations[api.DeadLettersAnnotation]; there {
		t.Error("the list is still there")
	}
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1")
}

// sourceEvent returns the event of Knative's ApiServerSource for an update of the object.
func sourceEvent(t *testing.T, version, kind string, object any) event.Event {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	copied := &unstructured.Unstructured{Object: map[string]any{}}
	if err := json.Unmarshal(text, &copied.Object); err != nil {
		t.Fatal(err)
	}
	copied.SetAPIVersion(version)
	copied.SetKind(kind)
	_, e, err := apiserver.MakeUpdateEvent("https://10.96.0.1:443", "source", copied, false)
	if err != nil {
		t.Fatal(err)
	}
	e.SetID("random")
	return e
}
