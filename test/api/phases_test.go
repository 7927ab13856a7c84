package api

import (
	"context"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit"
)

// TestI8AbortAtEveryPhase: up to the switch the set gets back what it had; from there on the way forward is the short one.
func TestI8AbortAtEveryPhase(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]api.Phase{
		growsNow: api.Failed, plannedNow: api.Failed, warmNow: api.Failed, quiescedNow: api.Failed,
		verifiedNow: api.Succeeded, switchNow: api.Succeeded, startNow: api.Succeeded,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResized(t, stops[name])
			drive := r.reach()
			r.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
			if want == api.Succeeded {
				_ = drive.Tick(context.Background()) // it sees the annotation, and goes on
				r.stop.release(r.World)
			}
			status := r.Finish(drive, "web")
			r.stop.release(r.World)
			expectPhase(t, status, want)
			r.expectGivenBack(t, drive)
			expectAbort(t, r, drive, status)
		})
	}
}

// expectAbort checks that an abort, or that there was none, is told and not repeated.
func expectAbort(t *testing.T, r *resized, drive *kit.Drive, status *api.Resize) {
	t.Helper()
	size := int64(128)
	if status.Phase == api.Failed {
		size = 64
		if status.Reason != api.Aborted || status.FailedAt != r.stop.phase || !slices.Contains(drive.Seen, "operation.failed") {
			t.Errorf("%s at %s: %s; events %v", status.Reason, status.FailedAt, status.Message, drive.Seen)
		}
		expectEvents(t, r.World, "web", "Warning Aborted")
	}
	for _, claim := range r.claim {
		if is := r.size(claim); is != size {
			t.Errorf("claim %s asks for %d Mi, want %d", claim, is, size)
		}
	}
	if template := r.Set("web").Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().Value() >> 20; template != size {
		t.Errorf("the template asks for %d Mi, want %d", template, size)
	}
	ticks(t, drive, 2)
	set := r.Set("web")
	if _, there := set.Annotations[api.AbortAnnotation]; there || r.Status("web").Attempt != 1 {
		t.Errorf("annotations %v", set.Annotations)
	}
}

// failing is how a resize fails at a stop, and what a retry makes of it.
type failing struct {
	// soon are settings whose time is over at once.
	soon func(*api.Settings)
	// fail has the operation fail where it is, mend takes that away.
	fail, mend func(r *resized)
	reason     api.Reason
	says       string // what to do, in the message
	// then is how the operation of the retry ends, or, where there is nothing left to do, the same as before.
	then api.Phase
}

var failures = map[string]failing{
	growsNow: {reason: api.ExpandInfeasible, says: api.RetryAnnotation, then: api.Succeeded,
		fail: func(r *resized) { r.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsNever }) },
		mend: func(r *resized) { r.stop.release(r.World) }},
	plannedNow: {reason: api.DeadlineExceeded, says: api.RetryAnnotation, then: api.Succeeded,
		soon: func(s *api.Settings) { s.PlanTimeout = 0 }, fail: leave, mend: leave},
	warmNow: {reason: api.CopyFailed, says: "NoSpace", then: api.Succeeded, fail: noSpace, mend: space},
	// The set is stopped, and what was written since the first copy does not fit any more.
	quiescedNow: {reason: api.CopyFailed, says: "NoSpace", then: api.Succeeded, fail: noSpace, mend: space},
	switchNow: {reason: api.DeadlineExceeded, says: "the set stays at zero", then: api.Succeeded,
		soon: func(s *api.Settings) { s.SwitchTimeout = 0 }, fail: leave, mend: func(r *resized) { r.stop.release(r.World) }},
	startNow: {reason: api.NotReady, says: "look at the pods", then: api.Failed,
		soon: func(s *api.Settings) { s.ReadyTimeout = 0 }, fail: leave, mend: func(r *resized) { r.stop.release(r.World) }},
}

func leave(*resized) {}

func noSpace(r *resized) {
	r.Node.Set(func(n *kit.Node) { n.FailMovers = true })
	r.stop.release(r.World)
}

func space(r *resized) { r.Node.Set(func(n *kit.Node) { n.FailMovers = false }) }

// TestI8RetryAfterFailureAtEveryPhase: every failure is told, with what to do. It leaves the set as it was, or, once the switch has
// begun, held with every volume kept; and a retry goes on from there.
func TestI8RetryAfterFailureAtEveryPhase(t *testing.T) {
	t.Parallel()
	for name, row := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResized(t, stops[name])
			settings := r.Settings
			if row.soon != nil {
				row.soon(&r.Settings)
			}
			drive := r.reach()
			row.fail(r)
			status := r.Finish(drive, "web")
			expectFailure(t, r, drive, row, status)

			row.mend(r)
			r.Settings = settings
			drive = r.Drive(nil)
			r.Annotate("web", map[string]string{api.RetryAnnotation: "now"})
			r.untilRetried(t, drive, row.then)
			r.expectGivenBack(t, drive)
			for _, claim := range r.claim {
				if is := r.size(claim); is != 128 {
					t.Errorf("claim %s asks for %d Mi", claim, is)
				}
			}
		})
	}
}

func expectFailure(t *testing.T, r *resized, drive *kit.Drive, row failing, status *api.Resize) {
	t.Helper()
	expectPhase(t, status, api.Failed)
	if status.Reason != row.reason || status.FailedAt != r.stop.phase || !strings.Contains(status.Message, row.says) {
		t.Errorf("%s at %s: %q, want %s at %s that says %q", status.Reason, status.FailedAt, status.Message, row.reason, r.stop.phase, row.says)
	}
	expectEvents(t, r.World, "web", "Warning "+string(row.reason))
	if !slices.Contains(drive.Seen, "operation.failed") {
		t.Errorf("events %v", drive.Seen)
	}
	switch status.FailedAt {
	case api.Switching:
		expectHeld(t, r, drive)
	case api.Starting: // its pods cannot be created yet
	default:
		r.expectGivenBack(t, drive)
	}
}

// expectHeld checks a set of which one claim is not whole: nobody starts it, its operator neither, and no data goes.
func expectHeld(t *testing.T, r *resized, drive *kit.Drive) {
	t.Helper()
	ticks(t, drive, 2)
	set := r.Set("web")
	if *set.Spec.Replicas != 0 || set.Labels[api.FrozenLabel] == "" || !r.row.Paused(r.Custom(r.row, "Prometheus", "main")) {
		t.Errorf("%d replicas, labels %v, owner %v", *set.Spec.Replicas, set.Labels, r.Custom(r.row, "Prometheus", "main").Object)
	}
	newest := 0
	for _, v := range r.Volumes() {
		if has, is := r.Node.Version(v.Name, "data-web-0"); has == is && v.Spec.PersistentVolumeReclaimPolicy == "Retain" {
			newest++
		}
	}
	if newest == 0 {
		t.Error("no volume with the newest data is kept")
	}
}

// untilRetried ticks until the retry is taken and has come to its end.
func (r *resized) untilRetried(t *testing.T, drive *kit.Drive, then api.Phase) {
	t.Helper()
	r.Eventually("the retry ends", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		_, asked := r.Set("web").Annotations[api.RetryAnnotation]
		if status := r.Status("web"); asked || status.Phase != then {
			return describe(status)
		}
		return ""
	})
}

// TestI3SetDeletedAtEveryPhase: also when its user applies it again at once. What was begun is undone or completed claim by claim; a
// new set is never mixed up with the one before.
func TestI3SetDeletedAtEveryPhase(t *testing.T) {
	t.Parallel()
	for name := range stops {
		for what, again := range map[string]bool{"": false, " and applied again": true} {
			t.Run(name+what, func(t *testing.T) {
				t.Parallel()
				deleted(t, newResized(t, stops[name]), again)
			})
		}
	}
}

func deleted(t *testing.T, r *resized, again bool) {
	drive := r.reach()
	r.DeleteSet("web", metav1.DeletePropagationBackground)
	ours := r.stop.set()
	if again {
		r.apply(ours)
	}
	_ = drive.Tick(context.Background())
	r.stop.release(r.World)
	r.Eventually("the operation is undone", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return strings.Join(r.Leftovers(), ", ")
	})
	if r.stop.phase != api.Expanding && r.stop.phase != api.Planned { // of which nothing is recorded but on the set
		expectEvents(t, r.World, "web", "Warning SetReplaced")
	}
	expectResumed(t, r.World, drive, r.row, "Prometheus", r.owner)
	now := r.Set("web")
	if !again {
		if now != nil {
			t.Error("a set that its user has deleted was created again")
		}
		for _, problem := range r.Whole(r.claim...) {
			t.Error(problem)
		}
		return
	}
	expectWhole(t, r.World, "web", 2, r.claim...)
	if now.UID != ours.UID || now.Generation != 1 || r.Status("web") != nil || now.Labels[api.FrozenLabel] != "" {
		t.Errorf("the user's new set was touched: %+v", now.ObjectMeta)
	}
}

// apply creates a set, without waiting for it.
func (r *resized) apply(set *appsv1.StatefulSet) {
	r.T.Helper()
	set.Namespace = r.Namespace
	made, err := r.Kube.AppsV1().StatefulSets(r.Namespace).Create(context.Background(), set, metav1.CreateOptions{})
	if err != nil {
		r.T.Fatalf("creating the set again: %v", err)
	}
	*set = *made
}
