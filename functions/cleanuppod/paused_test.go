package cleanuppod

import (
	"testing"

	"drydock.dev/shared/api"
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
