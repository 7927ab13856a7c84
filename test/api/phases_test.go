package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

// TestI8AbortAtEveryPhase: each member stays on the volumes that it has, all of its claims on the old ones, or all on the new ones.
// Invariants: I1, I4, I5, I8, I9.
func TestI8AbortAtEveryPhase(t *testing.T) {
	t.Parallel()
	for name, moved := range map[string][]string{
		growsNow: nil, plannedNow: nil, copyNow: nil, waitNow: nil, stoppingNow: nil, finalNow: nil, verifiedNow: nil,
		swapNow: {"data-web-1"}, startNow: {"data-web-0", "data-web-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResized(t, stops[name])
			drive := r.reach()
			r.Annotate("web", map[string]string{api.AbortAnnotation: "now"})
			_ = drive.Tick(context.Background()) // it sees the annotation
			r.stop.release(r.World)
			record := r.Finish(drive, "web")
			expectPhase(t, record, api.Failed)
			r.expectGivenBack(t, drive)
			if name == verifiedNow { // one may have been swapped before the copy of the other was verified
				moved = movedClaims(record)
			}
			expectAbort(t, r, drive, record, moved)
		})
	}
}

// movedClaims are those of the members that are on their new volumes, as the record says.
func movedClaims(record *api.Resize) []string {
	var names []string
	for _, member := range record.Members {
		if member.Phase == api.MemberMoved {
			names = append(names, member.Claims[0].Claim)
		}
	}
	return names
}

// expectAbort checks that an abort is told and not repeated, and which claims are on their new volumes.
func expectAbort(t *testing.T, r *resized, drive *kit.Drive, record *api.Resize, moved []string) {
	t.Helper()
	if record.Reason != api.Aborted || record.FailedAt != r.stop.phase || !slices.Contains(drive.Seen, "operation.failed") {
		t.Errorf("%s at %s: %s; events %v", record.Reason, record.FailedAt, record.Message, drive.Seen)
	}
	expectEvents(t, r.World, "web", "Warning Aborted")
	size := map[bool]int64{false: 64, true: 128}
	for _, claim := range r.claim {
		if is := r.size(claim); is != size[slices.Contains(moved, claim)] {
			t.Errorf("claim %s asks for %d Mi, moved are %v", claim, is, moved)
		}
	}
	if template := r.Set("web").Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().Value() >> 20; template != size[len(moved) > 0] {
		t.Errorf("the template asks for %d Mi, moved are %v", template, moved)
	}
	ticks(t, drive, 2)
	set := r.Set("web")
	if _, there := set.Annotations[api.AbortAnnotation]; there || r.Status("web").Attempt != 1 {
		t.Errorf("annotations %v", set.Annotations)
	}
}

// failing describes how a resize fails at a stop, and how it ends after a retry.
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
	copyNow: {reason: api.CopyFailed, says: "NoSpace", then: api.Succeeded, fail: noSpace, mend: space},
	waitNow: {reason: api.DeadlineExceeded, says: api.RetryAnnotation, then: api.Succeeded,
		soon: func(s *api.Settings) { s.CopyTimeout = 5 * time.Second }, fail: leave, mend: func(r *resized) { r.stop.release(r.World) }},
	// What was written since the first passes does not fit any more.
	finalNow: {reason: api.CopyFailed, says: "NoSpace", then: api.Succeeded, fail: noSpace, mend: space},
	startNow: {reason: api.NotReady, says: "pod web-", then: api.Failed,
		soon: func(s *api.Settings) { s.ReadyTimeout = 0 }, fail: leave, mend: func(r *resized) { r.stop.release(r.World) }},
}

func leave(*resized) {}

func noSpace(r *resized) {
	r.Node.Set(func(n *kit.Node) { n.FailMovers, n.FailFinal = true, true })
	r.stop.release(r.World)
}

func space(r *resized) { r.Node.Set(func(n *kit.Node) { n.FailMovers, n.FailFinal = false, false }) }

// TestI8RetryAfterFailureAtEveryPhase: every failure is told, with what to do. Each member keeps the volumes that it has, and a
// retry goes on from there.
// Invariants: I1, I4, I5, I8, I9.
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
		t.Errorf("%s at %s: %q, want %s at %s, with a message that mentions %q", status.Reason, status.FailedAt, status.Message, row.reason, r.stop.phase, row.says)
	}
	expectEvents(t, r.World, "web", "Warning "+string(row.reason))
	if !slices.Contains(drive.Seen, "operation.failed") {
		t.Errorf("events %v", drive.Seen)
	}
	if row.reason != api.NotReady { // whose pods cannot be created yet
		r.expectGivenBack(t, drive)
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
// Invariants: I1, I3, I5, I9.
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
	if r.stop.phase != api.Expanding && r.stop.phase != api.Planned { // they are recorded on the set only
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
	if now.UID != ours.UID || now.Generation != 1 || r.Status("web") != nil {
		t.Errorf("the user's new set was touched: %+v", now.ObjectMeta)
	}
}

// TestSetThatTakesItsClaimsAlongIsDeletedAtEveryPhase: its user wants the claims to go with it. Nothing of the operation keeps one. Claims that
// have been replaced may stay, with all data: it is the StatefulSet controller that makes the set their owner, and it had no time to.
func TestSetThatTakesItsClaimsAlongIsDeletedAtEveryPhase(t *testing.T) {
	t.Parallel()
	for name, mayStay := range map[string]bool{
		copyNow: false, waitNow: false, stoppingNow: false, finalNow: false, verifiedNow: true, swapNow: true, startNow: true,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResized(t, stops[name], func(_ *kit.World, set *appsv1.StatefulSet) {
				set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
					WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType, WhenScaled: statefulset.Retain}
			})
			drive := r.reach()
			r.DeleteSet("web", metav1.DeletePropagationBackground)
			_ = drive.Tick(context.Background())
			r.stop.release(r.World)
			r.Eventually("nothing is left", func() string {
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				left := r.Leftovers()
				for _, name := range r.claim {
					claim := r.Claim(name)
					stays := mayStay && claim != nil && claim.Status.Phase == corev1.ClaimBound && len(claim.OwnerReferences) == 0
					if claim != nil && !stays {
						left = append(left, fmt.Sprintf("claim %s, owned by %v", name, claim.OwnerReferences))
					}
				}
				return strings.Join(left, ", ")
			})
		})
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
