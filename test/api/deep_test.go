//go:build cluster

package api

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit"
)

// TestDeepScalerDoesNotHideOthers: a tenant nests the template of a Scaler as deeply as the API server accepts for one document.
// A list of Scalers is two levels deeper, which Go does not decode. The sweep must still find the other work, and the other Scaler
// must still scale.
func TestDeepScalerDoesNotHideOthers(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{})
	s.untilStage(v1alpha1.StageIdle, 1)
	stored := 0
	for levels := 9996; levels > 9980 && stored == 0; levels-- {
		text := strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
		err := s.create(fmt.Sprint("deep-", levels), v1alpha1.ScalerSpec{Hooks: v1alpha1.ScalerHooks{Pre: &v1alpha1.Hook{
			Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(text)}}}}})
		if err != nil {
			t.Logf("%d levels: %.200v", levels, err)
			continue
		}
		stored = levels
	}
	if stored == 0 {
		t.Fatal("the API server has refused each depth, so no Scaler is too deep for a list")
	}
	db := kit.WorldSet("db", 1, "64Mi", "data")
	db.Annotations = map[string]string{api.ResizeAnnotation: "data=128Mi"}
	s.CreateSet(db)
	s.Eventually("the sweep finds the resize", func() string {
		if err := s.drive.Tick(t.Context()); err != nil {
			return err.Error()
		}
		if s.Status("db") == nil {
			return "it does not"
		}
		return ""
	})
	s.scale(2)
	s.untilStage(v1alpha1.StageIdle, 2)
}
