package scale

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// refusingServer is an API server that permanently rejects every write, except those to one object, which it keeps as it is.
type refusingServer struct {
	build.Lists
	accepts string
	writes  []string
}

func (r *refusingServer) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	if request.Method == http.MethodGet {
		r.Lists.ServeHTTP(w, request)
		return
	}
	_, name, _ := strings.Cut(request.URL.Path, "/namespaces/"+build.Namespace+"/")
	r.writes = append(r.writes, request.Method+" "+name)
	if name == r.accepts {
		request.Method = http.MethodGet
		r.Lists.ServeHTTP(w, request)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusUnprocessableEntity)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid",
		"code": http.StatusUnprocessableEntity})
}

// TestRefusedWriteToScalerDoesNotFailScaling: the scaling continues if the status of a second Scaler is rejected, or the removal of a
// retry. It fails if the API server also rejects the Job of its hook, and here nothing can store that.
func TestRefusedWriteToScalerDoesNotFailScaling(t *testing.T) {
	for name, row := range map[string]struct {
		in    Input
		want  []string
		fails bool
	}{
		"the status of a second Scaler": {withReportedStatus(observed(web(2, withRecord(api.PreScaling, timeless)), pilot(withHooks),
			hookJob("pre"))),
			[]string{"PATCH scalers/other/status"}, false},
		"retry by annotation": {observed(web(2, withRecord(api.PreScaling, timeless)), pilot(withHooks, withRetry)),
			[]string{"PATCH scalers/pilot", "POST jobs", "PATCH statefulsets/web", "PATCH statefulsets/web"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			server := &refusingServer{Lists: build.EmptyLists()}
			server.Lists["statefulsets"] = append(server.Lists["statefulsets"], row.in.Set)
			server.Lists["scalers"] = append(server.Lists["scalers"], row.in.Scalers[0], scaler("other", 9))
			for _, job := range row.in.Jobs {
				server.Lists["jobs"] = append(server.Lists["jobs"], job)
			}
			listener := httptest.NewServer(server)
			t.Cleanup(listener.Close)
			f := New(kube.NewClient(&rest.Config{Host: listener.URL}), api.Settings{}, slog.New(slog.DiscardHandler))
			e := events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1")
			if _, err := f.Handle(t.Context(), e); row.fails != (err != nil) || !slices.Equal(server.writes, row.want) {
				t.Errorf("writes %v, want %v; %v", server.writes, row.want, err)
			}
		})
	}
}

// timeless removes the deadline, because the function reads the real time.
func timeless(s *api.Scale) { s.Deadline = nil }

// TestJobOfOtherClientWithHookNameIsNotCreatedAgain: the API server would refuse each creation, and the scaling waits.
func TestJobOfOtherClientWithHookNameIsNotCreatedAgain(t *testing.T) {
	withoutLink := hookJob("pre", build.Edit(func(j *batchv1.Job) { j.Labels, j.Annotations = nil, nil }))
	byEvent := editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Pre = &v1alpha1.Hook{Event: &v1alpha1.HookEvent{}} })
	running := web(2, withRecord(api.PreScaling, timeless))
	for name, row := range map[string]struct {
		in    Input
		want  string // the first write
		taken bool
	}{
		"the name is taken":          {observed(running, pilot(withHooks), withoutLink), "PATCH scalers/pilot/status", true},
		"the name is free":           {observed(running, pilot(withHooks)), "POST jobs", false},
		"the hook needs no Job":      {observed(running, pilot(byEvent), withoutLink), "PATCH statefulsets/web", false},
		"the Job is the hook itself": {observed(running, pilot(withHooks), hookJob("pre")), "PATCH scalers/pilot/status", false},
	} {
		t.Run(name, func(t *testing.T) {
			server := &refusingServer{Lists: build.EmptyLists()}
			server.Lists["statefulsets"], server.Lists["scalers"] = []metav1.Object{row.in.Set}, []metav1.Object{row.in.Scalers[0]}
			for _, job := range append(row.in.Jobs, row.in.Namesake) {
				if job != nil {
					server.Lists["jobs"] = append(server.Lists["jobs"], job)
				}
			}
			listener := httptest.NewServer(server)
			t.Cleanup(listener.Close)
			f := New(kube.NewClient(&rest.Config{Host: listener.URL}), api.Settings{}, slog.New(slog.DiscardHandler))
			ref := events.Ref{Namespace: build.Namespace, Name: "web"}
			in, err := f.observe(t.Context(), ref)
			if err != nil || (in.Namesake != nil) != row.taken {
				t.Errorf("the Job of another client: %v, %v", in.Namesake, err)
			}
			_, _ = f.Handle(t.Context(), events.NewFromUser(events.ObjectChanged, ref, "1")) // fails, because the server refuses the write
			if len(server.writes) == 0 || server.writes[0] != row.want || row.taken && slices.Contains(server.writes, "POST jobs") {
				t.Errorf("writes %v, want %s first", server.writes, row.want)
			}
		})
	}
}

// TestAutoscalerThatWebhookChangesDelaysNoScaling: an admission webhook can change each HorizontalPodAutoscaler that Drydock writes. The
// set must wake nevertheless.
func TestAutoscalerThatWebhookChangesDelaysNoScaling(t *testing.T) {
	in := observed(web(0, withRecord(api.Succeeded, pausedAtZero)), pilot(autoMode))
	changed := makeAutoscaler(in.Scalers[0])
	changed.UID, changed.ResourceVersion, changed.Spec.MinReplicas = "uid-hpa", "rv-hpa", ptr.To[int32](2)
	server := &refusingServer{Lists: build.EmptyLists(), accepts: "horizontalpodautoscalers/pilot"}
	server.Lists["statefulsets"] = append(server.Lists["statefulsets"], in.Set)
	server.Lists["scalers"] = append(server.Lists["scalers"], in.Scalers[0])
	server.Lists["horizontalpodautoscalers"] = append(server.Lists["horizontalpodautoscalers"], changed)
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	f := New(kube.NewClient(&rest.Config{Host: listener.URL}), api.Settings{}, slog.New(slog.DiscardHandler))
	e := events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1")
	_, _ = f.Handle(t.Context(), e) // fails, because the server refuses the other writes
	if i := slices.Index(server.writes, "PATCH statefulsets/web"); i < 0 || i > mostAutoscalerWrites {
		t.Errorf("writes %v", server.writes)
	}
}

// TestConflictOfAutoscalerIsNoWebhook: after a conflict, the write of the autoscaler is tried again.
func TestConflictOfAutoscalerIsNoWebhook(t *testing.T) {
	in := observed(web(3, withEndedScaling(3)), pilot(autoMode, pausedScaler))
	autoscaler := makeAutoscaler(in.Scalers[0])
	autoscaler.UID, autoscaler.ResourceVersion = "uid-hpa", "rv-hpa"
	lists := build.EmptyLists()
	lists["statefulsets"], lists["scalers"] = []metav1.Object{in.Set}, []metav1.Object{in.Scalers[0]}
	lists["horizontalpodautoscalers"] = []metav1.Object{autoscaler}
	deletions := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.Method {
		case http.MethodGet:
			lists.ServeHTTP(w, r)
		case http.MethodDelete:
			if deletions++; deletions == 1 {
				w.WriteHeader(http.StatusConflict)
				_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409}`)
				return
			}
			lists["horizontalpodautoscalers"] = nil
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Success"}`)
		default:
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
		}
	}))
	t.Cleanup(server.Close)
	f := New(kube.NewClient(&rest.Config{Host: server.URL}), api.Settings{}, slog.New(slog.DiscardHandler))
	_, _ = f.Handle(t.Context(), events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1"))
	if deletions != 2 {
		t.Errorf("%d deletions of the autoscaler, want 2", deletions)
	}
}

// TestMalformedHookAnswerIsIgnored: anyone can send an answer. After an error, dead-letter would list it on the set and make an Event.
func TestMalformedHookAnswerIsIgnored(t *testing.T) {
	e := event.New()
	e.SetType(events.ScaleHookCompleted)
	e.SetSource("forged")
	e.SetID("1")
	for key, value := range map[string]string{"kind": "StatefulSet", "namespace": build.Namespace, "name": "web", "operation": "forged"} {
		e.SetExtension(key, value)
	}
	if err := e.SetData(event.ApplicationJSON, []byte("[1]")); err != nil {
		t.Fatal(err)
	}
	if reply, err := New(nil, api.Settings{}, slog.New(slog.DiscardHandler)).Handle(t.Context(), e); reply != nil || err != nil {
		t.Errorf("%v, %v", reply, err)
	}
}

// TestRejectedCountIsNotedOnce: the API server rejects each change of the count of a set without a Scaler, for example by a policy. The
// event does not fail: idle-timeout reads the Stop, and a start is tried again later.
func TestRejectedCountIsNotedOnce(t *testing.T) {
	for name, row := range map[string]struct {
		set     *appsv1.StatefulSet
		records []metav1.Object
		want    []string
	}{
		"a stop": {web(3, asleep(api.Stopping)), nil,
			[]string{"POST controllerrevisions", "PATCH replicas", "PATCH stop"}},
		"a start": {web(0, asleep(api.Waking, wokenUp), withStop()), []metav1.Object{stopOf(build.Stop())},
			[]string{"PATCH replicas", "PATCH stop"}},
	} {
		t.Run(name, func(t *testing.T) {
			lists, writes := build.EmptyLists(), []string(nil)
			lists["statefulsets"], lists["controllerrevisions"] = []metav1.Object{row.set}, row.records
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				_, name, _ := strings.Cut(r.URL.Path, "/namespaces/"+build.Namespace+"/")
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.Method == http.MethodGet:
					lists.ServeHTTP(w, r)
				case r.Method == http.MethodPost:
					writes = append(writes, "POST "+name)
					_, _ = w.Write(body)
				case strings.Contains(string(body), `"/spec/replicas"`):
					writes = append(writes, "PATCH replicas")
					w.WriteHeader(http.StatusUnprocessableEntity)
					_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`)
				default:
					writes = append(writes, "PATCH stop")
					patch, err := jsonpatch.DecodePatch(body)
					if err != nil {
						t.Error(err)
					}
					text, err := patch.Apply([]byte(toJSON(lists["statefulsets"][0])))
					next := &appsv1.StatefulSet{}
					if err != nil || json.Unmarshal(text, next) != nil {
						t.Errorf("%s: %v", body, err)
					}
					lists["statefulsets"] = []metav1.Object{next}
					_, _ = w.Write(text)
				}
			}))
			t.Cleanup(server.Close)
			f := New(kube.NewClient(&rest.Config{Host: server.URL}), build.SleepSettings(), slog.New(slog.DiscardHandler))
			e := events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1")
			if _, err := f.Handle(t.Context(), e); err != nil || !slices.Equal(writes, row.want) {
				t.Errorf("writes %v, want %v; %v", writes, row.want, err)
			}
			if stop := api.LoadStop(lists["statefulsets"][0].(*appsv1.StatefulSet)); stop == nil || stop.Refused == "" || stop.RefusedAt == nil {
				t.Errorf("the Stop does not say it: %s", build.Words(stop))
			}
		})
	}
}

// writesOf handles an event. The API server answers writes whose method and path contain failing with the code, and stores no other.
func writesOf(t *testing.T, in Input, failing string, code int) (writes []string, err error) {
	t.Helper()
	lists := build.EmptyLists()
	lists["statefulsets"] = []metav1.Object{in.Set}
	for _, s := range in.Scalers {
		lists["scalers"] = append(lists["scalers"], s)
	}
	for _, r := range in.Records {
		lists["controllerrevisions"] = append(lists["controllerrevisions"], r)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			lists.ServeHTTP(w, r)
			return
		}
		_, name, _ := strings.Cut(r.URL.Path, "/namespaces/"+build.Namespace+"/")
		writes = append(writes, r.Method+" "+name)
		w.Header().Set("Content-Type", "application/json")
		status := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","code":422}`
		if !strings.Contains(r.Method+" "+name, failing) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, status)
			return
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, map[int]string{
			500: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500,"message":"failed calling webhook"}`,
			403: `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"denied"}`}[code])
	}))
	t.Cleanup(server.Close)
	f := New(kube.NewClient(&rest.Config{Host: server.URL}), build.SleepSettings(), slog.New(slog.DiscardHandler))
	_, err = f.Handle(t.Context(), events.NewFromUser(events.ObjectChanged, events.Ref{Namespace: build.Namespace, Name: "web"}, "1"))
	return writes, err
}

// TestWebhookOfAutoscalersThatDoesNotAnswerDelaysNoStop: the set wakes, although the webhook for HorizontalPodAutoscalers is down.
func TestWebhookOfAutoscalersThatDoesNotAnswerDelaysNoStop(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError} {
		in := observed(web(0, withRecord(api.Succeeded, pausedAtZero)), pilot(autoMode))
		if writes, err := writesOf(t, in, "horizontalpodautoscalers", code); !slices.Contains(writes, "PATCH statefulsets/web") {
			t.Errorf("%d: writes %v; %v", code, writes, err)
		}
	}
}

// TestRecordThatCannotBeDeletedDelaysNoScaling: a policy keeps the record of a stop that has ended. The Scaler scales nevertheless.
func TestRecordThatCannotBeDeletedDelaysNoScaling(t *testing.T) {
	in := alone(web(3, asleep(api.Succeeded, hasWoken), withStop(build.StartedFor(time.Minute)), withEndedScaling(3)), pilot(wants(5)),
		stopOf(build.Stop()))
	if writes, err := writesOf(t, in, "DELETE controllerrevisions", http.StatusForbidden); !slices.Contains(writes, "PATCH statefulsets/web") {
		t.Errorf("writes %v; %v", writes, err)
	}
}

// TestCountOfScalerIsNotOverwrittenAfterOptingOut: the set slept, was opted out, and so started. Its user has changed the Scaler, and opts
// the set in again.
func TestCountOfScalerIsNotOverwrittenAfterOptingOut(t *testing.T) {
	adopts := editScaler(func(s *v1alpha1.Scaler) { s.Spec.ConflictPolicy = v1alpha1.ConflictAdopt })
	for name, options := range map[string][]build.Option{"revert": {wants(5)}, "adopt": {wants(5), adopts}} {
		in := alone(web(3, asleep(api.Succeeded, hasWoken), withRecord(api.Succeeded, pausedAtZero)), pilot(options...))
		for range 5 {
			p := Decide(in)
			if words := p.String(); strings.Contains(words, "replicas 3 to 0") || p.Reason == api.CountAdopted {
				t.Errorf("%s: %s", name, words)
			}
			for _, a := range p.Actions {
				if a.Resource != plan.Scalers {
					in = in.afterAction(a)
				}
			}
		}
	}
}

// TestRecordOfAStopSurvivesAResize: a resize creates a set again that is at zero for its sleep. Then a manifest replaces its annotations.
// The record must still say how many pods the set had.
func TestRecordOfAStopSurvivesAResize(t *testing.T) {
	sleeping := asleep(api.Asleep)
	in := alone(web(0, sleeping, build.Status(replaced()), build.UID("uid-new"), build.Annotation(api.StopAnnotation, build.Stop().Encode())),
		stopOf(build.Stop()))
	end, _ := playToEnd(t, in)
	if stop := api.LoadStop(end.Set); stop == nil || stop.Set.UID != "uid-new" || len(end.Records) != 1 {
		t.Fatalf("the test is wrong: %s, %d records", build.Words(stop), len(end.Records))
	}
	end.Set = end.Set.DeepCopy()
	end.Set.Annotations = nil
	build.With(end.Set, sleeping)
	end, _ = playToEnd(t, end)
	if api.LoadStop(end.Set) == nil {
		t.Errorf("the stop is lost, %d records are left", len(end.Records))
	}
}

// TestOnlyHookJobsOfTheSetAreObserved: Drydock deletes observed Jobs, so it must not observe Jobs of other origin.
func TestOnlyHookJobsOfTheSetAreObserved(t *testing.T) {
	link := func(role api.Role, set string) build.Option {
		return build.LinkOf(api.Link{Operation: build.ID, Role: role, Namespace: build.Namespace,
			Set: api.SetRef{Name: set, UID: "uid-web"}})
	}
	named := func(name string) build.Option { return build.Edit(func(j *batchv1.Job) { j.Name = name }) }
	for name, row := range map[string]struct {
		job  *batchv1.Job
		want bool
	}{
		"pre hook":                  {hookJob("pre"), true},
		"post hook":                 {hookJob("post"), true},
		"failure hook":              {hookJob("onFailure"), true},
		"another name":              {hookJob("pre", named("mine")), false},
		"name of another operation": {hookJob("pre", named(api.ScaleHookName("ffffffffffff", "pre"))), false},
		"unknown hook":              {hookJob("before"), false},
		"another set":               {hookJob("pre", link(api.RoleScaleHook, "api")), false},
		"hook of a resize member":   {hookJob("pre", link(api.RoleHook, "web")), false},
		"no link":                   {hookJob("pre", build.Edit(func(j *batchv1.Job) { j.Annotations = nil })), false},
		"invalid link":              {hookJob("pre", build.Annotation(api.OperationAnnotation, "{")), false},
	} {
		if got := isHook(row.job, "web"); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestDeepScalerStopsOnlyItself: a tenant nests a hook as deeply as the API server accepts. The list of the namespace's Scalers has more
// levels than Go's decoder accepts.
func TestDeepScalerStopsOnlyItself(t *testing.T) {
	const levels = 10000 - 5 // the Scaler, its spec, hooks, pre hook and Job have one each
	deep := scaler("deep", 3, hooks(strings.Repeat(`{"a":`, levels)+"1"+strings.Repeat("}", levels)),
		editScaler(func(s *v1alpha1.Scaler) { s.Spec.Target = "deep" }))
	ended := recordOf(api.Succeeded, ofScaler("uid-deep"), func(s *api.Scale) {
		s.Set, s.Previous, s.Target = api.SetRef{Name: "deep", UID: "uid-deep"}, 2, 2
	})
	lists := build.EmptyLists()
	lists["scalers"] = []metav1.Object{deep, pilot(withHooks)}
	lists["statefulsets"] = []metav1.Object{web(2, withRecord(api.PreScaling, timeless)),
		build.Set("deep", build.Replicas(2), build.Annotation(api.ScaleAnnotation, ended.Encode()))}
	f := New(kube.NewClient(lists.Serve()), build.Settings(), slog.New(slog.DiscardHandler))
	plans := map[string]plan.Plan{}
	for _, set := range []string{"web", "deep"} {
		in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: set})
		if err != nil {
			t.Fatal(err)
		}
		plans[set] = Decide(in)
	}
	if p := plans["web"]; p.Reason != api.HookRunning || len(p.Actions) != 1 || p.Actions[0].Verb != plan.VerbCreate {
		t.Errorf("the scaling of the other Scaler does not continue: %s", p)
	}
	status := reportedStatus(plans["deep"], "deep")
	if status == nil || !slices.ContainsFunc(status.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionHealthy && c.Reason == string(api.HookInvalid)
	}) {
		t.Errorf("the status of the deep Scaler does not name the hook: %+v", status)
	}
}

// TestUnreadPodsOfHookAreReported: the observation does not fail.
func TestUnreadPodsOfHookAreReported(t *testing.T) {
	job := hookJob("pre", completed)
	for name, row := range map[string]struct {
		drop, unread string
		pods         int
	}{
		"all can be read":       {"", "", 1},
		"pods cannot be read":   {"pods", "reading the pods of Job ", 0},
		"Events cannot be read": {"events", "reading the Events about pod ", 1},
	} {
		t.Run(name, func(t *testing.T) {
			lists := build.EmptyLists()
			lists["events"] = nil
			lists["statefulsets"], lists["jobs"] = []metav1.Object{web(2, withRecord(api.PreScaling))}, []metav1.Object{job}
			for _, pod := range build.EndedPods(build.Now, job) {
				pod.Labels = map[string]string{batchv1.JobNameLabel: job.Name}
				lists["pods"] = append(lists["pods"], pod)
			}
			delete(lists, row.drop)
			f := New(kube.NewClient(lists.Serve()), build.Settings(), slog.New(slog.DiscardHandler))
			in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web"})
			if err != nil || len(in.HookPods) != row.pods || !strings.HasPrefix(in.Kills.Unread, row.unread) ||
				(in.Kills.Unread == "") != (row.unread == "") {
				t.Errorf("%d pods, unread %q, error %v", len(in.HookPods), in.Kills.Unread, err)
			}
		})
	}
}

// TestRecordsOfStopsAreObserved: a set that may have one is observed with it. To list all is expensive.
func TestRecordsOfStopsAreObserved(t *testing.T) {
	begins := withRecord(api.PreScaling, pausedAtZero)
	for name, row := range map[string]struct {
		set       *appsv1.StatefulSet
		hasScaler bool
		operation string
		want      int
	}{
		"the set is gone":    {nil, false, "", 1},
		"the set is at zero": {web(0), false, "", 1},
		"the set runs":       {web(3), false, "", 0},
		"the set runs, and the sweep has found the record": {web(3), false, build.SleepID, 1},
		"the set runs with its Scaler":                     {web(3, withEndedScaling(3)), true, "", 0},
		"the set runs, and its Scaler has lost its record": {web(3), true, "", 1},
		"the set has a Stop":                               {web(3, withStop(build.StartedFor(time.Minute))), false, "", 1},
		"the set falls asleep":                             {web(3, asleep(api.Stopping)), false, "", 1},
		"the set wakes":                                    {web(3, asleep(api.Waking, wokenUp)), false, "", 0},
		"a pause of its Scaler begins":                     {web(3, begins), true, "", 1},
		"a scaling of its Scaler begins":                   {web(3, withRecord(api.PreScaling)), true, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			other := build.Stop(func(s *api.Stop) { s.Set.Name, s.Operation = "db", "0123456789ab" })
			lists := build.EmptyLists()
			lists["controllerrevisions"] = []metav1.Object{stopOf(build.Stop()), stopOf(other),
				resources.MakeJournal(web(3), build.Operation(api.Moving))}
			if row.set != nil {
				lists["statefulsets"] = []metav1.Object{row.set}
			}
			if row.hasScaler {
				lists["scalers"] = []metav1.Object{pilot()}
			}
			f := New(kube.NewClient(lists.Serve()), build.Settings(), slog.New(slog.DiscardHandler))
			in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web", Operation: row.operation})
			if err != nil || len(in.Records) != row.want {
				t.Errorf("%d records, want %d; %v", len(in.Records), row.want, err)
			}
		})
	}
}
