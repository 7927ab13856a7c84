package growvolumes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/world"
	"drydock.dev/test/kit/build"
)

// TestFloors: the floors that growth writes. Afterwards they count for detect-resize.
func TestFloors(t *testing.T) {
	full, logs := withFree("data-web-1", 1), build.Template("logs", "10Mi", expandable)
	for says, row := range map[string]struct {
		in   Input
		want string
	}{
		"there was no floor":                {web(rule, full), "data=110Mi"},
		"the growth is capped by the limit": {web("data=below:20%,by:50Mi,max:120Mi", full), "data=120Mi"},
		"another claim is larger": {web(rule, withClaim("data-web-0", "180Mi"), withFree("data-web-0", 50), full),
			"data=180Mi"},
		"the size is in GiB": {web("data=below:20%,max:20Gi", withClaim("data-web-0", "11Gi"),
			withFree("data-web-0", 1)), "data=13Gi"},
		"the floor of another template stays": {webWith(rule+";logs=max:20Mi", []build.Option{logs, withFloors("logs=10Mi", time.Hour)}, full),
			"data=110Mi,logs=10Mi"},
		"the user requests another template":  {webWith(rule, []build.Option{logs, build.Resize("logs=10Mi@roomy:RWO")}, full), "data=110Mi"},
		"a request of the user is met":        {webWith(rule, []build.Option{build.Resize("data=100Mi")}, full), "data=110Mi"},
		"a request for a smaller size is met": {webWith(rule, []build.Option{build.Resize("data=90Mi+")}, full), "data=110Mi"},
		"the user has shrunk the volumes since the floor": {webWith(rule, []build.Option{build.Resize("data=100Mi"),
			withFloors("data=180Mi", 2*time.Hour), withEndedResize(api.Succeeded, "data=100Mi", time.Hour)}, full), "data=110Mi"},
		"two templates": {webWith("*=max:200Mi", []build.Option{logs}, withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 1), full),
			"data=110Mi,logs=11Mi"},
		"two templates, and one must pause": {webWith("*=max:200Mi,every:1h", []build.Option{logs, withFloors("data=100Mi", time.Minute)},
			withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 1), full), "data=100Mi,logs=11Mi"},
		"max is written with an exponent": {web("data=below:20%,by:200Mi,max:150e6", full), "data=150000000"},
		"a user has enlarged a claim to a size with an exponent": {web(rule, withClaim("data-web-0", "150e6"),
			withFree("data-web-0", 50), full), "data=150000000"},
		"by is the largest number": {web("data=below:20%,by:9223372036854775807,max:200Mi", full), "data=200Mi"},
		"max was lowered after the growth had failed": {webWith("data=below:20%,by:300Mi,max:200Mi",
			[]build.Option{withFloors("data=400Mi", 9*time.Hour), withEndedGrowth(api.Failed, "data=400Mi", 8*time.Hour)}, full), "data=200Mi"},
		"max was lowered after the growth was refused": {webWith("data=below:20%,by:300Mi,max:200Mi",
			[]build.Option{withFloors("data=400Mi", 9*time.Hour), withEndedGrowth(api.Refused, "data=400Mi", time.Minute)}, full),
			"data=200Mi"},
		"max of another template was lowered after the growth had failed": {webWith("data=below:20%,max:200Mi;logs=max:15Mi",
			[]build.Option{logs, withFloors("data=100Mi,logs=90Mi", 9*time.Hour),
				withEndedGrowth(api.Failed, "data=100Mi,logs=90Mi", 8*time.Hour)},
			withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 50), full), "data=110Mi"},
		"another template has no rule any more": {webWith("data=below:20%,max:200Mi", []build.Option{logs,
			withFloors("data=100Mi,logs=90Mi", 9*time.Hour), withEndedGrowth(api.Failed, "data=100Mi,logs=90Mi", 8*time.Hour)},
			withClaim("logs-web-0", "10Mi"), withFree("logs-web-0", 50), full), "data=110Mi"},
	} {
		t.Run(says, func(t *testing.T) {
			set := row.in.Set.DeepCopy()
			write(set, Decide(row.in))
			record := operation.Of(set).Resize
			if got := set.Annotations[api.GrowToAnnotation]; got != row.want || world.GrowTo(set, record, false) != row.want {
				t.Errorf("raises %s, of which %s count, want %s; stores %s", got, world.GrowTo(set, record, false), row.want,
					set.Annotations[api.GrowthAnnotation])
			}
		})
	}
}

// written returns the annotations that the plan writes.
func written(p plan.Plan) map[string]string {
	set := &appsv1.StatefulSet{}
	set.Annotations = map[string]string{}
	write(set, p)
	return set.Annotations
}

// write makes the plan's changes of annotations.
func write(set *appsv1.StatefulSet, p plan.Plan) {
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			for _, key := range []string{api.GrowToAnnotation, api.GrowthAnnotation} {
				if op.Path != "/metadata/annotations/drydock.dev~1"+key[len(api.Prefix):] {
					continue
				}
				if text, ok := op.Value.(string); ok {
					set.Annotations[key] = text
				}
				if op.Op == "remove" {
					delete(set.Annotations, key)
				}
			}
		}
	}
}

// TestShrinkAndGrowthDoNotAlternate: the volumes have grown to 110Mi, and the user requests 90Mi. They shrink once. Then they are nearly
// full, and grow once. The request for 90Mi, which stays on the set, makes them shrink no second time.
func TestShrinkAndGrowthDoNotAlternate(t *testing.T) {
	var operations []string
	options, size := []build.Option{build.Resize("data=90Mi"), withFloorsOver("data=110Mi", "data=100Mi", time.Hour)}, "110Mi"
	for range 12 {
		free := int64(50)
		if size == "90Mi" {
			free = 1
		}
		in := webWith(rule, options, withClaim("data-web-0", size), withClaim("data-web-1", size), withFree("data-web-0", 50),
			withFree("data-web-1", free), editSet(func(s *appsv1.StatefulSet) {
				s.Spec.VolumeClaimTemplates[0].Spec = build.Claim("x", size).Spec
			}))
		write(in.Set, Decide(in))
		options = nil
		for key, value := range in.Set.Annotations {
			options = append(options, build.Annotation(key, value))
		}
		observed := resize.Input{Observed: in.Observed, Settings: build.Settings()}
		if changes, _, _ := resize.NeededChanges(observed); changes != nil {
			record := changes.Record(observed)
			record.Phase, record.Finished = api.Succeeded, ptr.To(metav1.NewTime(build.Now.Add(-time.Minute)))
			operations, size = append(operations, record.Purpose()), record.Templates[0].Size.String()
			options = append(options, build.Status(record))
		}
	}
	if got := strings.Join(operations, ", "); got != "data=90Mi, data=99Mi" {
		t.Errorf("the operations are %s", got)
	}
}

// TestSecondDecisionWritesNothing: after the first decision's writes, the second one changes nothing.
func TestSecondDecisionWritesNothing(t *testing.T) {
	for says, in := range map[string]Input{
		"growth was requested":     web(rule, withFree("data-web-1", 1)),
		"a volume is at its limit": web("data=max:100Mi", withFree("data-web-1", 1)),
		"no usage is known":        web(rule, withoutUsage("data-web-0"), withoutUsage("data-web-1")),
		"the rules are invalid":    web("lots", withFree("data-web-1", 1)),
	} {
		t.Run(says, func(t *testing.T) {
			first := Decide(in)
			if first.Kind != plan.KindDo {
				t.Fatalf("%v", first)
			}
			write(in.Set, first)
			if again := Decide(in); again.Kind != plan.KindNoop {
				t.Errorf("%v", again)
			}
		})
	}
}

// TestStoredGrowthStaysReadable: whatever users write, the function can read its stored state again.
func TestStoredGrowthStaysReadable(t *testing.T) {
	var many []string
	for i := range 350 {
		many = append(many, fmt.Sprintf("%s-%d=1Gi", strings.Repeat("t", 55), i))
	}
	long := strings.Join(many, ",")
	for says, in := range map[string]Input{
		"rules with many characters that JSON escapes": web(strings.Repeat("\x01", 4<<10), withFree("data-web-1", 1)),
		"a refused request for many templates": webWith(rule, []build.Option{build.Resize(long),
			withEndedResize(api.Refused, long, time.Minute)},
			withFree("data-web-1", 1)),
	} {
		t.Run(says, func(t *testing.T) {
			set := in.Set.DeepCopy()
			write(set, Decide(in))
			if growth, err := api.LoadGrowth(set); err != nil || growth == nil || len(growth.Warnings) != 1 {
				t.Errorf("%d bytes: %v, %v", len(set.Annotations[api.GrowthAnnotation]), growth != nil, err)
			}
		})
	}
}
