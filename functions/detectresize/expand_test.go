package detectresize

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
	"drydock.dev/test/kit/build"
)

// roomy is a class whose volumes can grow.
const roomy = "roomy"

// growingWorld is a cluster that has such a class, too.
func growingWorld(groups ...objects) Input {
	return world(groups...).with(func(c *sts.Cluster) {
		c.Classes[roomy] = &storagev1.StorageClass{AllowVolumeExpansion: ptr.To(true)}
	})
}

// roomySet is StatefulSet web with two replicas whose class allows expansion, with the operation.
func roomySet(status *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", roomy),
		build.Resize("data=128Mi"), build.Status(status)}, options...)...)}
}

// expanding is an operation whose two claims are to grow to 128Mi, in place.
func expanding(options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.Expanding, append([]func(*api.Resize){build.Parts(api.ClaimPending, "data-web-0", "data-web-1"), grows(0, 1),
		build.Due(time.Hour), func(s *api.Resize) { s.Reason, s.Replicas, s.Recreate = api.ResizeDetected, 2, true }}, options...)...)
}

// grows are claims of the operation, by their index, that grow in place.
func grows(parts ...int) func(*api.Resize) {
	return func(s *api.Resize) {
		s.Method = api.MethodExpand
		for i := range s.Claims {
			if s.Claims[i].Method = api.MethodExpand; !slices.Contains(parts, i) {
				s.Method, s.Claims[i].Method = api.MethodCopy, ""
			}
		}
	}
}

func noRecreation(s *api.Resize) { s.Recreate = false }

// gaveUp is an expansion that is to end, with what is still asked for.
func gaveUp(reason api.Reason) func(*api.Resize) {
	return func(s *api.Resize) { s.FailedAt, s.Reason, s.Message = api.Expanding, reason, "because" }
}

// settled are claims of the operation, by their index, that have what they are to have.
func settled(parts ...int) func(*api.Resize) {
	return func(s *api.Resize) {
		for _, i := range parts {
			s.Claims[i].Phase = api.ClaimExpanded
		}
	}
}

// grower is a claim with its volume, of a class that can grow.
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
		c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{Type: corev1.PersistentVolumeClaimFileSystemResizePending,
			Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(build.Now.Add(-ago))})
	})
}

// tried is the size that the storage works on.
func tried(size string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

// denied is a claim to which the storage will not give the size that was tried.
func denied(tried, message string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(tried)}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
		if message != "" {
			c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
				Type: corev1.PersistentVolumeClaimControllerResizeError, Message: message})
		}
	})
}

// replica is the pod of an ordinal that was started so long ago.
func replica(ordinal int, age time.Duration, options ...build.Option) *corev1.Pod {
	return build.With(build.PodOf("web", ordinal, "data"), append([]build.Option{build.Age(age)}, options...)...)
}

const (
	goes   = ", attempt 1, round 1, generation 0, replicas 2"
	due    = goes + ", due in 1h0m0s"
	begun0 = "patch persistentvolumeclaims data-web-0 {request 64Mi to 128Mi}"
	begun1 = "patch persistentvolumeclaims data-web-1 {request 64Mi to 128Mi}"
)

func TestExpand(t *testing.T) {
	first := grower("data-web-0", "128Mi", "128Mi")
	still := grower("data-web-1", "128Mi", "64Mi")
	one := expanding(settled(0), noRecreation)
	const handed = `do ClaimsExpanded: patch statefulsets web {+status}; event ClaimsExpanded "every claim that can has grown on its volume" -> resize.detected`
	const done = `do ResizeCompleted: patch statefulsets web {+status}; event ResizeCompleted "2 claims have grown" -> restore.completed`
	mixed := expanding(grows(0), settled(0))
	check(t, map[string]row{
		"I2: the intent is written, now the claims are told": {
			in:   growingWorld(roomySet(expanding()), grower("data-web-0", "64Mi", "64Mi"), grower("data-web-1", "64Mi", "64Mi")),
			want: "do ExpansionRunning: " + begun0 + "; " + begun1,
		},
		"one was told before the process died": {
			in:   growingWorld(roomySet(expanding()), grower("data-web-0", "128Mi", "64Mi"), grower("data-web-1", "64Mi", "64Mi")),
			want: "do ExpansionRunning: " + begun1,
		},
		"one has grown, another is told first: nothing is lost by that": {
			in:   growingWorld(roomySet(expanding()), first, grower("data-web-1", "64Mi", "64Mi")),
			want: "do ExpansionRunning: " + begun1,
		},
		"one has grown: that is written down": {
			in:   growingWorld(roomySet(expanding()), first, still),
			want: "do ExpansionRunning: patch statefulsets web {+status}",
			next: "Expanding ResizeDetected" + due + "; data-web-0 Expanded; data-web-1 Pending",
		},
		"I7: it is not written down twice": {
			in: growingWorld(roomySet(one), first, still), want: "wait ExpansionRunning (claim data-web-1 is growing)"},
		"I7: nobody looks at a claim again that has grown, wherever it went": {
			in: growingWorld(roomySet(one), still), want: "wait ExpansionRunning (claim data-web-1 is growing)"},
		"somebody asks for more than we do: that is theirs": {
			in: growingWorld(roomySet(one), first, grower("data-web-1", "256Mi", "64Mi")), want: "wait ExpansionRunning (claim data-web-1 is growing)"},
		"the storage gave more than was asked for": {
			in: growingWorld(roomySet(one), first, grower("data-web-1", "128Mi", "1Gi")), want: done, next: "Succeeded ResizeCompleted" + goes + "; data-web-0 Expanded; data-web-1 Expanded"},
		"every claim has grown: the set gets its new templates": {
			in:   growingWorld(roomySet(expanding(settled(0))), first, grower("data-web-1", "128Mi", "128Mi")),
			want: handed,
			next: "Planned ClaimsExpanded" + goes + ", due in 10m0s; data-web-0 Expanded; data-web-1 Expanded",
		},
		"the set has its templates already: it is done": {
			in:   growingWorld(roomySet(expanding(noRecreation)), first, grower("data-web-1", "128Mi", "128Mi")),
			want: done,
			next: "Succeeded ResizeCompleted" + goes + "; data-web-0 Expanded; data-web-1 Expanded",
		},
		"events that were given up on the way are of no use after a success": {
			in:   growingWorld(roomySet(one, build.Annotation(api.DeadLettersAnnotation, "[]")), first, grower("data-web-1", "128Mi", "128Mi")),
			want: strings.Replace(done, "{+status}", "{+status, -dead-letters}", 1),
			next: "Succeeded ResizeCompleted" + goes + "; data-web-0 Expanded; data-web-1 Expanded",
		},
		"other claims have to be copied: pause-owner is next, and scaling down keeps the claims": {
			in:   growingWorld(roomySet(mixed, build.WhenScaled("Delete")), first, grower("data-web-1", "64Mi", "64Mi")),
			want: strings.Replace(handed, "{+status}", "{whenScaled Retain, +status}", 1),
			next: "Planned ClaimsExpanded" + goes + ", whenScaled Delete, due in 10m0s; data-web-0 Expanded; data-web-1 Pending",
		},
		"of a set that is never stopped, nobody touches the retention policy": {
			in:   growingWorld(roomySet(expanding(settled(0)), build.WhenScaled("Delete")), first, grower("data-web-1", "128Mi", "128Mi")),
			want: handed,
			next: "Planned ClaimsExpanded" + goes + ", due in 10m0s; data-web-0 Expanded; data-web-1 Expanded",
		},
		"a claim that is to be copied is not told to grow": {
			in: growingWorld(roomySet(expanding(grows(0))), grower("data-web-0", "128Mi", "64Mi"), grower("data-web-1", "64Mi", "64Mi")), want: "wait ExpansionRunning (claim data-web-0 is growing)"},
		"the functions were away past the deadline, and it has grown meanwhile: it goes on": {
			in:   growingWorld(roomySet(expanding(noRecreation, build.Due(-time.Hour))), first, grower("data-web-1", "128Mi", "128Mi")),
			want: done,
			next: "Succeeded ResizeCompleted" + goes + "; data-web-0 Expanded; data-web-1 Expanded",
		},
		"I3: the operation is another set's": {
			in: growingWorld(roomySet(one, build.UID("uid-2"), build.Resize("data=64Mi")), grower("data-web-0", "64Mi", "64Mi")), want: "noop UpToDate"},
		"the set is being deleted": {in: growingWorld(roomySet(one, build.Deleting()), first, still), want: "noop SetGone"},
		"a retry changes nothing while it runs": {
			in: asking(growingWorld(roomySet(one, build.Annotation(api.RetryAnnotation, "")), first, still), ""), want: "wait ExpansionRunning (claim data-web-1 is growing)"},
	})
}

func TestExpandLooksAgainOnlyAtFirst(t *testing.T) {
	since := func(ago time.Duration) plan.Plan {
		return Decide(growingWorld(roomySet(expanding(settled(0), func(s *api.Resize) { s.Started = *operation.Moment(build.Now.Add(-ago)) })), grower("data-web-0", "128Mi", "128Mi"), grower("data-web-1", "128Mi", "64Mi")))
	}
	if p := since(moments - time.Second); !p.Soon {
		t.Error("no event tells that a claim has grown: it is worth looking again at once")
	}
	if p := since(moments); p.Soon {
		t.Error("the storage is slow: the tick is soon enough")
	}
}

// TestFileSystemThatGrowsWhenItIsMounted: pods are started again one at a time, and only where it helps.
func TestFileSystemThatGrowsWhenItIsMounted(t *testing.T) {
	const long = time.Hour
	pending := func(name string, options ...build.Option) objects {
		return grower(name, "128Mi", "64Mi", append([]build.Option{unfinished(10 * time.Minute)}, options...)...)
	}
	both := append(pending("data-web-0"), pending("data-web-1")...)
	pods := objects{replica(0, long), replica(1, long)}
	set := roomySet(expanding())
	restarts := func(pod string) string {
		return "do ReplicaRestarted: delete pods " + pod + `; event ReplicaRestarted "pod ` + pod + ` is started again, because the file system on its volume grows only when it is mounted"`
	}
	const growing = "wait ExpansionRunning (claim data-web-1 is growing)"
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"the highest ordinal first":                        {growingWorld(set, both, pods), restarts("web-1")},
		"the one before, when it is back":                  {growingWorld(set, both, objects{pods[0], replica(1, time.Minute)}), restarts("web-0")},
		"both were: it would not help once more":           {growingWorld(set, both, objects{replica(0, time.Minute), replica(1, time.Minute)}), growing},
		"a replica is not ready":                           {growingWorld(roomySet(expanding(), build.Counting(2, 1)), both, pods), growing},
		"one is missing":                                   {growingWorld(roomySet(expanding(), build.Counting(1, 1)), both, pods), growing},
		"the controller has not seen the set":              {growingWorld(roomySet(expanding(), build.Unseen()), both, pods), growing},
		"the file system has a moment to grow":             {growingWorld(set, grower("data-web-0", "128Mi", "64Mi", unfinished(4*time.Minute)), grower("data-web-1", "128Mi", "64Mi", unfinished(4*time.Minute)), pods), growing},
		"it is over to the minute":                         {growingWorld(set, grower("data-web-0", "128Mi", "64Mi"), grower("data-web-1", "128Mi", "64Mi", unfinished(5*time.Minute)), pods), restarts("web-1")},
		"a claim whose volume grows still":                 {growingWorld(set, pending("data-web-0"), grower("data-web-1", "128Mi", "64Mi"), pods), restarts("web-0")},
		"a pod of somebody else is theirs":                 {growingWorld(set, pending("data-web-0"), grower("data-web-1", "128Mi", "64Mi"), objects{build.Pod("debug", []string{"data-web-0"}, build.Age(long)), pods[1]}), growing},
		"I3: a pod of a set before this one":               {growingWorld(set, pending("data-web-0"), grower("data-web-1", "128Mi", "64Mi"), objects{replica(0, long, build.Owned("StatefulSet", "web-before"))}), growing},
		"a claim of the set that nobody asked for":         {growingWorld(roomySet(expanding(grows(0))), grower("data-web-0", "128Mi", "64Mi"), pending("data-web-1"), pods), "wait ExpansionRunning (claim data-web-0 is growing)"},
		"a pod that goes is not deleted twice":             {growingWorld(set, grower("data-web-0", "128Mi", "64Mi"), pending("data-web-1"), objects{pods[0], replica(1, long, build.Deleting())}), growing},
		"I1: the last one ends still, and counts as ready": {growingWorld(set, both, objects{pods[0], replica(1, long, build.Deleting())}), growing},
		"I1: the last one is there again, not ready, and the status is late": {growingWorld(set, both, objects{pods[0],
			replica(1, time.Second, build.Edit(func(p *corev1.Pod) { p.Status.Conditions = nil }))}), growing},
		"after the deadline, too": {growingWorld(roomySet(expanding(build.Due(-time.Second))), both, pods), restarts("web-1")},
	} {
		t.Run(name, func(t *testing.T) {
			var seen objects
			for _, p := range row.in.Pods {
				seen = append(seen, p)
			}
			build.Expect(t, row.in.Observed, func() plan.Plan { return Decide(row.in) }, row.want, "", seen...)
		})
	}
	check(t, map[string]row{
		"no pod has it mounted: it grows when one does": {
			in:   growingWorld(set, both),
			want: `do ClaimsExpanded: patch statefulsets web {+status}; event ClaimsExpanded "every claim that can has grown on its volume" -> resize.detected`,
			next: "Planned ClaimsExpanded" + goes + ", due in 10m0s; data-web-0 Expanded; data-web-1 Expanded",
		},
		"I1: the last one is gone, and the status is late: the next one stays": {
			in:   growingWorld(set, both, pods[:1]),
			want: "do ExpansionRunning: patch statefulsets web {+status}",
			next: "Expanding ResizeDetected" + due + "; data-web-0 Pending; data-web-1 Expanded",
		},
		"a pod that is done has nothing mounted": {
			in:   growingWorld(set, pending("data-web-0"), grower("data-web-1", "128Mi", "64Mi"), objects{replica(0, long, build.InPhase(corev1.PodFailed)), pods[1]}),
			want: "do ExpansionRunning: patch statefulsets web {+status}",
			next: "Expanding ResizeDetected" + due + "; data-web-0 Expanded; data-web-1 Pending",
		},
		"what is unfinished is an expansion before this one": {
			in:   growingWorld(set, grower("data-web-0", "128Mi", "128Mi"), grower("data-web-1", "128Mi", "64Mi", unfinished(time.Hour), tried("100Mi"))),
			want: "do ExpansionRunning: patch statefulsets web {+status}",
			next: "Expanding ResizeDetected" + due + "; data-web-0 Expanded; data-web-1 Pending",
		},
		"an expansion before this one is unfinished still: it is told first": {
			in:   growingWorld(set, grower("data-web-0", "100Mi", "64Mi", unfinished(time.Hour)), grower("data-web-1", "128Mi", "64Mi")),
			want: "do ExpansionRunning: patch persistentvolumeclaims data-web-0 {request 100Mi to 128Mi}",
		},
	})
}

// TestI8ExpansionThatIsGivenUp: why is written down before anything is taken back, and says what to do.
func TestI8ExpansionThatIsGivenUp(t *testing.T) {
	first, second := grower("data-web-0", "128Mi", "128Mi"), grower("data-web-1", "128Mi", "64Mi")
	aborts := build.Annotation(api.AbortAnnotation, "")
	refusing := growingWorld(roomySet(expanding()), grower("data-web-0", "64Mi", "64Mi"), grower("data-web-1", "64Mi", "64Mi"))
	refusing.Rejected = "exceeded quota"
	for name, row := range map[string]struct {
		in     Input
		reason api.Reason
		says   []string
	}{
		"somebody asks for it":   {growingWorld(roomySet(expanding(), aborts), first, second), api.Aborted, []string{"claims that have grown already stay"}},
		"the API server refuses": {refusing, api.Rejected, []string{"exceeded quota", "mend the cause", api.RetryAnnotation}},
		"the storage cannot": {growingWorld(roomySet(expanding()), first, grower("data-web-1", "128Mi", "64Mi", denied("128Mi", "the pool has 80Mi left"))), api.ExpandInfeasible,
			[]string{"class roomy", "claim data-web-1", "128Mi", "the pool has 80Mi left", "ask for less", api.ResizeMethodAnnotation + "=copy", api.RetryAnnotation}},
		"the storage cannot, and does not say why": {growingWorld(roomySet(expanding()), first, grower("data-web-1", "128Mi", "64Mi", denied("128Mi", ""))), api.ExpandInfeasible,
			[]string{"kubectl describe pvc data-web-1"}},
		"a claim is gone":          {growingWorld(roomySet(expanding()), first), api.ClaimLost, []string{"claim data-web-1 was deleted or replaced", api.RetryAnnotation}},
		"a claim goes":             {growingWorld(roomySet(expanding()), first, grower("data-web-1", "128Mi", "64Mi", build.Deleting())), api.ClaimLost, []string{"data-web-1"}},
		"I3: a claim was replaced": {growingWorld(roomySet(expanding()), first, grower("data-web-1", "64Mi", "64Mi", build.UID("uid-2"))), api.ClaimLost, []string{"data-web-1"}},
		"it takes too long": {growingWorld(roomySet(expanding(settled(0), build.Due(-time.Second))), first, second), api.DeadlineExceeded,
			[]string{"within 1h0m0s", "go on asking", "kubectl describe pvc", api.RetryAnnotation, api.ResizeMethodAnnotation + "=copy"}},
		"an abort comes before all else": {growingWorld(roomySet(expanding(build.Due(-time.Second)), aborts), first), api.Aborted, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, abort := row.in.Set.Annotations[api.AbortAnnotation]
			want := "do " + string(row.reason) + ": patch statefulsets web {+status}"
			if abort {
				want = strings.Replace(want, "+status", "+status, -abort", 1)
			}
			p := Decide(row.in)
			next := build.Stored(p)
			if p.String() != want || next == nil {
				t.Fatalf("got %s, want %s", p, want)
			}
			if next.Phase != api.Expanding || next.FailedAt != api.Expanding || next.Reason != row.reason || next.Finished != nil {
				t.Errorf("stores %+v", next)
			}
			for _, words := range row.says {
				if !strings.Contains(next.Message, words) {
					t.Errorf("says %q, not %q", next.Message, words)
				}
			}
		})
	}
	check(t, map[string]row{
		"the storage refuses only what was tried before, which was less": {
			in: growingWorld(roomySet(expanding(settled(0))), first, grower("data-web-1", "128Mi", "64Mi", denied("100Mi", "no"))), want: "wait ExpansionRunning (claim data-web-1 is growing)"},
		"a claim that has grown is lost: what it had to do is done": {
			in: growingWorld(roomySet(expanding(settled(0))), second), want: "wait ExpansionRunning (claim data-web-1 is growing)"},
		"a claim that is to be copied is lost: that is backup's to find": {
			in: growingWorld(roomySet(expanding(grows(0))), grower("data-web-0", "128Mi", "64Mi")), want: "wait ExpansionRunning (claim data-web-0 is growing)"},
	})
}

// TestI8WhatIsGivenUpIsTakenBack: nobody goes on trying what cannot be, and what is there stays.
func TestI8WhatIsGivenUpIsTakenBack(t *testing.T) {
	first, second := grower("data-web-0", "128Mi", "128Mi"), grower("data-web-1", "128Mi", "64Mi")
	ends := func(reason string) string {
		return "do " + reason + ": patch statefulsets web {+status}; event " + reason + ` "because" -> operation.failed`
	}
	ended := func(reason string) string {
		return "Failed " + reason + " at Expanding" + goes + "; data-web-0 Pending; data-web-1 Pending"
	}
	lowers := func(reason string) string {
		return "do " + reason + ": patch persistentvolumeclaims data-web-1 {request 128Mi to 67108865}"
	}
	on := func(reason api.Reason, groups ...objects) Input {
		return growingWorld(append([]objects{roomySet(expanding(gaveUp(reason)))}, groups...)...)
	}
	cannot := grower("data-web-1", "128Mi", "64Mi", denied("128Mi", "no"))
	no := on(api.ExpandInfeasible, first, cannot)
	no.Rejected = "field can not be less than previous value"
	rejected := on(api.Rejected, first, second)
	rejected.Rejected = "exceeded quota"
	check(t, map[string]row{
		"infeasible: as little as the API server takes": {in: on(api.ExpandInfeasible, first, cannot), want: lowers("ExpandInfeasible")},
		"infeasible, and another claim is growing still": {
			in: on(api.ExpandInfeasible, grower("data-web-0", "128Mi", "64Mi"), cannot), want: lowers("ExpandInfeasible")},
		"aborted: the same":                              {in: on(api.Aborted, first, second), want: lowers("Aborted")},
		"it was taken back: it ends":                     {in: on(api.Aborted, first, grower("data-web-1", "67108865", "64Mi")), want: ends("Aborted"), next: ended("Aborted")},
		"the claim was never told":                       {in: on(api.Aborted, first, grower("data-web-1", "64Mi", "64Mi")), want: ends("Aborted"), next: ended("Aborted")},
		"the volume is larger than was ever asked for":   {in: on(api.Aborted, first, grower("data-web-1", "128Mi", "100Mi")), want: "do Aborted: patch persistentvolumeclaims data-web-1 {request 128Mi to 104857601}"},
		"the volume has grown, its file system will":     {in: on(api.Aborted, first, grower("data-web-1", "128Mi", "64Mi", unfinished(time.Minute))), want: ends("Aborted"), next: ended("Aborted")},
		"after a deadline the storage may be slow":       {in: on(api.DeadlineExceeded, first, second), want: ends("DeadlineExceeded"), next: ended("DeadlineExceeded")},
		"after a loss nobody knows":                      {in: on(api.ClaimLost, first, second), want: ends("ClaimLost"), next: ended("ClaimLost")},
		"I3: a claim of the same name is not ours":       {in: on(api.Aborted, first, grower("data-web-1", "128Mi", "64Mi", build.UID("uid-2"))), want: ends("Aborted"), next: ended("Aborted")},
		"a claim is gone":                                {in: on(api.Aborted, first), want: ends("Aborted"), next: ended("Aborted")},
		"a claim that is to be copied asks what it asks": {in: growingWorld(roomySet(expanding(grows(0), gaveUp(api.Aborted))), first, second), want: ends("Aborted"), next: ended("Aborted")},
		"the API server refused what was asked for":      {in: rejected, want: ends("Rejected"), next: ended("Rejected")},
		"the API server takes nothing back: that is said": {
			in:   no,
			want: strings.Replace(ends("ExpandInfeasible"), "because", "because. The claims go on asking for it: field can not be less than previous value", 1),
			next: ended("ExpandInfeasible")},
		"it could succeed by now, but was given up": {
			in: on(api.Aborted, first, grower("data-web-1", "128Mi", "128Mi")), want: ends("Aborted"), next: ended("Aborted")},
		"the deadline is no reason to leave it half way": {
			in: growingWorld(roomySet(expanding(gaveUp(api.Aborted), build.Due(-time.Hour))), first, second), want: lowers("Aborted")},
	})
	p := Decide(on(api.Aborted, first, grower("data-web-1", "64Mi", "64Mi")))
	if s := build.Stored(p); s.Held() || s.Deadline != nil || s.Finished == nil || !p.Actions[1].Note.Warning {
		t.Errorf("stores %+v", s)
	}
}

// TestI7ClaimThatWasTakenBackIsLeftAlone: it asks for a byte more than it has for ever, since the API server takes no less.
func TestI7ClaimThatWasTakenBackIsLeftAlone(t *testing.T) {
	failed := expanding(gaveUp(api.ExpandInfeasible), func(s *api.Resize) { s.Phase = api.Failed })
	claims := append(grower("data-web-0", "128Mi", "128Mi"), grower("data-web-1", "67108865", "64Mi")...)
	check(t, map[string]row{
		"the same request waits for a retry": {in: growingWorld(roomySet(failed), claims), want: "noop AlreadyRefused"},
		"what there was is asked for again": {
			in: growingWorld(roomySet(failed, build.Resize("data=64Mi")), grower("data-web-0", "64Mi", "64Mi"), claims[2:]), want: "noop UpToDate"},
		"claims follow their template": {in: growingWorld(roomySet(failed, build.Resize("auto")), claims), want: "noop UpToDate"},
		"a retry: the claim that did not grow is told again": {
			in:   growingWorld(roomySet(failed, build.Annotation(api.RetryAnnotation, "")), claims),
			want: `do ResizeDetected: patch statefulsets web {+status, -retry}; event ResizeDetected "1 claims will grow on their volumes"`,
			next: "Expanding ResizeDetected, attempt 2, round 1, generation 0, replicas 2, due in 1h0m0s; data-web-1 Pending",
		},
	})
}

var (
	seed   = flag.Uint64("seed", 0, "begin with this one; 0: with another one each time")
	inputs = flag.Int("inputs", 250, "how many random expansions there are")
)

// model is a cluster with an expansion under way, in which anything may happen in any order.
type model struct {
	*rand.Rand
	in    Input
	story []string
	ends  int
	pods  int
}

const replicas = 3

func newModel(r *rand.Rand) *model {
	m := &model{Rand: r}
	var names []string
	var all objects
	for i := range replicas {
		name := fmt.Sprintf("data-web-%d", i)
		names = append(names, name)
		has := []string{"64Mi", "64Mi", "100Mi", "1Gi"}[m.IntN(4)]
		all = append(all, grower(name, []string{"64Mi", "64Mi", "128Mi", "70Mi"}[m.IntN(4)], has)...)
		all = append(all, replica(i, time.Hour))
	}
	status := build.Operation(api.Expanding, build.Parts(api.ClaimPending, names...), build.Due(time.Hour), func(s *api.Resize) { s.Replicas, s.Recreate = replicas, m.IntN(2) == 0 })
	grow := []int{0}
	for i := range status.Claims {
		if m.IntN(5) > 0 {
			grow = append(grow, i)
		}
		status.Claims[i].From = sts.Requested(all[3*i].(*corev1.PersistentVolumeClaim))
	}
	grows(grow...)(status)
	m.in = growingWorld(roomySet(status, build.Replicas(replicas)), all)
	if !status.Recreate {
		m.in.Set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("128Mi")
	}
	return m
}

// happen is what storage, kubelet, controllers, people and time do.
func (m *model) happen() {
	i := m.IntN(len(m.in.Claims))
	claim := m.in.Claims[i].DeepCopy()
	asks := sts.Requested(claim)
	switch m.IntN(9) {
	case 0, 1: // it grows while it is mounted
		if has := claim.Status.Capacity[corev1.ResourceStorage]; asks.Cmp(has) > 0 {
			claim.Status.Capacity, claim.Status.Conditions, claim.Status.AllocatedResourceStatuses = corev1.ResourceList{corev1.ResourceStorage: asks}, nil, nil
		}
	case 2: // the volume has grown
		if sts.Growing(claim) && sts.FileSystemPending(claim, sts.Requested(claim)) == nil {
			claim = build.With(claim, unfinished(build.Now.Sub(m.in.Now)))
		}
	case 3: // the storage has tried, and cannot
		if sts.Growing(claim) && m.IntN(4) == 0 {
			claim = build.With(claim, denied(asks.String(), "the pool is full"))
		}
	case 4:
		m.in.Now = m.in.Now.Add(time.Duration(m.IntN(10)) * time.Minute)
	case 5:
		if m.IntN(15) == 0 && m.active() {
			m.in.Set = build.With(m.in.Set.DeepCopy(), build.Annotation(api.AbortAnnotation, ""))
		}
	case 6:
		if m.IntN(20) == 0 {
			claim.UID = "uid-other"
		}
	default:
		m.control()
		return
	}
	m.in.Claims[i] = claim
	m.count()
}

// control is the StatefulSet controller and the kubelet: what goes is gone, what is missing is made, and a file system that is
// mounted anew grows.
func (m *model) control() {
	for i := range replicas {
		name := fmt.Sprintf("web-%d", i)
		at := slices.IndexFunc(m.in.Pods, func(p *corev1.Pod) bool { return p.Name == name })
		switch {
		case at >= 0 && m.in.Pods[at].DeletionTimestamp != nil:
			m.in.Pods = slices.Delete(slices.Clone(m.in.Pods), at, at+1)
		case at < 0:
			m.pods++
			pod := replica(i, build.Now.Sub(m.in.Now), build.UID(fmt.Sprintf("uid-%d", m.pods)))
			m.in.Pods = append(slices.Clone(m.in.Pods), pod)
			for j, c := range m.in.Claims {
				if sts.Mounts(pod, c.Name) && sts.FileSystemPending(c, sts.Requested(c)) != nil && m.IntN(4) > 0 {
					grown := c.DeepCopy()
					grown.Status.Conditions, grown.Status.Capacity = nil, corev1.ResourceList{corev1.ResourceStorage: sts.Requested(c)}
					m.in.Claims[j] = grown
				}
			}
		}
	}
	m.count()
}

// count has the set's status say what there is.
func (m *model) count() {
	up := int32(0)
	for _, p := range m.in.Pods {
		if p.DeletionTimestamp == nil {
			up++
		}
	}
	m.in.Set = build.With(m.in.Set.DeepCopy(), build.Edit(func(s *appsv1.StatefulSet) { s.Status.Replicas, s.Status.ReadyReplicas = int32(len(m.in.Pods)), up }))
}

func (m *model) active() bool { return growing(m.in) != nil }

// look is one decision, and as much of it as is done before the process dies.
func (m *model) look(t *testing.T) plan.Plan {
	t.Helper()
	p := Decide(m.in)
	if again := Decide(m.in); again.String() != p.String() {
		t.Fatalf("who comes back decides otherwise:\n%s\n%s", p, again)
	}
	m.in.Rejected = ""
	if p.Kind != plan.KindDo {
		return p
	}
	m.story = append(m.story, m.in.Now.Format(time.TimeOnly)+" "+p.String())
	m.judge(t, p)
	for _, a := range p.Actions {
		if m.IntN(12) == 0 {
			return p // it died
		}
		if a.Resource == plan.Claims && m.IntN(20) == 0 {
			m.in.Rejected = "no"
			return p
		}
		m.apply(a)
	}
	return p
}

// judge says what is wrong with a plan.
func (m *model) judge(t *testing.T, p plan.Plan) {
	t.Helper()
	before := growing(m.in)
	if next := build.Stored(p); next != nil && before != nil && next.Phase != api.Expanding {
		if next.Phase == api.Succeeded || next.Phase == api.Planned {
			m.judgeSuccess(t, next)
		} else if next.Phase != api.Failed || next.Message == "" || next.FailedAt != api.Expanding {
			t.Errorf("it ends as %+v", next)
		}
		want := map[api.Phase]string{api.Succeeded: events.RestoreCompleted, api.Planned: events.ResizeDetected, api.Failed: events.OperationFailed}
		if p.Announce != want[next.Phase] {
			t.Errorf("%s announces %q", next.Phase, p.Announce)
		}
	}
	deleted := 0
	for _, a := range p.Actions {
		for _, op := range a.Ops {
			if strings.HasPrefix(op.Path, "/spec/") && op.Path != sts.RequestPath && op.Path != sts.WhenScaledPath {
				t.Errorf("%s writes %s", a, op.Path)
			}
			if op.Path == sts.RequestPath {
				m.judgeRequest(t, before, a.Name, op.Value.(string))
			}
		}
		if a.Verb == plan.VerbDelete {
			deleted++
			if a.Resource != plan.Pods || !sts.Ready(m.in.Set) || a.UID == "" {
				t.Errorf("%s, and %d of %d are ready", a, m.in.Set.Status.ReadyReplicas, replicas)
			}
		}
	}
	if deleted > 1 {
		t.Errorf("%d pods at once: %s", deleted, p)
	}
}

// judgeRequest: a claim asks for what the operation says, or goes back to no less than it had.
func (m *model) judgeRequest(t *testing.T, status *api.Resize, name, value string) {
	t.Helper()
	claim, size := m.in.Claim(name), resource.MustParse(value)
	asks, has := sts.Requested(claim), claim.Status.Capacity[corev1.ResourceStorage]
	if status == nil || status.Claim(name) == nil || status.Claim(name).Method != api.MethodExpand || status.Claim(name).UID != claim.UID {
		t.Fatalf("claim %s is none of the operation's", name)
	}
	part := status.Claim(name)
	switch {
	case size.Cmp(part.To) > 0:
		t.Errorf("claim %s is to ask for %s, more than %s", name, value, &part.To)
	case size.Cmp(asks) == 0:
		t.Errorf("I7: claim %s asks for %s already", name, value)
	case size.Cmp(asks) > 0 && (size.Cmp(part.To) != 0 || status.FailedAt != ""):
		t.Errorf("claim %s is raised to %s", name, value)
	case size.Cmp(asks) < 0 && (size.Cmp(part.From) < 0 || size.Cmp(has) <= 0 || status.FailedAt == ""):
		t.Errorf("claim %s is lowered to %s, it had %s and has %s", name, value, &part.From, &has)
	}
}

// judgeSuccess: every claim that was to grow has what it was to have, or gets it from the next pod.
func (m *model) judgeSuccess(t *testing.T, next *api.Resize) {
	t.Helper()
	for i := range next.Claims {
		part := &next.Claims[i]
		if (part.Method == api.MethodExpand) != part.Settled() {
			t.Errorf("claim %s is %s", part.Name, part.Phase)
		}
	}
	if next.Phase == api.Succeeded && (next.Recreate || !next.Live()) {
		t.Errorf("it ends before all is done: %+v", next)
	}
}

func (m *model) apply(a plan.Action) {
	switch {
	case a.Verb == plan.VerbRecord:
	case a.Verb == plan.VerbDelete:
		for i, p := range m.in.Pods {
			if p.Name == a.Name {
				m.in.Pods[i] = build.With(p.DeepCopy(), build.Deleting())
			}
		}
		m.count()
	case a.Resource == plan.Claims:
		for i, c := range m.in.Claims {
			if c.Name == a.Name {
				m.in.Claims[i] = patched(c, a)
			}
		}
	default:
		was := m.active()
		m.in.Set = patched(m.in.Set, a)
		if was && !m.active() {
			m.ends++
		}
	}
}

// patched is the object after the patch, as it goes over the wire.
func patched[T metav1.Object](object T, a plan.Action) T {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	ops, err := json.Marshal(a.Ops)
	if err != nil {
		panic(err)
	}
	patch, err := jsonpatch.DecodePatch(ops)
	if err != nil {
		panic(err)
	}
	if text, err = patch.Apply(text); err != nil {
		panic(fmt.Sprintf("%s: %v", a, err))
	}
	var next T
	if err := json.Unmarshal(text, &next); err != nil {
		panic(err)
	}
	return next
}

// TestI8EveryExpansionEndsOnce: whatever happens meanwhile, and wherever the process dies.
func TestI8EveryExpansionEndsOnce(t *testing.T) {
	from := *seed
	if from == 0 {
		from = uint64(time.Now().UnixNano())
	}
	t.Logf("again with: -seed %d", from)
	outcomes := map[string]int{}
	for i := range *inputs {
		m := newModel(rand.New(rand.NewPCG(from, uint64(i)))) //nolint:gosec // no secret depends on it
		m.run(t)
		if t.Failed() {
			t.Fatalf("expansion %d of seed %d:\n%s\n%s", i, from, strings.Join(m.story, "\n"), m.in.Set.Annotations[api.StatusAnnotation])
		}
		status, _ := m.in.Status() //nolint:errcheck // it was read before
		outcomes[string(status.Phase)+" "+string(status.Reason)]++
	}
	t.Log(outcomes)
	for _, want := range []string{"Succeeded ResizeCompleted", "Planned ClaimsExpanded", "Failed Aborted", "Failed ExpandInfeasible", "Failed DeadlineExceeded", "Failed ClaimLost", "Failed Rejected"} {
		if outcomes[want] == 0 && *inputs >= 1000 {
			t.Errorf("none of them has %s: they test little", want)
		}
	}
}

func (m *model) run(t *testing.T) {
	t.Helper()
	for range m.IntN(60) {
		if m.IntN(2) == 0 {
			m.happen()
		} else {
			m.look(t)
		}
	}
	for left := 200; m.active() && left > 0; left-- { // nothing happens any more but time
		m.in.Now = m.in.Now.Add(time.Minute)
		m.control()
		m.look(t)
	}
	if m.active() || m.ends != 1 {
		t.Errorf("it has ended %d times; at last: %s", m.ends, Decide(m.in))
	}
	for range 3 {
		if p := m.look(t); p.Kind == plan.KindDo {
			t.Errorf("it is over, but: %s", p)
		}
	}
	if n := *m.in.Set.Spec.Replicas; n != replicas {
		t.Errorf("I4: %d replicas", n)
	}
}
