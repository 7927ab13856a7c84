package release

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// asleepWith returns the facts about set web with no replicas, with the sleep, if there is one, its Stop and the record of that.
func asleepWith(sleep *api.Sleep, options ...build.Option) Input {
	if sleep == nil {
		return stoppedBy(nil, options...)
	}
	if sleep.OwnerStops {
		return stoppedBy(nil, append(options, build.WithSleep(sleep))...)
	}
	return stoppedBy(build.Stop(), append(options, build.WithSleep(sleep))...)
}

// stoppedBy returns the facts about set web with no replicas, with the Stop, if there is one, and its record.
func stoppedBy(stop *api.Stop, options ...build.Option) Input {
	set := build.Set("web", append([]build.Option{build.Replicas(0), build.ReplicaCounts(0, 0), build.Label(api.ManagedLabel, "true")},
		options...)...)
	in := Input{Now: build.Now, Namespace: set.Namespace, Name: "web", Set: set}
	if stop != nil {
		build.With(set, build.WithStop(stop))
		record := resources.MakeStopRecord(set, stop)
		record.UID, record.ResourceVersion = "uid-record", "9"
		in.Stops = []*appsv1.ControllerRevision{record}
	}
	return in
}

// withoutStop removes the annotations of the sleep and its Stop. The record remains.
func (in Input) withoutStop() Input {
	delete(in.Set.Annotations, api.SleepAnnotation)
	delete(in.Set.Annotations, api.StopAnnotation)
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
	in.Owners = []Owner{{Record: record, Operation: build.SleepID, Set: "web", Doc: doc, Resource: "databases.v1.example.com", Object: object}}
	return in
}

func TestReleaseUndoesWhatDrydockHolds(t *testing.T) {
	asleep := build.Sleep(api.Asleep, build.AsleepFor(time.Hour))
	stopped := build.Sleep(api.Asleep, build.AsleepFor(time.Hour), build.OwnerStops())
	journal := build.Journal(build.Operation(api.Moving))
	unreadable := asleepWith(asleep).withOwner(false, true)
	unreadable.Owners[0].Err = errors.New("forbidden")
	wasDelete := build.Stop(build.FormerWhenScaled("Delete"))
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
			stoppedBy(wasDelete, build.WithSleep(asleep), build.WhenScaled("Retain"))},
		{"the set sleeps, and a user has written another whenScaled since",
			stoppedBy(wasDelete, build.WithSleep(asleep), build.WhenScaled("Delete"))},
		{"the set sleeps, and its owner is paused", asleepWith(asleep).withOwner(false, true)},
		{"the operator stopped the set, and is still told to", asleepWith(stopped).withOwner(true, true)},
		{"the operator is free to start the set, and does not", asleepWith(stopped)},
		{"the operator has started the set", asleepWith(stopped, build.Replicas(3))},
		{"the set wakes", stoppedBy(build.Stop(build.StartedFor(time.Minute)), build.WithSleep(build.Sleep(api.Waking)), build.Replicas(3),
			build.ReplicaCounts(3, 1))},
		{"the set is about to be stopped", stoppedBy(nil, build.WithSleep(build.Sleep(api.Stopping)), build.Replicas(3))},
		{"the set lost its annotations, and the record remains", asleepWith(asleep).withoutStop()},
		{"the set lost its annotations, and runs", asleepWith(asleep, build.Replicas(3)).withoutStop()},
		{"the record is that of a former set with the same name",
			stoppedBy(build.Stop(func(s *api.Stop) { s.Set.UID = "uid-old" })).withoutStop()},
		{"a user scaled the set to zero", asleepWith(nil)},
		{"its Scaler is paused, and whenScaled was Delete",
			stoppedBy(build.Stop(build.StoppedByScaler(build.ID), build.FormerWhenScaled("Delete")), scaledToZero(), build.WhenScaled("Retain"))},
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

// TestReleaseStartsWhatDrydockStopped: a set that sleeps starts even if its Scaler wants no pods, and one whose user has paused the Scaler
// does not. No Scaler is written.
func TestReleaseStartsWhatDrydockStopped(t *testing.T) {
	asleep := build.Sleep(api.Asleep, build.AsleepFor(time.Hour))
	paused, started := build.Stop(build.StoppedByScaler(build.ID)), build.Starts(1)
	for situation, row := range map[string]struct {
		in     Input
		starts bool
	}{
		"it sleeps": {asleepWith(asleep), true},
		"it sleeps, and has lost its annotations":       {asleepWith(asleep).withoutStop(), true},
		"it has a Stop, and has lost its sleep":         {stoppedBy(build.Stop()), true},
		"it sleeps, and a user paused its Scaler":       {asleepWith(asleep, scaledToZero()), true},
		"its Scaler is paused":                          {stoppedBy(paused, scaledToZero()), false},
		"its Scaler was paused, and the Stop lost":      {stoppedBy(paused, scaledToZero()).withoutStop(), false},
		"a user scaled it to zero as it woke":           {stoppedBy(build.Stop(build.StartedFor(time.Minute))), false},
		"a user started it and scaled it to zero again": {asleepWith(build.Sleep(api.Waking, build.AsleepFor(time.Hour), started)), false},
		"it sleeps again, as before a user started it":  {asleepWith(build.Sleep(api.Asleep, build.AsleepFor(time.Hour), started)), true},
		"the API server refused its stop":               {stoppedBy(build.Stop(build.NotStopped(), build.RefusedBy("quota"))), false},
	} {
		actions, left := Decide(row.in)
		text := fmt.Sprint(actions)
		if len(left) > 0 || strings.Contains(text, "replicas 0 to 3") != row.starts || strings.Contains(text, "scalers") {
			t.Errorf("%s: %s, left %v; want a start: %t", situation, text, left, row.starts)
		}
	}
}

// TestPausedScalerIsNamed: nothing else says why the set stays at zero after Drydock is uninstalled.
func TestPausedScalerIsNamed(t *testing.T) {
	record := scaledToZero()
	for situation, row := range map[string]struct {
		in    Input
		named bool
	}{
		"a paused Scaler keeps it at zero": {stoppedBy(build.Stop(build.StoppedByScaler(build.ID)), record), true},
		"its Stop is lost":                 {asleepWith(nil, record), true},
		"Drydock's sleep ends":             {asleepWith(build.Sleep(api.Asleep, build.AsleepFor(time.Hour)), record), false},
		"the set has replicas":             {asleepWith(nil, record, build.Replicas(2)), false},
		"no Scaler":                        {asleepWith(nil), false},
		"the set is gone":                  {Input{Namespace: "shop", Name: "web"}, false},
	} {
		if note := Note(row.in); strings.Contains(note, "pilot") != row.named {
			t.Errorf("%s: %q", situation, note)
		}
	}
	for _, options := range [][]build.Option{{record}, nil} { // the record of the scaling may be gone already
		if note := Note(stoppedBy(build.Stop(build.StoppedByScaler(build.ID)), options...)); !strings.HasSuffix(note, "--replicas=3") {
			t.Errorf("the count of before the pause is missing: %q", note)
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

// TestReleaseRestoresRetentionWhenNoPodEnds: a user scaled the set to zero as it woke. With Delete, the claims of pods that end would be
// deleted.
func TestReleaseRestoresRetentionWhenNoPodEnds(t *testing.T) {
	stop := build.Stop(build.StartedFor(time.Minute), build.FormerWhenScaled("Delete"))
	for pods, restores := range map[int32]bool{2: false, 0: true} {
		actions, left := Decide(stoppedBy(stop, build.WhenScaled("Retain"), build.ReplicaCounts(pods, pods)))
		text := fmt.Sprint(actions)
		if strings.Contains(text, "replicas 0 to") || strings.Contains(text, "whenScaled Delete") != restores ||
			strings.Contains(text, "-stop") != restores || len(left) > 0 == restores {
			t.Errorf("%d pods: %s, left %v, want the stop to end and whenScaled to be restored: %t", pods, text, left, restores)
		}
	}
}

// held returns the facts about set web with two members: its record, the claims, and the pods with a hold.
func held(record *api.Resize, claims []*corev1.PersistentVolumeClaim, pods ...*corev1.Pod) Input {
	set := build.Set("web", build.Replicas(2), build.Label(api.ManagedLabel, "true"), build.Template("data", "64Mi", "fixed"))
	if record != nil {
		build.With(set, build.Status(record))
	}
	return Input{Now: build.Now, Namespace: set.Namespace, Name: "web", Set: set, Held: pods, Claims: claims}
}

func withHolds(in Input) Input {
	in.Holds = true
	return in
}

func heldPod(options ...build.Option) *corev1.Pod {
	ordinal := 1
	link := api.Link{Operation: build.ID, Role: api.RoleHeld, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"},
		Member: &ordinal}
	pod := build.PodOf("web", 1, "data")
	return build.With(pod, append([]build.Option{build.Finalizers(api.HoldFinalizer), build.LinkOf(link)}, options...)...)
}

func lockPod(ordinal int, options ...build.Option) *corev1.Pod {
	pod := resources.MakeLock(build.Set("web"), build.ID, ordinal, build.Settings())
	pod.UID, pod.ResourceVersion = types.UID("uid-lock"), "3"
	return build.With(pod, options...)
}

// TestHoldIsReleasedOnlyIfTheMembersClaimsAreBound: without one of its claims, a member would start on an empty volume.
func TestHoldIsReleasedOnlyIfTheMembersClaimsAreBound(t *testing.T) {
	bound := []*corev1.PersistentVolumeClaim{build.Claim("data-web-0", "64Mi"), build.Claim("data-web-1", "64Mi")}
	terminating := []*corev1.PersistentVolumeClaim{build.Claim("data-web-1", "64Mi", build.Deleting())}
	pending := []*corev1.PersistentVolumeClaim{build.Claim("data-web-1", "64Mi", build.Pending())}
	moving := build.Operation(api.Moving, build.Members(api.MemberFinalPass, "data-web-1"))
	noSet := Input{Namespace: build.Namespace, Name: "web", Held: []*corev1.Pod{heldPod(build.Deleting())}}
	noSetInResize := noSet
	noSetInResize.Journals = append(noSetInResize.Journals, build.Journal(moving))
	file := golden.Open(t)
	for _, row := range []struct {
		situation string
		in        Input
	}{
		{"the held pod has ended, and its operation too", held(nil, bound, heldPod(build.Deleting()))},
		{"the held pod runs", held(nil, bound, heldPod())},
		{"the member's claim is terminating", held(nil, terminating, heldPod(build.Deleting()))},
		{"the member's claim has no volume", held(nil, pending, heldPod(build.Deleting()))},
		{"the member's claim does not exist", held(nil, nil, heldPod(build.Deleting()))},
		{"a lock pod", held(nil, bound, lockPod(1))},
		{"a lock pod is terminating", held(nil, bound, lockPod(1, build.Deleting()))},
		{"a lock pod, and the member's claim does not exist", held(nil, nil, lockPod(1))},
		{"a lock pod of an ordinal beyond the replicas", held(nil, nil, lockPod(5, build.Deleting()))},
		{"the set is gone", noSet},
		{"the set is gone during a resize", noSetInResize},
		{"a resize runs", held(moving, bound, heldPod(build.Deleting()))},
		{"a resize runs, with --holds", withHolds(held(moving, bound, heldPod(build.Deleting())))},
		{"a resize swaps the member's claim, with --holds", withHolds(held(moving, terminating, heldPod(build.Deleting())))},
	} {
		file.Entry(t, row.situation, decision(row.in))
	}
}
