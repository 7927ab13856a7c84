package restore

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// changesFields turns the operation into a change of the set's fields only.
func changesFields(fields, before []api.Field) func(*api.Resize) {
	return func(r *api.Resize) {
		r.Templates, r.ReplaceSet, r.Fields, r.FieldsBefore = nil, true, fields, before
		r.Request = api.Words(fields)[0]
		r.Operation = api.OperationID(r.Set.UID, r.Request, r.Attempt)
	}
}

// TestFieldsOperationRecreatesSet: the set is created again around its pods, and nothing else happens.
func TestFieldsOperationRecreatesSet(t *testing.T) {
	service := func(name string) []api.Field { return []api.Field{{Name: api.FieldServiceName, Value: name}} }
	change, more := changesFields(service("db"), service("web")), api.Field{Name: api.FieldTemplate, Template: "logs",
		Ask: &api.TemplateTarget{Name: "logs", Size: resource.MustParse("1Gi"), Modes: build.Claim(web0, "1Gi").Spec.AccessModes}}
	less := more
	less.Removed, less.Ask = true, nil
	adds, removes := changesFields([]api.Field{more}, []api.Field{less}), changesFields([]api.Field{less}, []api.Field{more})
	at := func(phase api.Phase, change func(*api.Resize), options ...build.Option) objects {
		record := build.Operation(phase, change)
		if phase == api.Reverting {
			because(record)
		}
		return setWith(record, append([]build.Option{build.Replicas(1),
			build.Edit(func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "web" })}, options...)...)
	}
	journalled := func(change func(*api.Resize)) objects {
		return objects{build.Journal(build.Operation(api.Moving, change))}
	}
	serves := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "db" })
	logs := build.Template("logs", "1Gi", "fixed")
	check(t,
		testCase{"the journal is created first", situation(at(api.Moving, change), pod(0))},
		testCase{"then the order to create the set is written down", situation(at(api.Moving, change), journalled(change), pod(0))},
		testCase{"the set has the service: it is done", situation(at(api.Moving, change, serves), journalled(change), pod(0))},
		testCase{"the operation is aborted after the set got the service: the old service returns",
			situation(at(api.Reverting, change, serves), journalled(change), pod(0))},
		testCase{"the operation is aborted before that: nothing must be undone",
			situation(at(api.Reverting, change), journalled(change), pod(0))},
		testCase{"a template is added and the set was scaled up: restore waits", situation(at(api.Moving, adds), journalled(adds), pod(0))},
		testCase{"a template is added to a set without pods", situation(at(api.Moving, adds, build.Replicas(0)), journalled(adds))},
		testCase{"the operation is aborted after a template was removed: the template does not return",
			situation(at(api.Reverting, removes), journalled(removes), pod(0))},
		testCase{"the operation is aborted before a template is removed",
			situation(at(api.Reverting, removes, logs), journalled(removes), pod(0))},
	)
}
