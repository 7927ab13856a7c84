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
	tenth := time.Date(2026, 1, 1, 12, 10, 0, 0, time.UTC)
	for name, row := range map[string]struct {
		reason api.Reason
		ago    time.Duration
		now    time.Time
		want   bool
	}{
		"a minute ago":                                  {api.QuotaExceeded, time.Minute, tenth.Add(time.Minute), true},
		"an hour ago, between two tenth minutes":        {api.QuotaExceeded, time.Hour, tenth.Add(time.Minute), false},
		"an hour ago, in a tenth minute":                {api.QuotaExceeded, time.Hour, tenth, true},
		"only a change of the set can remove the cause": {api.RequestInvalid, time.Minute, tenth, false},
	} {
		t.Run(name, func(t *testing.T) {
			status := build.Operation(api.Refused)
			status.Reason, status.Finished = row.reason, operation.Moment(row.now.Add(-row.ago))
			if got := RefusalDue(status, row.now); got != row.want {
				t.Errorf("due %v, want %v", got, row.want)
			}
		})
	}
}
