package release

import (
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// on is what is known of set web, which sleeps for the sleep, with its record.
func on(sleep *api.Sleep, options ...build.Option) Input {
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

// ownedBy is the same with an owner that Drydock holds, or has released already.
func (in Input) ownedBy(stopped, held bool) Input {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetAPIVersion("example.com/v1")
	object.SetKind("Database")
	object.SetName("main")
	object.SetUID("uid-main")
	object.SetResourceVersion("7")
	if held {
		pause := api.Pause{Version: api.PauseVersion, Made: []api.Made{{In: "annotation", Key: "skip", Value: "true"}},
			For: []api.Holder{{Operation: build.SleepID, Set: "web"}}}
		object.SetAnnotations(map[string]string{"skip": "true", api.OwnerPausedAnnotation: pause.Encode()})
	}
	doc := &api.PausedOwner{Version: api.PauseVersion, APIVersion: "example.com/v1", Kind: "Database", Resource: "databases", Name: "main",
		UID: "uid-main", Stopped: stopped}
	record := resources.MakeOwnerRecord(build.Set("web"), build.Sleep(api.Asleep), *doc)
	record.Name = "owner-record"
	in.Owners = []Owner{{Record: record, Operation: build.SleepID, Doc: doc, Resource: "databases.v1.example.com", Object: object}}
	return in
}

func TestDecide(t *testing.T) {
	const sleepRecord = "delete controllerrevisions drydock-" + build.SleepID + "-sleep"
	const resumed = "patch databases.v1.example.com main {-skip, -owner-paused}; delete controllerrevisions owner-record"
	asleep := build.Sleep(api.Asleep, build.Slept(time.Hour))
	stopped := build.Sleep(api.Asleep, build.Slept(time.Hour), build.OwnerStops())
	journal := build.Journal(build.Operation(api.Moving))
	unreadable := on(asleep).ownedBy(false, true)
	unreadable.Owners[0].Err = errors.New("forbidden")
	lost := on(asleep)
	delete(lost.Set.Annotations, api.SleepAnnotation)
	for name, row := range map[string]struct {
		in   Input
		want string
		left string
	}{
		"it sleeps": {on(asleep), "patch statefulsets web {replicas 0 to 3, -sleep, -label managed}; " + sleepRecord, ""},
		"it sleeps, and its claims would be deleted": {on(build.Sleep(api.Asleep, build.Kept("Delete")), build.WhenScaled("Retain")),
			"patch statefulsets web {replicas 0 to 3, whenScaled Delete, -sleep, -label managed}; " + sleepRecord, ""},
		"its owner is paused": {on(asleep).ownedBy(false, true), "patch statefulsets web {replicas 0 to 3, -sleep, " +
			"-label managed}; " + sleepRecord + "; " + resumed, ""},
		"its operator stopped it: the stop ends first": {on(stopped).ownedBy(true, true), resumed, "its operator is to start it"},
		"the stop has ended, and the operator is away": {on(stopped), "patch statefulsets web {replicas 0 to 3, -sleep, -label managed}; " +
			sleepRecord, ""},
		"its operator has started it": {on(stopped, build.Replicas(3)), "patch statefulsets web {-sleep, -label managed}; " + sleepRecord, ""},
		"it wakes": {on(build.Sleep(api.Waking), build.Replicas(3)), "patch statefulsets web {-sleep, -label managed}; " +
			sleepRecord, ""},
		"it lost its document":       {lost, "patch statefulsets web {replicas 0 to 3, -label managed}; " + sleepRecord, ""},
		"a person scaled it to zero": {on(nil), "patch statefulsets web {-label managed}", ""},
		"it is opted in, and runs":   {on(nil, build.Replicas(3)), "patch statefulsets web {-label managed}", ""},
		"it would be cleaned up when it is deleted": {on(nil, build.Finalizers(api.CleanupFinalizer), build.Label(api.FinalizerLabel, "cleanup")),
			"patch statefulsets web {-label managed, -label finalizer, -finalizer cleanup}", ""},
		"its owner cannot be read": {unreadable, "patch statefulsets web {replicas 0 to 3, -sleep, -label managed}; " + sleepRecord,
			"its owner stays paused: forbidden"},
		"nothing is held any more":   {Input{Set: build.Set("web", build.Label(api.ManagedLabel, ""))}, "", ""},
		"it is gone, with an owner":  {Input{Namespace: "shop", Name: "web"}.ownedBy(false, true), resumed, ""},
		"it is gone during a resize": {Input{Journals: []*appsv1.ControllerRevision{journal}}, "", "gone in the middle of a resize"},
		"a resize runs":              {on(nil, build.Status(build.Operation(api.Moving))), "", "in phase Moving; wait for its end"},
		"it is being deleted":        {on(nil, build.Deleting()), "", "it is being deleted"},
		"nobody can read its sleep":  {on(nil, build.Annotation(api.SleepAnnotation, "{")), "", "reading annotation drydock.dev/sleep"},
	} {
		t.Run(name, func(t *testing.T) {
			actions, left := Decide(row.in)
			if got := words(actions); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
			if text := strings.Join(left, "; "); (row.left == "") != (text == "") || !strings.Contains(text, row.left) {
				t.Errorf("left %q, want %q", text, row.left)
			}
		})
	}
}

func words(actions []plan.Action) string {
	var all []string
	for _, a := range actions {
		all = append(all, a.String())
	}
	return strings.Join(all, "; ")
}
