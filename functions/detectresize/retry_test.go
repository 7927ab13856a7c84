package detectresize

import (
	"testing"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestRetryOfCleanupIsLeftToCleanupPod: cleanup-pod has to see the retry of its cleanup, so detect-resize must not remove the annotation.
func TestRetryOfCleanupIsLeftToCleanupPod(t *testing.T) {
	failed := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Kind: api.KindCleanup, Operation: "c0ffee012345",
		Phase: api.Failed,
		Set:   api.SetRef{Name: "web", UID: "uid-web"}}}
	retry, template := build.Annotation(api.RetryAnnotation, ""), build.Annotation(api.CleanupTemplateAnnotation, "{}")
	cleaned := build.Annotation(api.CleanupAnnotation, failed.Encode())
	upToDate := build.Resize("data=64Mi")
	check(t,
		row{"the retry is for a resize", given(set(upToDate, retry))},
		row{"the retry is for a cleanup", given(set(upToDate, retry, template, cleaned))},
	)
	for name, row := range map[string]struct {
		options []build.Option
		removed bool
	}{
		"a resize starts": {[]build.Option{retry}, true},
		"a resize starts, and a cleanup has failed":     {[]build.Option{retry, template, cleaned}, false},
		"a resize is refused":                           {[]build.Option{retry, build.Resize("much")}, true},
		"a resize is refused, and a cleanup has failed": {[]build.Option{retry, template, cleaned, build.Resize("much")}, false},
	} {
		removed := false
		for _, a := range Decide(given(set(row.options...), bothMembers())).Actions {
			for _, op := range a.Ops {
				removed = removed || op.Op == "remove" && op.Path == "/metadata/annotations/drydock.dev~1retry"
			}
		}
		if removed != row.removed {
			t.Errorf("%s: the retry annotation is removed: %v", name, removed)
		}
	}
}

// TestRetryThatRepeatsNothing is removed, and an Event says where it belongs. A retry that another function takes up stays.
func TestRetryThatRepeatsNothing(t *testing.T) {
	retry, named := build.Annotation(api.RetryAnnotation, "now"), build.Annotation(api.RetryAnnotation, build.ID)
	web := func(options ...build.Option) Input {
		options = append([]build.Option{build.Template("data", "64Mi", "fixed"), retry}, options...)
		return given(objects{build.Set("web", options...)}, bothMembers())
	}
	scaling := func(scaler string) build.Option {
		failed := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Operation: "5ca1e0123456", Phase: api.Failed,
			Set: api.SetRef{Name: "web", UID: "uid-web"}}, Scaler: api.ScalerRef{Name: scaler}}
		return build.Annotation(api.ScaleAnnotation, failed.Encode())
	}
	rolledBack := build.Operation(api.Succeeded, build.RollbackOf(build.ID), func(r *api.Resize) { r.Operation = "ba9876543210" })
	rollback, ofSleep := build.Annotation(api.RetryAnnotation, "ba9876543210"), build.Annotation(api.RetryAnnotation, build.SleepID)
	refusedSleep := build.WithSleep(build.Sleep(api.Refused))
	sleep := func(phase api.Phase) build.Option { return build.WithSleep(build.Sleep(phase)) }
	cleanup := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Kind: api.KindCleanup, Operation: "c0ffee012345", Phase: api.Failed,
		Set: api.SetRef{Name: "web", UID: "uid-web"}}}
	check(t,
		row{"nothing has ever begun", web()},
		row{"the resize failed, and its request was withdrawn", web(build.Status(build.Operation(api.Failed)))},
		row{"a scaling failed", web(scaling("pilot"))},
		row{"a scaling failed, and a user wrote the record", web(scaling("$(id)"))},
		row{"every claim fulfils the request, and a sleep was refused", given(set(build.Resize("data=64Mi"), retry, sleep(api.Refused)))},
		row{"a sleep was refused: idle-timeout takes the retry up", web(sleep(api.Refused))},
		row{"a sleep failed: idle-timeout takes the retry up", web(sleep(api.Failed))},
		row{"a sleep runs", web(sleep(api.Waking))},
		row{"a sleep has ended", web(sleep(api.Succeeded))},
		row{"a cleanup failed: cleanup-pod takes the retry up", web(build.Annotation(api.CleanupAnnotation, cleanup.Encode()),
			build.Annotation(api.CleanupTemplateAnnotation, "{}"))},
		row{"the set is not opted in", web(build.Label(api.ManagedLabel, ""))},
		row{"an operator copies it: it stays, and an Event explains it", web(build.ControlledBy("Database", "main"))},
		row{"an operator makes the set, and nothing is left to do: it stays", given(set(build.Resize("data=64Mi"), named,
			build.ControlledBy("Database", "main"), build.Status(build.Operation(api.Failed))))},
		row{"an operator makes the set, and kubectl drydock resize repeats what was rolled back", given(ofOperator("64Mi", "fixed",
			build.Resize("data=128Mi"), build.Status(rolledBack), rollback), bothMembers())},
		row{"an operator makes the set, and the retry is for its sleep", given(ofOperator("64Mi", "fixed", build.Resize("data=128Mi"),
			build.Status(build.Operation(api.Failed)), refusedSleep, ofSleep), bothMembers())},
		row{"an operator makes the set, which fulfils its request, and the retry is for its sleep", given(ofOperator("64Mi", "fixed",
			build.Resize("data=64Mi"), refusedSleep, ofSleep), bothMembers())},
		row{"an operator copies a retry of the past: it stays", web(build.ControlledBy("Database", "main"),
			build.Annotation(api.RetryAnnotation, "ba9876543210"), build.Status(build.Operation(api.Failed)))},
	)
}
