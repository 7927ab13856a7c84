package growvolumes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// TestGrowRequest: what is written into the resize annotation, and that the memory has the same.
func TestGrowRequest(t *testing.T) {
	full, logs := free("data-web-1", 1), build.Template("logs", "10Mi", roomy)
	for says, row := range map[string]struct {
		in   Input
		want string
	}{
		"there was none":                         {web(rule, full), "data=110Mi+"},
		"it goes up to the limit":                {web("data=below:20%,by:50Mi,max:120Mi", full), "data=120Mi+"},
		"the others are larger":                  {web(rule, claim("data-web-0", "180Mi"), free("data-web-0", 50), full), "data=180Mi+"},
		"in GiB":                                 {web("data=below:20%,max:20Gi", claim("data-web-0", "11Gi"), free("data-web-0", 1)), "data=13Gi+"},
		"one of the user's for another template": {made(rule, []build.Option{logs, build.Resize("logs=10Mi@roomy:RWO")}, full), "data=110Mi+,logs=10Mi+"},
		"one of the user's that is met":          {made(rule, []build.Option{build.Resize("data=100Mi")}, full), "data=110Mi+"},
		"one for a template that is gone":        {made(rule, []build.Option{build.Resize("data=90Mi+")}, full), "data=110Mi+"},
		"two templates": {made("*=max:200Mi", []build.Option{logs}, claim("logs-web-0", "10Mi"), free("logs-web-0", 1), full),
			"data=110Mi+,logs=11Mi+"},
		"two templates, and one may not grow again yet": {made("*=max:200Mi,every:1h", []build.Option{logs, build.Resize("data=100Mi+"), asked("data=100Mi+", time.Minute)},
			claim("logs-web-0", "10Mi"), free("logs-web-0", 1), full), "data=100Mi+,logs=11Mi+"},
		"max has an exponent, which the fence of the account refuses": {web("data=below:20%,by:200Mi,max:150e6", full), "data=150000000+"},
		"a claim that a user has enlarged has one":                    {web(rule, claim("data-web-0", "150e6"), free("data-web-0", 50), full), "data=150000000+"},
		"by is as large as a number can be":                           {web("data=below:20%,by:9223372036854775807,max:200Mi", full), "data=200Mi+"},
		"max is lower since the storage has not given more": {made("data=below:20%,by:300Mi,max:200Mi", []build.Option{build.Resize("data=400Mi+"),
			asked("data=400Mi+", 9*time.Hour), ended(api.Failed, "data=400Mi+", 8*time.Hour)}, full), "data=200Mi+"},
		"max is lower since a quota has not allowed more": {made("data=below:20%,by:300Mi,max:200Mi", []build.Option{build.Resize("data=400Mi+"),
			asked("data=400Mi+", 9*time.Hour), ended(api.Refused, "data=400Mi+", time.Minute)}, full), "data=200Mi+"},
		"max of another template is lower since the storage has not given more": {made("data=below:20%,max:200Mi;logs=max:15Mi", []build.Option{logs,
			build.Resize("data=100Mi+,logs=90Mi+"), asked("data=100Mi+,logs=90Mi+", 9*time.Hour), ended(api.Failed, "data=100Mi+,logs=90Mi+", 8*time.Hour)},
			claim("logs-web-0", "10Mi"), free("logs-web-0", 50), full), "data=110Mi+,logs=15Mi+"},
		"another template may not grow any more": {made("data=below:20%,max:200Mi", []build.Option{logs,
			build.Resize("data=100Mi+,logs=90Mi+"), asked("data=100Mi+,logs=90Mi+", 9*time.Hour), ended(api.Failed, "data=100Mi+,logs=90Mi+", 8*time.Hour)},
			claim("logs-web-0", "10Mi"), free("logs-web-0", 50), full), "data=110Mi+"},
	} {
		t.Run(says, func(t *testing.T) {
			set := row.in.Set.DeepCopy()
			for key, value := range written(Decide(row.in)) {
				set.Annotations[key] = value
			}
			if got := set.Annotations[api.ResizeAnnotation]; got != row.want || !api.AskedByGrowth(set, got) {
				t.Errorf("asks for %s, want %s; remembers %s", got, row.want, set.Annotations[api.GrowthAnnotation])
			}
			if _, err := api.ParseRequest(row.want); err != nil {
				t.Error(err)
			}
		})
	}
}

// written are the annotations that the plan writes.
func written(p plan.Plan) map[string]string {
	all := map[string]string{}
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			for _, key := range []string{api.ResizeAnnotation, api.GrowthAnnotation, api.RetryAnnotation} {
				if text, ok := op.Value.(string); ok && op.Path == "/metadata/annotations/drydock.dev~1"+key[len(api.Prefix):] {
					all[key] = text
				}
			}
		}
	}
	return all
}

// TestGrowTwiceWritesOnce: what a look has written is nothing new for the next one.
func TestGrowTwiceWritesOnce(t *testing.T) {
	for says, in := range map[string]Input{
		"it asked":               web(rule, free("data-web-1", 1)),
		"it is at its limit":     web("data=max:100Mi", free("data-web-1", 1)),
		"nothing is known":       web(rule, silent("data-web-0"), silent("data-web-1")),
		"the rules are nonsense": web("lots", free("data-web-1", 1)),
	} {
		t.Run(says, func(t *testing.T) {
			first := Decide(in)
			if first.Kind != plan.KindDo {
				t.Fatalf("%v", first)
			}
			edit(func(s *appsv1.StatefulSet) {
				for key, value := range written(first) {
					s.Annotations[key] = value
				}
			})(&in)
			if again := Decide(in); again.Kind != plan.KindNoop {
				t.Errorf("%v", again)
			}
		})
	}
}

// TestMemoryStaysReadable: whatever users write, the function can read again what it has stored.
func TestMemoryStaysReadable(t *testing.T) {
	var many []string
	for i := range 350 {
		many = append(many, fmt.Sprintf("%s-%d=1Gi", strings.Repeat("t", 55), i))
	}
	long := strings.Join(many, ",")
	for says, in := range map[string]Input{
		"rules of many letters that JSON escapes": web(strings.Repeat("\x01", 4<<10), free("data-web-1", 1)),
		"a refused request of many templates": made(rule, []build.Option{build.Resize(long), ended(api.Refused, long, time.Minute)},
			free("data-web-1", 1)),
	} {
		t.Run(says, func(t *testing.T) {
			set := in.Set.DeepCopy()
			for key, value := range written(Decide(in)) {
				set.Annotations[key] = value
			}
			if memory, err := api.LoadGrowth(set); err != nil || memory == nil || len(memory.Told) != 1 {
				t.Errorf("%d bytes: %v, %v", len(set.Annotations[api.GrowthAnnotation]), memory != nil, err)
			}
		})
	}
}
