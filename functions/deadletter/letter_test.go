package deadletter

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

var web = events.Ref{Namespace: build.Namespace, Name: "web", UID: "uid-web", ResourceVersion: "7", Operation: build.ID}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// undelivered adds the extensions of Knative for an undelivered event.
func undelivered(e event.Event, extensions map[string]any) event.Event {
	for key, value := range extensions {
		e.SetExtension(key, value)
	}
	return e
}

func step() event.Event { return events.NewStep(api.PauseOwner, events.OwnerPaused, web) }

func TestDescription(t *testing.T) {
	file := golden.Open(t)
	rows := map[string]map[string]any{
		"the subscriber gave a reason": {"knativeerrordest": "http://backup", "knativeerrorcode": 422,
			"knativeerrordata": encoded("no room\n")},
		"the subscriber gave a long reason: only the first line is shown": {"knativeerrordest": "http://backup", "knativeerrorcode": "500",
			"knativeerrordata": encoded("panic: x\ngoroutine 1\nmain.go:1")},
		"the reason is not valid UTF-8": {"knativeerrordest": "http://backup",
			"knativeerrordata": encoded("a\xff\xfeb")},
		"the reason has control characters": {"knativeerrordest": "http://backup",
			"knativeerrordata": encoded("a\x1b[2Jb")},
		"the reason is not valid base64": {"knativeerrordest": "http://backup", "knativeerrorcode": 503,
			"knativeerrordata": "%%%"},
		"the subscriber was not reached": {"knativeerrordest": "http://backup", "knativeerrorcode": -1},
		"the address contains secrets":   {"knativeerrordest": "https://me:secret@backup/a/b?token=secret#x"},
		"the address is invalid":         map[string]any{"knativeerrordest": "\x00"},
		"there are no extensions":        nil,
	}
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		t.Run(name, func(t *testing.T) {
			file.Entry(t, name, describe(letterOf(undelivered(step(), rows[name]))))
		})
	}
}

// TestResentEventEqualsTheOriginal: the event made from a letter equals the original event, without the extensions that Knative added.
func TestResentEventEqualsTheOriginal(t *testing.T) {
	for name, e := range map[string]event.Event{
		"a step":   step(),
		"a change": events.NewChanged(web, "uid-web/7", api.Backup, api.Restore),
		"a check":  events.NewFromUser(events.ObjectChanged, web, "id", api.Backup),
	} {
		t.Run(name, func(t *testing.T) {
			arrived := undelivered(e.Clone(), map[string]any{"knativebrokerttl": 254, "knativeerrordest": "http://backup",
				"knativeerrorcode": 422, "knativeerrordata": encoded("x"), "knativearrivaltime": "2026-03-01T12:00:00Z", "traceparent": "00-1"})
			ref, err := setOf(arrived)
			if err != nil {
				t.Fatal(err)
			}
			letter := letterOf(arrived)
			letter.Operation = ref.Operation
			if why := malformedReason(letter); why != "" {
				t.Fatal(why)
			}
			again, err := events.Resend(letter, web)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := json.Marshal(e)
			got, _ := json.Marshal(again)
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// source returns a source event about an object, with a copy of the object.
func source(t *testing.T, kind, name string, object any) event.Event {
	t.Helper()
	e := event.New()
	e.SetType(events.SourceUpdate)
	e.SetSource("https://10.96.0.1:443")
	e.SetID("id")
	for key, value := range map[string]string{"kind": kind, "namespace": build.Namespace, "name": name, "apiversion": "v1"} {
		e.SetExtension(key, value)
	}
	if err := e.SetData(event.ApplicationJSON, object); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSetOf(t *testing.T) {
	linked := build.Claim("data-web-0", "64Mi", build.Link(api.RoleSource, "data-web-0"))
	link := func(change func(*api.Link)) metav1.Object {
		l := api.Link{Operation: build.ID, Role: api.RoleSource, Namespace: build.Namespace, Set: api.SetRef{Name: "web"}}
		change(&l)
		return build.Claim("data-web-0", "64Mi", build.LinkOf(l))
	}
	const claim = events.KindClaim
	for name, row := range map[string]struct {
		event event.Event
		want  string // "namespace/name operation", or empty for an error
	}{
		"a step":                               {step(), "shop/web " + build.ID},
		"the set itself":                       {source(t, events.KindStatefulSet, "web", build.Set("web")), "shop/web "},
		"the set itself, with unreadable data": {source(t, events.KindStatefulSet, "web", "garbage"), "shop/web "},
		"a claim with a link":                  {source(t, claim, "data-web-0", linked), "shop/web " + build.ID},
		"a claim without a link":               {source(t, claim, "data-web-0", build.Claim("data-web-0", "64Mi")), ""},
		"a claim with unreadable data":         {source(t, claim, "data-web-0", "garbage"), ""},
		"a link into another namespace":        {source(t, claim, "data-web-0", link(func(l *api.Link) { l.Namespace = "payroll" })), ""},
		"a link to an invalid name":            {source(t, claim, "data-web-0", link(func(l *api.Link) { l.Set.Name = "../web" })), ""},
		"a Scaler":                             {source(t, events.KindScaler, "main", scaler("web")), "shop/web "},
		"a Scaler with an invalid target":      {source(t, events.KindScaler, "main", scaler("../web")), ""},
		"a Scaler with unreadable data":        {source(t, events.KindScaler, "main", "garbage"), ""},
		"a step about a claim":                 {undelivered(step(), map[string]any{"kind": claim}), ""},
		"a foreign event":                      {someEvent("com.example.other"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			ref, err := setOf(row.event)
			got := ref.String() + " " + ref.Operation
			if err != nil {
				got = ""
			}
			if got != row.want {
				t.Errorf("got %q (%v), want %q", got, err, row.want)
			}
		})
	}
}

func scaler(target string) *v1alpha1.Scaler {
	return &v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "main"}, Spec: v1alpha1.ScalerSpec{Target: target}}
}

func someEvent(eventType string) event.Event {
	e := event.New()
	e.SetType(eventType)
	e.SetSource("s")
	e.SetID("i")
	return e
}

// TestLetterContainsNoObject: a source event carries a whole object, which may contain secrets.
func TestLetterContainsNoObject(t *testing.T) {
	e := source(t, events.KindStatefulSet, "web", map[string]string{"password": "secret"})
	letter := letterOf(undelivered(e, map[string]any{"password": "secret", "knativeerrordest": "http://me:secret@sift"}))
	if text := api.EncodeDeadLetters([]api.UndeliveredEvent{letter}); strings.Contains(text, "secret") {
		t.Errorf("the letter contains the secret: %s", text)
	}
	if letter.Subject != "/apis/apps/v1/namespaces/shop/statefulsets/web" || malformedReason(letter) != "" {
		t.Errorf("%+v: %s", letter, malformedReason(letter))
	}
}

func TestOnlySmallDataIsKept(t *testing.T) {
	for name, row := range map[string]struct{ data, want string }{
		"small":                     {`{"uid": "u"}`, `{"uid":"u"}`},
		"no data":                   {"", ""},
		"no JSON":                   {"text", ""},
		"large":                     {`{"a":"` + strings.Repeat("x", maxData) + `"}`, ""},
		"large only with escapes":   {`{"a":"` + strings.Repeat("<", maxData/2) + `"}`, ""},
		"as large as allowed":       {`"` + strings.Repeat("x", maxData-2) + `"`, `"` + strings.Repeat("x", maxData-2) + `"`},
		"small only without blanks": {strings.Repeat(" ", maxData) + "1", ""},
	} {
		if got := string(smallJSON([]byte(row.data))); got != row.want {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestMalformedEventsAreNotListed(t *testing.T) {
	for name, change := range map[string]func(*event.Event){
		"a foreign type":                func(e *event.Event) { e.SetType("com.example.other") },
		"an unknown type of Drydock":    func(e *event.Event) { e.SetType("dev.drydock.party.started") },
		"a long id":                     func(e *event.Event) { e.SetID(strings.Repeat("x", maxAttribute+1)) },
		"an id with many quotes":        func(e *event.Event) { e.SetID(strings.Repeat(`"`, 100)) },
		"an id with control characters": func(e *event.Event) { e.SetID("\x1b[2J") },
		"a long source":                 func(e *event.Event) { e.SetSource(strings.Repeat("x", maxAttribute+1)) },
		"a long extension":              func(e *event.Event) { e.SetExtension("concerns", strings.Repeat("x", maxAttribute+1)) },
		"no object":                     func(e *event.Event) { e.SetExtension("name", "../web") },
	} {
		e := step()
		change(&e)
		if malformedReason(letterOf(e)) == "" {
			t.Errorf("%s: the event is listed", name)
		}
	}
	letter := letterOf(step())
	letter.Operation = strings.Repeat("x", maxAttribute+1)
	if malformedReason(letter) == "" {
		t.Error("a long operation: the event is listed")
	}
}

// TestLongestListFits: the list always leaves room on the set for the record and the manifest.
func TestLongestListFits(t *testing.T) {
	long := strings.Repeat("x", maxAttribute)
	worst := api.UndeliveredEvent{
		Type:        events.SourceUpdate,
		Source:      long,
		ID:          long,
		Subject:     long,
		Operation:   long,
		Destination: long,
		Code:        599,
		Extensions:  map[string]string{"concerns": long, "kind": long, "name": long, "namespace": long, "partitionkey": long},
		Data:        smallJSON([]byte(`"` + strings.Repeat("x", maxData-2) + `"`)),
		Message:     firstLine(encoded(strings.Repeat("<", 1000))),
	}
	if malformedReason(worst) != "" || len(worst.Data) != maxData || len(worst.Message) != maxMessage {
		t.Fatalf("not the worst: %s, %d, %d", malformedReason(worst), len(worst.Data), len(worst.Message))
	}
	var letters []api.UndeliveredEvent
	for range api.MaxDeadLetters {
		letters = append(letters, worst)
	}
	if size := len(api.EncodeDeadLetters(letters)); size > 72<<10 {
		t.Errorf("the longest list has %d bytes", size)
	}
}

// FuzzLetter: the letter of any event is small, and a listed letter can be loaded again.
func FuzzLetter(f *testing.F) {
	f.Add("id", "drydock.dev/sift", "backup", "op", "http://backup", []byte("bm8="), []byte(`{"uid":"u"}`))
	f.Add("\x00", "<>", "a\nb", strings.Repeat("x", 2000), "://@", []byte("%"), []byte("\xff"))
	f.Fuzz(func(t *testing.T, id, from, concerns, operation, dest string, why, data []byte) {
		e := events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: "shop", Name: "web", Operation: operation}, id)
		e.SetSource(from)
		_ = e.SetData(event.ApplicationJSON, data)
		e = undelivered(e, map[string]any{"concerns": concerns, "knativeerrordest": dest, "knativeerrordata": string(why)})
		letter := letterOf(e)
		letter.Operation, letter.Time = operation, metav1.NewTime(build.Now)
		if malformedReason(letter) != "" {
			return
		}
		text := api.EncodeDeadLetters([]api.UndeliveredEvent{letter})
		if len(text) > 9<<10 || !utf8.ValidString(text) {
			t.Fatalf("%d bytes: %q", len(text), text)
		}
		loaded, err := api.LoadDeadLetters(build.Set("web", build.Annotation(api.DeadLettersAnnotation, text)))
		if err != nil || len(loaded) != 1 || loaded[0].Key() != letter.Key() {
			t.Fatalf("%v: %s", err, text)
		}
	})
}

// TestKeyOfHookIsNotListed: a user who knows the key can answer the request, and members are then removed without a drain.
func TestKeyOfHookIsNotListed(t *testing.T) {
	types := events.HookTypes()
	if len(types) == 0 {
		t.Error("there are no types of hook requests")
	}
	for _, eventType := range types {
		e := events.NewStep(api.ScaleFunction, eventType, web)
		if err := e.SetData(event.ApplicationJSON, events.HookRequest{Key: "a-secret"}); err != nil {
			t.Fatal(err)
		}
		in := Input{Now: build.Now, Set: build.Set("web"), Letter: letterOf(undelivered(e, nil)), SetUID: "uid-web"}
		p := Decide(in)
		if in.Letter.Data != nil || len(p.Actions) != 1 || !strings.Contains(p.String(), "is not listed: scale sends the request") {
			t.Errorf("%s: %s, with data %s", eventType, p, in.Letter.Data)
		}
	}
}
