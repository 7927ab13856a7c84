//go:build cluster

package api

import (
	"context"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// Invariants: I6.
func TestResizeByAnnotationWithTicksAlone(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	before := w.CreateSet(kit.WorldSet("web", 2, "64Mi", "data", "logs"))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi,logs=96Mi@" + kit.OtherClass})
	writes := &kit.Saboteur{}

	status := w.Finish(w.Drive(writes), "web")
	expectPhase(t, status, api.Succeeded)
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1")
	expectSize(t, w, "96Mi", "logs-web-0", "logs-web-1")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1", "logs-web-0", "logs-web-1")
	if class := *w.Claim("logs-web-1").Spec.StorageClassName; class != kit.OtherClass {
		t.Errorf("logs-web-1 is of class %s", class)
	}
	after := w.Set("web")
	if after.UID == before.UID {
		t.Error("the set was not created again")
	}
	if size := after.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); size != "128Mi" {
		t.Errorf("the template asks for %s", size)
	}
	if after.Annotations["team"] != "data" || after.Labels[api.ManagedLabel] != "true" {
		t.Errorf("the new set lost annotations or labels of users: %v %v", after.Annotations, after.Labels)
	}
	expectEvents(t, w, "web", "Normal ResizeDetected", "Normal ResizeCompleted")
	retired := 0
	for _, v := range w.Volumes() {
		if v.Annotations[api.RetainedUntilAnnotation] != "" {
			retired++
		}
	}
	if retired != 4 {
		t.Errorf("%d old volumes are kept, want 4", retired)
	}
	t.Logf("%d API writes", len(writes.Writes()))
}

func TestResizeAfterOrphanDeleteAndApply(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.CreateSet(kit.WorldSet("web", 3, "64Mi", "data"))
	w.Scale("web", 2) // leaves claim 2 behind, which is resized, too
	w.DeleteSet("web", metav1.DeletePropagationOrphan)
	bigger := kit.WorldSet("web", 2, "128Mi", "data")
	bigger.Annotations[api.ResizeAnnotation] = api.AutoRequest
	before := w.CreateSet(bigger)

	status := w.Finish(w.Drive(nil), "web")
	expectPhase(t, status, api.Succeeded)
	expectSize(t, w, "128Mi", "data-web-0", "data-web-1", "data-web-2")
	expectWhole(t, w, "web", 2, "data-web-0", "data-web-1", "data-web-2")
	if w.Set("web").UID != before.UID {
		t.Error("a set whose template is right already was created again")
	}
}

// Invariants: I7.
func TestUpToDateSetCausesNoWrite(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	set := kit.WorldSet("web", 1, "64Mi", "data")
	set.Annotations[api.ResizeAnnotation] = "data=64Mi"
	w.CreateSet(set)
	writes := &kit.Saboteur{}
	drive := w.Drive(writes)
	for range 3 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if len(writes.Writes()) != 0 || len(drive.EventTypes) != 0 {
		t.Errorf("writes %v, events %v", writes.Writes(), drive.EventTypes)
	}
}

func expectPhase(t *testing.T, status *api.Resize, phase api.Phase) {
	t.Helper()
	if status.Phase != phase {
		t.Fatalf("phase %s, want %s: %s: %s", status.Phase, phase, status.Reason, status.Message)
	}
}

// wasStopped reports whether a member was stopped.
func wasStopped(record *api.Resize) bool {
	return slices.ContainsFunc(record.Members, func(m api.Member) bool { return m.HeldAt != nil })
}

func expectSize(t *testing.T, w *kit.World, size string, claims ...string) {
	t.Helper()
	for _, name := range claims {
		if is := w.Claim(name).Spec.Resources.Requests.Storage().String(); is != size {
			t.Errorf("claim %s asks for %s, want %s", name, is, size)
		}
	}
}

// expectWhole checks the invariants at the end of every operation, with success or without.
func expectWhole(t *testing.T, w *kit.World, set string, replicas int32, claims ...string) {
	t.Helper()
	w.Eventually("every replica is back (I4)", func() string {
		s := w.Set(set)
		if s == nil || *s.Spec.Replicas != replicas || s.Status.ReadyReplicas != replicas {
			return "they are not"
		}
		return ""
	})
	for _, problem := range w.ClaimProblems(claims...) {
		t.Error(problem)
	}
	w.Eventually("nothing is left behind (I9)", func() string {
		if left := w.Leftovers(); len(left) > 0 {
			return left[0]
		}
		return ""
	})
}

func expectEvents(t *testing.T, w *kit.World, set string, want ...string) {
	t.Helper()
	have := w.Events(set)
	for _, reason := range want {
		if !slices.Contains(have, reason) {
			t.Errorf("no Kubernetes Event %q among %q", reason, have)
		}
	}
}
