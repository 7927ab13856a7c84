//go:build cluster

package api

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/owners"
	"drydock.dev/test/kit"
)

// rowOf returns the registry row of the kind.
func rowOf(t *testing.T, group, kind string) owners.Row {
	t.Helper()
	row, ok := owners.BuiltIn().Find(group, kind)
	if !ok {
		t.Fatalf("no row about %s of %s", kind, group)
	}
	return row
}

// content returns the parts of a custom resource that users and operators see.
func content(o *unstructured.Unstructured) map[string]any {
	return map[string]any{"labels": o.GetLabels(), "annotations": o.GetAnnotations(), "spec": o.Object["spec"]}
}

// TestEveryOwnerIsPausedAndResumed resizes a set of each row's first kind. The owner is paused while the set is
// stopped, and is unchanged afterwards.
// Invariants: I5.
func TestEveryOwnerIsPausedAndResumed(t *testing.T) {
	t.Parallel()
	kit.NewWorld(t).GrantPause(allowed()...)
	for _, row := range owners.BuiltIn() {
		if !row.Supports(owners.ByPause) || row.Unverified || row.Operator == denied {
			continue
		}
		t.Run(row.Operator+"/"+row.Kinds[0].Name+"."+row.Group, func(t *testing.T) {
			t.Parallel()
			w, kind := kit.NewWorld(t), row.Kinds[0].Name
			w.DefineKind(row, kind)
			owner := w.CreateCustom(row, kind, "main", map[string]any{"replicas": int64(1)}, nil)
			expectPausedMeanwhile(t, w, row, kind, owner)
		})
	}
}

// isStopping reports whether a moving member has not been released yet.
func isStopping(record *api.Resize) bool {
	return record != nil && record.Phase == api.Moving && slices.ContainsFunc(record.Members, func(m api.Member) bool {
		return m.Phase != api.MemberStarting && m.Phase != api.MemberMoved
	})
}

// expectPausedMeanwhile resizes a set of the custom resource, and checks that the resource is paused during the move.
func expectPausedMeanwhile(t *testing.T, w *kit.World, row owners.Row, kind string, controller *unstructured.Unstructured) {
	t.Helper()
	before := content(w.Custom(row, kind, "main"))
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.SetController("web", controller)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	drive, paused := w.Drive(nil), 0
	drive.OnEvent = func(e event.Event) {
		// The record is read before and after the owner, because an event may be delivered late.
		began, isPaused, ended := w.Status("web"), row.Paused(w.Custom(row, kind, "main")), w.Status("web")
		switch {
		case ended == nil && isPaused:
			t.Error("the owner is paused before the preflight is over")
		case began != nil && began.Phase == api.Moving && isStopping(ended):
			if paused++; !isPaused {
				t.Errorf("%s, the members are moved, and the owner is not paused", e.Type())
			}
		}
	}
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	if paused < 2 { // when it is paused, when the copies have converged, and when they are verified
		t.Errorf("the owner was checked %d times, want 2 or more", paused)
	}
	expectResumed(t, w, drive, row, kind, before)
	if got := *w.Set("web").Spec.Replicas; got != 1 {
		t.Errorf("%d replicas, want 1", got)
	}
}

// expectResumed ticks until the owner is unchanged and nothing is left (I9).
func expectResumed(t *testing.T, w *kit.World, drive *kit.Drive, row owners.Row, kind string, before map[string]any) {
	t.Helper()
	w.Eventually("the owner is resumed (I5)", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if left := w.Leftovers(); len(left) > 0 {
			return strings.Join(left, ", ")
		}
		return cmp.Diff(before, content(w.Custom(row, kind, "main")))
	})
}

// TestTopOwnerIsPaused: Percona's operator writes the lower resource and would revert a pause there.
// Invariants: I5.
func TestTopOwnerIsPaused(t *testing.T) {
	t.Parallel()
	w := kit.NewWorld(t)
	w.GrantPause("percona-pg")
	top, low := rowOf(t, "pgv2.percona.com", "PerconaPGCluster"), rowOf(t, "upstream.pgv2.percona.com", "PostgresCluster")
	w.DefineKind(top, "PerconaPGCluster")
	w.DefineKind(low, "PostgresCluster")
	controller := w.CreateCustom(top, "PerconaPGCluster", "main", map[string]any{}, nil)
	expectPausedMeanwhile(t, w, top, "PerconaPGCluster", w.CreateCustom(low, "PostgresCluster", "inner", map[string]any{}, controller))
	if got := w.Custom(low, "PostgresCluster", "inner"); got.GetGeneration() != 1 || len(got.GetAnnotations()) != 0 {
		t.Errorf("the lower owner was written to: %v", got.Object)
	}
}

// ownedWorld returns a world with a requested resize of a set that a Prometheus controls.
func ownedWorld(t *testing.T) (*kit.World, owners.Row) {
	t.Helper()
	w, row := kit.NewWorld(t), rowOf(t, "monitoring.coreos.com", "Prometheus")
	w.GrantPause(row.Operator)
	w.DefineKind(row, "Prometheus")
	owner := w.CreateCustom(row, "Prometheus", "main", map[string]any{"paused": false}, nil)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.SetController("web", owner)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	return w, row
}

// pausedNow ticks until the set's owner is paused, and no further.
func pausedNow(t *testing.T, w *kit.World) *kit.Drive {
	t.Helper()
	drive := w.Drive(nil)
	holdFirstPass(w, true) // else a tick may run to the end
	defer holdFirstPass(w, false)
	w.Eventually("the operation is under way", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status == nil || status.Phase != api.Moving {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})
	return drive
}

// TestPauseOfUserStays before, during and after the resize.
// Invariants: I5.
func TestPauseOfUserStays(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	w.UpdateCustom(row, "Prometheus", "main", func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, true, "spec", "paused")
	})
	before := w.Custom(row, "Prometheus", "main")
	expectPhase(t, w.Finish(w.Drive(nil), "web"), api.Succeeded)
	if after := w.Custom(row, "Prometheus", "main"); after.GetResourceVersion() != before.GetResourceVersion() {
		t.Errorf("it was written to: %v", after.Object)
	}
}

// TestSetDeletedDuringPauseResumesOwner: only the records show the operation then.
// Invariants: I5.
func TestSetDeletedDuringPauseResumesOwner(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	before := content(w.Custom(row, "Prometheus", "main"))
	drive := pausedNow(t, w)
	w.DeleteSet("web", metav1.DeletePropagationBackground)
	expectResumed(t, w, drive, row, "Prometheus", before)
}

// TestOwnerDeletedDuringResize: there is nothing to resume, and the operation continues.
// Invariants: I5.
func TestOwnerDeletedDuringResize(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	drive := pausedNow(t, w)
	w.OrphanCustom(row, "Prometheus", "main")
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	w.Eventually("nothing is left (I9)", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return strings.Join(w.Leftovers(), ", ")
	})
}

// TestAbortResumesOwner after the operation was reverted.
// Invariants: I5.
func TestAbortResumesOwner(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	before := content(w.Custom(row, "Prometheus", "main"))
	drive := pausedNow(t, w)
	w.Annotate("web", map[string]string{api.AbortAnnotation: "yes"})
	expectPhase(t, w.Finish(drive, "web"), api.Failed)
	expectResumed(t, w, drive, row, "Prometheus", before)
}

// TestResumeByUserStays: the owner is resumed after the resize.
// Invariants: I5.
func TestResumeByUserStays(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	before := content(w.Custom(row, "Prometheus", "main"))
	drive := pausedNow(t, w)
	w.UpdateCustom(row, "Prometheus", "main", func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, false, "spec", "paused")
	})
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	expectResumed(t, w, drive, row, "Prometheus", before)
}

// denied is an operator without a grant for pause-owner, until a test grants it.
const denied = "tidb"

// TestOwnerWithoutRightsStopsNothing: the message says how to grant the rights. With them, the refused sleep begins by
// itself, and a retry of the failed resize succeeds.
// Invariants: I5, I10.
func TestOwnerWithoutRightsStopsNothing(t *testing.T) {
	t.Parallel()
	w, row := kit.NewWorld(t), rowOf(t, "pingcap.com", "TidbCluster")
	w.RevokePause(denied)
	w.DefineKind(row, "TidbCluster")
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "data"))
	w.SetController("web", w.CreateCustom(row, "TidbCluster", "main", map[string]any{}, nil))
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "data=128Mi"})
	idleSet(w, "cache", 2, nil)
	w.SetController("cache", w.Custom(row, "TidbCluster", "main"))
	drive := w.Drive(nil)
	w.Expect(http.StatusForbidden, api.PauseOwner, "it has no rights to this kind")
	status := w.Finish(drive, "web")
	expectPhase(t, status, api.Failed)
	expectRefusedOnce(t, w, drive, "cache")
	if status.Reason != api.OwnerNotPausable || !strings.Contains(status.Message, "kubectl drydock rbac --owners "+denied) ||
		wasStopped(status) {
		t.Errorf("%s: %s (stopped %v)", status.Reason, status.Message, wasStopped(status))
	}
	w.GrantPause(denied)
	before := content(w.Custom(row, "TidbCluster", "main"))
	w.Retry("web")
	w.Eventually("the retry succeeds", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status.Phase != api.Succeeded {
			return fmt.Sprintf("%s: %s", status.Phase, status.Message)
		}
		return ""
	})
	w.UntilSleep(drive, "cache", api.Asleep) // without a retry
	sendSetEvent(t, w, drive, events.Wake, "cache")
	w.UntilSleep(drive, "cache", api.Succeeded)
	expectResumed(t, w, drive, row, "TidbCluster", before)
}

// expectRefusedOnce checks that the set stays awake, that an Event has the reason, and that the same refusal writes nothing.
func expectRefusedOnce(t *testing.T, w *kit.World, drive *kit.Drive, name string) {
	t.Helper()
	sleep := w.UntilSleep(drive, name, api.Refused)
	if sleep.Reason != api.OwnerNotPausable || !strings.Contains(sleep.Message, "kubectl drydock rbac --owners "+denied) {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	if !slices.Contains(w.Events(name), "Warning OwnerNotPausable") {
		t.Errorf("events %v", w.Events(name))
	}
	before := w.Set(name).Annotations[api.SleepAnnotation]
	if err := drive.Tick(context.Background()); err != nil {
		t.Error(err)
	}
	if again := w.Set(name); *again.Spec.Replicas != 2 || again.Annotations[api.SleepAnnotation] != before {
		t.Errorf("it is tried again at once: %s", again.Annotations[api.SleepAnnotation])
	}
}

// TestReplacedOwnerIsResumed: the owner is replaced during the pause from its own manifest (kubectl replace --force, a restore of a
// backup). The new one carries the pause and Drydock's record of it.
func TestReplacedOwnerIsResumed(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	drive := pausedNow(t, w)
	old := w.Custom(row, "Prometheus", "main")
	w.OrphanCustom(row, "Prometheus", "main")
	again := w.CreateCustom(row, "Prometheus", "main", old.Object["spec"].(map[string]any), nil)
	w.UpdateCustom(row, "Prometheus", "main", func(o *unstructured.Unstructured) { o.SetAnnotations(old.GetAnnotations()) })
	w.SetController("web", again)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	w.Eventually("nothing is left (I9)", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		return strings.Join(w.Leftovers(), ", ")
	})
	after := w.Custom(row, "Prometheus", "main")
	if row.Paused(after) {
		t.Errorf("the owner stays paused: spec %v, annotations %v", after.Object["spec"], after.GetAnnotations())
	}
}

// sizeOfMariaDB is where a MariaDB has the size of its claims.
var sizeOfMariaDB = []string{"spec", "storage", "size"}

// disagreeingWorld returns a world in which a resize has changed the claims from 64Mi to 128Mi, and the set's MariaDB says 64Mi.
func disagreeingWorld(t *testing.T) (*kit.World, *kit.Drive, owners.Row) {
	t.Helper()
	w, row := kit.NewWorld(t), rowOf(t, "k8s.mariadb.com", "MariaDB")
	w.GrantPause(row.Operator)
	w.DefineKind(row, "MariaDB")
	owner := w.CreateCustom(row, "MariaDB", "main", map[string]any{"suspend": false, "storage": map[string]any{"size": "64Mi"}}, nil)
	w.CreateSet(kit.WorldSet("web", 1, "64Mi", "storage"))
	w.SetController("web", owner)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "storage=128Mi"})
	drive := w.Drive(nil)
	expectPhase(t, w.Finish(drive, "web"), api.Succeeded)
	return w, drive, row
}

func setSize(w *kit.World, row owners.Row, size string) {
	w.UpdateCustom(row, "MariaDB", "main", func(o *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(o.Object, size, sizeOfMariaDB...)
	})
}

func sizeOf(w *kit.World, row owners.Row) string {
	size, _, _ := unstructured.NestedString(w.Custom(row, "MariaDB", "main").Object, sizeOfMariaDB...)
	return size
}

// TestOwnerStaysPausedUntilItHasTheNewSize: its operator would create the set again with the former template.
// Invariants: I5.
func TestOwnerStaysPausedUntilItHasTheNewSize(t *testing.T) {
	t.Parallel()
	w, drive, row := disagreeingWorld(t)
	for range 5 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
		if !row.Paused(w.Custom(row, "MariaDB", "main")) {
			t.Fatal("the pause has ended, and the owner still says the former size")
		}
	}
	if problem := w.Status("web").OwnerProblem; !strings.Contains(problem, disagreement) {
		t.Errorf("the record says %q", problem)
	}
	setSize(w, row, "128Mi")
	expectResumed(t, w, drive, row, "MariaDB", resumedContent(w, row))
	if problem := w.Status("web").OwnerProblem; problem != "" {
		t.Errorf("the record still says %q", problem)
	}
}

// disagreement is in the message of a resource that asks for the former size.
const disagreement = "is 64Mi, and the StatefulSet has 128Mi"

// resumedContent returns the content of the MariaDB without its pause.
func resumedContent(w *kit.World, row owners.Row) map[string]any {
	resumed := content(w.Custom(row, "MariaDB", "main"))
	resumed["spec"].(map[string]any)["suspend"] = false
	resumed["annotations"] = map[string]string(nil)
	return resumed
}

// expectPauseLasts ticks some times, and expects that the MariaDB stays paused with its former size.
func expectPauseLasts(t *testing.T, w *kit.World, drive *kit.Drive, row owners.Row) {
	t.Helper()
	for range 3 {
		if err := drive.Tick(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if size := sizeOf(w, row); !row.Paused(w.Custom(row, "MariaDB", "main")) || size != "64Mi" {
		t.Fatalf("the pause has ended, or the owner was changed. It says %s", size)
	}
}

// TestSecondRequestKeepsOwnerPaused: a request that is refused while the pause lasts replaces the record of the resize. The pause lasts,
// and the new record says why.
// Invariants: I5.
func TestSecondRequestKeepsOwnerPaused(t *testing.T) {
	t.Parallel()
	w, drive, row := disagreeingWorld(t)
	w.Annotate("web", map[string]string{api.ResizeAnnotation: "storage=256Mi@nvme"})
	w.Eventually("the request is refused", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status.Phase != api.Refused || !strings.Contains(status.OwnerProblem, disagreement) {
			return string(status.Phase) + ": " + status.OwnerProblem
		}
		return ""
	})
	expectPauseLasts(t, w, drive, row)
	setSize(w, row, "128Mi")
	expectResumed(t, w, drive, row, "MariaDB", resumedContent(w, row))
	if status := w.Status("web"); status.Phase != api.Refused || status.OwnerProblem != "" {
		t.Errorf("the record is %s and still says %q", status.Phase, status.OwnerProblem)
	}
}

// TestOwnerGetsTheNewSizeFromUser: kubectl drydock resize --update-owner writes the size with the rights of the user, and Drydock then ends
// the pause.
// Invariants: I5.
func TestOwnerGetsTheNewSizeFromUser(t *testing.T) {
	t.Parallel()
	w, drive, row := disagreeingWorld(t)
	if said, err := command(t, w, "resize", "sts/web", "--update-owner"); err == nil || !strings.Contains(said, disagreement) ||
		sizeOf(w, row) != "64Mi" {
		t.Errorf("the user has not consented, and the owner says %s: %v\n%s", sizeOf(w, row), err, said)
	}
	said, err := command(t, w, "resize", "sts/web", "--update-owner", "--yes")
	if err != nil || !strings.Contains(said, disagreement) || sizeOf(w, row) != "128Mi" {
		t.Fatalf("the owner says %s: %v\n%s", sizeOf(w, row), err, said)
	}
	if !row.Paused(w.Custom(row, "MariaDB", "main")) {
		t.Error("the command has ended the pause, which pause-owner does")
	}
	expectResumed(t, w, drive, row, "MariaDB", resumedContent(w, row))
	_, err = command(t, w, "resize", "sts/web", "--update-owner", "--yes")
	if err == nil || !strings.Contains(err.Error(), "nothing was changed") {
		t.Errorf("nothing is left to change: %v", err)
	}
}

// TestSetsOfOneOwnerShareItsSize: the owner has one size for two sets. Neither Drydock nor the command writes it until both sets have the
// same one.
// Invariants: I5.
func TestSetsOfOneOwnerShareItsSize(t *testing.T) {
	t.Parallel()
	w, drive, row := disagreeingWorld(t)
	w.LabelNamespace(api.PauseOwnersLabel, string(api.ConsentToUpdate))
	w.CreateSet(kit.WorldSet("db", 1, "64Mi", "storage"))
	w.SetController("db", w.Custom(row, "MariaDB", "main"))
	w.Annotate("web", map[string]string{api.OwnerPolicyAnnotation: string(api.OwnerUpdate)})
	expectPauseLasts(t, w, drive, row)
	const remedy = "sts/db storage=128Mi"
	if problem := w.Status("web").OwnerProblem; !strings.Contains(problem, remedy) {
		t.Errorf("the record says %q", problem)
	}
	if said, err := command(t, w, "resize", "sts/web", "--update-owner", "--yes"); err == nil || !strings.Contains(err.Error(), remedy) {
		t.Errorf("the command ends with %v\n%s", err, said)
	}
	w.Annotate("db", map[string]string{api.ResizeAnnotation: "storage=128Mi"})
	expectPhase(t, w.Finish(drive, "db"), api.Succeeded)
	expectResumed(t, w, drive, row, "MariaDB", resumedContentWith(w, row, "128Mi"))
}

// resumedContentWith is resumedContent with the size.
func resumedContentWith(w *kit.World, row owners.Row, size string) map[string]any {
	resumed := resumedContent(w, row)
	_ = unstructured.SetNestedField(resumed["spec"].(map[string]any), size, sizeOfMariaDB[1:]...)
	return resumed
}

// TestOwnerGetsTheNewSizeFromDrydock: with the policy update, no user has to act, if the namespace consents to changes of its owners. With
// ignore, the pause ends as it is.
// Invariants: I5.
func TestOwnerGetsTheNewSizeFromDrydock(t *testing.T) {
	t.Parallel()
	for policy, size := range map[api.OwnerPolicy]string{api.OwnerUpdate: "128Mi", api.OwnerIgnore: "64Mi"} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			w, drive, row := disagreeingWorld(t)
			w.Annotate("web", map[string]string{api.OwnerPolicyAnnotation: string(policy)})
			if policy == api.OwnerUpdate {
				expectPauseLasts(t, w, drive, row)
				const consent = "drydock.dev/pause-owners=update --overwrite"
				if problem := w.Status("web").OwnerProblem; !strings.Contains(problem, consent) {
					t.Errorf("the namespace consents to pauses only, and the record says %q", problem)
				}
				w.LabelNamespace(api.PauseOwnersLabel, string(api.ConsentToUpdate))
			}
			w.Eventually("the pause ends", func() string {
				if err := drive.Tick(context.Background()); err != nil {
					return err.Error()
				}
				if row.Paused(w.Custom(row, "MariaDB", "main")) {
					return "it is paused"
				}
				return strings.Join(w.Leftovers(), ", ")
			})
			if got := sizeOf(w, row); got != size {
				t.Errorf("the owner says %s, want %s", got, size)
			}
		})
	}
}

// TestTenantCannotPauseOperatorsResource: a StatefulSet can name any resource of its namespace as its controller.
// Drydock writes to the resource only with the consent of the namespace. Annotations of the resource and labels of the set
// are no consent. After the consent, the refused sleep begins by itself, and a retry of the failed resize succeeds.
func TestTenantCannotPauseOperatorsResource(t *testing.T) {
	t.Parallel()
	w, row := ownedWorld(t)
	w.LabelNamespace(api.PauseOwnersLabel, "")
	w.UpdateCustom(row, "Prometheus", "main", func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{api.PauseOwnersLabel: string(api.ConsentToPause), api.Prefix + "allow": "pause"})
	})
	before := w.Custom(row, "Prometheus", "main")
	idleSet(w, "cache", 1, map[string]string{api.PausedAnnotation: "true", api.PauseOwnersLabel: string(api.ConsentToPause)})
	w.SetController("cache", before)
	drive := w.Drive(nil)
	consent := "kubectl label namespace " + w.Namespace + " drydock.dev/pause-owners=allow"
	status := w.Finish(drive, "web")
	if status.Reason != api.OwnerNotPausable || !strings.Contains(status.Message, consent) || wasStopped(status) {
		t.Errorf("%s: %s", status.Reason, status.Message)
	}
	sleep := w.UntilSleep(drive, "cache", api.Refused)
	if sleep.Reason != api.OwnerNotPausable || !strings.Contains(sleep.Message, consent) {
		t.Errorf("%s: %s", sleep.Reason, sleep.Message)
	}
	if diff := cmp.Diff(before.Object, w.Custom(row, "Prometheus", "main").Object); diff != "" {
		t.Errorf("the resource was written to (-before +after):\n%s", diff)
	}
	w.LabelNamespace(api.PauseOwnersLabel, string(api.ConsentToPause))
	w.UntilSleep(drive, "cache", api.Asleep)
	w.Annotate("cache", map[string]string{api.PausedAnnotation: "false"})
	sendSetEvent(t, w, drive, events.Wake, "cache")
	w.UntilSleep(drive, "cache", api.Succeeded)
	w.Retry("web")
	w.Eventually("the retry succeeds", func() string {
		if err := drive.Tick(context.Background()); err != nil {
			return err.Error()
		}
		if status := w.Status("web"); status.Phase != api.Succeeded {
			return string(status.Phase) + ": " + status.Message
		}
		return ""
	})
	expectResumed(t, w, drive, row, "Prometheus", content(before))
}

// rabbitWorld returns a world with a set of a RabbitmqCluster.
func rabbitWorld(t *testing.T) (*kit.World, owners.Row) {
	t.Helper()
	w := kit.NewWorld(t)
	row := rowOf(t, "rabbitmq.com", "RabbitmqCluster")
	w.GrantPause(row.Operator)
	w.DefineKind(row, "RabbitmqCluster")
	w.CreateSet(kit.WorldSet("web", 1, "64Mi"))
	w.SetController("web", w.CreateCustom(row, "RabbitmqCluster", "main", map[string]any{"replicas": int64(1)}, nil))
	return w, row
}

// TestLostLabelIsReported: RabbitMQ's operator removes the label from its StatefulSets, and copies that of the resource. The event source
// reports a set without the label as deleted.
func TestLostLabelIsReported(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		labels map[string]string // of the resource
		want   bool
	}{
		"the resource lacks the label": {nil, true},
		"the resource has the label":   {map[string]string{api.ManagedLabel: "true"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, rabbit := rabbitWorld(t)
			w.UpdateCustom(rabbit, "RabbitmqCluster", "main", func(o *unstructured.Unstructured) { o.SetLabels(row.labels) })
			drive, labelled := w.Drive(nil), w.Set("web")
			w.PatchSet("web", fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, api.ManagedLabel))
			for range 2 { // events may come twice
				if err := drive.Report(context.Background(), events.SourceDelete, labelled); err != nil {
					t.Error(err)
				}
			}
			got, want := w.Events("web"), []string(nil)
			if row.want {
				want = []string{"Warning OptInLost"}
			}
			if !slices.Equal(got, want) {
				t.Errorf("the Events are %v, want %v", got, want)
			}
		})
	}
}

// TestCopyOfPauseIsRemoved: operators copy the annotations of their resource to the StatefulSet during a stop.
func TestCopyOfPauseIsRemoved(t *testing.T) {
	t.Parallel()
	w, row := rabbitWorld(t)
	drive := w.Drive(nil)
	paused := map[string]string{api.OwnerPausedAnnotation: `{"version":1}`}
	w.UpdateCustom(row, "RabbitmqCluster", "main", func(o *unstructured.Unstructured) { o.SetAnnotations(paused) })
	w.Annotate("web", paused)
	has := func(sentence string, want bool) {
		t.Helper()
		if err := drive.Tick(context.Background()); err != nil {
			t.Error(err)
		}
		if _, is := w.Set("web").Annotations[api.OwnerPausedAnnotation]; is != want {
			t.Errorf("%s: the set has a copy: %v", sentence, is)
		}
	}
	has("the resource still has the annotation, so its operator would copy it again", true)
	w.UpdateCustom(row, "RabbitmqCluster", "main", func(o *unstructured.Unstructured) { o.SetAnnotations(nil) })
	has("the resource has no annotation any more", false)
}
