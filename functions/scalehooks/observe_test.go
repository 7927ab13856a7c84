package scalehooks

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestWhichJobsAreHooks: the others are nobody's to delete.
func TestWhichJobsAreHooks(t *testing.T) {
	link := func(role api.Role, set string) build.Option {
		return build.LinkOf(api.Link{Operation: build.ID, Role: role, Namespace: build.Namespace, Set: api.SetRef{Name: set, UID: "uid-web"}})
	}
	named := func(name string) build.Option { return build.Edit(func(j *batchv1.Job) { j.Name = name }) }
	for name, row := range map[string]struct {
		job  *batchv1.Job
		want bool
	}{
		"before":               {hook("pre"), true},
		"after":                {hook("post"), true},
		"for a failure":        {hook("onFailure"), true},
		"by another name":      {hook("pre", named("mine")), false},
		"of another operation": {hook("pre", named(api.ScaleHookName("ffffffffffff", "pre"))), false},
		"another hook":         {hook("before"), false},
		"of another set":       {hook("pre", link(api.RoleScaleHook, "api")), false},
		"a hook of a member":   {hook("pre", link(api.RoleHook, "web")), false},
		"without a link":       {hook("pre", build.Edit(func(j *batchv1.Job) { j.Annotations = nil })), false},
		"with a broken link":   {hook("pre", build.Annotation(api.OperationAnnotation, "{")), false},
	} {
		if got := isHook(row.job, "web"); got != row.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
