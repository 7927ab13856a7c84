package command

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestOutcomeOfWait: --wait ends when the operation of the present request has ended, and not before it has begun.
func TestOutcomeOfWait(t *testing.T) {
	requested := build.Annotation(api.ResizeAnnotation, "data=30Gi")
	same := func(phase api.Phase) build.Option {
		record := build.Operation(phase)
		record.Request = "data=30Gi"
		return build.Status(record)
	}
	for _, row := range []struct {
		situation     string
		set           *appsv1.StatefulSet
		ended, failed bool
	}{
		{"no resize", build.Set("web"), true, false},
		{"a resize is requested", build.Set("web", requested), false, false},
		{"a resize is requested after another", build.Set("web", requested, build.Status(build.Operation(api.Failed))), false, false},
		{"the set has not opted in", build.Set("web", requested, build.Label(api.ManagedLabel, "")), true, false},
		{"it runs", build.Set("web", requested, same(api.Moving)), false, false},
		{"it succeeded", build.Set("web", requested, same(api.Succeeded)), true, false},
		{"it failed", build.Set("web", requested, same(api.Failed)), true, true},
		{"it was refused", build.Set("web", requested, same(api.Refused)), true, true},
		{"a retry is requested", build.Set("web", requested, same(api.Failed), build.Annotation(api.RetryAnnotation, "now")), false, false},
		{"a rollback is requested", build.Set("web", requested, same(api.Succeeded), build.Annotation(api.RollbackAnnotation, build.ID)), false,
			false},
		{"the record is unreadable", build.Set("web", build.Annotation(api.StatusAnnotation, "{")), false, true},
		{"the set matches a request of its manifest", build.Set("web", requested, build.Template("data", "30Gi", "fixed")), true, false},
		{"it succeeded, and a later claim is too small", build.Set("web", requested, build.Template("data", "10Gi", "fixed"),
			same(api.Succeeded)), false, false},
		{"a growth by usage begins", build.Set("web", build.Template("data", "10Gi", "fixed"), build.GrowTo("data=30Gi", "")), false, false},
		{"a growth by usage has failed", build.Set("web", build.Template("data", "10Gi", "fixed"), build.GrowTo("data=30Gi", ""),
			build.Status(build.Operation(api.Failed, build.Growth("data=30Gi")))), true, true},
		{"a growth by usage is refused", build.Set("web", build.Template("data", "10Gi", "fixed"), build.GrowTo("data=30Gi", ""),
			build.Status(build.Operation(api.Refused, build.Growth("data=30Gi")))), true, true},
		{"the request is too long for a record", build.Set("web", build.Resize("data="+strings.Repeat("1", 30<<10))), true, true},
	} {
		ended, err := hasEnded(build.World(row.set), true)
		if ended != row.ended || (err != nil) != row.failed {
			t.Errorf("%s: ended %v, error %v", row.situation, ended, err)
		}
	}
}

// TestOutcomeOfOwnResize: resize --wait succeeds only if the resize that it requested has succeeded. A script relies on the exit code.
func TestOutcomeOfOwnResize(t *testing.T) {
	const own, other = "data=30Gi", "data=50Gi"
	record := func(operation, request string, phase api.Phase, options ...func(*api.Resize)) build.Option {
		r := build.Operation(phase, options...)
		r.Operation, r.Request = operation, request
		return build.Status(r)
	}
	const former, next = "aaaaaaaaaaaa", "bbbbbbbbbbbb"
	small, retry := build.Template("data", "10Gi", "fixed"), build.Annotation(api.RetryAnnotation, former)
	for _, row := range []struct {
		situation     string
		set           *appsv1.StatefulSet
		ended, failed bool
	}{
		{"nothing has begun", build.Set("web", small, build.Resize(own)), false, false},
		{"the same request succeeded before, and nothing has begun", build.Set("web", small, build.Resize(own),
			record(former, own, api.Succeeded)), false, false},
		{"the same request failed before, and the retry has not begun", build.Set("web", small, build.Resize(own), retry,
			record(former, own, api.Failed)), false, false},
		{"another user withdrew the request", build.Set("web", small, record(former, other, api.Succeeded)), true, true},
		{"another user replaced the request", build.Set("web", small, build.Resize(other)), true, true},
		{"the replacing request succeeded", build.Set("web", build.Resize(other), record(next, other, api.Succeeded)), true, true},
		{"another resize runs first", build.Set("web", small, build.Resize(own), record(next, other, api.Moving)), false, false},
		{"another resize has ended, and ours begins", build.Set("web", small, build.Resize(own),
			record(next, other, api.Succeeded)), false, false},
		{"ours runs, and the request was replaced", build.Set("web", build.Resize(other), record(next, own, api.Moving)), false, false},
		{"ours succeeded", build.Set("web", build.Resize(own), record(next, own, api.Succeeded)), true, false},
		{"ours succeeded, and the request was replaced", build.Set("web", record(next, own, api.Succeeded)), true, false},
		{"ours was refused", build.Set("web", build.Resize(own), record(next, own, api.Refused)), true, true},
		{"ours was rolled back", build.Set("web", build.Resize(own),
			record(next, own, api.Succeeded, build.RollbackOf("cccccccccccc"))), true, true},
		{"the set matches without an operation", build.Set("web", build.Resize(own), build.Template("data", "30Gi", "fixed")), true, false},
		{"ours succeeded, and a growth by usage runs", build.Set("web", build.Resize(own),
			record(next, own, api.Expanding, build.Growth("data=40Gi"))), true, false},
		{"ours succeeded, and a growth by usage has failed", build.Set("web", build.Resize(own),
			record(next, own, api.Failed, build.Growth("data=40Gi"))), true, false},
		{"a growth by usage runs first", build.Set("web", small, build.Resize(own),
			record(next, other, api.Expanding, build.Growth("data=20Gi"))), false, false},
		{"a growth by usage has failed, and ours begins", build.Set("web", small, build.Resize(own),
			record(next, other, api.Failed, build.Growth("data=20Gi"))), false, false},
	} {
		ended, err := resizeOutcome{request: own, former: former}.hasEnded(build.World(row.set), true)
		if ended != row.ended || (err != nil) != row.failed {
			t.Errorf("%s: ended %v, error %v", row.situation, ended, err)
		}
	}
}

// TestResizeThatNobodyBeginsIsNoSuccess: the record of the same request from before is not the outcome of this command.
func TestResizeThatNobodyBeginsIsNoSuccess(t *testing.T) {
	record := build.Operation(api.Succeeded)
	set := build.Set("web", build.Template("data", "64Mi", "fixed"), build.Resize(record.Request), build.Status(record))
	o := &resizing{}
	o.overrides.Request = record.Request
	if _, err := o.patch(set); err != nil {
		t.Fatal(err)
	}
	if ended, err := (resizeOutcome{request: record.Request, former: o.former}).hasEnded(build.World(set), true); ended || err != nil {
		t.Errorf("ended %v, error %v", ended, err)
	}
}
