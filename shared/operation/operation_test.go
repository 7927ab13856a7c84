package operation_test

import (
	"slices"
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

// TestSleepOfAnotherSetCountsAsAbsent: a record in a copied manifest says nothing about the new set.
// Invariants: I3.
func TestSleepOfAnotherSetCountsAsAbsent(t *testing.T) {
	stored := func(change func(*api.Sleep)) build.Option {
		return build.Annotation(api.SleepAnnotation, build.Sleep(api.Asleep, change).Encode())
	}
	nothing := func(*api.Sleep) {}
	for name, row := range map[string]struct {
		options []build.Option
		want    bool
		err     bool
	}{
		"the set never slept":                  {nil, false, false},
		"the set's own record":                 {[]build.Option{stored(nothing)}, true, false},
		"another UID, as in a copied manifest": {[]build.Option{stored(nothing), build.UID("uid-2")}, false, false},
		"another name":                         {[]build.Option{stored(func(s *api.Sleep) { s.Set.Name = "api" })}, false, false},
		"no UID":                               {[]build.Option{stored(func(s *api.Sleep) { s.Set.UID = "" })}, false, false},
		"unreadable":                           {[]build.Option{build.Annotation(api.SleepAnnotation, "{")}, false, true},
		"a resize in the annotation of the sleep": {[]build.Option{build.Annotation(api.SleepAnnotation, build.Operation(api.Moving).Encode())},
			false, true},
		"a resize in its own annotation": {[]build.Option{build.Status(build.Operation(api.Moving))}, false, false},
	} {
		got, err := api.LoadSleep(build.Set("web", row.options...))
		if (got != nil) != row.want || (err != nil) != row.err {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// TestBusySetAllowsOnlyOneKind: an operation begins only if no operation of another kind is active. An unreadable record counts as active.
func TestBusySetAllowsOnlyOneKind(t *testing.T) {
	for name, row := range map[string]struct {
		options []build.Option
		busy    string // the kinds that may not begin
	}{
		"no operation was ever begun": {nil, ""},
		"a resize is active":          {[]build.Option{build.Status(build.Operation(api.Moving))}, "Sleep Cleanup Scale "},
		"a rollback is active": {[]build.Option{build.Status(build.Operation(api.Moving, build.RollbackOf("ba9876543210")))},
			"Sleep Cleanup Scale "},
		"a resize is reverting":                {[]build.Option{build.Status(build.Operation(api.Reverting))}, "Sleep Cleanup Scale "},
		"a resize has failed":                  {[]build.Option{build.Status(build.Operation(api.Failed))}, ""},
		"a resize has ended":                   {[]build.Option{build.Status(build.Operation(api.Succeeded))}, ""},
		"the record of a resize is unreadable": {[]build.Option{build.Annotation(api.StatusAnnotation, "{")}, "Sleep Cleanup Scale "},
		"it sleeps":                            {[]build.Option{build.WithSleep(build.Sleep(api.Asleep))}, "Resize Rollback Cleanup "},
		"its operator has stopped it": {[]build.Option{build.WithSleep(build.Sleep(api.Asleep, build.OwnerStops()))},
			"Resize Rollback Cleanup Scale "},
		"it has woken":               {[]build.Option{build.WithSleep(build.Sleep(api.Succeeded))}, ""},
		"its sleep cannot be read":   {[]build.Option{build.Annotation(api.SleepAnnotation, "{")}, "Resize Rollback Cleanup Scale "},
		"it is cleaned up":           {[]build.Option{cleanup(api.Cleaning)}, "Resize Rollback Sleep Scale "},
		"its cleanup has failed":     {[]build.Option{cleanup(api.Failed)}, ""},
		"its cleanup cannot be read": {[]build.Option{build.Annotation(api.CleanupAnnotation, "{")}, "Resize Rollback Sleep Scale "},
		"it is scaled":               {[]build.Option{scaling(api.PreScaling)}, "Resize Rollback Sleep Cleanup "},
		"its scaling has failed":     {[]build.Option{scaling(api.Failed)}, ""},
		"its scaling cannot be read": {[]build.Option{build.Annotation(api.ScaleAnnotation, "{")}, "Resize Rollback Sleep Cleanup "},
		"the records belong to another set": {[]build.Option{build.Status(build.Operation(api.Moving)), build.WithSleep(build.Sleep(api.Asleep)),
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

// TestRetryBelongsToOneFunction: cleanup-pod removes the retry annotation if a cleanup has failed, another function otherwise.
func TestRetryBelongsToOneFunction(t *testing.T) {
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
		"an abandoned cleanup has failed":      {[]build.Option{retry, data, cleanup(api.Failed)}, true, false},
		"a cleanup and a resize have failed":   {[]build.Option{retry, data, asked, cleanup(api.Failed), failed}, false, true},
		"a resize has failed":                  {[]build.Option{retry, data, failed}, true, false},
		"a cleanup has failed, no retry":       {[]build.Option{data, asked, cleanup(api.Failed)}, false, true},
		"the record of the cleanup is garbage": {[]build.Option{retry, data, asked, build.Annotation(api.CleanupAnnotation, "{")}, true, false},
		"the record of the resize is unreadable": {[]build.Option{retry, data, asked, cleanup(api.Failed),
			build.Annotation(api.StatusAnnotation, "{")}, true, false},
	} {
		set := build.Set("web", row.options...)
		records := operation.Of(set)
		if got := records.ResizeRetried(set); got != row.retried {
			t.Errorf("%s: retried %v", name, got)
		}
		if got := records.CleanupAwaitingRetry(set) != nil; got != row.cleanup {
			t.Errorf("%s: about the cleanup %v", name, got)
		}
	}
}

// TestRetryUnderOperatorNamesItsOperation: an operator may copy the annotation to its set again and again, so only the id of an operation
// that waits for a retry counts. Without an operator, either value does.
// Invariants: I7.
func TestRetryUnderOperatorNamesItsOperation(t *testing.T) {
	const other = "ba9876543210"
	data, asked, owned := build.Template("data", "64Mi", build.Class), build.Annotation(api.CleanupTemplateAnnotation, "{}"),
		build.ControlledBy("Database", "main")
	retry := func(value string) build.Option { return build.Annotation(api.RetryAnnotation, value) }
	resize := func(phase api.Phase) build.Option { return build.Status(build.Operation(phase)) }
	sleep := func(phase api.Phase) build.Option {
		return build.WithSleep(build.Sleep(phase, func(s *api.Sleep) { s.Operation = build.ID }))
	}
	type answer struct{ retried, sleep, cleanup, unnamed bool }
	type options = []build.Option
	slept := answer{sleep: true}
	cleaned, resized, either := answer{cleanup: true}, answer{retried: true}, answer{retried: true, sleep: true}
	for name, row := range map[string]struct {
		options     []build.Option
		owned, free answer // what an annotation means on a set with an operator, and on one without
	}{
		"the resize that failed":      {options{retry(build.ID), resize(api.Failed)}, resized, either},
		"the resize that was refused": {options{retry(build.ID), resize(api.Refused)}, resized, either},
		"a rollback that succeeded": {options{retry(build.ID), build.Status(build.Operation(api.Succeeded, build.RollbackOf(other)))}, resized,
			either},
		"an earlier attempt":      {options{retry(other), resize(api.Failed)}, answer{}, either},
		"a resize that succeeded": {options{retry(build.ID), resize(api.Succeeded)}, answer{}, either},
		"a resize that runs":      {options{retry(build.ID), resize(api.Moving)}, answer{}, either},
		"nothing":                 {options{retry(build.ID)}, answer{}, either},
		"no id":                   {options{retry("now"), resize(api.Failed)}, answer{unnamed: true}, either},
		"no value":                {options{retry(""), resize(api.Failed)}, answer{unnamed: true}, either},
		"no annotation":           {options{resize(api.Failed)}, answer{}, answer{}},
		"the sleep that failed":   {options{retry(build.ID), sleep(api.Failed)}, slept, either},
		"the sleep, although sizes are asked": {options{retry(build.ID), sleep(api.Failed), data, build.Resize("data=1Gi")},
			slept, resized},
		"another sleep":                {options{retry(other), sleep(api.Refused)}, answer{}, either},
		"a sleep that runs":            {options{retry(build.ID), sleep(api.Asleep)}, answer{}, either},
		"the cleanup that failed":      {options{retry(build.ID), data, asked, cleanup(api.Failed)}, cleaned, cleaned},
		"an earlier cleanup":           {options{retry(other), data, asked, cleanup(api.Failed)}, answer{}, answer{cleanup: true}},
		"a cleanup that has succeeded": {options{retry(build.ID), data, asked, cleanup(api.Succeeded)}, answer{}, either},
	} {
		answerOf := func(set *appsv1.StatefulSet) answer {
			records := operation.Of(set)
			return answer{records.ResizeRetried(set), records.SleepRetried(set), operation.CleanupRetried(set, records.Cleanup),
				operation.RetryNamesNothing(set)}
		}
		if got := answerOf(build.Set("web", append(slices.Clip(row.options), owned)...)); got != row.owned {
			t.Errorf("%s, with an operator: %+v, want %+v", name, got, row.owned)
		}
		if got := answerOf(build.Set("web", row.options...)); got != row.free {
			t.Errorf("%s, without an operator: %+v, want %+v", name, got, row.free)
		}
	}
}

func TestSetIsGivenBackWhenNothingStopsItAgain(t *testing.T) {
	for name, row := range map[string]struct {
		set    *appsv1.StatefulSet
		record operation.Record
		want   bool
	}{
		"there is no set":               {nil, build.Operation(api.Finishing), false},
		"there is no record":            {build.Set("web"), (*api.Resize)(nil), false},
		"a resize finishes":             {build.Set("web"), build.Operation(api.Finishing), true},
		"a resize is reverting":         {build.Set("web"), build.Operation(api.Reverting), false},
		"a resize moves members":        {build.Set("web"), build.Operation(api.Moving), false},
		"a sleep ends":                  {build.Set("web"), build.Sleep(api.Waking), true},
		"a sleep ends without replicas": {build.Set("web", build.Replicas(0)), build.Sleep(api.Waking), false},
		"a sleep has ended":             {build.Set("web"), build.Sleep(api.Succeeded), false},
	} {
		if got := operation.NoLongerStops(row.set, row.record); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestStepsDoNotChangeTheirRecord(t *testing.T) {
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
		t.Error("a step changed its argument")
	}
}

// TestSleepThatNobodyRequestsIsWithdrawn: a refused or failed sleep counts in alerts until its request is removed, or its cause is gone.
func TestSleepThatNobodyRequestsIsWithdrawn(t *testing.T) {
	ended := func(phase api.Phase, reason api.Reason, options ...func(*api.Sleep)) build.Option {
		return build.WithSleep(build.Sleep(phase, append(options, build.SleepEnded(reason, time.Hour))...))
	}
	refused, ready, idle := ended(api.Refused, api.OwnerNotPausable), build.ReadyFor(time.Minute), build.IdleTimeout("1h")
	late := ended(api.Failed, api.HookFailed, func(s *api.Sleep) { s.StartsLate = true })
	for situation, row := range map[string]struct {
		options []build.Option
		want    bool
	}{
		"refused, and requested":            {[]build.Option{refused, idle}, false},
		"refused, and requested by a group": {[]build.Option{refused, build.InGroup("shop")}, false},
		"refused, and still paused":         {[]build.Option{refused, build.Paused()}, false},
		"refused, and no longer requested":  {[]build.Option{refused}, true},
		"refused, and corrected":            {[]build.Option{ended(api.Refused, api.CauseGone), idle}, true},
		"failed, ready, and not requested":  {[]build.Option{ended(api.Failed, api.StartedByOthers, ready)}, true},
		"failed, ready, and requested":      {[]build.Option{ended(api.Failed, api.StartedByOthers, build.ReadyFor(time.Hour)), idle}, false},
		"failed, not ready, not requested":  {[]build.Option{late}, false},
		"failed, not ready, and given up":   {[]build.Option{late, build.Replicas(0)}, true},
		"refused, and the pause is false":   {[]build.Option{refused, build.Annotation(api.PausedAnnotation, "false")}, true},
		"failed, and ready after that":      {[]build.Option{ended(api.Failed, api.CauseGone, ready), idle}, true},
		"asleep, and not requested":         {[]build.Option{build.WithSleep(build.Sleep(api.Asleep))}, false},
	} {
		records := operation.Of(build.Set("web", row.options...))
		if got := records.Settled(records.Sleep); got != row.want {
			t.Errorf("%s: settled %t", situation, got)
		}
	}
}

// TestGrowthWithOtherFloorsIsWithdrawn: a growth by usage that was refused or has failed counts in alerts until its floors change.
func TestGrowthWithOtherFloorsIsWithdrawn(t *testing.T) {
	floor := build.GrowTo("data=128Mi", "")
	for situation, row := range map[string]struct {
		phase   api.Phase
		options []build.Option
		want    bool
	}{
		"refused":                          {api.Refused, []build.Option{floor}, false},
		"failed":                           {api.Failed, []build.Option{floor}, false},
		"failed, beside a user's request":  {api.Failed, []build.Option{floor, build.Resize("data=64Mi")}, false},
		"failed, and the floor is higher":  {api.Failed, []build.Option{build.GrowTo("data=256Mi", "")}, true},
		"failed, and growth is turned off": {api.Failed, nil, true},
		"active, and growth is turned off": {api.Expanding, nil, false},
	} {
		status := build.Status(build.Operation(row.phase, build.Growth("data=128Mi")))
		records := operation.Of(build.Set("web", append(row.options, status)...))
		if got := records.Withdrawn(records.Resize); got != row.want {
			t.Errorf("%s: withdrawn %t", situation, got)
		}
	}
}

// TestAbortByManifestIsCalledWithdrawn: a user who applied a manifest did not abort anything.
func TestAbortByManifestIsCalledWithdrawn(t *testing.T) {
	for value, want := range map[string]string{"withdrawn": "withdrawn by an applied manifest; ", "now": "", build.ID: ""} {
		if got := operation.AbortWords(build.Set("web", build.Annotation(api.AbortAnnotation, value))); got != want {
			t.Errorf("%s: %q, want %q", value, got, want)
		}
	}
}
