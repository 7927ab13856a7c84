package overview

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestListShowsEveryOperationThatAnAlertCounts: the alerts for failed, refused and unreadable operations count all kinds, and tell the user
// to find the set in the list.
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
	resize := func(phase api.Phase) build.Option { return build.Status(build.Operation(phase)) }
	for situation, row := range map[string]struct {
		options []build.Option
		want    string
	}{
		"a cleanup has failed":               {[]build.Option{cleanup(api.Failed)}, "Cleanup Failed"},
		"a cleanup was refused":              {[]build.Option{resize(api.Succeeded), cleanup(api.Refused)}, "Cleanup Refused"},
		"a scaling has failed":               {[]build.Option{scaling(api.Failed)}, "Scale Failed"},
		"a sleep has failed":                 {[]build.Option{build.WithSleep(build.Sleep(api.Failed))}, "Sleep Failed"},
		"a cleanup cannot be read":           {[]build.Option{build.Annotation(api.CleanupAnnotation, "{")}, "Cleanup "},
		"a scaling cannot be read":           {[]build.Option{build.Annotation(api.ScaleAnnotation, "{")}, "Scale "},
		"a sleep cannot be read":             {[]build.Option{build.Annotation(api.SleepAnnotation, "{")}, "Sleep "},
		"a resize runs, a scaling failed":    {[]build.Option{resize(api.Moving), scaling(api.Failed)}, "Resize Moving"},
		"a scaling runs, a resize failed":    {[]build.Option{resize(api.Failed), scaling(api.Scaling)}, "Scale Scaling"},
		"everything has succeeded":           {[]build.Option{resize(api.Succeeded), cleanup(api.Succeeded), scaling(api.Succeeded)}, ""},
		"a set sleeps, and nothing else":     {[]build.Option{build.Replicas(0), build.WithSleep(build.Sleep(api.Asleep))}, ""},
		"a sleep has ended as it should":     {[]build.Option{build.WithSleep(build.Sleep(api.Succeeded))}, ""},
		"a resize and a cleanup have failed": {[]build.Option{resize(api.Failed), cleanup(api.Failed)}, "Resize Failed"},
	} {
		got := ""
		if o := New([]*appsv1.StatefulSet{build.Set("web", row.options...)}, build.Now).Sets[0].Operation; o != nil {
			got = string(o.Kind) + " " + string(o.Phase)
		}
		if got != row.want {
			t.Errorf("%s: the list shows %q, want %q", situation, got, row.want)
		}
	}
}
