//go:build cluster

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
	"drydock.dev/shared/events"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

// TestAbortAtEveryPhase: all claims of a member stay on their old volumes, or all on the new ones.
// Invariants: I1, I4, I5, I8, I9.
func TestAbortAtEveryPhase(t *testing.T) {
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
			_ = drive.Tick(context.Background()) // a function reads the annotation
			r.stop.release(r.World)
			record := r.Finish(drive, "web")
			expectPhase(t, record, api.Failed)
			r.expectGivenBack(t, drive)
			if name == verifiedNow { // one may have been swapped before the other copy was verified
				moved = movedClaims(record)
			}
			expectAbort(t, r, drive, record, moved)
		})
	}
}

// TestOptOutEndsTheResize: a set that loses the opt-in label ends its resize as an abort does. The event source watches labelled sets only,
// so it reports such a set once, as deleted, in its last labelled state.
// Invariants: I1, I4, I5, I8, I9.
func TestOptOutEndsTheResize(t *testing.T) {
	t.Parallel()
	for name, moved := range map[string][]string{
		growsNow: nil, plannedNow: nil, copyNow: nil, stoppingNow: nil, finalNow: nil, swapNow: {"data-web-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newResized(t, stops[name])
			drive := r.reach()
			labelled := r.Set("web")
			r.PatchSet("web", fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, api.ManagedLabel))
			if err := drive.Report(context.Background(), events.SourceDelete, labelled); err != nil {
				t.Error(err)
			}
			r.stop.release(r.World)
			record := r.Finish(drive, "web")
			expectPhase(t, record, api.Failed)
			if !strings.Contains(record.Message, "lost the label "+api.ManagedLabel) {
				t.Errorf("message %q", record.Message)
			}
			r.expectGivenBack(t, drive)
			expectAbort(t, r, drive, record, moved)
		})
	}
}

// movedClaims returns the claims of the members that are on their new volumes, according to the record.
func movedClaims(record *api.Resize) []string {
	var names []string
	for _, member := range record.Members {
		if member.Phase == api.MemberMoved {
			names = append(names, member.Claims[0].Claim)
		}
	}
	return names
}

// expectAbort checks that the abort is reported and not repeated, and which claims are on their new volumes.
func expectAbort(t *testing.T, r *resized, drive *kit.Drive, record *api.Resize, moved []string) {
	t.Helper()
	if record.Reason != api.Aborted || record.FailedAt != r.stop.phase || !slices.Contains(drive.EventTypes, "operation.failed") {
		t.Errorf("%s at %s: %s; events %v", record.Reason, record.FailedAt, record.Message, drive.EventTypes)
	}
	expectEvents(t, r.World, "web", "Warning Aborted")
	size := map[bool]int64{false: 64, true: 128}
	for _, claim := range r.claim { // a size that the storage works on stays
		if is := r.size(claim); is != size[r.stop.growing || slices.Contains(moved, claim)] {
			t.Errorf("claim %s asks for %d Mi, moved are %v", claim, is, moved)
		}
	}
	if template := r.Set("web").Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().Value() >> 20; template != size[len(
		moved) > 0] {
		t.Errorf("the template asks for %d Mi, moved are %v", template, moved)
	}
	ticks(t, drive, 2)
	set := r.Set("web")
	if _, there := set.Annotations[api.AbortAnnotation]; there || r.Status("web").Attempt != 1 {
		t.Errorf("annotations %v", set.Annotations)
	}
}

// failing is a failure of a resize at a stop, and the end of its retry.
type failing struct {
	// soon shortens settings so that their time is over at once.
	soon func(*api.Settings)
	// fail makes the operation fail at its stop. mend removes the cause.
	fail, mend func(r *resized)
	reason     api.Reason
	says       string // a word of the remedy in the message
	// then is the phase at the end of the retry. If nothing is left to do, it is unchanged.
	then api.Phase
}

var failures = map[string]failing{
	growsNow: {reason: api.ExpandInfeasible, says: "kubectl drydock retry", then: api.Succeeded,
		fail: func(r *resized) { r.Node.Set(func(n *kit.Node) { n.Growth = kit.GrowsNever }) },
		mend: func(r *resized) { r.stop.release(r.World) }},
	plannedNow: {reason: api.DeadlineExceeded, says: "kubectl drydock retry", then: api.Succeeded,
		soon: func(s *api.Settings) { s.PlanTimeout = 0 }, fail: leave, mend: leave},
	copyNow: {reason: api.CopyFailed, says: "NoSpace", then: api.Succeeded, fail: noSpace, mend: space},
	waitNow: {reason: api.DeadlineExceeded, says: "kubectl drydock retry", then: api.Succeeded,
		soon: func(s *api.Settings) { s.CopyTimeout = 5 * time.Second }, fail: leave, mend: func(r *resized) { r.stop.release(r.World) }},
	// The data that was written since the first passes does not fit any more.
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

// TestRetryAfterFailureAtEveryPhase: every failure is reported with a remedy. Each member keeps its volumes, and a
// retry continues from there.
// Invariants: I1, I4, I5, I8, I9.
func TestRetryAfterFailureAtEveryPhase(t *testing.T) {
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
			r.Retry("web")
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
		t.Errorf("%s at %s: %q, want %s at %s, with a message that mentions %q", status.Reason, status.FailedAt, status.Message,
			row.reason, r.stop.phase, row.says)
	}
	expectEvents(t, r.World, "web", "Warning "+string(row.reason))
	if !slices.Contains(drive.EventTypes, "operation.failed") {
		t.Errorf("events %v", drive.EventTypes)
	}
	if row.reason != api.NotReady { // whose pods cannot be created yet
		r.expectGivenBack(t, drive)
	}
}

// untilRetried ticks until the retry has ended in the phase.
func (r *resized) untilRetried(t *testing.T, drive *kit.Drive, then api.Phase) {
	t.Helper()
	r.Eventually("the retry ends", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		_, asked := r.Set("web").Annotations[api.RetryAnnotation]
		if status := r.Status("web"); asked && then != api.Failed || status.Phase != then {
			return describe(status)
		}
		return ""
	})
	if then == api.Failed { // nothing is left to do, and the annotation stays for the user, because an operator makes the set
		expectEvents(t, r.World, "web", "Warning "+string(api.NothingFailed))
	}
}

// TestSetDeletedAtEveryPhase: its user may apply it again at once. Each claim is reverted or completed. The new set is
// never confused with the previous one.
// Invariants: I1, I3, I5, I9.
func TestSetDeletedAtEveryPhase(t *testing.T) {
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
	if r.stop.phase != api.Expanding && r.stop.phase != api.Planned { // they are recorded only on the set
		expectEvents(t, r.World, "web", "Warning SetReplaced")
	}
	expectResumed(t, r.World, drive, r.row, "Prometheus", r.owner)
	now := r.Set("web")
	if !again {
		if now != nil {
			t.Error("the deleted set was created again")
		}
		for _, problem := range r.ClaimProblems(r.claim...) {
			t.Error(problem)
		}
		return
	}
	expectWhole(t, r.World, "web", 2, r.claim...)
	if now.UID != ours.UID || now.Generation != 1 || r.Status("web") != nil {
		t.Errorf("the user's new set was touched: %+v", now.ObjectMeta)
	}
}

// TestSetDeletedWithItsClaimsAtEveryPhase: the user wants to delete the claims with the set, and no object of the
// operation keeps one. Replaced claims may stay with all data, because the StatefulSet controller had no time to make
// the set their owner.
func TestSetDeletedWithItsClaimsAtEveryPhase(t *testing.T) {
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

// apply creates a set without waiting for it.
func (r *resized) apply(set *appsv1.StatefulSet) {
	r.T.Helper()
	set.Namespace = r.Namespace
	made, err := r.Kube.AppsV1().StatefulSets(r.Namespace).Create(context.Background(), set, metav1.CreateOptions{})
	if err != nil {
		r.T.Fatalf("creating the set again: %v", err)
	}
	*set = *made
}
