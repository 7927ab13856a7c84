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

// row is a situation: a sentence, and the input for it.
type row struct {
	says string
	in   Input
}

func check(t *testing.T, rows ...row) {
	t.Helper()
	var cases []build.Case
	for _, r := range rows {
		cases = append(cases, build.Case{Sentence: r.says, By: api.GrowVolumes, World: r.in.Observed, Facts: inputLines(r.in),
			Decide: func() plan.Plan { return Decide(r.in) }})
	}
	build.Golden(t, cases)
}

// inputLines renders the parts of the input that are not in the observed world.
func inputLines(in Input) []string {
	var lines []string
	for name, u := range in.Usage {
		line := fmt.Sprintf("usage of %s: %dMi of %dMi free", name, u.Free>>20, u.Capacity>>20)
		if u.Inodes > 0 {
			line += fmt.Sprintf(", %d of %d inodes", u.InodesFree, u.Inodes)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	if in.Consent != "" {
		lines = append(lines, "consent of the namespace: "+string(in.Consent))
	}
	if in.RulesError != "" {
		lines = append(lines, "rules: "+in.RulesError)
	}
	return lines
}

const (
	expandable = "roomy" // this class allows expansion
	fixed      = "fixed"
)

// web returns a set with the rule and two members. Each member has a claim of 100Mi that is half full.
func web(rule string, change ...func(*Input)) Input {
	return webWith(rule, nil, change...)
}

// webWith returns web with options for the set.
func webWith(rule string, options []build.Option, change ...func(*Input)) Input {
	all := append([]build.Option{build.Replicas(2), build.Template("data", "100Mi", expandable),
		build.Annotation(api.GrowAnnotation, rule)}, options...)
	set := build.Set("web", all...)
	in := Input{Observed: build.World(set), Enabled: true, Usage: map[string]grow.Usage{},
		Classes: map[string]*storagev1.StorageClass{expandable: {AllowVolumeExpansion: ptr.To(true)}, fixed: {}}}
	for _, name := range []string{"data-web-0", "data-web-1"} {
		withClaim(name, "100Mi")(&in)
		withFree(name, 50)(&in)
	}
	for _, c := range change {
		c(&in)
	}
	rules, err := grow.RulesOf(set, nil)
	if err != nil {
		in.RulesError = err.Error()
	}
	in.Rules = rules
	in.Enabled = grow.IsEnabled(set, false)
	return in
}

// ofResource makes the volumes follow the custom resource of an operator. The set has the policy for it.
func ofResource(policy api.OwnerPolicy) []build.Option {
	return []build.Option{build.ControlledBy("Database", "db"), build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner),
		build.Annotation(api.OwnerPolicyAnnotation, string(policy))}
}

// withConsent has the namespace let Drydock change custom resources.
func withConsent(consent api.OwnerConsent) func(*Input) {
	return func(in *Input) { in.Consent = consent }
}

// withClaim adds or replaces a claim with a volume of the size.
func withClaim(name, size string, options ...build.Option) func(*Input) {
	return func(in *Input) {
		c := build.Claim(name, size, append([]build.Option{build.OfClass(expandable), hasCapacity(size)}, options...)...)
		in.Claims = append(slices.DeleteFunc(in.Claims, func(o *corev1.PersistentVolumeClaim) bool { return o.Name == name }), c)
	}
}

func hasCapacity(size string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

// withFree sets the free share of the claim's volume, in percent.
func withFree(name string, percent int64) func(*Input) {
	return func(in *Input) {
		capacity := in.Claim(name).Status.Capacity[corev1.ResourceStorage]
		in.Usage[name] = grow.Usage{Capacity: capacity.Value(), Free: capacity.Value() * percent / 100, MeasuredAt: in.Now}
	}
}

// withUsage changes the measured usage of the claim's volume.
func withUsage(name string, change func(*grow.Usage)) func(*Input) {
	return func(in *Input) {
		u := in.Usage[name]
		change(&u)
		in.Usage[name] = u
	}
}

func withoutUsage(name string) func(*Input) { return func(in *Input) { delete(in.Usage, name) } }

// editSet changes the set.
func editSet(change func(*appsv1.StatefulSet)) func(*Input) {
	return func(in *Input) { change(in.Set) }
}

// withGrowth stores the state of grow-volumes from an earlier decision on the set.
func withGrowth(change func(*api.Growth)) build.Option {
	growth := &api.Growth{Version: api.GrowthVersion, Set: build.Namespace + "/web"}
	change(growth)
	return build.Annotation(api.GrowthAnnotation, growth.Encode())
}

// withFloors has grow-volumes raise the floors some time ago, on a set without a request.
func withFloors(floors string, ago time.Duration) build.Option {
	return withFloorsOver(floors, "", ago)
}

// withFloorsOver is withFloors on a set with a request.
func withFloorsOver(floors, request string, ago time.Duration) build.Option {
	return build.GrowTo(floors, request, func(g *api.Growth) {
		for template, latest := range g.Latest {
			latest.At = metav1.NewTime(build.Now.Add(-ago))
			g.Latest[template] = latest
		}
	})
}

// withEndedGrowth stores the record of a growth to the floors that ended some time ago.
func withEndedGrowth(phase api.Phase, floors string, ago time.Duration, options ...func(*api.Resize)) build.Option {
	return withEndedResize(phase, "", ago, append(options, build.Growth(floors))...)
}

// withEndedResize stores the record of a resize for the request that ended some time ago.
func withEndedResize(phase api.Phase, request string, ago time.Duration, options ...func(*api.Resize)) build.Option {
	all := append([]func(*api.Resize){func(r *api.Resize) {
		r.Request, r.Finished = request, ptr.To(metav1.NewTime(build.Now.Add(-ago)))
		r.Reason = api.ResizeCompleted
		if phase != api.Succeeded {
			r.Reason = api.DeadlineExceeded
		}
	}}, options...)
	return build.Status(build.Operation(phase, all...))
}
