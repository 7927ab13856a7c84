package cleanuppod

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/test/kit/build"
)

// read returns a server that lists the objects, by plural name. The package test/api tests writes on a real API server.
func read(objects ...metav1.Object) build.Lists {
	lists := build.EmptyLists()
	for _, o := range objects {
		plural := "pods"
		switch o.(type) {
		case *appsv1.StatefulSet:
			plural = "statefulsets"
		case *appsv1.ControllerRevision:
			plural = "controllerrevisions"
		case *corev1.PersistentVolumeClaim:
			plural = "persistentvolumeclaims"
		}
		lists[plural] = append(lists[plural], o)
	}
	return lists
}

func functionOn(t *testing.T, lists build.Lists) *Function {
	t.Helper()
	return New(kube.NewClient(lists.Serve()), settings(), slog.New(slog.DiscardHandler))
}

// observed returns the input of an event for the set. The API server accepts each pod that the function tries.
func observed(t *testing.T, lists build.Lists) Input {
	t.Helper()
	in, err := functionOn(t, lists).observe(t.Context(), ref, false)
	if err != nil {
		t.Fatal(err)
	}
	in.PodRejected, in.Doubt = "", ""
	return in
}

// TestUnreadEventsStopNoOtherWork: the API server of the test has no list of Events.
func TestUnreadEventsStopNoOtherWork(t *testing.T) {
	lists := read(web(parallel, cleaning()), usedClaim("data-web-2"), usedClaim("data-web-1"), cleanupPod(2, endedNow))
	in := observed(t, lists)
	if p := Decide(in); in.Kills.Unread == "" || p.Reason != api.CleanupStarted {
		t.Errorf("unread %q; %s", in.Kills.Unread, p)
	}
	lists["events"] = nil
	in = observed(t, lists)
	if p := Decide(in); in.Kills.Unread != "" || p.Reason != api.CleanupDone {
		t.Errorf("with Events: unread %q; %s", in.Kills.Unread, p)
	}
}

// endedNow lets a cleanup pod end by itself a minute ago.
func endedNow(o metav1.Object) {
	succeeded(o)
	o.(*corev1.Pod).Status.ContainerStatuses[0].State.Terminated.FinishedAt = metav1.NewTime(time.Now().Add(-time.Minute))
}

var ref = events.Ref{Namespace: build.Namespace, Name: "web"}

func TestObservedObjects(t *testing.T) {
	elsewhere := func(o metav1.Object) { o.SetNamespace("payroll") }
	other := withLink(func(l *api.Link) { l.Set.Name = "other" })
	others := []metav1.Object{
		usedClaim("data-web-0"), usedClaim("data-web-7"), usedClaim("data-web-007"), usedClaim("data-other-0"), usedClaim("data-web-1",
			elsewhere),
		replica(0), build.Pod("web-9", nil), build.Pod("backup", []string{"data-web-7"}), build.Pod("x",
			[]string{"data-other-0"}), build.Pod("web-00", nil),
		cleanupPod(3), build.With(cleanupPod(4), other, build.Edit(func(p *corev1.Pod) { p.Name = "other-4" })), build.Pod("web-5", nil,
			elsewhere),
		&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web-1"}},
	}
	newest := build.Edit(func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "web-1" })
	gone := build.Edit(func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "web-2" })
	const all = "data-web-0 data-web-7 backup web-0 web-3 web-9"
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		want string
	}{
		"a set": {web(newest, settledRecord(1)), all},
		"a set that is being deleted with our finalizer":       {web(deletedOptions(newest)...), all + " revision web-1"},
		"a set that is being deleted without its revision":     {web(deletedOptions(gone)...), all},
		"a set that is being deleted without a known revision": {web(deletedOptions()...), all},
		"a set that is being deleted without our finalizer":    {web(newest, build.Deleting()), all},
		"no set, and a pod with a link to it":                  {nil, "web-3"},
	} {
		t.Run(name, func(t *testing.T) {
			lists := read(others...)
			if row.set != nil {
				lists["statefulsets"] = append(lists["statefulsets"], row.set)
			}
			in, err := functionOn(t, lists).observe(t.Context(), ref, true)
			if err != nil || !in.Retry || in.Name != "web" || (in.Set == nil) != (row.set == nil) {
				t.Fatalf("%+v, %v", in, err)
			}
			var names []string
			for _, o := range objectsOf(in) {
				if o.GetName() != "web" {
					names = append(names, o.GetName())
				}
			}
			if in.Revision != nil {
				names = append(names, "revision", in.Revision.Name)
			}
			if got := strings.Join(names, " "); got != row.want {
				t.Errorf("observed %s, want %s", got, row.want)
			}
		})
	}
}

// TestReadErrorIsNotAbsence checks that no object counts as absent because it cannot be read.
func TestReadErrorIsNotAbsence(t *testing.T) {
	for _, plural := range []string{"statefulsets", "persistentvolumeclaims", "pods", "controllerrevisions"} {
		lists := read(web(deletedOptions(build.Edit(func(s *appsv1.StatefulSet) { s.Status.UpdateRevision = "web-1" }))...),
			usedClaim("data-web-0"))
		delete(lists, plural)
		if _, err := functionOn(t, lists).observe(t.Context(), ref, false); err == nil {
			t.Errorf("%s cannot be read: no error", plural)
		}
		e := events.NewFromUser(events.Retry, ref, "1")
		if _, err := functionOn(t, lists).Handle(t.Context(), e); err == nil {
			t.Errorf("%s cannot be read: Handle returns no error", plural)
		}
	}
}

func TestEventWithoutWork(t *testing.T) {
	lists := read(web(settledRecord(1)), usedClaim("data-web-0"), replica(0))
	if answer, err := functionOn(t, lists).Handle(t.Context(),
		events.NewFromUser(events.ObjectChanged, ref, "1", api.CleanupPod)); answer != nil || err != nil {
		t.Errorf("%v, %v", answer, err)
	}
}
