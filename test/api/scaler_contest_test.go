//go:build cluster

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit"
)

// TestContestedCountIsReported: after three reverts the count of the other client stays for a while, and the condition
// says so.
func TestContestedCountIsReported(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{})
	s.untilStage(v1alpha1.StageIdle, 1)
	fights := 0
	s.until("the count is contested", func(scaler *v1alpha1.Scaler) string {
		if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "False CountContested") {
			if statefulset.Replicas(s.Set("web")) == 1 {
				fights++
				s.force(2)
			}
			return got
		}
		return ""
	})
	if fights < 4 || fights > 5 { // one may come before the first tick
		t.Errorf("the other client has scaled %d times", fights)
	}
	ticks(t, s.drive, 3)
	if n := statefulset.Replicas(s.Set("web")); n != 2 {
		t.Errorf("the set has %d replicas", n)
	}
	s.force(1)
	s.until("the fight is over", func(scaler *v1alpha1.Scaler) string {
		if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "True") {
			return got
		}
		return ""
	})
}

// TestTargetIsBeingDeleted: a finalizer keeps the set, and the Scaler does not report it as missing.
func TestTargetIsBeingDeleted(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{})
	s.untilStage(v1alpha1.StageIdle, 1)
	s.PatchSet("web", `{"metadata":{"finalizers":["example.com/keep"]}}`)
	if err := s.Kube.AppsV1().StatefulSets(s.Namespace).Delete(context.Background(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []api.Reason{api.TargetDeleting, api.TargetMissing} {
		s.until(string(want), func(scaler *v1alpha1.Scaler) string {
			if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, fmt.Sprintf("False %s", want)) {
				return got
			}
			return ""
		})
		if want == api.TargetDeleting {
			s.PatchSet("web", `{"metadata":{"finalizers":null}}`)
		}
	}
}

// TestSetWakesAlthoughItsScalerIsDeleted: a set with a Scaler sleeps. It wakes, and the pre hook of the scale-up runs. Then the Scaler is
// deleted. The set must get its replicas back (I4).
func TestSetWakesAlthoughItsScalerIsDeleted(t *testing.T) {
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	set := kit.WorldSet("web", 2, "1Gi", "data")
	set.Annotations[api.IdleTimeoutAnnotation], set.Annotations[api.LastActivityAnnotation] = "1h", kit.Ago(time.Minute)
	s.CreateSet(set)
	if err := s.create("web", v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: hookJob("pre")}}); err != nil {
		t.Fatal(err)
	}
	s.untilStage(v1alpha1.StageIdle, 2)
	sendSetEvent(t, s.World, s.drive, events.Sleep, "web")
	s.UntilSleep(s.drive, "web", api.Asleep)
	s.untilStage(v1alpha1.StageIdle, 0)
	s.hooks.hold(true)
	sendSetEvent(t, s.World, s.drive, events.Wake, "web")
	if told := env(s.hook("pre")); told["DIRECTION"] != "up" {
		t.Errorf("the hook is told %v", told)
	}
	if err := s.Scalers().Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.UntilSleep(s.drive, "web", api.Succeeded)
	if n := statefulset.Replicas(s.Set("web")); n != 2 {
		t.Errorf("the set has %d replicas", n)
	}
}

// TestContestedCountDeletesNoClaims: the Scaler wants 3 members (conflictPolicy revert). Another client keeps scaling the
// set to 1, and after three reverts Drydock waits five minutes. The claims of members 1 and 2 must stay.
func TestContestedCountDeletesNoClaims(t *testing.T) {
	t.Parallel()
	s := scalersOf(kit.NewWorld(t))
	startCleaned(s.World, s.drive, s.SetWithCleanup("web", 3))
	if err := s.create("web", v1alpha1.ScalerSpec{}); err != nil {
		t.Fatal(err)
	}
	s.untilStage(v1alpha1.StageIdle, 3)
	s.until("the count is contested", func(scaler *v1alpha1.Scaler) string {
		if got := condition(scaler, v1alpha1.ConditionHealthy); !strings.HasPrefix(got, "False CountContested") {
			if statefulset.Replicas(s.Set("web")) == 3 {
				s.force(1)
			}
			return got
		}
		return ""
	})
	s.Eventually("the smaller count was looked at", func() string {
		ticks(t, s.drive, 1)
		set := s.Set("web")
		if l := api.LoadLedger(set); l == nil || l.Generation != set.Generation || statefulset.Replicas(set) != 1 {
			return fmt.Sprintf("the ledger is %+v", l)
		}
		return ""
	})
	ticks(t, s.drive, 2)
	record := s.Cleanup("web")
	if gone := s.Node.DeletedClaims(); len(gone) > 0 || record.Phase != api.Succeeded || record.Reason != api.CleanupReady {
		t.Errorf("deleted claims %v; cleanup %s %s: %s", gone, record.Phase, record.Reason, record.Message)
	}
}
