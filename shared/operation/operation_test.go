package operation_test

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

func cleanup(phase api.Phase) build.Option {
	record := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Kind: api.KindCleanup, Operation: build.ID, Phase: phase,
		Set: api.SetRef{Name: "web", UID: "uid-web"}}}
	return build.Annotation(api.CleanupAnnotation, record.Encode())
}

func scaling(phase api.Phase) build.Option {
	record := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Operation: build.ID, Phase: phase,
		Set: api.SetRef{Name: "web", UID: "uid-web"}}}
	return build.Annotation(api.ScaleAnnotation, record.Encode())
}

// Invariants: I3.
func TestI3SleepIsOfThisVerySet(t *testing.T) {
	stored := func(change func(*api.Sleep)) build.Option {
		return build.Annotation(api.SleepAnnotation, build.Sleep(api.Asleep, change).Encode())
	}
	nothing := func(*api.Sleep) {}
	for name, row := range map[string]struct {
		options []build.Option
		want    bool
		err     bool
	}{
		"it never slept": {nil, false, false},
		"its own":        {[]build.Option{stored(nothing)}, true, false},
		"of another UID, as in a copied manifest": {[]build.Option{stored(nothing), build.UID("uid-2")}, false, false},
		"of another name":                         {[]build.Option{stored(func(s *api.Sleep) { s.Set.Name = "api" })}, false, false},
		"without UID":                             {[]build.Option{stored(func(s *api.Sleep) { s.Set.UID = "" })}, false, false},
		"unreadable":                              {[]build.Option{build.Annotation(api.SleepAnnotation, "{")}, false, true},
		"about a resize": {[]build.Option{build.Annotation(api.SleepAnnotation, build.Operation(api.Moving).Encode())},
			false, true},
		"a resize is none": {[]build.Option{build.Status(build.Operation(api.Moving))}, false, false},
	} {
		got, err := api.LoadSleep(build.Set("web", row.options...))
		if (got != nil) != row.want || (err != nil) != row.err {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// An operation begins only if no other kind has the set. An unreadable record may be one of an active operation.
func TestOnlyOneKindIsBusyWithASet(t *testing.T) {
	for name, row := range map[string]struct {
		options []build.Option
		busy    string // for which kinds another operation has the set
	}{
		"nothing was ever done": {nil, ""},
		"a resize is active":    {[]build.Option{build.Status(build.Operation(api.Moving))}, "Sleep Cleanup Scale "},
		"a rollback is active": {[]build.Option{build.Status(build.Operation(api.Moving, build.Rollback("ba9876543210")))},
			"Sleep Cleanup Scale "},
		"a resize is given up":       {[]build.Option{build.Status(build.Operation(api.Reverting))}, "Sleep Cleanup Scale "},
		"a resize has failed":        {[]build.Option{build.Status(build.Operation(api.Failed))}, ""},
		"a resize has ended":         {[]build.Option{build.Status(build.Operation(api.Succeeded))}, ""},
		"its record cannot be read":  {[]build.Option{build.Annotation(api.StatusAnnotation, "{")}, "Sleep Cleanup Scale "},
		"it sleeps":                  {[]build.Option{build.WithSleep(build.Sleep(api.Asleep))}, "Resize Rollback Cleanup Scale "},
		"it has woken":               {[]build.Option{build.WithSleep(build.Sleep(api.Succeeded))}, ""},
		"its sleep cannot be read":   {[]build.Option{build.Annotation(api.SleepAnnotation, "{")}, "Resize Rollback Cleanup Scale "},
		"it is cleaned up":           {[]build.Option{cleanup(api.Cleaning)}, "Resize Rollback Sleep Scale "},
		"its cleanup has failed":     {[]build.Option{cleanup(api.Failed)}, ""},
		"its cleanup cannot be read": {[]build.Option{build.Annotation(api.CleanupAnnotation, "{")}, "Resize Rollback Sleep Scale "},
		"it is scaled":               {[]build.Option{scaling(api.PreScaling)}, "Resize Rollback Sleep Cleanup "},
		"its scaling has failed":     {[]build.Option{scaling(api.Failed)}, ""},
		"its scaling cannot be read": {[]build.Option{build.Annotation(api.ScaleAnnotation, "{")}, "Resize Rollback Sleep Cleanup "},
		"the records are another set's": {[]build.Option{build.Status(build.Operation(api.Moving)), build.WithSleep(build.Sleep(api.Asleep)),
			cleanup(api.Cleaning), scaling(api.Scaling), build.UID("uid-2")}, ""},
	} {
		records, busy := operation.Of(build.Set("web", row.options...)), ""
		for _, kind := range []api.Kind{api.KindResize, api.KindRollback, api.KindSleep, api.KindCleanup, api.KindScale} {
			if records.Busy(kind) {
				busy += string(kind) + " "
			}
		}
		if busy != row.busy {
			t.Errorf("%s: busy for %q, want %q", name, busy, row.busy)
		}
	}
}

// The retry annotation is one function's to remove: of the cleanup that has failed, else of the others.
func TestWhatARetryIsAbout(t *testing.T) {
	failed := build.Status(build.Operation(api.Failed))
	asked := build.Annotation(api.CleanupTemplateAnnotation, "{}")
	data, retry := build.Template("data", "64Mi", build.Class), build.Annotation(api.RetryAnnotation, "")
	for name, row := range map[string]struct {
		options          []build.Option
		retried, cleanup bool
	}{
		"nothing has failed":                   {[]build.Option{retry}, true, false},
		"a cleanup has failed":                 {[]build.Option{retry, data, asked, cleanup(api.Failed)}, false, true},
		"a cleanup was refused":                {[]build.Option{retry, data, asked, cleanup(api.Refused)}, false, true},
		"one has failed that nobody asks for":  {[]build.Option{retry, data, cleanup(api.Failed)}, true, false},
		"a cleanup and a resize have failed":   {[]build.Option{retry, data, asked, cleanup(api.Failed), failed}, false, true},
		"a resize has failed":                  {[]build.Option{retry, data, failed}, true, false},
		"a cleanup has failed, no retry":       {[]build.Option{data, asked, cleanup(api.Failed)}, false, true},
		"the record of the cleanup is garbage": {[]build.Option{retry, data, asked, build.Annotation(api.CleanupAnnotation, "{")}, true, false},
		"the record of the resize is unreadable": {[]build.Option{retry, data, asked, cleanup(api.Failed),
			build.Annotation(api.StatusAnnotation, "{")}, true, false},
	} {
		set := build.Set("web", row.options...)
		records := operation.Of(set)
		if got := records.Retried(set); got != row.retried {
			t.Errorf("%s: retried %v", name, got)
		}
		if got := records.RestingCleanup(set) != nil; got != row.cleanup {
			t.Errorf("%s: about the cleanup %v", name, got)
		}
	}
}

func TestGivenBack(t *testing.T) {
	for name, row := range map[string]struct {
		set    *appsv1.StatefulSet
		record operation.Record
		want   bool
	}{
		"there is no set":              {nil, build.Operation(api.Finishing), false},
		"there is no record":           {build.Set("web"), (*api.Resize)(nil), false},
		"a resize finishes":            {build.Set("web"), build.Operation(api.Finishing), true},
		"a resize is given up":         {build.Set("web"), build.Operation(api.Reverting), false},
		"a resize moves members":       {build.Set("web"), build.Operation(api.Moving), false},
		"a sleep ends":                 {build.Set("web"), build.Sleep(api.Waking), true},
		"it ends, and has no replicas": {build.Set("web", build.Replicas(0)), build.Sleep(api.Waking), false},
		"it has ended":                 {build.Set("web"), build.Sleep(api.Succeeded), false},
	} {
		if got := operation.GivenBack(row.set, row.record); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestStepsChangeACopy(t *testing.T) {
	sleep := build.Sleep(api.Stopping, build.SleepDue(time.Minute))
	before := sleep.Encode()
	next := operation.Enter(sleep, api.Waking, build.Now, time.Hour)
	if next.Phase != api.Waking || !next.Deadline.Time.Equal(build.Now.Add(time.Hour)) || operation.Overdue(next, build.Now) ||
		!operation.Overdue(next, build.Now.Add(2*time.Hour)) {
		t.Errorf("%+v", next)
	}
	failed := operation.Fail(sleep, api.Failed, build.Now, api.NotReady, "why")
	if failed.Phase != api.Failed || failed.FailedAt != api.Stopping || failed.Deadline != nil || failed.Finished == nil ||
		failed.Message != "why" || operation.MovedBy(failed) != "" {
		t.Errorf("%+v", failed)
	}
	clone := operation.Clone(sleep)
	clone.Head().Message = "changed"
	if sleep.Encode() != before || operation.MovedBy(sleep) != api.IdleTimeout {
		t.Error("a step changed the record that it began with")
	}
}
