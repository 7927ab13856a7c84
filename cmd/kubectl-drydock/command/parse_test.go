package command

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

func TestArgumentNamesAStatefulSet(t *testing.T) {
	for argument, want := range map[string]string{
		"web": "web", "sts/web": "web", "statefulset/web": "web", "statefulsets/web": "web", "statefulset.apps/web": "web",
		"statefulsets.apps/web": "web", "STS/web": "web", "sts/a.b": "a.b",
		"": "", "sts/": "", "deploy/web": "", "sts/web/scale": "", "sts/../x": "", "Web": "", "web?x": "",
	} {
		got, err := parseSet(argument)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", argument, got, err)
		}
	}
}

func TestEventTypeIsFoundWithAndWithoutItsPrefix(t *testing.T) {
	for typed, want := range map[string]string{
		"retry": events.Retry, "dev.drydock.retry": events.Retry, "object.changed": events.ObjectChanged,
		"resource.update": events.SourceUpdate, events.SourceDelete: events.SourceDelete,
		"": "", "party.started": "", "drydock.retry": "", "dev.knative.sources.ping": "",
	} {
		got, err := resolveType(typed)
		if got != want {
			t.Errorf("%q is %q, want %q", typed, got, want)
		}
		if err != nil && !strings.Contains(err.Error(), "resize.requested") {
			t.Errorf("%q: %v does not list the types", typed, err)
		}
	}
	if n := len(typeNames()); n != 24 {
		t.Errorf("%d types", n)
	}
}

func TestConcernsNameFunctionsThatObjectChangedCanWake(t *testing.T) {
	for name, row := range map[string]struct{ eventType, text, want string }{
		"two":                     {events.ObjectChanged, "backup restore", "[backup restore]"},
		"two, with a comma":       {events.ObjectChanged, "backup,restore", "[backup restore]"},
		"none for object.changed": {events.ObjectChanged, " ", "error"},
		"an unknown function":     {events.ObjectChanged, "backup cook", "error"},
		"a function that object.changed cannot wake": {events.ObjectChanged, "dead-letter", "error"},
		"none for another type":                      {events.Retry, "", "[]"},
		"one for another type":                       {events.Retry, "backup", "error"},
	} {
		concerns, err := parseConcerns(row.eventType, row.text)
		got := fmt.Sprint(concerns)
		if err != nil {
			got = "error"
		}
		if got != row.want {
			t.Errorf("%s: %s (%v), want %s", name, got, err, row.want)
		}
	}
}

func TestProxyPathLeadsToTheServiceOfTheBroker(t *testing.T) {
	const cluster, knative = ".svc.cluster.local", "/api/v1/namespaces/knative-eventing/services/"
	for address, want := range map[string]string{
		"http://broker-ingress.knative-eventing" + cluster + "/drydock/default": knative + "http:broker-ingress:80/proxy/drydock/default",
		"http://kafka-broker-ingress.knative-eventing.svc/drydock/default":      knative + "http:kafka-broker-ingress:80/proxy/drydock/default",
		"https://b.n.svc.cluster.local/x":                                       "/api/v1/namespaces/n/services/https:b:443/proxy/x",
		"http://b.n.svc.example.org:8080/x/y":                                   "/api/v1/namespaces/n/services/http:b:8080/proxy/x/y",
		"http://broker.example.org/x":                                           "",
		"http://127.0.0.1:9091/drydock/default":                                 "",
		"kafka://b.n.svc/x":                                                     "",
		"://":                                                                   "",
	} {
		got, err := proxyPath(address)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", address, got, err, want)
		}
	}
}

// TestRetryRepeatsTheLastOperationOrSaysWhyNot covers each state of a set.
func TestRetryRepeatsTheLastOperationOrSaysWhyNot(t *testing.T) {
	resize := build.Resize("data=128Mi")
	status := func(phase api.Phase) build.Option { return build.Status(build.Operation(phase)) }
	cleanup := func(phase api.Phase) build.Option {
		doc := build.Operation(phase, func(s *api.Resize) { s.Kind = api.KindCleanup })
		return func(set metav1.Object) {
			build.Annotation(api.CleanupAnnotation, doc.Encode())(set)
			build.Annotation(api.CleanupTemplateAnnotation, "{}")(set)
			build.Template("data", "64Mi", "fixed")(set)
		}
	}
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		set       *appsv1.StatefulSet
	}{
		{"the resize failed", build.Set("web", resize, status(api.Failed))},
		{"the resize was refused", build.Set("web", resize, status(api.Refused))},
		{"the rollback failed", build.Set("web", resize, build.Status(build.Operation(api.Failed, build.RollbackOf(build.ID))))},
		{"the resize failed, and the request was withdrawn", build.Set("web", status(api.Failed))},
		{"the cleanup failed", build.Set("web", cleanup(api.Failed))},
		{"the cleanup succeeded", build.Set("web", cleanup(api.Succeeded))},
		{"the resize runs", build.Set("web", resize, status(api.Moving))},
		{"the resize succeeded", build.Set("web", resize, status(api.Succeeded))},
		{"the scaling failed", build.Set("web", withScaling(api.Failed))},
		{"the resize succeeded, and a sleep failed", build.Set("web", resize, status(api.Succeeded),
			build.WithSleep(build.Sleep(api.Failed)))},
		{"the growth by usage failed", build.Set("web", build.GrowTo("data=128Mi", ""),
			build.Status(build.Operation(api.Failed, build.Growth("data=128Mi"))))},
		{"the growth by usage failed, and growth is off", build.Set("web",
			build.Status(build.Operation(api.Failed, build.Growth("data=128Mi"))))},
		{"the growth by usage has not begun", build.Set("web", build.GrowTo("data=128Mi", ""))},
		{"there is no request", build.Set("web")},
		{"the requested resize has not begun", build.Set("web", resize)},
		{"the record belongs to another set", build.Set("web", resize, status(api.Failed), build.UID("uid-2"))},
		{"the record is unreadable", build.Set("web", resize, build.Annotation(api.StatusAnnotation, "{"))},
	} {
		record, err := retryable(row.set)
		if err != nil {
			file.Entry(t, row.situation, "error: "+err.Error())
			continue
		}
		file.Entry(t, row.situation, fmt.Sprintf("retry %s %s, which is %s", record.Head().Kind, record.Head().Operation, record.Head().Phase))
	}
}

func letters() []api.UndeliveredEvent {
	at := metav1.NewTime(build.Now.Add(-time.Hour))
	return []api.UndeliveredEvent{
		{Type: events.OwnerPaused, Source: "drydock.dev/pause-owner", ID: "0123456789ab/owner.paused", Operation: build.ID,
			Subject:    "/apis/apps/v1/namespaces/shop/statefulsets/web",
			Extensions: map[string]string{"kind": "StatefulSet", "namespace": "shop", "name": "web"}, Time: at,
			Destination: "http://backup.drydock.svc.cluster.local", Code: 422, Message: "no \x1b[2Jroom"},
		{Type: events.SourceUpdate, Source: "https://10.96.0.1:443", ID: "random", Subject: "/apis/v1/namespaces/shop/pods/mover",
			Extensions: map[string]string{"kind": "Pod", "namespace": "shop", "name": "mover"}, Time: at,
			Destination: "http://sift.drydock.svc.cluster.local",
			Resent:      &metav1.Time{Time: build.Now.Add(-time.Minute)}},
	}
}

func TestLettersArePrintedAsATable(t *testing.T) {
	var out bytes.Buffer
	if err := printLetters(&out, letters(), build.Now); err != nil {
		t.Fatal(err)
	}
	golden.Equal(t, out.String())
}

func TestLettersAreChosenByKeyOrEventID(t *testing.T) {
	all := letters()
	for name, row := range map[string]struct {
		ids  []string
		want int
	}{
		"no IDs":                {nil, 2},
		"the key of one":        {[]string{all[0].Key()}, 1},
		"the event id of one":   {[]string{"random"}, 1},
		"a key and an event id": {[]string{"random", all[0].Key()}, 2},
		"an unknown ID":         {[]string{"random", "other"}, 0},
	} {
		chosen, err := chooseLetters(all, row.ids)
		if len(chosen) != row.want || (err == nil) != (row.want > 0) {
			t.Errorf("%s: %d, %v", name, len(chosen), err)
		}
	}
}

// TestLetterThatFailsAgainStays: an event can fail again before its old letter is removed.
func TestLetterThatFailsAgainStays(t *testing.T) {
	all := letters()
	tool := &redeliver{tool: &tool{now: func() time.Time { return build.Now }}}
	marked := markResent(all, keysOf(all), tool)
	if all[0].Resent != nil || marked[0].Resent == nil || !marked[1].Resent.Time.Equal(all[1].Resent.Time) {
		t.Errorf("%+v", marked)
	}
	marked[0].Resent = nil // dead-letter has replaced it
	left := removeResent(marked, keysOf(all))
	if len(left) != 1 || left[0].Key() != all[0].Key() {
		t.Errorf("%+v", left)
	}
	if left := removeResent(marked, nil); len(left) != 2 {
		t.Errorf("nothing was accepted, and %d of 2 letters are left", len(left))
	}
}
