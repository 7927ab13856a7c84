package logs

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

const trace = "0123456789abcdef0123456789abcdef"

// moving is a set with a resize that began three minutes before build.Now.
func moving() *appsv1.StatefulSet {
	record := build.Operation(api.Moving)
	record.Started, record.Trace = *operation.Moment(build.Now.Add(-3 * time.Minute)), "00-"+trace+"-0123456789abcdef-01"
	return build.Set("web", build.Template("data", "10Gi", "fast"), build.Status(record))
}

func scopeOf(t *testing.T, set *appsv1.StatefulSet, id string) Scope {
	t.Helper()
	s, err := NewScope(set, id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// stamped returns the line as the API server returns it.
func stamped(at time.Time, printed string) []byte {
	return []byte(at.UTC().Format(time.RFC3339Nano) + " " + printed)
}

func claimEvent(claim string) string {
	return `{"msg":"event","subject":"/apis/v1/namespaces/shop/persistentvolumeclaims/` + claim + `"}`
}

// TestOnlyLinesOfTheOperationAreShown: a line of a function needs a reason to be shown, a line of a mover does not.
func TestOnlyLinesOfTheOperationAreShown(t *testing.T) {
	now, before := build.Now.Add(-time.Minute), build.Now.Add(-time.Hour)
	for situation, row := range map[string]struct {
		kind    Kind
		at      time.Time
		printed string
		shown   bool
	}{
		"it has the trace":                   {Function, before, `{"msg":"done","trace_id":"` + trace + `"}`, true},
		"it has another trace":               {Function, now, `{"msg":"done","trace_id":"ffffffffffffffffffffffffffffffff"}`, false},
		"it names the operation":             {Function, before, `{"plan":"do Moving: create jobs drydock-` + build.ID + `-1-1"}`, true},
		"it names the set":                   {Function, now, `{"msg":"done","set":"shop/web"}`, true},
		"it named the set before":            {Function, before, `{"msg":"done","set":"shop/web"}`, false},
		"another namespace":                  {Function, now, `{"msg":"done","set":"test/web"}`, false},
		"its subject is the set":             {Function, now, `{"msg":"event","subject":"/apis/apps/v1/namespaces/shop/statefulsets/web"}`, true},
		"its subject is a pod of the set":    {Function, now, `{"msg":"event","subject":"/apis/v1/namespaces/shop/pods/web-2"}`, true},
		"its subject is another pod":         {Function, now, `{"msg":"event","subject":"/apis/v1/namespaces/shop/pods/web-2-x"}`, false},
		"its subject is a claim of the set":  {Function, now, claimEvent("data-web-0"), true},
		"its subject is another set's claim": {Function, now, claimEvent("data-my-web-0"), false},
		"it is about nothing":                {Function, now, `{"msg":"serving"}`, false},
		"a function panics":                  {Function, now, `panic: web`, false},
		"JSON that is no object":             {Function, now, `["` + build.ID + `"]`, false},
		"two documents":                      {Function, now, `{"set":"shop/web"}{"set":"shop/web"}`, false},
		"progress of a mover":                {Mover, before, `{"phase":"copy","bytesDone":1}`, true},
		"a panic of a mover":                 {Mover, before, `panic: runtime error`, true},
		"an empty line of a mover":           {Mover, before, ``, false},
		"a line of a hook":                   {Hook, before, `draining`, true},
	} {
		p := Parser{Scope: scopeOf(t, moving(), ""), Source: Source{Kind: row.kind, Pod: "p", Container: "c"}}
		if _, shown := p.Parse(stamped(row.at, row.printed)); shown != row.shown {
			t.Errorf("%s: shown %v", situation, shown)
		}
	}
}

// TestLinesAreMergedByTime shows the text of lines from several containers.
func TestLinesAreMergedByTime(t *testing.T) {
	var all Collector
	add := func(source Source, at int, printed string) {
		p := Parser{Scope: scopeOf(t, moving(), ""), Source: source}
		raw := stamped(build.Now.Add(time.Duration(at)*time.Millisecond), printed)
		line, ok := p.Parse(raw)
		if !ok {
			t.Fatalf("%s does not belong to the operation", printed)
		}
		all.Add(line, len(raw))
	}
	restore := Source{Kind: Function, Pod: "restore-00001-deployment-x", Container: "function"}
	mover := Source{Kind: Mover, Pod: "drydock-" + build.ID + "-1-1-x7k2p", Container: "final"}
	add(restore, 300, `{"time":"2020-01-01T00:00:00Z","level":"INFO","msg":"done","function":"restore","set":"shop/web",`+
		`"plan":"do MemberStopped: patch pods web-1 {+finalizer hold}"}`)
	add(restore, 301, `{"level":"WARN","msg":"event","function":"restore","outcome":"failed","code":503,"took":"12ms","id":"a",`+
		`"type":"dev.drydock.object.changed","subject":"/apis/apps/v1/namespaces/shop/statefulsets/web",`+
		`"error":"reading https://u:hunter2@api: no answer"}`)
	add(restore, 100, `{"level":"INFO","msg":"event","function":"\u001b[31m","set":"shop/web"}`)
	add(mover, 200, `{"phase":"copy","bytesDone":1048576,"bytesTotal":2097152,"filesDone":3,"filesTotal":10,"claim":"data","pass":2}`)
	add(mover, 400, `{"stage":"final","result":"copied","code":0,"reason":"Copied","message":"data: 10 files",`+
		`"claims":[{"name":"data","bytes":1}]}`)
	add(mover, 250, "exec format error\x1b[2J\u202e evil")
	add(Source{Kind: Hook, Pod: "drydock-" + build.ID + "-before-1-0-x", Container: "drain"}, 150, "Authorization: Bearer hunter2hunter2")
	golden.Equal(t, strings.Join(Render(all.Merged()), "\n")+"\n")
}

func TestScopeFindsTheOperation(t *testing.T) {
	sleep := build.Sleep(api.Asleep)
	ready := build.Set("web")
	ready.Annotations = map[string]string{api.CleanupAnnotation: (&api.Cleanup{Header: api.Header{Version: api.RecordVersion,
		Operation: build.ID, Kind: api.KindCleanup, Phase: api.Succeeded, Reason: api.CleanupReady,
		Set: api.SetRef{Name: "web", UID: ready.UID}}}).Encode()}
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		set       *appsv1.StatefulSet
		id        string
	}{
		{"the resize runs", moving(), ""},
		{"a sleep is active, and the resize has ended", build.Set("web", build.WithSleep(sleep),
			build.Status(build.Operation(api.Succeeded))), ""},
		{"the id is that of the ended resize", build.Set("web", build.WithSleep(sleep),
			build.Status(build.Operation(api.Succeeded))), build.ID},
		{"the operation has no record", moving(), "ffffffffffff"},
		{"there was no operation", build.Set("web"), ""},
		{"the only record is that of no cleanup", ready, ""},
		{"the id is no id", moving(), "../../x"},
	} {
		s, err := NewScope(row.set, row.id)
		if err != nil {
			file.Entry(t, row.situation, "error: "+err.Error())
			continue
		}
		file.Entry(t, row.situation, fmt.Sprintf("%s %q, functions %v", s.Operation, s.Kind, Functions(s.Kind)))
	}
}

// TestLinesOfAnEndedOperationEnd: a line about the set after the end belongs to another operation.
func TestLinesOfAnEndedOperationEnd(t *testing.T) {
	record := build.Operation(api.Succeeded)
	record.Started, record.Finished = *operation.Moment(build.Now.Add(-time.Hour)), operation.Moment(build.Now)
	p := Parser{Scope: scopeOf(t, build.Set("web", build.Status(record)), ""), Source: Source{Kind: Function}}
	for after, want := range map[time.Duration]bool{-2 * time.Hour: false, -time.Minute: true,
		30 * time.Second: true, 2 * time.Minute: false} {
		if _, shown := p.Parse(stamped(build.Now.Add(after), `{"set":"shop/web"}`)); shown != want {
			t.Errorf("%s after the end: shown %v", after, shown)
		}
	}
}

// TestHostileLinesStayPrintable: no field of a line can reach the terminal as it is, and no credential is left.
func TestHostileLinesStayPrintable(t *testing.T) {
	p := Parser{Scope: scopeOf(t, moving(), ""), Source: Source{Kind: Mover, Pod: "p", Container: "final"}}
	deep := strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000)
	for _, printed := range []string{"\x1b]0;hunter2password\x07", `{"phase":"\u001b[2J","\u202ekey":["\u0007"],"token":"hunter2"}`, deep,
		`{"phase":"copy","env":{"DB_PASSWORD":["hunter2"]},"n":1e999999}`, "\xff\xfe", `{"phase":7,"result":{"secret":"hunter2"}}`,
		"password=hunter2", strings.Repeat("x", MaxLine)} {
		line, ok := p.Parse(stamped(build.Now, printed))
		if !ok {
			continue
		}
		shown := Render([]Line{line})[0]
		encoded, err := json.Marshal(line)
		if err != nil {
			t.Errorf("%.60q: %v", printed, err)
		}
		if strings.ContainsFunc(shown, func(r rune) bool { return r < ' ' || r == '\u202e' || r == '\ufffd' }) {
			t.Errorf("%.60q is shown as %.200q", printed, shown)
		}
		if strings.Contains(shown+string(encoded), `"hunter2"`) || strings.Contains(shown, "=hunter2") || len(shown) > 40<<10 {
			t.Errorf("%.60q is shown as %.200q", printed, shown)
		}
	}
}

func TestLinesWithoutATimeHaveThatOfTheLineBefore(t *testing.T) {
	p := Parser{Scope: scopeOf(t, moving(), ""), Source: Source{Kind: Mover}}
	_, _ = p.Parse(stamped(build.Now, "a"))
	if line, ok := p.Parse([]byte("the rest of a long line")); !ok || !line.Time.Equal(build.Now) || line.Text != "the rest of a long line" {
		t.Errorf("%+v, %v", line, ok)
	}
}

func TestCollectorHasALimit(t *testing.T) {
	var c Collector
	for range 3 {
		c.Add(Line{}, maxKept/2)
	}
	if len(c.Merged()) != 2 || c.Omitted() != 1 {
		t.Errorf("%d lines, %d omitted", len(c.Merged()), c.Omitted())
	}
}
