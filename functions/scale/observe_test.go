package scale

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

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
	f := New(kube.NewClient(lists.Serve(t)), build.Settings(), slog.New(slog.DiscardHandler))
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
			f := New(kube.NewClient(lists.Serve(t)), build.Settings(), slog.New(slog.DiscardHandler))
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
			other := build.Stop(func(s *api.Stop) { s.Set.Name = "db" })
			lists := build.EmptyLists()
			lists["controllerrevisions"] = []metav1.Object{stopOf(build.Stop()), stopOf(other),
				resources.MakeJournal(web(3), build.Operation(api.Moving))}
			if row.set != nil {
				lists["statefulsets"] = []metav1.Object{row.set}
			}
			if row.hasScaler {
				lists["scalers"] = []metav1.Object{pilot()}
			}
			f := New(kube.NewClient(lists.Serve(t)), build.Settings(), slog.New(slog.DiscardHandler))
			in, err := f.observe(t.Context(), events.Ref{Namespace: build.Namespace, Name: "web", Operation: row.operation})
			if err != nil || len(in.Records) != row.want {
				t.Errorf("%d records, want %d; %v", len(in.Records), row.want, err)
			}
		})
	}
}
