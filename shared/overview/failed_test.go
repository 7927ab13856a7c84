package overview

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestListShowsEveryOperationThatAnAlertCounts: the alerts for failed, refused and unreadable operations count all kinds, and tell the user
// to find the set in the list. An active operation hides no failed one.
func TestListShowsEveryOperationThatAnAlertCounts(t *testing.T) {
	header := func(kind api.Kind, phase api.Phase) api.Header {
		return api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: kind, Phase: phase, Request: "x", Attempt: 1,
			Set: api.SetRef{Name: "web", UID: "uid-web"}, Started: metav1.NewTime(build.Now), Reason: api.NotReady}
	}
	cleanup := func(phase api.Phase) build.Option {
		return build.Annotation(api.CleanupAnnotation, (&api.Cleanup{Header: header(api.KindCleanup, phase)}).Encode())
	}
	scaling := func(phase api.Phase) build.Option {
		return build.Annotation(api.ScaleAnnotation, (&api.Scale{Header: header(api.KindScale, phase)}).Encode())
	}
	request := build.Resize("data=128Mi")
	resize := func(phase api.Phase) build.Option {
		return func(set metav1.Object) {
			request(set)
			build.Status(build.Operation(phase))(set)
		}
	}
	withdrawn := func(phase api.Phase) build.Option { return build.Status(build.Operation(phase)) }
	aborted := build.Status(build.Operation(api.Failed, func(r *api.Resize) { r.Reason = api.Aborted }))
	paused := build.Status(build.Operation(api.Succeeded, func(r *api.Resize) { r.OwnerProblem = "it says 1Gi" }))
	idle := build.IdleTimeout("1h")
	for situation, row := range map[string]struct {
		options []build.Option
		want    string
	}{
		"a cleanup has failed":                  {[]build.Option{cleanup(api.Failed)}, "Cleanup Failed"},
		"a cleanup was refused":                 {[]build.Option{resize(api.Succeeded), cleanup(api.Refused)}, "Cleanup Refused"},
		"a scaling has failed":                  {[]build.Option{scaling(api.Failed)}, "Scale Failed"},
		"a sleep has failed":                    {[]build.Option{idle, build.WithSleep(build.Sleep(api.Failed))}, "Sleep Failed"},
		"a cleanup cannot be read":              {[]build.Option{build.Annotation(api.CleanupAnnotation, "{")}, "Cleanup "},
		"a scaling cannot be read":              {[]build.Option{build.Annotation(api.ScaleAnnotation, "{")}, "Scale "},
		"a sleep cannot be read":                {[]build.Option{build.Annotation(api.SleepAnnotation, "{")}, "Sleep "},
		"a resize runs, a scaling failed":       {[]build.Option{resize(api.Moving), scaling(api.Failed)}, "Resize Moving, Scale Failed"},
		"a scaling runs, a resize failed":       {[]build.Option{resize(api.Failed), scaling(api.Scaling)}, "Scale Scaling, Resize Failed"},
		"everything has succeeded":              {[]build.Option{resize(api.Succeeded), cleanup(api.Succeeded), scaling(api.Succeeded)}, ""},
		"its owner stays paused after a resize": {[]build.Option{request, paused}, "Resize Succeeded"},
		"a set sleeps, and nothing else":        {[]build.Option{build.Replicas(0), build.WithSleep(build.Sleep(api.Asleep))}, ""},
		"a user withdrew a failed resize":       {[]build.Option{withdrawn(api.Failed)}, ""},
		"a user withdrew a refused resize":      {[]build.Option{withdrawn(api.Refused)}, ""},
		"a resize failed, and the request that replaces it is invalid": {[]build.Option{build.Resize("data=25Gb"),
			withdrawn(api.Failed)}, "Resize Failed"},
		"a user aborted a resize": {[]build.Option{request, aborted}, ""},
		"a rollback was refused": {[]build.Option{build.Status(build.Operation(api.Refused, build.RollbackOf(build.ID)))},
			"Rollback Refused"},
		"a sleep has ended as it should":     {[]build.Option{build.WithSleep(build.Sleep(api.Succeeded))}, ""},
		"a resize and a cleanup have failed": {[]build.Option{resize(api.Failed), cleanup(api.Failed)}, "Resize Failed, Cleanup Failed"},
	} {
		var shown []string
		for _, o := range New(factsOf(build.Set("web", row.options...)), build.Now).Sets[0].Operations {
			shown = append(shown, string(o.Kind)+" "+string(o.Phase))
		}
		if got := strings.Join(shown, ", "); got != row.want {
			t.Errorf("%s: the list shows %q, want %q", situation, got, row.want)
		}
	}
}
