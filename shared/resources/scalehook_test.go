package resources_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// scaleHook is a hook of a scaling of workload.
func scaleHook(t *testing.T, hook string, previous, target int32, timeout time.Duration, options ...build.Option) *batchv1.Job {
	t.Helper()
	set := build.With(workload(), options...)
	template, err := resources.ParseHook(set, "the hook", switchover)
	if err != nil {
		t.Fatal(err)
	}
	record := &api.Scale{Header: api.Header{Operation: build.ID, Kind: api.KindScale, Set: api.SetRef{Name: set.Name, UID: set.UID}},
		Scaler: api.ScalerRef{Name: "pilot", UID: "uid-pilot"}, Previous: previous, Target: target}
	return resources.MakeScaleHook(set, record, hook, template, timeout)
}

func startsAt(first int32) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: first} })
}

func TestScaleHookJob(t *testing.T) {
	golden(t, "scale-hook", scaleHook(t, "pre", 5, 3, 10*time.Minute))
}

func TestScaleHookIsToldWhatIsScaled(t *testing.T) {
	for name, row := range map[string]struct {
		previous, target, first int32
		direction               string
		added, removed          string
	}{
		"up":                        {1, 3, 0, "up", "1,2", ""},
		"up from none":              {0, 2, 0, "up", "0,1", ""},
		"down":                      {5, 3, 0, "down", "", "3,4"},
		"down to none":              {2, 0, 0, "down", "", "0,1"},
		"up, ordinals from 7":       {1, 3, 7, "up", "8,9", ""},
		"down, ordinals from 7":     {3, 1, 7, "down", "", "8,9"},
		"to none, ordinals from 7":  {2, 0, 7, "down", "", "7,8"},
		"a retry, and nothing left": {2, 2, 0, "up", "", ""},
	} {
		for _, hook := range []string{"pre", "post", "onFailure"} {
			job := scaleHook(t, hook, row.previous, row.target, time.Minute, startsAt(row.first))
			env := map[string]string{}
			for _, e := range job.Spec.Template.Spec.Containers[0].Env[:10] {
				env[strings.TrimPrefix(e.Name, "DRYDOCK_")] = e.Value
			}
			if env["DIRECTION"] != row.direction || env["ADDED"] != row.added || env["REMOVED"] != row.removed || env["HOOK"] != hook {
				t.Errorf("%s, %s: %v", name, hook, env)
			}
		}
	}
}

// TestScaleHookOfAGreatStep stays within what an object may have.
func TestScaleHookOfAGreatStep(t *testing.T) {
	job := scaleHook(t, "post", 0, 2147483647, time.Minute)
	for _, e := range job.Spec.Template.Spec.Containers[0].Env {
		if len(e.Value) > 64<<10 {
			t.Errorf("%s has %d bytes", e.Name, len(e.Value))
		}
	}
}

// TestScaleHookHasALimit, whatever is left of its time: the API server takes no Job without a second.
func TestScaleHookHasALimit(t *testing.T) {
	for left, want := range map[time.Duration]int64{10 * time.Minute: 600, time.Millisecond: 1, 0: 1, -time.Hour: 1} {
		if got := scaleHook(t, "pre", 1, 2, left).Spec.ActiveDeadlineSeconds; got == nil || *got != want {
			t.Errorf("%s left: %v", left, got)
		}
	}
}
