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

// row is a situation, described by a sentence.
type row struct {
	situation string
	in        Input
}

func check(t *testing.T, rows ...row) {
	t.Helper()
	var cases []build.Case
	for _, r := range rows {
		cases = append(cases, build.Case{Sentence: r.situation, By: api.DetectResize, World: r.in.Observed, Facts: inputWords(r.in),
			Decide: func() plan.Plan { return Decide(r.in) }})
	}
	build.Golden(t, cases)
}

// inputWords renders the parts of the input that are not observed objects.
func inputWords(in Input) []string {
	var words []string
	for _, w := range []struct{ name, text string }{{"denied", in.PodRejected}, {"hook denied", in.HookDenied}, {"rejected", in.Rejected},
		{"budget", in.Budget}} {
		if w.text != "" {
			words = append(words, w.name+": "+w.text)
		}
	}
	if in.Retry != nil {
		words = append(words, "an event requests a retry")
	}
	return words
}

// expandableClass is the name of a class whose volumes can grow.
const expandableClass = "roomy"

// given returns the objects in a cluster with the classes fixed, fast and expandableClass, without quotas and limits.
func given(groups ...objects) Input {
	var all objects
	for _, g := range groups {
		all = append(all, g...)
	}
	return Input{Input: resize.Input{Settings: build.Settings(), Observed: build.World(all...), Cluster: &world.Cluster{
		Classes: map[string]*storagev1.StorageClass{"fixed": {}, "fast": {}, expandableClass: {AllowVolumeExpansion: ptr.To(true)}}}}}
}

// with returns the input after a change.
func with(in Input, change func(*Input)) Input {
	change(&in)
	return in
}

// set returns StatefulSet web with two replicas and the request data=128Mi.
func set(options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", "fixed"),
		build.Resize("data=128Mi")}, options...)...)}
}

// claims returns bound claims of 64Mi with their volumes.
func claims(names ...string) objects {
	var all objects
	for _, name := range names {
		all = append(all, bound(build.Claim(name, "64Mi"))...)
	}
	return all
}

func bound(claim *corev1.PersistentVolumeClaim) objects { return objects{claim, build.VolumeOf(claim)} }

// bothMembers returns the two members with their claims.
func bothMembers() objects { return append(claims("data-web-0", "data-web-1"), pods()...) }

func pods() objects { return objects{build.PodOf("web", 0, "data"), build.PodOf("web", 1, "data")} }

// expandableSet returns the set with the operation. Its class allows expansion.
func expandableSet(record *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", expandableClass),
		build.Resize("data=128Mi"), build.Status(record)}, options...)...)}
}

// expanding returns an operation whose two claims have to grow to 128Mi in place.
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

// growsTo changes the size that the claims have to get.
func growsTo(size string) func(*api.Resize) {
	return func(r *api.Resize) {
		for i := range r.Expansions {
			r.Expansions[i].To = resource.MustParse(size)
		}
	}
}

// grewFrom changes the size that the volumes of the claims had before.
func grewFrom(size string) func(*api.Resize) {
	return func(r *api.Resize) {
		for i := range r.Expansions {
			r.Expansions[i].From = resource.MustParse(size)
		}
	}
}

func keepsTemplates(r *api.Resize) { r.ReplaceSet = false }

// done marks expansions of the operation as finished.
func done(indices ...int) func(*api.Resize) {
	return func(r *api.Resize) {
		for _, i := range indices {
			r.Expansions[i].Done = true
		}
	}
}

// failedBecause makes an expansion fail for the reason. The operation has not ended yet.
func failedBecause(reason api.Reason) func(*api.Resize) {
	return func(r *api.Resize) { r.FailedAt, r.Reason, r.Message = api.Expanding, reason, "because" }
}

// expandable returns a claim of expandableClass with its volume.
func expandable(name, requested, present string, options ...build.Option) objects {
	return bound(build.Claim(name, requested, append([]build.Option{build.OfClass(expandableClass), capacity(present)}, options...)...))
}

func capacity(size string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

// fileSystemPending makes a claim wait for the growth of its file system for the given time. Its volume has grown.
func fileSystemPending(ago time.Duration) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = append(c.Status.Conditions,
			corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimFileSystemResizePending,
				Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(build.Now.Add(-ago))})
	})
}

// attempted says which size the storage works on, and how far it is.
func attempted(size string, state corev1.ClaimResourceStatus) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: state}
	})
}

// infeasible makes the storage reject the growth of a claim to the tried size.
func infeasible(tried, message string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		attempted(tried, corev1.PersistentVolumeClaimControllerResizeInfeasible)(c)
		c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimControllerResizeError, Message: message, LastTransitionTime: metav1.NewTime(build.Now)})
	})
}

// member returns the pod of an ordinal. Its age is the time since its start.
func member(ordinal int, age time.Duration, options ...build.Option) *corev1.Pod {
	return build.With(build.PodOf("web", ordinal, "data"), append([]build.Option{build.Age(age)}, options...)...)
}
