package scalehooks

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestOnlyHookJobsOfTheSetAreObserved: Drydock deletes observed Jobs, so it must not observe Jobs of other origin.
func TestOnlyHookJobsOfTheSetAreObserved(t *testing.T) {
	link := func(role api.Role, set string) build.Option {
		return build.LinkOf(api.Link{Operation: build.ID, Role: role, Namespace: build.Namespace,
			Set: api.SetRef{Name: set, UID: "uid-web"}})
	}
	named := func(name string) build.Option { return build.Edit(func(j *batchv1.Job) { j.Name = name }) }
	for name, row := range map[string]struct {
		job  *batchv1.Job
		want bool
	}{
		"pre hook":                  {hookJob("pre"), true},
		"post hook":                 {hookJob("post"), true},
		"failure hook":              {hookJob("onFailure"), true},
		"another name":              {hookJob("pre", named("mine")), false},
		"name of another operation": {hookJob("pre", named(api.ScaleHookName("ffffffffffff", "pre"))), false},
		"unknown hook":              {hookJob("before"), false},
		"another set":               {hookJob("pre", link(api.RoleScaleHook, "api")), false},
		"hook of a resize member":   {hookJob("pre", link(api.RoleHook, "web")), false},
		"no link":                   {hookJob("pre", build.Edit(func(j *batchv1.Job) { j.Annotations = nil })), false},
		"invalid link":              {hookJob("pre", build.Annotation(api.OperationAnnotation, "{")), false},
	} {
		if got := isHook(row.job, "web"); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
