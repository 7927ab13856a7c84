package growvolumes

import (
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/plan"
	"drydock.dev/test/kit/build"
)

// row is a situation, its sentence first.
type row struct {
	says string
	in   Input
}

func check(t *testing.T, rows ...row) {
	t.Helper()
	var cases []build.Case
	for _, r := range rows {
		cases = append(cases, build.Case{Says: r.says, World: r.in.Observed, Told: told(r.in),
			Decide: func() plan.Plan { return Decide(r.in) }})
	}
	build.Golden(t, cases)
}

// told renders what the input says besides what was observed.
func told(in Input) []string {
	var words []string
	for name, u := range in.Usage {
		word := fmt.Sprintf("usage of %s: %dMi of %dMi free", name, u.Free>>20, u.Capacity>>20)
		if u.Inodes > 0 {
			word += fmt.Sprintf(", %d of %d inodes", u.InodesFree, u.Inodes)
		}
		words = append(words, word)
	}
	slices.Sort(words)
	if in.Invalid != "" {
		words = append(words, "rules: "+in.Invalid)
	}
	return words
}

const (
	roomy = "roomy" // its volumes can grow
	fixed = "fixed"
)

// web is a set with the rule, and with two members. Each has a claim of 100Mi that is half full.
func web(rule string, change ...func(*Input)) Input {
	return made(rule, nil, change...)
}

// made is web with options of the set.
func made(rule string, options []build.Option, change ...func(*Input)) Input {
	all := append([]build.Option{build.Replicas(2), build.Template("data", "100Mi", roomy), build.Annotation(api.GrowAnnotation, rule)}, options...)
	set := build.Set("web", all...)
	in := Input{Observed: build.World(set), Asks: true, Usage: map[string]grow.Usage{},
		Classes: map[string]*storagev1.StorageClass{roomy: {AllowVolumeExpansion: ptr.To(true)}, fixed: {}}}
	for _, name := range []string{"data-web-0", "data-web-1"} {
		claim(name, "100Mi")(&in)
		free(name, 50)(&in)
	}
	for _, c := range change {
		c(&in)
	}
	rules, err := grow.RulesOf(set, nil)
	if err != nil {
		in.Invalid = err.Error()
	}
	in.Rules = rules
	in.Asks = grow.Asks(set, false)
	return in
}

// claim adds or replaces a claim whose volume has the size.
func claim(name, size string, options ...build.Option) func(*Input) {
	return func(in *Input) {
		c := build.Claim(name, size, append([]build.Option{build.OfClass(roomy), has(size)}, options...)...)
		in.Claims = append(slices.DeleteFunc(in.Claims, func(o *corev1.PersistentVolumeClaim) bool { return o.Name == name }), c)
	}
}

func has(size string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

// free says how many percent of the claim's volume are free.
func free(name string, percent int64) func(*Input) {
	return func(in *Input) {
		capacity := in.Claim(name).Status.Capacity[corev1.ResourceStorage]
		in.Usage[name] = grow.Usage{Capacity: capacity.Value(), Free: capacity.Value() * percent / 100, At: in.Now}
	}
}

// reports changes what is known of a claim's volume.
func reports(name string, change func(*grow.Usage)) func(*Input) {
	return func(in *Input) {
		u := in.Usage[name]
		change(&u)
		in.Usage[name] = u
	}
}

func silent(name string) func(*Input) { return func(in *Input) { delete(in.Usage, name) } }

// edit changes the set.
func edit(change func(*appsv1.StatefulSet)) func(*Input) { return func(in *Input) { change(in.Set) } }

// remembers is what the function has stored before.
func remembers(change func(*api.Growth)) build.Option {
	memory := &api.Growth{Version: api.GrowthVersion, Set: build.Namespace + "/web"}
	change(memory)
	return build.Annotation(api.GrowthAnnotation, memory.Encode())
}

// asked is that it has asked for the request, so long ago.
func asked(request string, ago time.Duration) build.Option {
	return remembers(func(g *api.Growth) {
		g.Request = request
		g.Asked = map[string]api.AskedGrowth{"data": {At: metav1.NewTime(build.Now.Add(-ago)), Size: "110Mi", Saw: "it was full"}}
	})
}

// ended is the record of a resize for the request that has ended so long ago.
func ended(phase api.Phase, request string, ago time.Duration, options ...func(*api.Resize)) build.Option {
	all := append([]func(*api.Resize){func(r *api.Resize) {
		r.Request, r.Finished = request, ptr.To(metav1.NewTime(build.Now.Add(-ago)))
		r.Reason = api.ResizeCompleted
		if phase != api.Succeeded {
			r.Reason = api.DeadlineExceeded
		}
	}}, options...)
	return build.Status(build.Operation(phase, all...))
}
