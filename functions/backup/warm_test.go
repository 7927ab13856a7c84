package backup

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

const (
	warm0 = "drydock-0123456789ab-191f4772-0"
	warm1 = "drydock-0123456789ab-db142018-0"
)

// justBegun is the deadline of a copy that began a moment ago.
var justBegun = build.Due(build.Settings().CopyTimeout)

func node(name string) build.Option {
	return build.Edit(func(p *corev1.Pod) { p.Spec.NodeName = name })
}

// user is the running replica of an ordinal, on node-N.
func user(ordinal int, options ...build.Option) *corev1.Pod {
	return build.With(build.PodOf("web", ordinal, "data"), append([]build.Option{node("node-" + string(rune('0'+ordinal)))}, options...)...)
}

func users() objects { return objects{user(0), user(1)} }

// warming is the Job of a first copy, with its pod on the node of the ordinal.
func warming(ordinal int, options ...build.Option) objects {
	job := build.Job(names[ordinal], 0, options...)
	return objects{job, build.Mover(job, node("node-"+string(rune('0'+ordinal))))}
}

// running is the set with its replicas, and all that is prepared.
func running(status *api.Resize, options ...build.Option) objects {
	return append(append(set(status, append([]build.Option{build.Replicas(3)}, options...)...), held()...), targets(1)...)
}

// beside says which pods used the claims when the first copy was begun.
func beside(uids ...types.UID) func(*api.Resize) {
	return func(s *api.Resize) {
		for i, uid := range uids {
			s.Claims[i].WarmPod, s.Claims[i].WarmNode = uid, "node-"+string(rune('0'+i))
		}
	}
}

// warmed are claims, by their index, of which the first copy is made.
func warmed(parts ...int) func(*api.Resize) {
	return func(s *api.Resize) {
		for _, i := range parts {
			s.Claims[i].Phase, s.Claims[i].Warm = api.ClaimWarmed, true
		}
	}
}

func cold(parts ...int) func(*api.Resize) {
	return func(s *api.Resize) {
		for _, i := range parts {
			s.Claims[i].Cold = true
		}
	}
}

func dueIn(s string) string {
	return ", attempt 1, round 1, generation 0, replicas 3, due in " + s
}

func TestWarmCopy(t *testing.T) {
	begun := copyOperation(api.ClaimPending, justBegun)
	both := copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"))
	const started = "do WarmCopyRunning: create jobs " + warm0 + "; create jobs " + warm1 + "; patch statefulsets web {+status}"
	const stops = "do Quiescing: patch statefulsets web {+status, replicas 3 to 0, +label frozen}"
	reported := world(running(both), users(), warming(0), warming(1))
	reported.Reports["data-web-0"] = moverreport.Line{Progress: moverreport.Progress{BytesDone: 10, BytesTotal: 100}}
	done := world(running(both), users(), warming(0, build.Complete()), warming(1))
	done.Reports["data-web-0"] = moverreport.Line{Report: moverreport.Report{Bytes: 100, Files: 7, Digest: "of no use yet"}}
	thirdClaim := append(third(), build.With(build.PodOf("web", 2, "data"), node("node-2")))
	three := func(phase api.ClaimPhase) *api.Resize {
		return copyOperation(phase, justBegun, beside("uid-web-0", "uid-web-1"), build.Parts(api.ClaimPending, "data-web-2"))
	}
	onlyOne := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	})
	alone := append(held()[:1:1], build.Claim("data-web-0", "64Mi", build.Link(api.RoleSource, "data-web-0", 0), onlyOne))
	alone = append(append(alone, held()[2:]...), targets(1)...)
	check(t, map[string]row{
		"movers start beside the pods": {
			in: world(running(begun), users()), want: started, next: "Copying WarmCopyRunning" + dueIn("20h0m0s") + "; data-web-0 Warming; data-web-1 Warming"},
		"as many as may": {
			in:   world(running(begun, build.Annotation(api.ResizeParallelismAnnotation, "1")), users()),
			want: "do WarmCopyRunning: create jobs " + warm0 + "; patch statefulsets web {+status}",
			next: "Copying WarmCopyRunning" + dueIn("20h0m0s") + "; data-web-0 Warming; data-web-1 Pending",
		},
		"those that run hold places": {
			in: world(running(three(api.ClaimWarming)), users(), thirdClaim, warming(0), warming(1)), want: "wait WarmCopyRunning (3 claims are copied while the set runs)"},
		"one that is done does not": {
			in:   world(running(three(api.ClaimWarming)), users(), thirdClaim, warming(0, build.Complete()), warming(1)),
			want: "do WarmCopyRunning: create jobs " + api.CopyName(build.ID, "data-web-2", 0) + "; patch statefulsets web {+status}",
			next: "Copying WarmCopyRunning" + dueIn("20h0m0s") + "; data-web-0 Warmed; data-web-1 Warming; data-web-2 Warming",
		},
		"I7: nothing new is no write": {
			in: world(running(both), users(), warming(0), warming(1)), want: "wait WarmCopyRunning (2 claims are copied while the set runs)"},
		"progress is written": {
			in: reported, want: "do WarmCopyRunning: patch statefulsets web {+status}", next: "Copying CopyRunning" + dueIn("1h0m0s") + "; data-web-0 Warming 10/100; data-web-1 Warming"},
		"one is done": {
			in: done, want: "do WarmCopyRunning: patch statefulsets web {+status}", next: "Copying CopyRunning" + dueIn("1h0m0s") + "; data-web-0 Warmed 100/100; data-web-1 Warming"},
		"the other one is waited for": {
			in:   world(running(copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"), warmed(0))), users(), warming(0, build.Complete()), warming(1)),
			want: "wait WarmCopyRunning (1 claims are copied while the set runs)"},
		"all are done: the set is stopped": {
			in:   world(running(copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"), warmed(0, 1))), users(), warming(0, build.Complete()), warming(1, build.Complete())),
			want: stops, next: "Copying Quiescing" + dueIn("1h0m0s") + "; data-web-0 Warmed; data-web-1 Warmed"},
		"a Job was deleted by hand: it is made anew": {
			in:   world(running(both), users(), warming(0)),
			want: "do WarmCopyRunning: create jobs " + warm1 + "; patch statefulsets web {+status}",
			next: "Copying WarmCopyRunning" + dueIn("1h0m0s") + "; data-web-0 Warming; data-web-1 Warming",
		},
		"a claim that nobody uses is copied when the set is stopped": {
			in:   world(running(copyOperation(api.ClaimWarming, build.Parts(api.ClaimPending, "data-web-2"), beside("uid-web-0", "uid-web-1"), warmed(0, 1))), users(), third()),
			want: stops, next: "Copying Quiescing" + dueIn("1h0m0s") + "; data-web-0 Warmed; data-web-1 Warmed; data-web-2 Pending"},
		"a replica that is about to run is waited for": {
			in: world(running(begun), objects{user(0, node("")), user(1, build.Deleting())}), want: "wait WarmCopyRunning (2 claims are copied while the set runs)"},
		"the other one is copied meanwhile": {
			in:   world(running(begun), objects{user(1)}),
			want: "do WarmCopyRunning: create jobs " + warm1 + "; patch statefulsets web {+status}",
			next: "Copying WarmCopyRunning" + dueIn("20h0m0s") + "; data-web-0 Pending; data-web-1 Warming",
		},
		"I8: but not for ever": {
			in: world(running(copyOperation(api.ClaimPending, build.Due(build.Settings().CopyTimeout-build.Settings().StartTimeout)))), want: stops,
			next: "Copying Quiescing" + dueIn("19h49m0s") + "; data-web-0 Pending; data-web-1 Pending"},
		"a second before, it is": {
			in: world(running(copyOperation(api.ClaimPending, build.Due(build.Settings().CopyTimeout-build.Settings().StartTimeout+time.Second)))),
			want: `do WarmCopyRunning: patch statefulsets web {+status}; event MoverStalled "PodNotRunning: no pod uses it. Its first copy waits for a running pod ` +
				`until 2026-03-01T12:00:01Z, then the claim is copied with the set stopped; look at kubectl describe pod web-0 (claim data-web-0). 1 more claims wait, see status.claims"`,
			next: "Copying MoverStalled" + dueIn("19h49m1s") + "; data-web-0 Pending; data-web-1 Pending"},
		"a claim of which only one pod may have it": {
			in:   world(set(begun, build.Replicas(3)), alone, users()),
			want: "do WarmCopyRunning: create jobs " + warm1 + "; patch statefulsets web {+status}",
			next: "Copying WarmCopyRunning" + dueIn("20h0m0s") + "; data-web-0 Pending; data-web-1 Warming",
		},
		"in the second round there is none": {
			in: world(set(copyOperation(api.ClaimPending, justBegun, build.Round(2)), build.Replicas(3)), held(), targets(2), users()), want: stops,
			next: "Copying Quiescing, attempt 1, round 2, generation 0, replicas 3, due in 20h0m0s; data-web-0 Pending; data-web-1 Pending"},
		"once the set was told to stop there is none": {
			in: world(running(copyOperation(api.ClaimPending, justBegun, build.Stopped(time.Minute)), build.Counting(3, 3)), users()), want: stops,
			next: "Copying Quiescing" + dueIn("20h0m0s") + "; data-web-0 Pending; data-web-1 Pending"},
		"somebody aborts": {
			in: world(running(both, build.Annotation(api.AbortAnnotation, "")), users(), warming(0), warming(1)), want: "do Aborted: patch statefulsets web {+status, -abort}",
			next: "RollingBack Aborted at Copying, attempt 1, round 1, generation 0, replicas 3, due in 12m0s; data-web-0 Warming; data-web-1 Warming"},
		"I8: what cannot be copied is found before the set is stopped": {
			in: world(running(both), users(), warming(0, build.Failed("PodFailurePolicy", "exit code 4")), warming(1)), want: "do CopyFailed: patch statefulsets web {+status}",
			next: "RollingBack CopyFailed at Copying, attempt 1, round 1, generation 0, replicas 3, due in 12m0s; data-web-0 Warming; data-web-1 Warming"},
	})
	if p := Decide(world(running(begun, build.Replicas(0)))); p.Kind != plan.KindDo || strings.Contains(p.String(), "create") {
		t.Errorf("the set is at zero: nothing is copied before it is frozen, but %s", p)
	}
}

// TestWarmCopyThatIsGivenUp: such a claim is copied when the set is stopped, and the operation goes on.
func TestWarmCopyThatIsGivenUp(t *testing.T) {
	both := copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"))
	old := build.Age(build.Settings().StartTimeout + time.Second)
	pending := func(age build.Option, pod ...build.Option) objects {
		job := build.Job("data-web-0", 0, age)
		return objects{job, build.Mover(job, append([]build.Option{age, build.InPhase(corev1.PodPending)}, pod...)...)}
	}
	for name, row := range map[string]struct {
		in   Input
		cold bool
	}{
		"it runs beside its pod":                {world(running(both), users(), warming(0), warming(1)), false},
		"its pod runs elsewhere by now":         {world(running(both), objects{user(0, node("node-9")), user(1)}, warming(0), warming(1)), true},
		"its pod may run beside it yet":         {world(running(both), objects{user(0, node("")), user(1)}, warming(0), warming(1)), false},
		"its pod is gone: it can go on":         {world(running(both), objects{user(1)}, warming(0), warming(1)), false},
		"the mover does not start":              {world(running(both), users(), pending(old), warming(1)), true},
		"the mover has a moment to start":       {world(running(both), users(), pending(build.Age(time.Minute)), warming(1)), false},
		"the mover is on no node yet":           {world(running(both), objects{user(0, node("node-9")), user(1)}, pending(build.Age(time.Minute)), warming(1)), false},
		"the mover is done with it":             {world(running(both), objects{user(0, node("node-9")), user(1), build.Job("data-web-0", 0), build.Mover(build.Job("data-web-0", 0), node("node-0"), build.InPhase(corev1.PodFailed))}, warming(1)), false},
		"another claim's mover is on that node": {world(running(both), objects{user(0, node("node-1")), user(1), build.Job("data-web-0", 0)}, warming(1)), false},
	} {
		t.Run(name, func(t *testing.T) {
			next := build.Stored(Decide(row.in))
			if got := next != nil && next.Claims[0].Cold; got != row.cold {
				t.Errorf("got %t: %s", got, Decide(row.in))
			}
			if next != nil && (next.Claims[0].Warm || next.Claims[1].Cold) {
				t.Errorf("stores %s", build.Summary(next))
			}
		})
	}
	given := world(running(copyOperation(api.ClaimWarming, cold(0), warmed(1), beside("uid-web-0", "uid-web-1"))), users(), warming(1, build.Complete()))
	if p := Decide(given).String(); p != "do Quiescing: patch statefulsets web {+status, replicas 3 to 0, +label frozen}" {
		t.Errorf("the other claim is warm, but: %s", p)
	}
}

// TestI1WhatIsBelievedOfAFirstCopy: only if nobody but the pod beside which it was made has used the claim since.
func TestI1WhatIsBelievedOfAFirstCopy(t *testing.T) {
	status := copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"), warmed(0, 1))
	for name, row := range map[string]struct {
		pods objects
		want bool // of claim 0
	}{
		"the same pod still":                 {users(), true},
		"the same pod, which goes":           {objects{user(0, build.Deleting()), user(1)}, true},
		"another pod of the same name":       {objects{user(0, build.UID("uid-later")), user(1)}, false},
		"none any more":                      {objects{user(1)}, false},
		"a pod that is done":                 {objects{user(0, build.InPhase(corev1.PodFailed)), user(1)}, false},
		"a second one beside":                {append(users(), build.Pod("debug", []string{"data-web-0"}, node("node-0"))), false},
		"a mover is no user":                 {append(users(), warming(0, build.Complete())...), true},
		"one that only says that it is ours": {append(users(), build.Pod("forged", []string{"data-web-0"}, build.Label(api.OperationLabel, build.ID))), false},
	} {
		t.Run(name, func(t *testing.T) {
			next := build.Stored(Decide(world(running(status), row.pods)))
			if next == nil || next.Stopping == nil || next.Claims[0].Warm != row.want || !next.Claims[1].Warm {
				t.Errorf("stores %+v", next)
			}
		})
	}
	unknown := copyOperation(api.ClaimWarming, warmed(0, 1)) // the process died before it could write down which pod it was
	if next := build.Stored(Decide(world(running(unknown), users()))); next == nil || next.Claims[0].Warm {
		t.Errorf("nobody knows beside which pod it was made: %+v", next)
	}
	again := copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"), warmed(0, 1), build.Stopped(time.Minute))
	if next := build.Stored(Decide(world(running(again), users()))); next == nil || next.Claims[0].Warm || next.Claims[1].Warm {
		t.Errorf("it was told to stop already, so its pods are others: %+v", next)
	}
	idle := with(status.Clone(), func(s *api.Resize) { s.Replicas = 0 })
	stopped := append(append(set(idle, build.Replicas(0)), build.Journal(idle)), append(held()[1:], targets(1)...)...)
	if next := build.Stored(Decide(world(stopped))); next == nil || next.Claims[0].Warm || next.Stopping == nil {
		t.Errorf("nobody uses the claims any more: %+v", next)
	}
}

// TestI1AFirstCopyIsBelievedIfNoReplicaWasWantedSince: also one that was wanted for a moment.
func TestI1AFirstCopyIsBelievedIfNoReplicaWasWantedSince(t *testing.T) {
	for generation, want := range map[int64]bool{5: true, 4: false, 3: false} {
		stopped := copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"), warmed(0, 1), build.Stopped(time.Minute), func(s *api.Resize) { s.StopGeneration = generation })
		next := build.Stored(Decide(world(running(stopped, build.Replicas(0), build.Label(api.FrozenLabel, "true")))))
		if next == nil || next.Generation != 5 || next.Claims[0].Warm != want || next.StopGeneration != 0 {
			t.Errorf("stopped with generation %d: %+v", generation, next)
		}
	}
}

// TestI8AMoverOfTheFirstCopyThatStays: as on a node that is lost. The set is given back, not held until the copy's deadline.
func TestI8AMoverOfTheFirstCopyThatStays(t *testing.T) {
	long := build.Settings().QuiesceTimeout + time.Hour
	stopped := copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"), warmed(0, 1), build.Stopped(long), justBegun)
	p := Decide(world(running(stopped, build.Replicas(0), build.Label(api.FrozenLabel, "true")), warming(0, build.Complete(), build.Deleting())))
	if next := build.Stored(p); next == nil || next.Phase != api.RollingBack || next.Reason != api.DeadlineExceeded {
		t.Errorf("%s: %+v", p, next)
	}
}

// TestI1NoMoverOfTheFirstCopyIsThereWhenTheLastBegins: it would write to what that is about to verify.
func TestI1NoMoverOfTheFirstCopyIsThereWhenTheLastBegins(t *testing.T) {
	stopped := copyOperation(api.ClaimWarming, beside("uid-web-0", "uid-web-1"), warmed(0, 1), build.Stopped(time.Minute))
	zero := running(stopped, build.Replicas(0), build.Label(api.FrozenLabel, "true"))
	left := warming(0, build.Complete(), build.Deleting())
	check(t, map[string]row{
		"Jobs go": {in: world(zero, warming(0, build.Complete()), warming(1)), want: "do Preparing: delete jobs " + warm0 + "; delete jobs " + warm1},
		"one goes already": {
			in: world(zero, left, warming(1)), want: "do Preparing: delete jobs " + warm1},
		"their pods are waited for, done or not": {
			in: world(zero, left), want: "wait Quiescing (pod " + warm0 + "-x, which made the first copy, is still there)"},
		"also when the Job is gone": {
			in: world(zero, left[1:]), want: "wait Quiescing (pod " + warm0 + "-x, which made the first copy, is still there)"},
		"a Job that goes without pods is no matter": {
			in: world(zero, left[:1]), want: begun,
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying; data-web-1 Copying"},
		"nobody is there: the last copy begins": {
			in: world(running(with(stopped, build.Quiet(5)), build.Replicas(0))), want: begun,
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying; data-web-1 Copying"},
	})
	if p := Decide(world(zero, left)); !p.Soon {
		t.Error("no event tells that a pod is gone: it is worth looking again")
	}
}

func with(status *api.Resize, options ...func(*api.Resize)) *api.Resize {
	for _, option := range options {
		option(status)
	}
	return status
}

// madeFor is the Job that the plan makes for claim 0.
func madeFor(t *testing.T, in Input) *batchv1.Job {
	t.Helper()
	p := Decide(in)
	for _, a := range p.Actions {
		if job, ok := a.Object.(*batchv1.Job); ok && a.Verb == plan.VerbCreate {
			if link, err := api.LoadLink(job); err == nil && link.Claim == names[0] {
				return job
			}
		}
	}
	t.Fatalf("no mover is made: %s", p)
	return nil
}

// TestMoverOfEachPass: what it is told, and where it runs.
func TestMoverOfEachPass(t *testing.T) {
	quiet := func(options ...func(*api.Resize)) objects {
		return running(copyOperation(api.ClaimPending, append([]func(*api.Resize){beside("uid-web-0", "uid-web-1"), build.Quiet(5)}, options...)...), build.Replicas(0))
	}
	second := append(append(set(copyOperation(api.ClaimPending, beside("uid-web-0", "uid-web-1"), warmed(0, 1), build.Quiet(5), build.Round(2)), build.Replicas(0)), held()...), targets(2)...)
	shrinks := func(s *api.Resize) { s.Claims[0].To = resource.MustParse("32Mi") }
	device := func(all objects) objects {
		return slices.Collect(func(yield func(metav1.Object) bool) {
			for _, o := range all {
				if c, ok := o.(*corev1.PersistentVolumeClaim); ok && c.Name == names[0] {
					o = build.With(c.DeepCopy(), build.Edit(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }))
				}
				if !yield(o) {
					return
				}
			}
		})
	}
	first := running(copyOperation(api.ClaimPending, justBegun))
	margin := func(in Input) Input {
		in.Settings.ShrinkMargin = 17
		return in
	}
	optioned := world(quiet())
	optioned.Options = resources.MoverOptions{PriorityClassName: "background", ServiceAccountName: "copier"}
	for name, row := range map[string]struct {
		in             Input
		args           string
		round          int
		pinned, prefer string
	}{
		"while the set runs":                 {world(first, users()), "--warm --own-target", 0, "node-0", ""},
		"after that":                         {world(quiet(warmed(0, 1))), "--after-warm --own-target", 1, "", "node-0"},
		"of a set of which nothing was":      {world(quiet()), "--own-target", 1, "", ""},
		"of a claim that was given up":       {world(quiet(cold(0))), "--own-target", 1, "", ""},
		"I1: in the next round nothing was":  {world(second), "--own-target", 2, "", ""},
		"a volume that shrinks keeps a rest": {margin(world(quiet(shrinks))), "--own-target --margin=17", 1, "", ""},
		"and is told so at first":            {margin(world(running(copyOperation(api.ClaimPending, justBegun, shrinks)), users())), "--warm --own-target --margin=17", 0, "node-0", ""},
		"one that grows does not":            {margin(world(quiet())), "--own-target", 1, "", ""},
		"a raw device":                       {world(device(quiet())), "--device", 1, "", ""},
		"a raw device, while the set runs":   {world(device(first), users()), "--warm --device", 0, "node-0", ""},
		"as people want movers to be":        {optioned, "--own-target", 1, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			job := madeFor(t, row.in)
			pod := job.Spec.Template.Spec
			args := strings.Join(pod.Containers[0].Args, " ")
			want := strings.Join(strings.Fields("copy --report=/dev/termination-log --token="+build.ID+" "+row.args+" /source /target"), " ")
			if args != want {
				t.Errorf("args %s\nwant %s", args, want)
			}
			link, _ := api.LoadLink(job)
			if link.Round != row.round || job.Name != api.CopyName(build.ID, names[0], row.round) {
				t.Errorf("%s of round %d", job.Name, link.Round)
			}
			if claims := [2]string{pod.Volumes[0].PersistentVolumeClaim.ClaimName, pod.Volumes[1].PersistentVolumeClaim.ClaimName}; claims != [2]string{names[0], api.CopyName(build.ID, names[0], max(row.round, 1))} {
				t.Errorf("copies %v", claims)
			}
			if pinned, prefers := nodesOf(pod.Affinity); pinned != row.pinned || prefers != row.prefer {
				t.Errorf("runs on %q, or better on %q", pinned, prefers)
			}
			if pod.PriorityClassName != row.in.Options.PriorityClassName || pod.ServiceAccountName != row.in.Options.ServiceAccountName {
				t.Errorf("priority %q, account %q", pod.PriorityClassName, pod.ServiceAccountName)
			}
		})
	}
}

// nodesOf are the nodes that an affinity names.
func nodesOf(affinity *corev1.Affinity) (pinned, prefers string) {
	if affinity == nil || affinity.NodeAffinity == nil {
		return "", ""
	}
	if required := affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution; required != nil {
		pinned = required.NodeSelectorTerms[0].MatchFields[0].Values[0]
	}
	for _, term := range affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		prefers = term.Preference.MatchFields[0].Values[0]
	}
	return pinned, prefers
}

// TestI8MoverThatCannotBeMade: before the set is stopped, if it runs.
func TestI8MoverThatCannotBeMade(t *testing.T) {
	first, quiet := running(copyOperation(api.ClaimPending, justBegun)), running(copyOperation(api.ClaimPending, build.Quiet(5)), build.Replicas(0))
	rooted := running(copyOperation(api.ClaimPending, justBegun), asRoot())
	for name, in := range map[string]Input{"while the set runs": world(first, users()), "when it is stopped": world(quiet)} {
		in.OptionsErr = errors.New("key mover: unknown field speed")
		next := build.Stored(Decide(in))
		if next == nil || next.Phase != api.RollingBack || !strings.Contains(next.Message, "unknown field speed") || !strings.Contains(next.Message, api.RetryAnnotation) {
			t.Errorf("%s: %+v", name, next)
		}
	}
	if next := build.Stored(Decide(world(rooted, users()))); next == nil || next.Reason != api.CopyFailed || !strings.Contains(next.Message, api.RootMoverLabel) {
		t.Errorf("only root could: %+v", next)
	}
	unfaithful := world(running(copyOperation(api.ClaimWarming)), users(), warming(0, build.Failed("PodFailurePolicy", "exit code 6")), warming(1))
	unfaithful.Reports[names[0]] = moverreport.Line{Report: moverreport.Report{Result: "failed", Reason: moverreport.ReasonNotFaithful, Message: "owner of /x"}}
	if next := build.Stored(Decide(unfaithful)); !strings.Contains(next.Message, "kubectl label namespace shop "+api.RootMoverLabel) {
		t.Errorf("it does not say what allows it: %s", next.Message)
	}
	unfaithful.RootMovers = true
	if next := build.Stored(Decide(unfaithful)); strings.Contains(next.Message, "kubectl label") {
		t.Errorf("it is allowed already: %s", next.Message)
	}
}
