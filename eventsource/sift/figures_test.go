package sift

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/operation"
	"drydock.dev/test/golden"
	"drydock.dev/test/kit/build"
)

// requests gives the pods of a set a request of 500m CPU and 1 KiB of memory.
var requests = build.Edit(func(s *appsv1.StatefulSet) {
	s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("1Ki")}}}}
})

// deadLetters gives a set undelivered events.
func deadLetters(n int) build.Option {
	letter := api.UndeliveredEvent{Type: "t", Source: "s", ID: "1", Subject: "p", Time: *operation.Moment(build.Now)}
	return build.Annotation(api.DeadLettersAnnotation, api.EncodeDeadLetters(slices.Repeat([]api.UndeliveredEvent{letter}, n)))
}

// pauseRecord is the record of a pause of an owner by an operation.
func pauseRecord(id string, owner types.UID, ago time.Duration) *appsv1.ControllerRevision {
	link := api.Link{Operation: id, Role: api.RoleOwner, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}}
	revision := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace,
		Name: api.OwnerRecordName(id, owner), CreationTimestamp: metav1.NewTime(build.Now.Add(-ago))}}
	revision.Data = runtime.RawExtension{Raw: api.PausedOwner{Version: api.PauseVersion, Resource: "dbs", Name: "db", UID: owner}.Encode()}
	return build.With(revision, build.LinkOf(link))
}

// foreign is a link of a set in another namespace.
func foreign(role api.Role) api.Link {
	return api.Link{Operation: build.SleepID, Role: role, Namespace: "kube-system", Set: api.SetRef{Name: "web", UID: "uid-web"}}
}

func heldPod(ago time.Duration, grace int64) *corev1.Pod {
	return build.With(build.PodOf("web", 0, "data"), build.Held(0), build.Edit(func(p *corev1.Pod) {
		p.DeletionTimestamp = ptr.To(metav1.NewTime(build.Now.Add(-ago).Add(time.Duration(grace) * time.Second)))
		p.DeletionGracePeriodSeconds = ptr.To(grace)
	}))
}

// TestSweepComputesFigures: the figures come from the objects that the sweep reads for its work.
func TestSweepComputesFigures(t *testing.T) {
	type list = []metav1.Object
	failed := func(set string, reason api.Reason) metav1.Object {
		return build.Set(set, build.Resize("data=128Mi"), build.Status(build.Operation(api.Failed, func(r *api.Resize) {
			r.Set, r.Reason = api.SetRef{Name: set, UID: types.UID("uid-" + set)}, reason
		})))
	}
	overdue := build.Operation(api.Moving, build.Due(-time.Second))
	asleep := build.Sleep(api.Asleep, build.SleepStarted(48*time.Hour))
	waking := build.Sleep(api.Waking, build.SleepStarted(48*time.Hour), func(s *api.Sleep) { s.WakingAt = operation.Moment(build.Now) })
	retained := build.Volume("pv-old", build.Claim("data-web-0", "64Mi"), build.Retained(api.RoleOldVolume, "data-web-0"),
		build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(time.Hour).UTC().Format(time.RFC3339)))
	cases := map[string]cluster{
		"nothing":                    {},
		"a set without an operation": {"statefulsets": list{build.Set("web")}},
		"a set that is not opted in": {"statefulsets": list{build.With(failed("web", api.CopyFailed), build.Label(api.ManagedLabel, ""))}},
		"active, failed and aborted operations": {"statefulsets": list{build.Set("web", build.Status(overdue)), failed("db", api.CopyFailed),
			failed("api", api.NotReady), failed("queue", api.Aborted)}},
		"a failed operation whose request was withdrawn": {"statefulsets": list{
			build.With(failed("db", api.CopyFailed), build.Resize("data=64Mi"))}},
		"a succeeded operation":         {"statefulsets": list{build.Set("web", build.Status(build.Operation(api.Succeeded)))}},
		"a record that cannot be read":  {"statefulsets": list{build.Set("web", build.Annotation(api.StatusAnnotation, "{"))}},
		"a set that is asleep":          {"statefulsets": list{build.Set("web", requests, build.WithSleep(asleep), build.Replicas(0))}},
		"a set that another one starts": {"statefulsets": list{build.Set("web", requests, build.WithSleep(asleep), build.Replicas(2))}},
		"a set that wakes":              {"statefulsets": list{build.Set("web", requests, build.WithSleep(waking))}},
		"held members": {"pods": list{heldPod(time.Hour, 30), build.With(heldPod(2*time.Hour, 0),
			build.Edit(func(p *corev1.Pod) { p.Name = "web-1" }))}},
		"a locked name": {"pods": list{build.With(heldPod(0, 0), build.Edit(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.CreationTimestamp = nil, metav1.NewTime(build.Now.Add(-time.Minute))
		}))}},
		"an owner that a sleep and an ended operation have paused": {
			"statefulsets": list{build.Set("web", build.WithSleep(asleep), build.Replicas(0))},
			"controllerrevisions": list{pauseRecord(build.SleepID, "uid-db", time.Hour), pauseRecord("000000000001", "uid-db", 2*time.Hour),
				pauseRecord("000000000002", "uid-db", 3*time.Hour)}},
		// Users may create pods with any label, annotation and finalizer. No function releases such a pod, so its alert would never end.
		"a forged hold and a forged pause, with links into another namespace": {
			"pods":                list{build.With(heldPod(time.Hour, 30), build.LinkOf(foreign(api.RoleHeld)))},
			"controllerrevisions": list{build.With(pauseRecord(build.SleepID, "uid-db", time.Hour), build.LinkOf(foreign(api.RoleOwner)))}},
		"old volumes":        {"persistentvolumes": list{retained}},
		"undelivered events": {"statefulsets": list{build.Set("web", deadLetters(2)), build.Set("db", deadLetters(1))}},
	}
	file := golden.Open(t)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		lists := build.EmptyLists()
		maps.Copy(lists, cases[name])
		f := New(kube.NewClient(lists.Serve()), build.Settings(), nil, slog.New(slog.DiscardHandler))
		found := newFindings(build.Now)
		if err := f.sweepAll(t.Context(), build.Now, found); err != nil {
			t.Fatal(err)
		}
		file.Entry(t, name, render(found.figures))
	}
}

// render returns the figures that are not zero, one a line. Times are relative to build.Now.
func render(f *figures) string {
	var lines []string
	add := func(name string, value float64) {
		if value != 0 {
			lines = append(lines, fmt.Sprintf("%s %g", name, value))
		}
	}
	for state, n := range f.Operations {
		add("operations "+state[0]+" "+state[1], float64(n))
	}
	for kind, n := range f.Overdue {
		add("overdue "+kind, float64(n))
	}
	for kind, n := range f.OwnersPaused {
		add("owners paused "+kind, float64(n))
	}
	for kind, at := range f.Oldest {
		lines = append(lines, fmt.Sprintf("oldest %s began %s ago", kind, build.Now.Sub(at)))
	}
	for kind, at := range f.OldestPause {
		lines = append(lines, fmt.Sprintf("oldest pause %s began %s ago", kind, build.Now.Sub(at)))
	}
	if f.MembersHeld > 0 {
		lines = append(lines, fmt.Sprintf("members held %d, first %s ago", f.MembersHeld, build.Now.Sub(f.OldestHold)))
	}
	add("awake", float64(f.Awake))
	add("asleep", float64(f.Asleep))
	add("saved members", f.SavedMembers)
	add("saved CPU", f.SavedCPU)
	add("saved memory", f.SavedMemory)
	add("retained bytes", f.RetainedBytes)
	add("dead letters", float64(f.DeadLetters))
	slices.Sort(lines)
	if lines == nil {
		return "all are zero"
	}
	return strings.Join(lines, "\n")
}

// TestFiguresHaveEverySeries: a series that exists only sometimes is hard to alert on.
func TestFiguresHaveEverySeries(t *testing.T) {
	f := newFigures()
	want := 0
	for _, phases := range api.Phases {
		want += len(phases) // Unreadable replaces Succeeded
	}
	if len(f.Operations) != want || len(f.Overdue) != len(api.Phases) || len(f.OwnersPaused) != len(api.Phases)+1 {
		t.Errorf("%v\n%v\n%v", f.Operations, f.Overdue, f.OwnersPaused)
	}
}

// TestSleepOfDeletedSetIsNotStuck: idle-timeout works on no set that is being deleted, and its deletion may wait for a user.
func TestSleepOfDeletedSetIsNotStuck(t *testing.T) {
	waking := build.WithSleep(build.Sleep(api.Waking, build.SleepDue(-time.Hour)))
	for _, row := range []struct {
		set  *appsv1.StatefulSet
		want int
	}{
		{build.Set("web", build.Replicas(0), waking), 1},
		{build.Set("web", build.Replicas(0), waking, build.Deleting()), 0},
	} {
		f := newFigures()
		f.addSet(row.set, operation.Of(row.set), build.Now)
		if got := f.Overdue[string(api.KindSleep)]; got != row.want {
			t.Errorf("deleted %t: %d overdue", row.set.DeletionTimestamp != nil, got)
		}
	}
}

// TestStoppingWithinDeadlineIsNotStuck: a set may fall asleep for as long as the grace period of its pods, which is part of the
// deadline. DrydockWakeStuck is critical, fires after 75 minutes, and says that the set "does not wake up".
func TestStoppingWithinDeadlineIsNotStuck(t *testing.T) {
	// terminationGracePeriodSeconds: 10800
	stopping := build.WithSleep(build.Sleep(api.Stopping, build.SleepStarted(2*time.Hour), build.SleepDue(time.Hour)))
	set := build.Set("web", build.Replicas(0), stopping, build.WithStop(build.Stop(build.StoppedFor(2*time.Hour))))
	f := newFigures()
	f.addSet(set, operation.Of(set), build.Now)
	if f.Overdue[string(api.KindSleep)] != 0 {
		t.Fatal("the test is wrong: the sleep is overdue")
	}
	const alertAfter = 75 * time.Minute // expr > 3600, for 15m
	if at, found := f.Oldest[string(api.KindSleep)]; found && build.Now.Sub(at) > alertAfter {
		t.Errorf("a set that ends its pods within its deadline counts as stuck for %s", build.Now.Sub(at))
	}
}

// TestSweepFindsSetThatBecameReadyLate: the sweep keeps no annotations of a set, and EnoughReady reads wake-ready from them. In a
// namespace without drydock.dev/watch, or after a lost event, only the sweep can find that the set serves.
func TestSweepFindsSetThatBecameReadyLate(t *testing.T) {
	late := build.Sleep(api.Failed, build.SleepStarted(5*time.Hour), build.SleepEnded(api.NotReady, time.Hour),
		func(s *api.Sleep) { s.FailedAt, s.StartsLate = api.Waking, true })
	set := build.Set("web", build.Replicas(3), build.ReplicaCounts(3, 2), build.WithSleep(late), build.IdleTimeout("1h"),
		build.LastActivity(2*time.Hour), build.Annotation(api.WakeReadyAnnotation, "first"))
	if whole := idle.MemberOf(set); !whole.BecameReadyLate() {
		t.Fatal("the test is wrong: the set is not ready")
	}
	member := idle.NewMember(set, operation.Of(set)).Reduced() // as in sweepSets
	sweep := operation.Change{Now: build.Now, Swept: true, Retry: 10 * time.Minute}
	if concerns := (idle.Group{member}).Concerned(sweep); len(concerns[0]) == 0 {
		t.Error("no sweep finds the set: it never counts as ready, stays awake for ever, and DrydockOperationFailed never ends")
	}
}
