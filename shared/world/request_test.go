package world_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

// TestEffectiveTargets: the larger of the user's request and the floor of growth by usage counts. The user's latest decision about a size
// replaces the floor. Nothing else makes a volume shrink after a growth.
func TestEffectiveTargets(t *testing.T) {
	asking := func(request string) func(*api.Resize) { return func(r *api.Resize) { r.Request = request } }
	giving := func(size string) func(*api.Resize) {
		return func(r *api.Resize) { r.Templates[0].Size = resource.MustParse(size) }
	}
	grown := func(request string) func(*api.Resize) {
		return func(r *api.Resize) { r.Request, r.GrowTo = request, "data=128Mi" }
	}
	after := func(g *api.Growth) { g.After = build.ID }
	type options = []build.Option
	for says, row := range map[string]struct {
		set    options
		record *api.Resize
		want   string // of EffectiveTargets
		growTo string
	}{
		"nothing is requested": {},
		"the request":          {set: options{build.Resize("data=96Mi")}, want: "data=96Mi"},
		"the floor":            {set: options{build.GrowTo("data=128Mi", "")}, want: "data=128Mi+", growTo: "data=128Mi"},
		"a floor over the request": {set: options{build.Resize("data=96Mi"), build.GrowTo("data=128Mi", "data=96Mi")},
			want: "data=128Mi+", growTo: "data=128Mi"},
		"the tool applies the request again": {set: options{build.Resize("data=96Mi"), build.GrowTo("data=128Mi", "data=96Mi")},
			record: build.Operation(api.Succeeded, grown("data=96Mi")), want: "data=128Mi+", growTo: "data=128Mi"},
		"the request changes only another template": {set: options{
			build.Resize("data=96Mi,logs=48Mi"), build.GrowTo("data=128Mi", "data=96Mi")},
			record: build.Operation(api.Succeeded, grown("data=96Mi")), want: "data=128Mi+,logs=48Mi", growTo: "data=128Mi"},
		"growth begins when the request is fulfilled, so a claim of another template may be larger": {
			set:    options{build.Resize("data=96Mi,logs=48Mi"), build.GrowTo("data=128Mi", "data=96Mi")},
			record: build.Operation(api.Failed, grown("data=96Mi,logs=48Mi")), want: "data=96Mi+,logs=48Mi+"},
		"the request names another template": {set: options{build.Resize("logs=48Mi"), build.GrowTo("data=128Mi", "")},
			want: "data=128Mi+,logs=48Mi", growTo: "data=128Mi"},
		"a request with the class of a larger volume": {set: options{
			build.Resize("data=96Mi@fast"), build.GrowTo("data=128Mi", "data=96Mi")},
			want: "data=128Mi@fast+", growTo: "data=128Mi"},
		"auto": {set: options{build.Resize("auto"), build.GrowTo("data=128Mi", "")},
			want: "data=128Mi@fixed:ReadWriteOnce+,logs=32Mi@fixed:ReadWriteOnce+", growTo: "data=128Mi"},
		"the user withdraws the request": {set: options{build.GrowTo("data=128Mi", "data=96Mi")},
			want: "data=128Mi+", growTo: "data=128Mi"},

		"the user requests a smaller size": {set: options{build.Resize("data=80Mi"), build.GrowTo("data=128Mi", "data=96Mi")},
			want: "data=80Mi"},
		"the user requests a first size": {set: options{build.Resize("data=96Mi"), build.GrowTo("data=128Mi", "")},
			want: "data=96Mi"},
		"the user requests an exact size": {set: options{build.Resize("data=96Mi"), build.GrowTo("data=128Mi", "data=96Mi+")},
			want: "data=96Mi"},
		"the user requests a larger size": {set: options{build.Resize("data=1Gi"), build.GrowTo("data=128Mi", "data=96Mi")},
			want: "data=1Gi"},
		"the same size in another unit": {set: options{build.Resize("data=98304Ki"), build.GrowTo("data=128Mi", "data=96Mi")},
			want: "data=128Mi+", growTo: "data=128Mi"},
		"grow-volumes has removed the floor": {set: options{build.Resize("data=80Mi"), build.GrowTo("", "")}, want: "data=80Mi"},
		"the user has shrunk the volumes since": {set: options{build.GrowTo("data=128Mi", "data=96Mi")},
			record: build.Operation(api.Succeeded, asking("data=80Mi"), giving("80Mi"))},
		"the shrink of the user has failed": {set: options{build.GrowTo("data=128Mi", "data=96Mi")},
			record: build.Operation(api.Failed, asking("data=80Mi"), giving("80Mi"))},
		"the user has rolled a resize back since": {set: options{build.GrowTo("data=128Mi", "")},
			record: build.Operation(api.Succeeded, build.RollbackOf("x"), asking(""), giving("80Mi"))},
		"the user had rolled a resize back before": {set: options{build.GrowTo("data=128Mi", "", after)},
			record: build.Operation(api.Succeeded, build.RollbackOf("x"), asking(""), giving("80Mi")), want: "data=128Mi+", growTo: "data=128Mi"},
		"the user has made the volumes larger since": {set: options{build.GrowTo("data=128Mi", "data=96Mi")},
			record: build.Operation(api.Succeeded, asking("data=1Gi"), giving("1Gi")), want: "data=128Mi+", growTo: "data=128Mi"},

		"growth was turned off": {set: options{build.Resize("data=96Mi"), build.GrowTo("data=128Mi", "data=96Mi"), withoutFloors},
			record: build.Operation(api.Succeeded, grown("data=96Mi")), want: "data=96Mi+"},
		"growth was turned off, and had failed": {set: options{
			build.Resize("data=96Mi"), build.GrowTo("data=128Mi", "data=96Mi"), withoutFloors},
			record: build.Operation(api.Failed, grown("data=96Mi")), want: "data=96Mi+"},
		"growth was turned off, and the request changes another template": {set: options{build.Resize("data=96Mi,logs=48Mi"),
			build.GrowTo("data=128Mi", "data=96Mi"), withoutFloors}, want: "data=96Mi+,logs=48Mi"},

		"the growth has failed": {set: options{build.GrowTo("data=128Mi", "")}, record: build.Operation(api.Failed, grown(""))},
		"the growth has failed, and grow-volumes raises the floor again": {set: options{build.GrowTo("data=128Mi", "", after)},
			record: build.Operation(api.Failed, grown("")), want: "data=128Mi+", growTo: "data=128Mi"},
		"the growth has failed, and grow-volumes raises another floor": {set: options{build.GrowTo("data=128Mi,logs=64Mi", "")},
			record: build.Operation(api.Failed, grown("")), want: "data=128Mi+,logs=64Mi+", growTo: "data=128Mi,logs=64Mi"},
		"the growth was refused": {set: options{build.GrowTo("data=128Mi", "")}, record: build.Operation(api.Refused, grown("")),
			want: "data=128Mi+", growTo: "data=128Mi"},

		"a floor of an unknown template": {set: options{build.GrowTo("data=128Mi,none=1Gi", "")},
			want: "data=128Mi+", growTo: "data=128Mi"},
		"the floors of another set":       {set: options{build.GrowTo("data=128Mi", "", func(g *api.Growth) { g.Set = "shop/other" })}},
		"a floor that nothing has raised": {set: options{build.Annotation(api.GrowToAnnotation, "data=1Pi")}},
		"a floor with a class":            {set: options{build.GrowTo("data=128Mi@fast", "")}},
		"floors that cannot be read": {set: options{
			build.GrowTo("data=128Mi", ""), build.Annotation(api.GrowToAnnotation, "data=lots")}},
		"a stored growth that cannot be read": {set: options{build.Annotation(api.GrowToAnnotation, "data=1Gi"),
			build.Annotation(api.GrowthAnnotation, "{")}},
		"a request that cannot be read": {set: options{build.Resize("data=lots"), build.GrowTo("data=128Mi", "")},
			want: "data=128Mi+", growTo: "data=128Mi"},
	} {
		web := build.With(set(), row.set...)
		targets := world.EffectiveTargets(web, row.record)
		var got []string
		for _, template := range slices.Sorted(maps.Keys(targets)) {
			target := targets[template]
			text := template + "=" + target.Size.String()
			if target.Class != "" {
				text += "@" + target.Class
			}
			for _, mode := range target.Modes {
				text += fmt.Sprintf(":%s", mode)
			}
			if !target.Exact {
				text += api.AtLeast
			}
			got = append(got, text)
		}
		if text, growTo := strings.Join(got, ","), world.GrowTo(web, row.record, false); text != row.want || growTo != row.growTo {
			t.Errorf("%s: %q, floors %q, want %q, floors %q", says, text, growTo, row.want, row.growTo)
		}
	}
}

var withoutFloors = build.Edit(func(s *appsv1.StatefulSet) { delete(s.Annotations, api.GrowToAnnotation) })
