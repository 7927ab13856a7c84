package resize

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

func TestRefusalDigestCoversTheSet(t *testing.T) {
	before := RefusalDigest(build.Set("web", build.Resize("data=1Gi")))
	for name, row := range map[string]struct {
		change build.Option
		same   bool
	}{
		"no change":             {build.Edit(func(*appsv1.StatefulSet) {}), true},
		"a foreign label":       {build.Label("team", "a"), true},
		"the record":            {build.Annotation(api.StatusAnnotation, "{}"), true},
		"the method":            {method(api.MethodCopy), false},
		"the strategy":          {build.Annotation(api.StrategyAnnotation, "rolling"), false},
		"the cutover":           {build.Annotation(api.CutoverAnnotation, "approve"), false},
		"the longest stop":      {build.Annotation(api.MaxStopAnnotation, "30s"), false},
		"the first pass":        {build.Annotation(api.FirstPassAnnotation, "off"), false},
		"the member check":      {build.Annotation(api.MemberCheckAnnotation, "tcp:80"), false},
		"a hook":                {build.Annotation(api.BeforeMemberAnnotation, "{}"), false},
		"the options of movers": {build.Annotation(api.MoverAnnotation, "{}"), false},
		"the parallelism":       {build.Annotation(api.ResizeParallelismAnnotation, "1"), false},
		"the owner policy":      {build.Annotation(api.OwnerPolicyAnnotation, "ignore"), false},
		"the spec":              {build.Generation(6), false},
		"the finalizers":        {build.Finalizers("example.com/keep"), false},
		"the owner":             {build.ControlledBy("Database", "main"), false},
		"the request":           {build.Resize("data=2Gi"), false},
		"the retry annotation":  {build.Annotation(api.RetryAnnotation, "now"), true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RefusalDigest(build.Set("web", build.Resize("data=1Gi"), row.change)); (got == before) != row.same {
				t.Errorf("digest %s, before %s, want the same: %v", got, before, row.same)
			}
		})
	}
}

func TestRefusalIsRepeatedLessOftenWithTime(t *testing.T) {
	for name, row := range map[string]struct {
		reason api.Reason
		ago    time.Duration
		tick   time.Duration
		want   int // checks in an hour
	}{
		"a minute ago, a tick each minute":              {api.QuotaExceeded, time.Minute, time.Minute, 60},
		"an hour ago, a tick each minute":               {api.QuotaExceeded, time.Hour, time.Minute, 6},
		"an hour ago, a tick every five minutes":        {api.QuotaExceeded, time.Hour, 5 * time.Minute, 6},
		"an hour ago, a tick every 20 minutes":          {api.QuotaExceeded, time.Hour, 20 * time.Minute, 3},
		"only a change of the set can remove the cause": {api.RequestInvalid, time.Minute, time.Minute, 0},
	} {
		t.Run(name, func(t *testing.T) {
			status, checks := build.Operation(api.Refused), 0
			for now := build.Now; now.Before(build.Now.Add(time.Hour)); now = now.Add(row.tick) {
				status.Reason, status.Finished = row.reason, operation.Moment(now.Add(-row.ago))
				change := operation.Change{Set: build.Set("web"), Now: now, PreviousSweep: now.Add(-row.tick), Swept: true}
				if RefusalDue(change, status) {
					checks++
				}
			}
			if checks != row.want {
				t.Errorf("%d checks in an hour, want %d", checks, row.want)
			}
		})
	}
}
