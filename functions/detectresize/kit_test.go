package detectresize

import (
	"testing"
	"time"

	"drydock.dev/shared/world"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/test/kit/build"
)

type objects = []metav1.Object

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
	for _, w := range []struct{ name, text string }{{"denied", in.Denied}, {"hook denied", in.HookDenied}, {"rejected", in.Rejected},
		{"budget", in.Budget}} {
		if w.text != "" {
			words = append(words, w.name+": "+w.text)
		}
	}
	if in.Retry != nil {
		words = append(words, "an event asks for a retry")
	}
	return words
}

// roomy is a class whose volumes can grow.
const roomy = "roomy"

// given is a cluster with the classes fixed, fast and roomy, without quotas and limits.
func given(groups ...objects) Input {
	var all objects
	for _, g := range groups {
		all = append(all, g...)
	}
	return Input{Input: resize.Input{Settings: build.Settings(), Observed: build.World(all...), Cluster: &world.Cluster{
		Classes: map[string]*storagev1.StorageClass{"fixed": {}, "fast": {}, roomy: {AllowVolumeExpansion: ptr.To(true)}}}}}
}

// but is the input with something else known.
func but(in Input, change func(*Input)) Input {
	change(&in)
	return in
}

// set is StatefulSet web with two replicas that asks for data=128Mi.
func set(options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", "fixed"),
		build.Resize("data=128Mi")}, options...)...)}
}

// claims are bound claims of 64Mi with their volumes.
func claims(names ...string) objects {
	var all objects
	for _, name := range names {
		all = append(all, bound(build.Claim(name, "64Mi"))...)
	}
	return all
}

func bound(claim *corev1.PersistentVolumeClaim) objects { return objects{claim, build.VolumeOf(claim)} }

// both are the two members with their claims.
func both() objects { return append(claims("data-web-0", "data-web-1"), pods()...) }

func pods() objects { return objects{build.PodOf("web", 0, "data"), build.PodOf("web", 1, "data")} }

// roomySet is the set with the operation, whose class allows expansion.
func roomySet(record *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", roomy),
		build.Resize("data=128Mi"), build.Status(record)}, options...)...)}
}

// expanding is an operation whose two claims are to grow to 128Mi on their volumes.
func expanding(options ...func(*api.Resize)) *api.Resize {
	record := build.Operation(api.Expanding, build.Due(time.Hour), build.ReplacesSet, func(r *api.Resize) { r.Reason = api.ResizeDetected })
	for _, name := range []string{"data-web-0", "data-web-1"} {
		record.Expansions = append(record.Expansions, api.Expansion{Claim: name, UID: build.Claim(name, "64Mi").UID, Template: "data",
			Volume: "pv-" + name,
			From:   resource.MustParse("64Mi"), To: resource.MustParse("128Mi")})
	}
	for _, option := range options {
		option(record)
	}
	return record
}

func templatesAreRight(r *api.Resize) { r.ReplaceSet = false }

// settled are expansions of the operation that are done.
func settled(indices ...int) func(*api.Resize) {
	return func(r *api.Resize) {
		for _, i := range indices {
			r.Expansions[i].Done = true
		}
	}
}

// gaveUp is an expansion that is to end, with what is still asked for.
func gaveUp(reason api.Reason) func(*api.Resize) {
	return func(r *api.Resize) { r.FailedAt, r.Reason, r.Message = api.Expanding, reason, "because" }
}

// grower is a claim with its volume, of the class that can grow.
func grower(name, asks, has string, options ...build.Option) objects {
	return bound(build.Claim(name, asks, append([]build.Option{build.OfClass(roomy), capacity(has)}, options...)...))
}

func capacity(size string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

// unfinished is a claim whose volume has grown, and whose file system has not since so long.
func unfinished(ago time.Duration) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = append(c.Status.Conditions,
			corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimFileSystemResizePending,
				Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(build.Now.Add(-ago))})
	})
}

// denied is a claim to which the storage will not give the size that was tried.
func denied(tried, message string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(tried)}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
		c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimControllerResizeError, Message: message, LastTransitionTime: metav1.NewTime(build.Now)})
	})
}

// member is the pod of an ordinal that was started so long ago.
func member(ordinal int, age time.Duration, options ...build.Option) *corev1.Pod {
	return build.With(build.PodOf("web", ordinal, "data"), append([]build.Option{build.Age(age)}, options...)...)
}
