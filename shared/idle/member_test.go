package idle_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/idle"
	"drydock.dev/test/kit/build"
)

func TestEnoughReady(t *testing.T) {
	wants := func(text string) build.Option { return build.Annotation(api.WakeReadyAnnotation, text) }
	set := func(total, ready int32, options ...build.Option) *appsv1.StatefulSet {
		return build.Set("web", append([]build.Option{build.Replicas(total), build.ReplicaCounts(total, ready)}, options...)...)
	}
	for name, row := range map[string]struct {
		set           *appsv1.StatefulSet
		awake, waking bool
	}{
		"all ready":                             {set(3, 3), true, true},
		"two of three ready":                    {set(3, 2), true, false},
		"none ready":                            {set(3, 0), false, false},
		"at zero":                               {set(0, 0), false, false},
		"one is enough":                         {set(3, 1, wants("first")), true, true},
		"two are enough, one is ready":          {set(3, 1, wants("2")), true, false},
		"two are enough, two are ready":         {set(3, 2, wants("2")), true, true},
		"a number above the replicas means all": {set(3, 2, wants("9")), true, false},
		"a number above the replicas, and all are ready": {set(3, 3, wants("9")), true, true},
		"an invalid number means all":                    {set(3, 2, wants("most")), true, false},
		"the controller has not seen the spec":           {set(3, 3, build.NotObserved()), true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := idle.EnoughReady(row.set, false); got != row.awake {
				t.Errorf("awake: %v", got)
			}
			if got := idle.EnoughReady(row.set, true); got != row.waking {
				t.Errorf("waking: %v", got)
			}
		})
	}
}
