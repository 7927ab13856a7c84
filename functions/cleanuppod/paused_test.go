package cleanuppod

import (
	"testing"

	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestMembersOfAPausedScalerAreAway: nothing of them is cleaned up, whatever count another client has given the set.
func TestMembersOfAPausedScalerAreAway(t *testing.T) {
	record := func(phase api.Phase) build.Option {
		return build.Annotation(api.ScaleAnnotation, (&api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Operation: build.ID,
			Phase: phase, Set: api.SetRef{Name: "web", UID: "uid-web"}}, Paused: true, Adopts: true}).Encode())
	}
	for name, in := range map[string]Input{
		"at zero":                               on(web(build.Replicas(0), record(api.Succeeded), ready(0)), left("data-web-0"), left("data-web-1")),
		"its members could not come back":       on(web(build.Replicas(0), record(api.Failed), ready(0)), left("data-web-0"), left("data-web-1")),
		"another client has started a member":   on(web(build.Replicas(1), record(api.Succeeded), ready(1)), left("data-web-0"), left("data-web-1")),
		"another client did, and it has failed": on(web(build.Replicas(1), record(api.Failed), ready(1)), left("data-web-0"), left("data-web-1")),
	} {
		if p := Decide(in); p.Kind == plan.KindDo {
			t.Errorf("%s: %s, want nothing", name, p)
		}
	}
}

// TestScalerKeepsMembersAway: a manifest may remove the set's record while the members come back.
func TestScalerKeepsMembersAway(t *testing.T) {
	for name, c := range map[string]struct {
		scaler v1alpha1.ScalerSpec
		record *api.Scale
		want   bool
	}{
		"it is paused":                          {v1alpha1.ScalerSpec{Paused: true}, &api.Scale{}, true},
		"the record is lost":                    {v1alpha1.ScalerSpec{Replicas: ptr.To[int32](3)}, nil, true},
		"the record is lost, and it wants none": {v1alpha1.ScalerSpec{Replicas: ptr.To[int32](0)}, nil, false},
		"the record says that it was no pause":  {v1alpha1.ScalerSpec{Replicas: ptr.To[int32](3)}, &api.Scale{}, false},
	} {
		if got := keepsAway(&c.scaler, c.record); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
