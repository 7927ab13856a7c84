package release

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// asleepWith returns the facts about set web with no replicas, with the sleep, if there is one, and its record.
func asleepWith(sleep *api.Sleep, options ...build.Option) Input {
	set := build.Set("web", append([]build.Option{build.Replicas(0), build.Label(api.ManagedLabel, "true")}, options...)...)
	in := Input{Namespace: set.Namespace, Name: "web", Set: set}
	if sleep != nil {
		build.With(set, build.WithSleep(sleep))
		record := resources.MakeSleepRecord(set, sleep)
		record.UID, record.ResourceVersion = "uid-record", "9"
		in.Sleeps = []*appsv1.ControllerRevision{record}
	}
	return in
}

// withOwner adds an owner that Drydock has paused and still holds, or has released already.
func (in Input) withOwner(stopped, held bool) Input {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("example.com/v1")
	object.SetKind("Database")
	object.SetName("main")
	object.SetUID("uid-main")
	object.SetResourceVersion("7")
	if held {
		pause := api.Pause{Version: api.PauseVersion, Settings: []api.PausedSetting{{In: "annotation", Key: "skip", Value: "true"}},
			Holders: []api.Holder{{Operation: build.SleepID, Set: "web"}}}
		object.SetAnnotations(map[string]string{"skip": "true", api.OwnerPausedAnnotation: pause.Encode()})
	}
	doc := &api.PausedOwner{Version: api.PauseVersion, APIVersion: "example.com/v1", Kind: "Database", Resource: "databases", Name: "main",
		UID: "uid-main", Stopped: stopped}
	record := resources.MakeOwnerRecord(build.Set("web"), build.Sleep(api.Asleep), *doc)
	record.Name = "owner-record"
	in.Owners = []Owner{{Record: record, Operation: build.SleepID, Doc: doc, Resource: "databases.v1.example.com", Object: object}}
	return in
}

func TestReleaseUndoesWhatDrydockHolds(t *testing.T) {
	asleep := build.Sleep(api.Asleep, build.AsleepFor(time.Hour))
	stopped := build.Sleep(api.Asleep, build.AsleepFor(time.Hour), build.OwnerStops())
	journal := build.Journal(build.Operation(api.Moving))
	unreadable := asleepWith(asleep).withOwner(false, true)
	unreadable.Owners[0].Err = errors.New("forbidden")
	lost := asleepWith(asleep)
	delete(lost.Set.Annotations, api.SleepAnnotation)
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        Input
	}{
		{"the set sleeps", asleepWith(asleep)},
		{"a user put the set to sleep", asleepWith(asleep, build.Annotation(api.PausedAnnotation, "true"))},
		{"each kind of request is left", asleepWith(nil, build.Replicas(3),
			build.Annotation(api.SleepRequestedAnnotation, "2026-01-02T03:04:05Z"),
			build.Annotation(api.ResizeAnnotation, "data=1Gi+"), build.Annotation(api.ResizeAppliedAnnotation, "data=1Gi+"),
			build.Annotation(api.ApproveAnnotation, build.ID), build.Annotation(api.RetryAnnotation, ""),
			build.Annotation(api.GrowToAnnotation, "data=1Gi"),
			build.Annotation(api.RollbackAnnotation, build.ID), build.Annotation(api.AbortAnnotation, ""),
			build.Annotation(api.IdleTimeoutAnnotation, "30m"))},
		{"the set sleeps, and whenScaled was Delete",
			asleepWith(build.Sleep(api.Asleep, build.OriginalWhenScaled("Delete")), build.WhenScaled("Retain"))},
		{"the set sleeps, and its owner is paused", asleepWith(asleep).withOwner(false, true)},
		{"the operator stopped the set, and is still told to", asleepWith(stopped).withOwner(true, true)},
		{"the operator is free to start the set, and does not", asleepWith(stopped)},
		{"the operator has started the set", asleepWith(stopped, build.Replicas(3))},
		{"the set wakes", asleepWith(build.Sleep(api.Waking), build.Replicas(3))},
		{"the set lost its annotation, and the record remains", lost},
		{"a user scaled the set to zero", asleepWith(nil)},
		{"the set is opted in, and runs", asleepWith(nil, build.Replicas(3))},
		{"the set has the cleanup finalizer", asleepWith(nil, build.Finalizers(api.CleanupFinalizer), build.Label(api.FinalizerLabel,
			"cleanup"))},
		{"the owner cannot be read", unreadable},
		{"Drydock holds nothing", Input{Set: build.Set("web", build.Label(api.ManagedLabel, ""))}},
		{"the set is gone, and its owner is paused", Input{Namespace: "shop", Name: "web"}.withOwner(false, true)},
		{"the set is gone during a resize", Input{Journals: []*appsv1.ControllerRevision{journal}}},
		{"a resize runs", asleepWith(nil, build.Status(build.Operation(api.Moving)))},
		{"the set is being deleted", asleepWith(nil, build.Deleting())},
		{"the record of the sleep is unreadable", asleepWith(nil, build.Annotation(api.SleepAnnotation, "{"))},
	} {
		file.Entry(t, row.situation, decision(row.in))
	}
}

// scaledToZero stores the record of a set that the paused Scaler pilot has scaled to zero.
func scaledToZero() build.Option {
	paused := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Phase: api.Succeeded, Operation: build.ID,
		Set: api.SetRef{Name: "web", UID: "uid-web"}}, Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Previous: 3, Paused: true}
	return build.Annotation(api.ScaleAnnotation, paused.Encode())
}

// withScaler adds the paused Scaler pilot with the count.
func (in Input) withScaler(replicas int32) Input {
	in.Scalers = []*v1alpha1.Scaler{build.With(&v1alpha1.Scaler{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "pilot",
		UID: "uid-pilot", ResourceVersion: "5"}, Spec: v1alpha1.ScalerSpec{Target: "web", Replicas: &replicas}}, build.PausedByDrydock())}
	return in
}

// TestReleaseEndsDrydocksPauseOfTheScaler: with a Scaler that stays paused, the set would be scaled to zero when it opts in again,
// without a sleep that wakes it. The pause by a user stays.
func TestReleaseEndsDrydocksPauseOfTheScaler(t *testing.T) {
	asleep := build.Sleep(api.Asleep, build.AsleepFor(time.Hour))
	lost := asleepWith(asleep, build.Replicas(3), scaledToZero())
	delete(lost.Set.Annotations, api.SleepAnnotation)
	newer := asleepWith(asleep).withScaler(3)
	newer.Scalers[0].CreationTimestamp = metav1.NewTime(asleep.Started.Add(time.Hour))
	waking := build.Sleep(api.Waking, build.AsleepFor(time.Hour))
	const pilot, web = "patch scalers.v1alpha1.drydock.dev pilot", "patch statefulsets web"
	for situation, row := range map[string]struct {
		in    Input
		first string
	}{
		"the set sleeps":                                  {asleepWith(asleep, scaledToZero()).withScaler(3), pilot + " {paused = false}"},
		"the set sleeps, and the Scaler wants 0":          {asleepWith(asleep).withScaler(0), pilot + " {paused = false, replicas = 3}"},
		"the record is left, and the hook runs":           {lost.withScaler(3), pilot + " {paused = false}"},
		"the owner has not consented to a sleep":          {asleepWith(build.Sleep(api.Planned)).withoutRecords().withScaler(3), web},
		"no sleep: a user has paused the Scaler":          {asleepWith(nil, scaledToZero()).withScaler(3), web},
		"a user has made a paused Scaler since":           {newer, web},
		"the set wakes, and a user has paused the Scaler": {asleepWith(waking, build.Replicas(3), scaledToZero()).withScaler(3), web},
		"the set sleeps, and there is no Scaler":          {asleepWith(asleep), web},
	} {
		actions, left := Decide(row.in)
		if len(left) > 0 || !strings.HasPrefix(actions[0].String(), row.first) {
			t.Errorf("%s: %v, left %v; want %s first", situation, actions, left, row.first)
		}
		if actions[0].Resource == plan.Scalers && (actions[0].Ops[0].Value != "5" || actions[1].Resource != plan.StatefulSets) {
			t.Errorf("%s: %v, want the version of the Scaler as precondition, and then the set", situation, actions)
		}
	}
}

// withoutRecords removes the records of sleeps.
func (in Input) withoutRecords() Input {
	in.Sleeps = nil
	return in
}

// TestPausedScalerIsNamed: nothing else says why the set stays at zero after Drydock is uninstalled.
func TestPausedScalerIsNamed(t *testing.T) {
	record := scaledToZero()
	for situation, row := range map[string]struct {
		in    Input
		named bool
	}{
		"a paused Scaler keeps it at zero": {asleepWith(nil, record), true},
		"Drydock's sleep ends":             {asleepWith(build.Sleep(api.Asleep, build.AsleepFor(time.Hour)), record), false},
		"the set has replicas":             {asleepWith(nil, record, build.Replicas(2)), false},
		"no Scaler":                        {asleepWith(nil), false},
		"the set is gone":                  {Input{Namespace: "shop", Name: "web"}, false},
	} {
		if note := Note(row.in); strings.Contains(note, "pilot") != row.named {
			t.Errorf("%s: %q", situation, note)
		}
	}
}

// decision renders the writes and the objects that are left, a line each.
func decision(in Input) string {
	actions, left := Decide(in)
	var lines []string
	for _, a := range actions {
		lines = append(lines, a.String())
	}
	for _, text := range left {
		lines = append(lines, "left: "+text)
	}
	if len(lines) == 0 {
		return "nothing to do"
	}
	return strings.Join(lines, "\n")
}

// TestReleaseAfterRefusedSleep: the ControllerRevision of sleep 1 is not deleted yet, sleep 2 was refused, and the user has scaled the set
// to zero.
func TestReleaseAfterRefusedSleep(t *testing.T) {
	refused := build.Sleep(api.Refused, func(s *api.Sleep) { s.Operation, s.Attempt, s.Reason = "cccccccccccc", 2, api.ProbeFailed })
	set := build.Set("web", build.Replicas(0), build.WithSleep(refused))
	actions, _ := Decide(Input{Namespace: build.Namespace, Name: "web", Set: set,
		Sleeps: []*appsv1.ControllerRevision{resources.MakeSleepRecord(set, build.Sleep(api.Asleep))}})
	if text := fmt.Sprint(actions); strings.Contains(text, "replicas 0 to") {
		t.Errorf("%s", text)
	}
}

// TestReleaseAfterEndedSleep: a user scaled the set to zero, which ended its sleep. The record of the sleep is not deleted yet. The set
// stays at zero, and gets its former whenScaled when its pods have ended.
func TestReleaseAfterEndedSleep(t *testing.T) {
	for pods, restores := range map[int32]bool{2: false, 0: true} {
		ended := build.Sleep(api.Succeeded, func(s *api.Sleep) { s.Reason, s.WhenScaled = api.AtZeroAlready, "Delete" })
		set := build.Set("web", build.Replicas(0), build.WhenScaled("Retain"), build.ReplicaCounts(pods, pods), build.WithSleep(ended))
		record := build.Sleep(api.Stopping, func(s *api.Sleep) { s.WhenScaled = "Delete" })
		actions, _ := Decide(Input{Namespace: build.Namespace, Name: "web", Set: set,
			Sleeps: []*appsv1.ControllerRevision{resources.MakeSleepRecord(set, record)}})
		text := fmt.Sprint(actions)
		if strings.Contains(text, "replicas 0 to") || strings.Contains(text, "whenScaled Delete") != restores {
			t.Errorf("%d pods: %s, want whenScaled to be restored: %t", pods, text, restores)
		}
	}
}
