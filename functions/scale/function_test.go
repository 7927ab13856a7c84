package scale

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/apiserver"
	"drydock.dev/test/kit/build"
)

// handleOn handles an event on an API server with the observed objects. refuses says whether the server refuses a write, such as
// "PATCH scalers/pilot/status".
func handleOn(in Input, refuses func(write string, r *apiserver.Request) error) (writes []string, _ *apiserver.Front, _ error) {
	front := apiserver.NewFront(objectsOf(in)...)
	front.Before = func(_ *apiserver.Server, r *apiserver.Request) error {
		if !r.Writes() {
			return nil
		}
		_, name, _ := strings.Cut(r.URL.Path, "/namespaces/"+build.Namespace+"/")
		writes = append(writes, r.Method+" "+name)
		return refuses(r.Method+" "+name, r)
	}
	f := New(kube.NewClient(front.Config()), build.SleepSettings(), slog.New(slog.DiscardHandler))
	about := events.Ref{Namespace: build.Namespace, Name: "web"}
	_, err := f.Handle(context.Background(), events.NewFromUser(events.ObjectChanged, about, "1"))
	return writes, front, err
}

var errInvalid = apierrors.NewInvalid(schema.GroupKind{Kind: "StatefulSet"}, "web", nil)

func refusesAll(string, *apiserver.Request) error { return errInvalid }

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
			row.in.Scalers = append(row.in.Scalers, scaler("other", 9))
			if writes, _, err := handleOn(row.in, refusesAll); row.fails != (err != nil) || !slices.Equal(writes, row.want) {
				t.Errorf("writes %v, want %v; %v", writes, row.want, err)
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
			writes, server, _ := handleOn(row.in, refusesAll) // fails, because the server refuses the write
			if len(writes) == 0 || writes[0] != row.want || row.taken && slices.Contains(writes, "POST jobs") {
				t.Errorf("writes %v, want %s first", writes, row.want)
			}
			in, err := New(kube.NewClient(server.Config()), api.Settings{}, slog.New(slog.DiscardHandler)).observe(t.Context(),
				events.Ref{Namespace: build.Namespace, Name: "web"})
			if err != nil || (in.Namesake != nil) != row.taken {
				t.Errorf("the Job of another client: %v, %v", in.Namesake, err)
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
	in.Autoscalers = append(in.Autoscalers, changed)
	writes, _, _ := handleOn(in, func(_ string, r *apiserver.Request) error { // fails, because the server refuses the other writes
		if r.DryRun = r.Resource == "horizontalpodautoscalers"; r.DryRun { // the webhook undoes it
			return nil
		}
		return errInvalid
	})
	if i := slices.Index(writes, "PATCH statefulsets/web"); i < 0 || i > mostAutoscalerWrites {
		t.Errorf("writes %v", writes)
	}
}

// TestConflictOfAutoscalerIsNoWebhook: after a conflict, the write of the autoscaler is tried again.
func TestConflictOfAutoscalerIsNoWebhook(t *testing.T) {
	in := observed(web(3, withEndedScaling(3)), pilot(autoMode, pausedScaler))
	autoscaler := makeAutoscaler(in.Scalers[0])
	autoscaler.UID, autoscaler.ResourceVersion = "uid-hpa", "rv-hpa"
	in.Autoscalers = append(in.Autoscalers, autoscaler)
	deletions := 0
	_, _, _ = handleOn(in, func(_ string, r *apiserver.Request) error { // fails, because the server refuses the other writes
		if r.Method != http.MethodDelete {
			return errInvalid
		}
		if deletions++; deletions == 1 {
			return apierrors.NewConflict(schema.GroupResource{}, r.Name, errors.New("it has changed"))
		}
		return nil
	})
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
		in   Input
		want []string
	}{
		"a stop": {observed(web(3, asleep(api.Stopping))),
			[]string{"POST controllerrevisions", "PATCH statefulsets/web", "PATCH statefulsets/web"}},
		"a start": {observed(web(0, asleep(api.Waking, wokenUp), withStop()), stopOf(build.Stop())),
			[]string{"PATCH statefulsets/web", "PATCH statefulsets/web"}},
	} {
		t.Run(name, func(t *testing.T) {
			writes, server, err := handleOn(row.in, func(_ string, r *apiserver.Request) error {
				if strings.Contains(string(r.Content()), `"/spec/replicas"`) {
					return errInvalid
				}
				return nil
			})
			if err != nil || !slices.Equal(writes, row.want) {
				t.Errorf("writes %v, want %v; %v", writes, row.want, err)
			}
			server.Use(func(s *apiserver.Server) {
				stop := api.LoadStop(apiserver.Decode[appsv1.StatefulSet](s.Get(apiserver.Key{Resource: "statefulsets", Namespace: build.Namespace,
					Name: "web"})))
				if stop == nil || stop.Refused == "" || stop.RefusedAt == nil {
					t.Errorf("the Stop does not say it: %s", build.Words(stop))
				}
			})
		})
	}
}

// TestWebhookOfAutoscalersThatDoesNotAnswerDelaysNoStop: the set wakes, although the webhook for HorizontalPodAutoscalers is down.
func TestWebhookOfAutoscalersThatDoesNotAnswerDelaysNoStop(t *testing.T) {
	for _, answer := range []error{apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("denied")),
		apierrors.NewInternalError(errors.New("failed calling webhook"))} {
		in := observed(web(0, withRecord(api.Succeeded, pausedAtZero)), pilot(autoMode))
		writes, _, err := handleOn(in, func(write string, _ *apiserver.Request) error {
			if strings.Contains(write, "horizontalpodautoscalers") {
				return answer
			}
			return errInvalid
		})
		if !slices.Contains(writes, "PATCH statefulsets/web") {
			t.Errorf("%v: writes %v; %v", answer, writes, err)
		}
	}
}

// TestRecordThatCannotBeDeletedDelaysNoScaling: a policy keeps the record of a stop that has ended. The Scaler scales nevertheless.
func TestRecordThatCannotBeDeletedDelaysNoScaling(t *testing.T) {
	in := alone(web(3, asleep(api.Succeeded, hasWoken), withStop(build.StartedFor(time.Minute)), withEndedScaling(3)), pilot(wants(5)),
		stopOf(build.Stop()))
	writes, _, err := handleOn(in, func(write string, _ *apiserver.Request) error {
		if strings.HasPrefix(write, "DELETE controllerrevisions") {
			return apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("denied"))
		}
		return errInvalid
	})
	if !slices.Contains(writes, "PATCH statefulsets/web") {
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
