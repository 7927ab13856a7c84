//go:build cluster

package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	apiserver "knative.dev/eventing/pkg/adapter/apiserver/events"

	plugin "drydock.dev/cmd/kubectl-drydock/command"
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

// command runs kubectl drydock in the world.
func command(t *testing.T, w *kit.World, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := plugin.New(genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &out})
	root.SetArgs(append(args, "--kubeconfig", kit.APIPath(t), "-n", w.Namespace))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// broker accepts posted events, except for one type, and calls a function of the test with each.
type broker struct {
	url    string
	mu     sync.Mutex
	taken  []event.Event
	refuse string
	then   func(event.Event)
}

func newBroker(t *testing.T) *broker {
	t.Helper()
	b := &broker{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, err := binding.ToEvent(r.Context(), cehttp.NewMessageFromHttpRequest(r))
		if err != nil || e.Validate() != nil || e.Type() == b.refuse {
			http.Error(w, "not here", http.StatusBadRequest)
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		b.taken = append(b.taken, *e)
		if b.then != nil {
			b.then(*e)
		}
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(server.Close)
	b.url = server.URL + "/drydock/default"
	return b
}

// encoded returns the event as JSON with sorted keys: a list of letters whose text might have a number that is too large is encoded again.
func encoded(t *testing.T, e event.Event) string {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var sorted any
	if err := json.Unmarshal(b, &sorted); err != nil {
		t.Fatal(err)
	}
	if b, err = json.Marshal(sorted); err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestRedeliverSendsDeadLetters(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	drive, to := w.Drive(nil), newBroker(t)
	step := events.NewStep(api.PauseOwner, events.OwnerPaused, refOf(w))
	change := events.NewChanged(refOf(w), "u/7", api.Backup)
	refused := events.NewStep(api.Backup, events.BackupCompleted, refOf(w))
	sendToDeadLetter(t, drive, step, noRoom)
	sendToDeadLetter(t, drive, change, noRoom)
	sendToDeadLetter(t, drive, refused, kit.FailedDelivery{Function: api.Restore, Code: 503, Text: "later"})
	sendToDeadLetter(
		t,
		drive,
		sourceEvent(t, "apps/v1", "StatefulSet", w.Set("web")),
		kit.FailedDelivery{Function: api.Sift, Code: 422, Text: "bad"},
	)

	out, err := command(t, w, "redeliver", "sts/web", "--list")
	if err != nil || strings.Count(out, "\n") != 5 || len(to.taken) > 0 || len(deadLetters(t, w)) != 4 {
		t.Fatalf("%s%v", out, err)
	}
	to.refuse = events.BackupCompleted
	out, err = command(t, w, "redeliver", "sts/web", "--url", to.url)
	if err == nil || !mentions(err.Error(), "400", "not here") || strings.Count(out, to.url) != 3 {
		t.Errorf("%s%v", out, err)
	}
	left := deadLetters(t, w)
	if len(left) != 1 || left[0].Type != events.BackupCompleted || left[0].Resent == nil {
		t.Fatalf("left is %+v", left)
	}
	if len(to.taken) != 3 {
		t.Fatalf("%d events were taken", len(to.taken))
	}
	if diff := cmp.Diff([]string{encoded(t, step), encoded(t, change)},
		[]string{encoded(t, to.taken[0]), encoded(t, to.taken[1])}); diff != "" {
		t.Errorf("(-given up +sent again)\n%s", diff)
	}
	rebuilt := to.taken[2]
	if rebuilt.Type() != events.SourceUpdate || rebuilt.Source() != "https://10.96.0.1:443" || rebuilt.ID() == "random" {
		t.Errorf("%s", rebuilt)
	}

	to.refuse = ""
	if out, err := command(t, w, "redeliver", "web", left[0].Key(), "--url", to.url); err != nil {
		t.Errorf("%s%v", out, err)
	}
	if _, there := w.Set("web").Annotations[api.DeadLettersAnnotation]; there {
		t.Error("an empty list is still there")
	}
	if out, err := command(t, w, "redeliver", "web", "--url", to.url); err != nil || !mentions(out, w.Namespace+"/web") ||
		len(to.taken) != 4 {
		t.Errorf("%s%v", out, err)
	}
}

// TestRebuiltSourceEventMatchesKnative: an event that is rebuilt from the live object equals the event of
// ApiServerSource.
func TestRebuiltSourceEventMatchesKnative(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	to := newBroker(t)
	if out, err := command(t, w, "emit", "resource.update", "sts/web", "--url", to.url); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	got := to.taken[0]
	object, err := w.Kube.AppsV1().RESTClient().Get().Namespace(w.Namespace).Resource("statefulsets").Name("web").SetHeader("Accept",
		"application/json").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := sourceEvent(t, "apps/v1", "StatefulSet", json.RawMessage(object))
	var is, was map[string]any
	if err := json.Unmarshal([]byte(encoded(t, got)), &is); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(encoded(t, want)), &was); err != nil {
		t.Fatal(err)
	}
	for _, e := range []map[string]any{is, was} {
		delete(e, "id")
		delete(e, "source")
	}
	if diff := cmp.Diff(was, is); diff != "" {
		t.Errorf("(-Knative's +ours)\n%s", diff)
	}
}

// TestDeadLetterThatFailsAgainStays: an event may be given up again before its entry is removed.
func TestDeadLetterThatFailsAgainStays(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	drive, to := w.Drive(nil), newBroker(t)
	sendToDeadLetter(t, drive, events.NewStep(api.PauseOwner, events.OwnerPaused, refOf(w)), noRoom)
	to.then = func(e event.Event) {
		if err := drive.DeadLetter(context.Background(), e, noRoom); err != nil {
			t.Error(err)
		}
	}
	if out, err := command(t, w, "redeliver", "sts/web", "--url", to.url); err != nil {
		t.Fatalf("%s%v", out, err)
	}
	if left := deadLetters(t, w); len(left) != 1 || left[0].Resent != nil {
		t.Errorf("%+v", left)
	}
}

// TestForgedDeadLettersSendNoOtherObject: a user who may annotate a set must not get another object sent to the Broker.
func TestForgedDeadLettersSendNoOtherObject(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.CreatePodOn("stranger", "data-web-0")
	to := newBroker(t)
	forge := func(kind, namespace, name string) api.UndeliveredEvent {
		return api.UndeliveredEvent{Type: events.SourceUpdate, Source: "s", ID: kind + name, Subject: kind + name,
			Time:       w.Set("web").CreationTimestamp,
			Extensions: map[string]string{"kind": kind, "namespace": namespace, "name": name}}
	}
	w.Annotate("web", map[string]string{api.DeadLettersAnnotation: api.EncodeDeadLetters([]api.UndeliveredEvent{
		forge("Secret", w.Namespace, "token"), forge("Pod", "kube-system", "x"), forge("Pod", w.Namespace, "stranger"), forge("Pod",
			w.Namespace, "gone")})})
	if _, err := command(t, w, "redeliver", "sts/web", "--url", to.url); err == nil || !mentions(err.Error(), "Secret", "kube-system") {
		t.Errorf("%v", err)
	}
	if len(to.taken) != 2 || len(deadLetters(t, w)) != 2 {
		t.Fatalf("%d events were sent, %d letters are left", len(to.taken), len(deadLetters(t, w)))
	}
	for _, e := range to.taken {
		if e.Type() != events.ObjectChanged || len(events.Concerns(e)) != 8 || strings.Contains(string(e.Data()), "spec") {
			t.Errorf("%s", e)
		}
	}
}
