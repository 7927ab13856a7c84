package api

import (
	"context"
	"testing"

	"drydock.dev/shared/api/v1alpha1"
)

// TestOneStatusDoesNotHideOtherScalers: the API server takes times that Go cannot read, and all Scalers are read as one list.
func TestOneStatusDoesNotHideOtherScalers(t *testing.T) {
	s := scaledWorld(t, 1, v1alpha1.ScalerSpec{})
	s.untilStage(v1alpha1.StageIdle, 1)
	if err := s.create("other", v1alpha1.ScalerSpec{}); err != nil {
		t.Fatal(err)
	}
	s.patch("other", map[string]any{"status": map[string]any{"replicas": 1, "lastTransitionTime": "2020-01-01t00:00:00z"}}, "status")
	if err := s.drive.Tick(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.scale(2)
	s.untilStage(v1alpha1.StageIdle, 2)
}
