package events

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"

	"drydock.dev/shared/api"
)

var web = Ref{Namespace: "shop", Name: "web", UID: "uid-web", ResourceVersion: "7", Operation: "op"}

// wire sends an event through JSON, as a Broker does.
func wire(t *testing.T, e cloudevents.Event) cloudevents.Event {
	t.Helper()
	if err := e.Validate(); err != nil {
		t.Fatalf("the event is invalid: %v", err)
	}
	text, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	arrived := cloudevents.New()
	if err := json.Unmarshal(text, &arrived); err != nil {
		t.Fatal(err)
	}
	return arrived
}

func TestStepArrivesUnchanged(t *testing.T) {
	e := wire(t, NewStep(api.PauseOwner, OwnerPaused, web))
	ref, err := SetOf(e)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Ref{Namespace: "shop", Name: "web", Operation: "op"}, ref); diff != "" {
		t.Error(diff)
	}
	got := map[string]any{"type": e.Type(), "source": e.Source(), "id": e.ID(), "subject": e.Subject()}
	for key, value := range e.Extensions() {
		got[key] = value
	}
	want := map[string]any{"type": "dev.drydock.owner.paused", "source": "drydock.dev/pause-owner", "id": "op/owner.paused",
		"subject": "/apis/apps/v1/namespaces/shop/statefulsets/web", "kind": "StatefulSet", "namespace": "shop", "name": "web",
		"operation": "op", "partitionkey": "uid-web", "forbackup": "true", "forscale": "true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestChangeArrivesUnchanged(t *testing.T) {
	e := wire(t, NewChanged(Ref{Namespace: "shop", Name: "web"}, "uid/7", api.Backup, api.Restore))
	if diff := cmp.Diff([]api.Function{api.Backup, api.Restore}, Concerns(e)); diff != "" {
		t.Error(diff)
	}
	if e.Extensions()["partitionkey"] != "shop/web" || e.Extensions()["operation"] != nil {
		t.Errorf("%v", e.Extensions())
	}
	if Concerns(cloudevents.New()) != nil {
		t.Error("an event without concerns concerns a function")
	}
}

// TestEventIDsIdentifyDuplicates: the same event has the same id, and different events have different ids.
func TestEventIDsIdentifyDuplicates(t *testing.T) {
	id := func(e cloudevents.Event) string { return e.Source() + " " + e.ID() }
	other := web
	other.Operation = "op2"
	ids := map[string]string{
		"a step":                        id(NewStep(api.Backup, BackupCompleted, web)),
		"another step":                  id(NewStep(api.Backup, OperationFailed, web)),
		"a step of another operation":   id(NewStep(api.Backup, BackupCompleted, other)),
		"a step of another function":    id(NewStep(api.Restore, OperationFailed, web)),
		"a change":                      id(NewChanged(web, "u/7", api.Backup)),
		"a later change":                id(NewChanged(web, "u/8", api.Backup)),
		"a change for another function": id(NewChanged(web, "u/7", api.Restore)),
		"a change for both functions":   id(NewChanged(web, "u/7", api.Backup, api.Restore)),
		"a change of another set":       id(NewChanged(web, "u2/7", api.Backup)),
	}
	seen := map[string]string{}
	for name, id := range ids {
		if before, twice := seen[id]; twice {
			t.Errorf("%s and %s have the same id %s", name, before, id)
		}
		seen[id] = name
	}
	if id(NewStep(api.Backup, BackupCompleted, web)) != ids["a step"] || id(NewChanged(web, "u/7", api.Backup)) != ids["a change"] {
		t.Error("the same event has another id the second time")
	}
}

func TestSetOfRefusesMalformedEvents(t *testing.T) {
	for name, change := range map[string]func(*cloudevents.Event){
		"another kind":             func(e *cloudevents.Event) { e.SetExtension("kind", "Pod") },
		"no kind":                  func(e *cloudevents.Event) { e.SetExtension("kind", nil) },
		"no namespace":             func(e *cloudevents.Event) { e.SetExtension("namespace", nil) },
		"an empty namespace":       func(e *cloudevents.Event) { e.SetExtension("namespace", "") },
		"a namespace with a path":  func(e *cloudevents.Event) { e.SetExtension("namespace", "../kube-system") },
		"a namespace with a slash": func(e *cloudevents.Event) { e.SetExtension("namespace", "a/b") },
		"a namespace too long":     func(e *cloudevents.Event) { e.SetExtension("namespace", strings.Repeat("a", 64)) },
		"no name":                  func(e *cloudevents.Event) { e.SetExtension("name", nil) },
		"a name with a path":       func(e *cloudevents.Event) { e.SetExtension("name", "web/scale") },
		"a name with a query":      func(e *cloudevents.Event) { e.SetExtension("name", "web?dryRun=All") },
		"a name in capitals":       func(e *cloudevents.Event) { e.SetExtension("name", "Web") },
		"a name that is a number":  func(e *cloudevents.Event) { e.SetExtension("name", 7) },
		"a name with a new line":   func(e *cloudevents.Event) { e.SetExtension("name", "web\nx") },
	} {
		t.Run(name, func(t *testing.T) {
			e := NewStep(api.Backup, BackupCompleted, web)
			change(&e)
			if ref, err := SetOf(e); err == nil {
				t.Errorf("it is accepted as %+v", ref)
			}
		})
	}
}

// TestUsersAndFunctionsSendTheSameEvents except for source and id.
func TestUsersAndFunctionsSendTheSameEvents(t *testing.T) {
	for name, row := range map[string]struct{ hand, function cloudevents.Event }{
		"a step":   {NewFromUser(OwnerPaused, web, "1"), NewStep(api.PauseOwner, OwnerPaused, web)},
		"a change": {NewFromUser(ObjectChanged, web, "1", api.Backup, api.Restore), NewChanged(web, "seen", api.Backup, api.Restore)},
	} {
		got, want := wire(t, row.hand), wire(t, row.function)
		if got.Source() != "drydock.dev/kubectl" || got.ID() != "1" {
			t.Errorf("%s has source %s and id %s", name, got.Source(), got.ID())
		}
		want.SetSource(got.Source())
		want.SetID(got.ID())
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func letter() api.UndeliveredEvent {
	return api.UndeliveredEvent{Type: ObjectChanged, Source: "drydock.dev/sift", ID: "u/7", Subject: web.Object().Path(), Operation: "op",
		Extensions: map[string]string{"concerns": "backup", "kind": "StatefulSet", "namespace": "shop", "name": "web", "partitionkey": "u"},
		Data:       json.RawMessage(`{"uid":"u"}`)}
}

// TestForgedLetterYieldsNoOtherEvent: a letter that names another set, or has a foreign type, cannot send another event.
func TestForgedLetterYieldsNoOtherEvent(t *testing.T) {
	l := letter()
	l.Subject = "/apis/apps/v1/namespaces/payroll/statefulsets/db"
	for key, value := range map[string]string{
		"kind": "Secret", "namespace": "payroll", "name": "db", "partitionkey": "x", "knativebrokerttl": "1",
	} {
		l.Extensions[key] = value
	}
	e, err := Resend(l, web)
	if err != nil {
		t.Fatal(err)
	}
	e = wire(t, e)
	ref, err := SetOf(e)
	if err != nil || ref.String() != "shop/web" || ref.Operation != "op" || e.Subject() != web.Object().Path() ||
		e.Extensions()["partitionkey"] != "uid-web" {
		t.Errorf("%s, %v", e, err)
	}
	if e.Extensions()["knativebrokerttl"] != nil || e.ID() != "u/7" || e.Source() != "drydock.dev/sift" ||
		string(e.Data()) != `{"uid":"u"}` {
		t.Errorf("%s", e)
	}
	for name, change := range map[string]func(*api.UndeliveredEvent){
		"a foreign type":      func(l *api.UndeliveredEvent) { l.Type = "com.example.other" },
		"a source event":      func(l *api.UndeliveredEvent) { l.Type = SourceUpdate },
		"an order to sleep":   func(l *api.UndeliveredEvent) { l.Type = Sleep },
		"an order to wake":    func(l *api.UndeliveredEvent) { l.Type = Wake },
		"an order to retry":   func(l *api.UndeliveredEvent) { l.Type = Retry },
		"an activity":         func(l *api.UndeliveredEvent) { l.Type = Activity },
		"a letter without id": func(l *api.UndeliveredEvent) { l.ID = "" },
	} {
		l := letter()
		change(&l)
		if e, err := Resend(l, web); err == nil {
			t.Errorf("%s is sent again: %s", name, e)
		}
	}
}

func TestObjectOfLetter(t *testing.T) {
	l := letter()
	if o, err := ObjectOfLetter(l); err != nil || o != web.Object() {
		t.Errorf("%v, %v", o, err)
	}
	l.Extensions["name"] = "../db"
	if o, err := ObjectOfLetter(l); err == nil {
		t.Errorf("%v is accepted as a name", o)
	}
}

func TestPaths(t *testing.T) {
	for kind, want := range map[string][2]string{
		KindStatefulSet: {"/apis/apps/v1/namespaces/n/statefulsets/x", "/apis/apps/v1/namespaces/n/statefulsets/x"},
		KindClaim:       {"/apis/v1/namespaces/n/persistentvolumeclaims/x", "/api/v1/namespaces/n/persistentvolumeclaims/x"},
		KindJob:         {"/apis/batch/v1/namespaces/n/jobs/x", "/apis/batch/v1/namespaces/n/jobs/x"},
		KindPod:         {"/apis/v1/namespaces/n/pods/x", "/api/v1/namespaces/n/pods/x"},
		KindScaler:      {"/apis/drydock.dev/v1alpha1/namespaces/n/scalers/x", "/apis/drydock.dev/v1alpha1/namespaces/n/scalers/x"},
	} {
		o := Object{Kind: kind, Namespace: "n", Name: "x"}
		if got := [2]string{o.Path(), o.URLPath()}; got != want || !o.Watched() {
			t.Errorf("%s: %v, watched %t", kind, got, o.Watched())
		}
	}
	if (Object{Kind: "Secret"}).Watched() {
		t.Error("secrets are watched")
	}
}

// TestGroupOf: an event names a group only if it names no set and the group is well-formed.
func TestGroupOf(t *testing.T) {
	about := func(extensions map[string]any) cloudevents.Event {
		e := cloudevents.New()
		e.SetType(Activity)
		e.SetSource("test")
		e.SetID("1")
		for key, value := range extensions {
			e.SetExtension(key, value)
		}
		return e
	}
	for name, row := range map[string]struct {
		extensions map[string]any
		want       bool
	}{
		"a group":                         {map[string]any{"namespace": "shop", "group": "front.end_1"}, true},
		"a group and a kind":              {map[string]any{"namespace": "shop", "group": "front", "kind": "StatefulSet"}, true},
		"a group and a set":               {map[string]any{"namespace": "shop", "group": "front", "name": "web"}, false},
		"a group and an empty name":       {map[string]any{"namespace": "shop", "group": "front", "name": ""}, false},
		"a set":                           {map[string]any{"namespace": "shop", "name": "web", "kind": "StatefulSet"}, false},
		"a group without namespace":       {map[string]any{"group": "front"}, false},
		"a group with an empty namespace": {map[string]any{"namespace": "", "group": "front"}, false},
		"a namespace with a path":         {map[string]any{"namespace": "../x", "group": "front"}, false},
		"an empty group":                  {map[string]any{"namespace": "shop", "group": ""}, false},
		"a group with another selector":   {map[string]any{"namespace": "shop", "group": "front,app=db"}, false},
		"a group with a blank":            {map[string]any{"namespace": "shop", "group": "front end"}, false},
		"a set-based selector":            {map[string]any{"namespace": "shop", "group": "in (a,b)"}, false},
		"a group too long":                {map[string]any{"namespace": "shop", "group": strings.Repeat("a", 64)}, false},
		"a group that is a number":        {map[string]any{"namespace": "shop", "group": 7}, false},
		"no extensions":                   {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			namespace, group, ok := GroupOf(about(row.extensions))
			if ok != row.want || ok && (namespace != "shop" || group != row.extensions["group"]) {
				t.Errorf("%q %q %t", namespace, group, ok)
			}
		})
	}
}

// TestNewForGroupYieldsOnlyGroupsThatGroupOfReads: it refuses everything else.
func TestNewForGroupYieldsOnlyGroupsThatGroupOfReads(t *testing.T) {
	for _, eventType := range []string{Activity, Wake, Sleep} {
		e, err := NewForGroup(eventType, "shop", "front", "1")
		if err != nil {
			t.Fatal(err)
		}
		e = wire(t, e)
		if namespace, group, ok := GroupOf(e); !ok || namespace != "shop" || group != "front" || e.Type() != eventType ||
			e.Extensions()["partitionkey"] != "shop/front" {
			t.Errorf("%s", e)
		}
	}
	for name, row := range map[string][3]string{
		"a type for sets only": {Retry, "shop", "front"},
		"no namespace":         {Wake, "", "front"},
		"no group":             {Wake, "shop", ""},
		"a group with a path":  {Wake, "shop", "a/b"},
	} {
		if e, err := NewForGroup(row[0], row[1], row[2], "1"); err == nil {
			t.Errorf("%s is sent: %s", name, e)
		}
	}
}

// TestAboutChangesOnlyTheObjectOfACopy: the event itself stays unchanged.
func TestAboutChangesOnlyTheObjectOfACopy(t *testing.T) {
	e := cloudevents.New()
	e.SetType(Wake)
	e.SetSource("test")
	e.SetID("1")
	e.SetTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	e.SetExtension("namespace", "shop")
	e.SetExtension("group", "front")
	before := e.String()
	set := wire(t, WithSet(e, web))
	if ref, err := SetOf(set); err != nil || ref.String() != "shop/web" || ref.Operation != "" {
		t.Errorf("%+v, %v", ref, err)
	}
	if _, _, ok := GroupOf(set); ok || set.Subject() != web.Object().Path() || set.Type() != Wake || set.ID() != "1" ||
		!set.Time().Equal(e.Time()) {
		t.Errorf("%s", set)
	}
	if e.String() != before {
		t.Errorf("About changed the event to %s", e)
	}
}

// TestTypesOfSleepsAreOwn: otherwise their letters could not be sent again.
func TestTypesOfSleepsAreOwn(t *testing.T) {
	for _, eventType := range []string{Activity, Wake, Sleep, SleepDecided, WakeDecided, Scaled} {
		if !IsOwn(eventType) || IsSource(eventType) {
			t.Errorf("%s is not a type of Drydock", eventType)
		}
	}
}
