package restore

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// reshapes is an operation that only gives the set fields.
func reshapes(fields, before []api.Field) func(*api.Resize) {
	return func(r *api.Resize) {
		r.Templates, r.ReplaceSet, r.Fields, r.FieldsBefore = nil, true, fields, before
		r.Request = api.Words(fields)[0]
		r.Operation = api.OperationID(r.Set.UID, r.Request, r.Attempt)
	}
}

// TestOperationOfFields: the set is created again around its pods, and nothing else is done.
func TestOperationOfFields(t *testing.T) {
	service := func(name string) []api.Field { return []api.Field{{Name: api.FieldServiceName, Value: name}} }
	change, more := reshapes(service("db"), service("web")), api.Field{Name: api.FieldTemplate, Template: "logs",
		Ask: &api.TemplateTarget{Name: "logs", Size: resource.MustParse("1Gi"), Modes: build.Claim(web0, "1Gi").Spec.AccessModes}}
	less := more
	less.Removed, less.Ask = true, nil
	adds, removes := reshapes([]api.Field{more}, []api.Field{less}), reshapes([]api.Field{less}, []api.Field{more})
	at := func(phase api.Phase, change func(*api.Resize), options ...build.Option) objects {
		record := build.Operation(phase, change)
		if phase == api.Reverting {
			because(record)
		}
		return set(record, append([]build.Option{build.Replicas(1), build.Edit(func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "web" })}, options...)...)
	}
	journalled := func(change func(*api.Resize)) objects {
		return objects{build.Journal(build.Operation(api.Moving, change))}
	}
	serves := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "db" })
	logs := build.Template("logs", "1Gi", "fixed")
	check(t,
		row{"the journal is made first", given(at(api.Moving, change), pod(0))},
		row{"then the order to create the set is written down", given(at(api.Moving, change), journalled(change), pod(0))},
		row{"the set has the service: it is done", given(at(api.Moving, change, serves), journalled(change), pod(0))},
		row{"it is aborted when the set has the service: that goes back", given(at(api.Reverting, change, serves), journalled(change), pod(0))},
		row{"it is aborted before that: nothing is to be undone", given(at(api.Reverting, change), journalled(change), pod(0))},
		row{"a template more, and the set was scaled up meanwhile: it waits", given(at(api.Moving, adds), journalled(adds), pod(0))},
		row{"a template more, and the set has no pods", given(at(api.Moving, adds, build.Replicas(0)), journalled(adds))},
		row{"it is aborted when a template is away: that does not come back", given(at(api.Reverting, removes), journalled(removes), pod(0))},
		row{"it is aborted before a template is away", given(at(api.Reverting, removes, logs), journalled(removes), pod(0))},
	)
}
