//go:build cluster

package operators

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// held is how long a test watches that an operator leaves a StatefulSet alone. Operators react within seconds, see
// TestOperatorRevertsScaleToZero.
const held = 20 * time.Second

// sleep puts the StatefulSet to sleep, as its user does.
func (w *world) sleep() {
	w.t.Helper()
	w.Annotate(w.kind.set, map[string]string{api.PausedAnnotation: "true"})
	w.UntilSleep(w.drive, w.kind.set, api.Asleep)
}

// wake wakes the StatefulSet, as its user does. It returns when it is awake.
func (w *world) wake() {
	w.t.Helper()
	w.PatchSet(w.kind.set, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, api.PausedAnnotation))
	w.UntilSleep(w.drive, w.kind.set, api.Succeeded)
}

// asleep returns an empty text if the StatefulSet has no replicas.
func (w *world) asleep() string {
	w.t.Helper()
	set := w.set()
	switch {
	case set == nil:
		return "there is no StatefulSet"
	case *set.Spec.Replicas > 0 || set.Status.Replicas > 0:
		return fmt.Sprintf("%d replicas, %d pods", *set.Spec.Replicas, set.Status.Replicas)
	case !w.row.Held(owners.ByStop, w.resource()) && !w.paused():
		return "the operator is neither paused nor stopped"
	}
	return ""
}

// left returns what a sleep has left, or an empty text: the resource has the content that its user wrote, and the StatefulSet runs.
func (w *world) left(want map[string]any) string {
	w.t.Helper()
	if problem := w.ready(); problem != "" {
		return problem
	}
	return w.asWritten(want) + strings.Join(w.Leftovers(), ", ")
}

// TestOperatorRevertsScaleToZero is the control for every test of a sleep: without Drydock, the operator brings the replicas back after the
// same change of the resource.
func TestOperatorRevertsScaleToZero(t *testing.T) {
	each(t, hasRow, func(t *testing.T, k kind) {
		w := newWorld(t, k, kit.Class)
		w.Scale(k.set, 0)
		w.patchResource(k.touch)
		w.awaitReady()
	})
}

// TestSleepLastsUntilItsEnd: the operator does not start a sleeping set, although its user changes the resource and the operator restarts.
// After the wake-up the set has the same count, and the resource is as its user wrote it.
// Invariants: I4, I5.
func TestSleepLastsUntilItsEnd(t *testing.T) {
	each(t, hasRow, func(t *testing.T, k kind) {
		w := newManagedWorld(t, k, kit.Class)
		want, template := w.contentAfter(k.touch), w.set().Spec.Template
		w.sleep()
		w.patchResource(k.touch)
		w.operator.restart()
		w.stays("the set sleeps", held, w.asleep)
		w.wake()
		w.becomes("the set and its resource are as before", func() string { return w.left(want) })
		w.becomes("the operator has applied the change of its user", func() string {
			if cmp.Diff(template, w.set().Spec.Template) == "" {
				return "the pods' template is the old one"
			}
			return w.left(want)
		})
	})
}

// TestSetDeletedAsleep: the operator is resumed and creates its set again.
// Invariants: I5.
func TestSetDeletedAsleep(t *testing.T) {
	each(t, hasRow, func(t *testing.T, k kind) {
		w := newManagedWorld(t, k, kit.Class)
		want := w.content()
		w.sleep()
		old := w.set().UID
		w.deleteSet()
		w.becomes("the operator has created the set again", func() string {
			if set := w.set(); set == nil || set.UID == old {
				return "it has not"
			}
			return w.left(want)
		})
	})
}

// deleteSet deletes the StatefulSet, which its operator may create again at once.
func (w *world) deleteSet() {
	w.t.Helper()
	background := metav1.DeletePropagationBackground
	w.must(w.Kube.AppsV1().StatefulSets(w.Namespace).Delete(w.t.Context(), w.kind.set, metav1.DeleteOptions{PropagationPolicy: &background}))
}

// TestResourceDeletedAsleep: the set goes with its resource, and nothing is left.
func TestResourceDeletedAsleep(t *testing.T) {
	each(t, hasRow, func(t *testing.T, k kind) {
		w := newManagedWorld(t, k, kit.Class)
		w.sleep()
		w.must(w.resources().Delete(t.Context(), "main", metav1.DeleteOptions{}))
		w.becomes("all is gone", func() string {
			if w.resource() != nil {
				return "the resource is there"
			}
			if w.set() != nil {
				return "the StatefulSet is there"
			}
			return strings.Join(w.Leftovers(), ", ")
		})
	})
}

// TestOperatorAwayAtWake: Drydock gives the set its replicas, although no operator runs. When the operator is back, all is as before.
// Invariants: I4, I5.
func TestOperatorAwayAtWake(t *testing.T) {
	each(t, hasRow, func(t *testing.T, k kind) {
		w := newManagedWorld(t, k, kit.Class)
		w.Settings.ReadyTimeout = 30 * time.Second // after which Drydock starts a set whose operator was to start it
		w.drive = w.Drive(nil)
		want := w.content()
		w.sleep()
		w.operator.stop()
		w.wake()
		w.becomes("the set runs", w.ready)
		w.operator.start()
		w.becomes("the set and its resource are as before", func() string { return w.left(want) })
		w.stays("the set has its replicas", held, func() string {
			if set := w.set(); set == nil || *set.Spec.Replicas != k.replicas {
				return "it has lost them"
			}
			return w.asWritten(want)
		})
	})
}

// TestOperatorWithoutRow: Drydock does not stop a set whose operator it cannot pause, and says so. If its user takes the responsibility,
// Drydock puts the set to sleep beside the operator.
// Invariants: I5.
func TestOperatorWithoutRow(t *testing.T) {
	each(t, func(k kind) bool { return k.operator == zookeeperOperator }, func(t *testing.T, k kind) {
		w := newManagedWorld(t, k, kit.Class)
		want := w.content()
		w.Annotate(k.set, map[string]string{api.PausedAnnotation: "true"})
		sleep := w.UntilSleep(w.drive, k.set, api.Refused)
		if sleep.Reason != api.OwnerNotPausable || !strings.Contains(sleep.Message, k.name) {
			t.Errorf("%s: %s", sleep.Reason, sleep.Message)
		}
		w.stays("the set runs", held, w.ready)
		w.Annotate(k.set, map[string]string{api.OwnerPolicyAnnotation: string(api.OwnerIgnore)})
		w.Retry(k.set)
		w.UntilSleep(w.drive, k.set, api.Asleep)
		w.wake()
		w.becomes("the set runs, and its resource is unchanged", func() string { return w.left(want) })
	})
}
