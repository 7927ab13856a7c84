//go:build cluster

package api

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/statefulset"
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
