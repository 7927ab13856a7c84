package backup

import (
	"reflect"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/moverreport"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

type objects = []metav1.Object

// row is a situation, the plan for it, and what the plan stores as status.
type row struct {
	in   Input
	want string
	next string
}

func check(t *testing.T, rows map[string]row) {
	t.Helper()
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			build.Expect(t, row.in.Observed, func() plan.Plan { return Decide(row.in) }, row.want, row.next)
		})
	}
}

func world(groups ...objects) Input {
	var all objects
	for _, g := range groups {
		all = append(all, g...)
	}
	observed := build.World(all...)
	for _, claim := range observed.Claims { // what a provisioner has done
		if claim.Spec.VolumeName != "" && api.Linked(claim, build.ID, api.RoleTarget) && observed.Volume(claim.Spec.VolumeName) == nil {
			observed.Volumes[claim.Spec.VolumeName] = build.VolumeOf(claim, createdWith(claim))
		}
	}
	return Input{Observed: observed, Settings: build.Settings(), Reports: map[string]moverreport.Line{}}
}

func createdWith(claim *corev1.PersistentVolumeClaim) build.Option {
	return func(o metav1.Object) { o.SetCreationTimestamp(claim.CreationTimestamp) }
}

var names = []string{"data-web-0", "data-web-1"}

// copyOperation is one on two claims in phase Copying.
func copyOperation(phase api.ClaimPhase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.Copying, append([]func(*api.Resize){build.Parts(phase, names...), build.Due(time.Hour),
		func(s *api.Resize) { s.Reason = api.CopyRunning }}, options...)...)
}

func set(status *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Status(status), build.Template("data", "64Mi", "fixed")}, options...)...)}
}

// journal names a third claim, too, which some operations have.
func journal() objects {
	return objects{build.Journal(copyOperation(api.ClaimPending, build.Parts(api.ClaimPending, "data-web-2")))}
}

// claims are the sources as found.
func claims(options ...build.Option) objects {
	var all objects
	for _, name := range names {
		claim := build.Claim(name, "64Mi", options...)
		all = append(all, claim, build.VolumeOf(claim))
	}
	return all
}

// held are journal and sources that belong to the operation.
func held() objects {
	all := journal()
	for _, name := range names {
		claim := build.Claim(name, "64Mi", build.Link(api.RoleSource, name, 0))
		all = append(all, claim, build.VolumeOf(claim, build.Held(api.RoleSource, name)))
	}
	return all
}

// targets are the temporary claims of a round.
func targets(round int) objects {
	var all objects
	for _, name := range names {
		all = append(all, build.Target(api.CopyName(build.ID, name, round), name, "128Mi", round))
	}
	return all
}

const (
	job0   = "drydock-0123456789ab-191f4772-1"
	job1   = "drydock-0123456789ab-db142018-1"
	again0 = "drydock-0123456789ab-191f4772-2"
	again1 = "drydock-0123456789ab-db142018-2"
)

func TestDecideSaysWhoseTurnItIs(t *testing.T) {
	check(t, map[string]row{
		"there is no set: restore undoes what was begun": {in: world(claims()), want: "noop SetGone"},
		"the set is being deleted":                       {in: world(set(copyOperation(api.ClaimPending), build.Deleting()), claims()), want: "noop SetGone"},
		"the status cannot be read":                      {in: world(objects{build.Set("web", build.Annotation(api.StatusAnnotation, "{"))}), want: "noop StatusInvalid"},
		"there is no operation":                          {in: world(objects{build.Set("web")}), want: "noop NotOurPhase"},
		"the operation is planned":                       {in: world(set(build.Operation(api.Planned))), want: "noop NotOurPhase"},
		"the operation has gone on to the switch":        {in: world(set(build.Operation(api.Switching))), want: "noop NotOurPhase"},
		"I3: the status is another set's, it came along with a copied manifest": {
			in: world(set(copyOperation(api.ClaimPending), build.UID("uid-clone")), claims()), want: "noop NotOurPhase"},
	})
}

func TestI2JournalAndRetainComeBeforeAnythingElse(t *testing.T) {
	started, genuine := set(copyOperation(api.ClaimPending), build.Replicas(3)), copyOperation(api.ClaimPending, build.Genuine)
	check(t, map[string]row{
		"nothing was done: the journal comes first": {
			in:   world(set(genuine, build.Replicas(3)), claims()),
			want: "do Preparing: create controllerrevisions " + api.JournalName(genuine.Operation),
		},
		"I1: then the volumes are retained and linked": {
			in: world(started, journal(), claims()),
			want: "do Preparing: patch persistentvolumes pv-data-web-0 {+label operation, +operation, +reclaim-policy, reclaim Retain}; " +
				"patch persistentvolumeclaims data-web-0 {+label operation, +operation}; " +
				"patch persistentvolumes pv-data-web-1 {+label operation, +operation, +reclaim-policy, reclaim Retain}; " +
				"patch persistentvolumeclaims data-web-1 {+label operation, +operation}",
		},
		"then the targets are made, while the set runs still": {
			in:   world(started, held()),
			want: "do Preparing: create persistentvolumeclaims " + job0 + "; create persistentvolumeclaims " + job1,
		},
		"one of the targets is there already, from a try that died": {
			in:   world(started, held(), targets(1)[:1]),
			want: "do Preparing: create persistentvolumeclaims " + job1,
		},
		"only then the set is stopped": {
			in:   world(started, held(), targets(1)),
			want: "do Quiescing: patch statefulsets web {+status, replicas 3 to 0, +label frozen}",
			next: "Copying Quiescing, attempt 1, round 1, generation 0, replicas 3, due in 1h0m0s; data-web-0 Pending; data-web-1 Pending",
		},
		"I4: somebody has scaled the set since: the journal is told first": {
			in:   world(set(copyOperation(api.ClaimPending), build.Replicas(0)), held(), targets(1)),
			want: "do Preparing: patch controllerrevisions drydock-0123456789ab {+replicas}",
		},
		"I4: it gets back what it has now, and is frozen": {
			in: world(set(copyOperation(api.ClaimPending), build.Replicas(0)), objects{build.With(journal()[0].(*appsv1.ControllerRevision), build.Annotation(api.ReplicasAnnotation, "0"))},
				held()[1:], targets(1)),
			want: "do CopyRunning: patch statefulsets web {+status, +label frozen}",
			next: "Copying CopyRunning, attempt 1, round 1, generation 0, replicas 0, due in 1h0m0s; data-web-0 Pending; data-web-1 Pending",
		},
		"the volume of another set is never touched, whatever the status names": {
			in:   world(set(copyOperation(api.ClaimPending, func(s *api.Resize) { s.Claims[0].OldVolume = "pv-of-payroll" }), build.Replicas(3)), held(), targets(1)),
			want: "do StatusInvalid: patch statefulsets web {+status}",
			next: "RollingBack StatusInvalid at Copying, attempt 1, round 1, generation 0, replicas 3, due in 12m0s; data-web-0 Pending; data-web-1 Pending",
		},
	})
}

func TestI1NothingIsCopiedBeforeTheSetIsQuiet(t *testing.T) {
	stopping := copyOperation(api.ClaimPending, build.Stopped(time.Minute))
	zero := set(stopping, build.Replicas(0), build.Generation(6))
	prepared := append(held(), targets(1)...)
	finished := build.With(build.PodOf("web", 0, "data"), build.InPhase(corev1.PodSucceeded))
	check(t, map[string]row{
		"the controller has not seen the stop": {
			in:   world(set(stopping, build.Replicas(0), build.Unseen()), prepared),
			want: "wait Quiescing (StatefulSet web still counts 0 replicas)",
		},
		"replicas are counted still": {
			in:   world(set(stopping, build.Replicas(0), build.Counting(2, 0)), prepared),
			want: "wait Quiescing (StatefulSet web still counts 2 replicas)",
		},
		"nothing is counted, but a replica's pod exists still": {
			in:   world(zero, prepared, objects{build.PodOf("web", 1, "data")}),
			want: "wait Quiescing (pod web-1 still uses claim data-web-1)",
		},
		"a pod of somebody else uses a claim": {
			in:   world(zero, prepared, objects{build.Pod("debug", []string{"data-web-0"})}),
			want: "wait Quiescing (pod debug still uses claim data-web-0)",
		},
		"a pod that is being deleted counts until it is gone": {
			in:   world(zero, prepared, objects{build.Pod("debug", []string{"data-web-0"}, build.Deleting())}),
			want: "wait Quiescing (pod debug still uses claim data-web-0)",
		},
		"no pod is left, but a node has a volume attached": {
			in:   world(zero, prepared, objects{build.Attachment("pv-data-web-1")}),
			want: "wait Quiescing (volume pv-data-web-1 is still attached to a node)",
		},
		"pods that are done, other volumes' attachments and other claims' users are no matter": {
			in:   world(zero, prepared, objects{finished, build.Attachment("pv-x"), build.Pod("other", []string{"data-api-0"})}),
			want: begun,
			next: "Copying CopyRunning, attempt 1, round 1, generation 6, replicas 3, due in 1h0m0s; data-web-0 Copying; data-web-1 Copying",
		},
		"somebody scales up before the set was quiet: it is stopped again": {
			in:   world(set(stopping, build.Replicas(2)), prepared),
			want: "do Quiescing: patch statefulsets web {+status, replicas 2 to 0, +label frozen}",
			next: "Copying Quiescing, attempt 1, round 1, generation 0, replicas 3, due in 1h0m0s; data-web-0 Pending; data-web-1 Pending",
		},
	})
}

// working is the Job of a copy of the stopped set, with its running pod.
func working(ordinal int) objects {
	job := build.Job(names[ordinal], 1)
	return objects{job, build.Mover(job)}
}

func TestQuietWaitIsWorthLookingAgainOnlyWhenTheControllerIsDone(t *testing.T) {
	stopping := copyOperation(api.ClaimPending, build.Stopped(time.Minute))
	prepared := append(held(), targets(1)...)
	if p := Decide(world(set(stopping, build.Replicas(0), build.Counting(2, 0)), prepared)); p.Soon {
		t.Error("looks again at once while pods have their grace period: the set's status update will tell")
	}
	if p := Decide(world(set(stopping, build.Replicas(0)), prepared, objects{build.Attachment("pv-data-web-1")})); !p.Soon {
		t.Error("no event tells that an attachment is gone, so it should look again")
	}
}

func TestCopying(t *testing.T) {
	quiet := build.Quiet(5)
	zero := set(copyOperation(api.ClaimPending, quiet), build.Replicas(0))
	copying := set(copyOperation(api.ClaimCopying, quiet), build.Replicas(0))
	prepared := append(held(), targets(1)...)
	tens := build.Parts(api.ClaimPending, "data-web-2")
	done0, done1 := build.Job("data-web-0", 1, build.Complete()), build.Job("data-web-1", 1, build.Complete())
	reported := world(copying, prepared, objects{build.Job("data-web-0", 1), done1})
	reported.Reports["data-web-0"] = moverreport.Line{Progress: moverreport.Progress{BytesDone: 10, BytesTotal: 100}}
	reported.Reports["data-web-1"] = moverreport.Line{Report: moverreport.Report{Bytes: 50, Files: 3, Digest: "d"}}
	progressed := copyOperation(api.ClaimCopying, quiet, func(s *api.Resize) {
		s.Claims[0].BytesDone, s.Claims[0].BytesTotal, s.Claims[0].ProgressAt = 10, 100, operation.Moment(build.Now.Add(-9*time.Second))
	})
	soon := world(set(progressed, build.Replicas(0)), prepared, objects{build.Job("data-web-0", 1), build.Job("data-web-1", 1)})
	soon.Reports["data-web-0"] = moverreport.Line{Progress: moverreport.Progress{BytesDone: 20, BytesTotal: 100}}
	later := world(set(progressed, build.Replicas(0)), prepared, objects{build.Job("data-web-0", 1), build.Job("data-web-1", 1)})
	later.Reports["data-web-0"] = soon.Reports["data-web-0"]
	later.Now = build.Now.Add(time.Second)
	stuckAt := world(set(progressed, build.Replicas(0)), prepared, working(0), working(1))
	stuckAt.Now = later.Now
	stuckAt.Reports["data-web-0"] = moverreport.Line{Progress: moverreport.Progress{BytesDone: 10, BytesTotal: 100}}
	check(t, map[string]row{
		"movers start up to the cap of two": {
			in:   world(set(copyOperation(api.ClaimPending, quiet, tens), build.Replicas(0)), prepared, third()),
			want: begun,
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying; data-web-1 Copying; data-web-2 Pending",
		},
		"the set asks for another cap": {
			in:   world(set(copyOperation(api.ClaimPending, quiet), build.Replicas(0), build.Annotation(api.ResizeParallelismAnnotation, "1")), prepared),
			want: "do CopyRunning: patch statefulsets web {+status}; create jobs " + job0,
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying; data-web-1 Pending",
		},
		"a cap that is no number is ignored": {
			in:   world(set(copyOperation(api.ClaimPending, quiet), build.Replicas(0), build.Annotation(api.ResizeParallelismAnnotation, "-1")), prepared),
			want: begun,
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying; data-web-1 Copying",
		},
		"a mover that is running holds one of the places": {
			in:   world(set(copyOperation(api.ClaimPending, quiet, tens), build.Replicas(0)), prepared, third(), objects{build.Job("data-web-1", 1)}),
			want: "do CopyRunning: patch statefulsets web {+status}; create jobs " + job0,
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying; data-web-1 Copying; data-web-2 Pending",
		},
		"a try died after it had made the Job: the status catches up": {
			in:   world(zero, prepared, objects{build.Job("data-web-0", 1), build.Job("data-web-1", 1)}),
			want: "do CopyRunning: patch statefulsets web {+status}",
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying; data-web-1 Copying",
		},
		"I7: nothing new is no write": {
			in:   world(copying, prepared, objects{build.Job("data-web-0", 1), build.Job("data-web-1", 1)}),
			want: "wait CopyRunning (2 claims are being copied)",
		},
		"a claim is marked as copying, its Job was deleted: it is started again": {
			in:   world(copying, prepared, objects{build.Job("data-web-0", 1)}),
			want: "do CopyRunning: create jobs " + job1,
		},
		"a Job of another round is not this round's": {
			in:   world(copying, prepared, objects{build.Job("data-web-0", 2, build.Complete()), build.Job("data-web-1", 2, build.Complete())}),
			want: "do CopyRunning: create jobs " + job0 + "; create jobs " + job1,
		},
		"one claim reports progress, the other is done": {
			in:   reported,
			want: "do CopyRunning: patch statefulsets web {+status}",
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying 10/100; data-web-1 Verified on pv-new-data-web-1 50/50",
		},
		"progress is written every ten seconds at most": {
			in:   soon,
			want: "wait CopyRunning (2 claims are being copied)",
		},
		"ten seconds later it is": {
			in:   later,
			want: "do CopyRunning: patch statefulsets web {+status}",
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying 20/100; data-web-1 Copying",
		},
		"I7: no progress is no write": {
			in:   stuckAt,
			want: "wait CopyRunning (2 claims are being copied)",
		},
		"a mover that has succeeded is the end of its Job, one that failed is not": {
			in: world(copying, prepared, objects{build.Job("data-web-0", 1), build.Job("data-web-1", 1),
				build.Mover(build.Job("data-web-0", 1), build.InPhase(corev1.PodSucceeded)),
				build.Mover(build.Job("data-web-1", 1), build.InPhase(corev1.PodFailed))}),
			want: "do CopyRunning: patch statefulsets web {+status}",
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Verified on pv-new-data-web-0; data-web-1 Copying",
		},
		"I1: but not if it was made by an earlier Job of the same name, or is of another round, or runs still": {
			in: world(copying, prepared, objects{build.Job("data-web-0", 1, build.UID("uid-again")), build.Job("data-web-1", 1),
				build.Mover(build.Job("data-web-0", 1), build.InPhase(corev1.PodSucceeded)),
				build.Mover(build.Job("data-web-1", 2), build.InPhase(corev1.PodSucceeded)),
				build.Mover(build.Job("data-web-1", 1), build.InPhase(corev1.PodRunning), terminated(0))}),
			want: "wait CopyRunning (2 claims are being copied)",
		},
		"the place of a mover that has succeeded is free at once": {
			in: world(set(copyOperation(api.ClaimCopying, quiet, tens), build.Replicas(0), build.Annotation(api.ResizeParallelismAnnotation, "1")), prepared, third(),
				objects{build.Job("data-web-0", 1), build.Mover(build.Job("data-web-0", 1), build.InPhase(corev1.PodSucceeded))}),
			want: "do CopyRunning: patch statefulsets web {+status}; create jobs " + job1,
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Verified on pv-new-data-web-0; data-web-1 Copying; data-web-2 Pending",
		},
		"both Jobs are complete, also without a report": {
			in:   world(copying, prepared, objects{done0, done1}),
			want: handedOver,
			next: "Switching CopyVerified, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Verified on pv-new-data-web-0; data-web-1 Verified on pv-new-data-web-1",
		},
		"every copy is verified": {
			in:   world(set(copyOperation(api.ClaimVerified, quiet), build.Replicas(0)), prepared, objects{done0, done1}),
			want: handedOver,
			next: "Switching CopyVerified, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Verified on pv-new-data-web-0; data-web-1 Verified on pv-new-data-web-1",
		},
		"a claim is switched already, the other copy is of a later round": {
			in: world(set(later1(build.Round(2)), build.Replicas(0)), held()[:1], held()[3:], targets(2)[1:],
				objects{build.Claim("data-web-0", "128Mi", build.On("pv-new-data-web-0"), build.UID("uid-new"))}),
			want: "do CopyRunning: patch statefulsets web {+status}; create jobs " + again1,
			next: "Copying CopyRunning, attempt 1, round 2, generation 5, replicas 3, due in 1h0m0s; data-web-0 Switched on pv-new-data-web-0; data-web-1 Copying",
		},
	})
}

// terminated has the mover's container end with the exit code.
func terminated(code int32) build.Option {
	return build.Edit(func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: resources.MoverContainer,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}}}}
	})
}

// begun is that both copies begin.
const begun = "do CopyRunning: patch statefulsets web {+status}; create jobs " + job0 + "; create jobs " + job1

const handedOver = `do CopyVerified: patch statefulsets web {+status}; event CopyVerified "every copy is verified, the claims are switched to the new volumes"` +
	" -> backup.completed"

// third is a third claim with its target, which the operation concerns too.
func third() objects {
	claim := build.Claim("data-web-2", "64Mi", build.Link(api.RoleSource, "data-web-2", 0))
	return objects{claim, build.VolumeOf(claim, build.Held(api.RoleSource, "data-web-2")),
		build.Target(api.CopyName(build.ID, "data-web-2", 1), "data-web-2", "128Mi", 1)}
}

// later1 is an operation of which claim 0 is switched and claim 1 is still to be copied.
func later1(options ...func(*api.Resize)) *api.Resize {
	status := build.Operation(api.Copying, build.Parts(api.ClaimSwitched, "data-web-0"), build.Parts(api.ClaimPending, "data-web-1"),
		build.Due(time.Hour), build.Quiet(5), func(s *api.Resize) { s.Reason = api.CopyRunning })
	for _, option := range options {
		option(status)
	}
	return status
}

func TestI1CopiesOfAnEarlierGenerationCountForNothing(t *testing.T) {
	verified := copyOperation(api.ClaimVerified, build.Quiet(5))
	prepared := append(held(), targets(1)...)
	frozen := build.Label(api.FrozenLabel, "true")
	const restart = "do StartedByOthers: patch statefulsets web {+status}; " +
		`event StartedByOthers "the set was changed while it was being copied; it is stopped and copied again"`
	const round2 = "Copying StartedByOthers, attempt 1, round 2, generation 0, replicas 3, due in 1h0m0s; data-web-0 Pending; data-web-1 Pending"
	check(t, map[string]row{
		"somebody scales the set up while it is copied": {
			in:   world(set(verified, build.Replicas(2), build.Generation(6)), prepared),
			want: strings.Replace(restart, "{+status}", "{+status, replicas 2 to 0, +label frozen}", 1),
			next: round2,
		},
		"somebody scaled it up and down again": {
			in:   world(set(verified, build.Replicas(0), frozen, build.Generation(7)), prepared),
			want: restart,
			next: round2,
		},
		"I4: somebody thawed it to do so: it is frozen again with the same write": {
			in:   world(set(verified, build.Replicas(0), build.Generation(7)), prepared),
			want: strings.Replace(restart, "{+status}", "{+status, +label frozen}", 1),
			next: round2,
		},
		"a pod of somebody else uses a claim while it is copied": {
			in:   world(set(verified, build.Replicas(0), frozen), prepared, objects{build.Pod("debug", []string{"data-web-1"})}),
			want: restart,
			next: round2,
		},
		"an identity that no copy is current for": {
			in:   world(set(copyOperation(api.ClaimVerified, build.Quiet(-1)), build.Replicas(0), frozen), prepared),
			want: restart,
			next: round2,
		},
		"the next round gets targets of its own": {
			in:   world(set(copyOperation(api.ClaimPending, build.Round(2), build.Stopped(time.Second)), build.Replicas(0)), prepared),
			want: "do Preparing: create persistentvolumeclaims " + again0 + "; create persistentvolumeclaims " + again1,
		},
		"movers of the earlier round go, since they would keep the volumes attached": {
			in: world(set(copyOperation(api.ClaimPending, build.Round(2), build.Stopped(time.Second)), build.Replicas(0)), prepared, targets(2),
				objects{build.Job("data-web-0", 1), build.Job("data-web-1", 1, build.Deleting()), build.Attachment("pv-data-web-0")}),
			want: "do Preparing: delete jobs " + job0,
		},
		"while they go, the attachment is waited for": {
			in: world(set(copyOperation(api.ClaimPending, build.Round(2), build.Stopped(time.Second)), build.Replicas(0)), prepared, targets(2),
				objects{build.Job("data-web-0", 1, build.Deleting()), build.Attachment("pv-data-web-0")}),
			want: "wait Quiescing (volume pv-data-web-0 is still attached to a node)",
		},
		"I8: three rounds are enough": {
			in:   world(set(copyOperation(api.ClaimPending, build.Round(4)), build.Replicas(0)), prepared),
			want: "do StartedByOthers: patch statefulsets web {+status}",
			next: "RollingBack StartedByOthers at Copying, attempt 1, round 4, generation 0, replicas 3, due in 12m0s; data-web-0 Pending; data-web-1 Pending",
		},
		"in the third round it goes on": {
			in:   world(set(copyOperation(api.ClaimCopying, build.Round(3), build.Quiet(5)), build.Replicas(0)), held(), targets(3)),
			want: "do CopyRunning: create jobs " + job0[:len(job0)-1] + "3; create jobs " + job1[:len(job1)-1] + "3",
		},
		"a claim that is switched stays so in the next round": {
			in:   world(set(later1(), build.Replicas(0), frozen, build.Generation(6)), held()[:1], held()[3:], targets(1)[1:]),
			want: restart,
			next: "Copying StartedByOthers, attempt 1, round 2, generation 0, replicas 3, due in 1h0m0s; data-web-0 Switched on pv-new-data-web-0; data-web-1 Pending",
		},
	})
}

func TestI8EveryFailureRollsBack(t *testing.T) {
	copying := copyOperation(api.ClaimCopying, build.Quiet(5))
	zero := set(copying, build.Replicas(0))
	prepared := append(held(), targets(1)...)
	running := objects{build.Job("data-web-0", 1), build.Job("data-web-1", 1)}
	const rolledBack = " at Copying, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Copying; data-web-1 Copying"
	rejected := world(zero, prepared)
	rejected.Rejected = "creating the Job: exceeded quota"
	mover := func(options ...build.Option) objects {
		job := build.Job("data-web-0", 1, build.Age(11*time.Minute))
		return objects{job, build.Job("data-web-1", 1), build.Mover(job, append([]build.Option{build.InPhase(corev1.PodPending)}, options...)...)}
	}
	young := build.Job("data-web-0", 1, build.Age(10*time.Minute))
	check(t, map[string]row{
		"somebody asks for it; the annotation is taken": {
			in:   world(set(copying, build.Replicas(0), build.Annotation(api.AbortAnnotation, "")), prepared),
			want: "do Aborted: patch statefulsets web {+status, -abort}",
			next: "RollingBack Aborted" + rolledBack,
		},
		"the API server refused a write for good": {
			in:   rejected,
			want: "do Rejected: patch statefulsets web {+status}",
			next: "RollingBack Rejected" + rolledBack,
		},
		"the deadline has passed": {
			in:   world(set(copyOperation(api.ClaimCopying, build.Quiet(5), build.Due(-time.Second)), build.Replicas(0)), prepared),
			want: "do DeadlineExceeded: patch statefulsets web {+status}",
			next: "RollingBack DeadlineExceeded" + rolledBack,
		},
		"a Job failed": {
			in:   world(zero, prepared, objects{build.Job("data-web-0", 1, build.Failed("PodFailurePolicy", "exit code 4")), running[1]}),
			want: "do CopyFailed: patch statefulsets web {+status}",
			next: "RollingBack CopyFailed" + rolledBack,
		},
		"I1: a complete Job whose temporary claim is gone proves nothing": {
			in:   world(zero, held(), targets(1)[1:], objects{build.Job("data-web-0", 1, build.Complete())}),
			want: "do Preparing: create persistentvolumeclaims " + job0,
		},
		"I1: the temporary claim was deleted and made anew after the copy, so it may be empty": {
			in: world(zero, held(), targets(1)[1:], objects{build.Target(job0, "data-web-0", "128Mi", 1, build.Age(time.Second)),
				build.Job("data-web-0", 1, build.Age(time.Minute), build.Complete())}),
			want: "do CopyFailed: patch statefulsets web {+status}",
			next: "RollingBack CopyFailed" + rolledBack,
		},
		"I1: the temporary claim is being deleted, and its volume with it": {
			in: world(zero, held(), targets(1)[1:], objects{build.Target(job0, "data-web-0", "128Mi", 1, build.Deleting()),
				build.Job("data-web-0", 1, build.Complete())}),
			want: "do CopyFailed: patch statefulsets web {+status}",
			next: "RollingBack CopyFailed" + rolledBack,
		},
		"I1: a complete Job whose temporary claim has no volume proves nothing": {
			in:   world(zero, held(), targets(1)[1:], objects{build.Target(job0, "data-web-0", "128Mi", 1, build.On("")), build.Job("data-web-0", 1, build.Complete())}),
			want: "do CopyFailed: patch statefulsets web {+status}",
			next: "RollingBack CopyFailed" + rolledBack,
		},
		"I3: a claim was replaced by another one of its name": {
			in:   world(zero, held()[:1], held()[3:], objects{build.Claim("data-web-0", "64Mi", build.UID("uid-other")), held()[2]}, targets(1)),
			want: "do ClaimLost: patch statefulsets web {+status}",
			next: "RollingBack ClaimLost" + rolledBack,
		},
		"a claim was deleted": {
			in:   world(zero, held()[:1], held()[2:], targets(1)),
			want: "do ClaimLost: patch statefulsets web {+status}",
			next: "RollingBack ClaimLost" + rolledBack,
		},
		"a claim is being deleted": {
			in:   world(zero, held()[:1], objects{build.Claim("data-web-0", "64Mi", build.Deleting())}, held()[2:], targets(1)),
			want: "do ClaimLost: patch statefulsets web {+status}",
			next: "RollingBack ClaimLost" + rolledBack,
		},
		"a volume is gone": {
			in:   world(zero, held()[:2], held()[3:], targets(1)),
			want: "do ClaimLost: patch statefulsets web {+status}",
			next: "RollingBack ClaimLost" + rolledBack,
		},
		"a mover's pod does not start": {
			in:   world(zero, prepared, mover()),
			want: "do CopyFailed: patch statefulsets web {+status}",
			next: "RollingBack CopyFailed" + rolledBack,
		},
		"a mover's pod has a little time left to start": {
			in: world(zero, prepared, objects{young, running[1], build.Mover(young, build.InPhase(corev1.PodPending))}),
			want: "do CopyRunning: patch statefulsets web {+status}; event MoverStalled \"NotStarted: look at kubectl describe pod " + job0 +
				"-x (claim data-web-0)\"",
			next: "Copying MoverStalled, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying; data-web-1 Copying",
		},
		"a mover's pod takes the place of one that was evicted": {
			in:   world(zero, prepared, mover(build.Age(20*time.Second))),
			want: "wait CopyRunning (2 claims are being copied)",
		},
		"a mover that took long to start, and runs": {
			in:   world(zero, prepared, mover(build.InPhase(corev1.PodRunning))),
			want: "wait CopyRunning (2 claims are being copied)",
		},
		"only a root mover could copy the files, and the namespace does not allow it any more": {
			in:   world(set(copyOperation(api.ClaimPending, build.Quiet(5)), build.Replicas(0), asRoot()), prepared),
			want: "do CopyFailed: patch statefulsets web {+status}",
			next: "RollingBack CopyFailed at Copying, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Pending; data-web-1 Pending",
		},
	})
}

func TestStoppingIsTimedOncePerRound(t *testing.T) {
	prepared := append(held(), targets(1)...)
	for name, row := range map[string]struct {
		status *api.Resize
		want   time.Duration
	}{
		"the first stop":                  {copyOperation(api.ClaimPending), 0},
		"somebody scaled up before quiet": {copyOperation(api.ClaimPending, build.Stopped(time.Minute)), -time.Minute},
		"somebody scaled up after quiet":  {copyOperation(api.ClaimPending, build.Quiet(4)), 0},
		"the switch sent the claims back": {copyOperation(api.ClaimPending, build.Stopped(time.Minute), func(s *api.Resize) { s.Stopping = nil }), 0},
	} {
		t.Run(name, func(t *testing.T) {
			next := build.Stored(Decide(world(set(row.status, build.Replicas(3)), prepared)))
			if next == nil || next.Stopping.Sub(build.Now) != row.want || row.status.Stopped != nil && !next.Stopped.Equal(row.status.Stopped) {
				t.Errorf("stores %+v", next)
			}
		})
	}
}

func TestI3WhatIsMadeSaysWhatItIsFor(t *testing.T) {
	status := copyOperation(api.ClaimPending, build.Quiet(5), build.Round(2))
	all := append(Decide(world(set(status, build.Replicas(0)), held())).Actions,
		Decide(world(set(status, build.Replicas(0)), held(), targets(2))).Actions[1:]...)
	roles := []api.Role{api.RoleTarget, api.RoleTarget, api.RoleMover, api.RoleMover}
	for i, a := range all {
		link, err := api.LoadLink(a.Object.(metav1.Object))
		want := api.Link{Operation: build.ID, Role: roles[i], Namespace: build.Namespace, Set: status.Set, Claim: names[i%2], Round: 2}
		if err != nil || link == nil || !reflect.DeepEqual(*link, want) {
			t.Errorf("%s has link %+v (%v), want %+v", a, link, err, want)
		}
	}
	if len(all) != len(roles) {
		t.Errorf("%d objects are made", len(all))
	}
}

func TestQuiescingHasADeadline(t *testing.T) {
	prepared := append(held(), targets(1)...)
	user := objects{build.Pod("debug", []string{"data-web-0"})}
	after := func(d time.Duration, options ...build.Option) objects {
		return set(copyOperation(api.ClaimPending, build.Stopped(d)), append([]build.Option{build.Replicas(0)}, options...)...)
	}
	slow := build.Edit(gracePeriod)
	const rolledBack = "RollingBack DeadlineExceeded at Copying, attempt 1, round 1, generation 0, replicas 3, due in 12m0s; data-web-0 Pending; data-web-1 Pending"
	check(t, map[string]row{
		"the timeout does not count the pods' own grace period of 30 seconds": {
			in:   world(after(15*time.Minute+30*time.Second), prepared, user),
			want: "do Quiescing: patch statefulsets web {+status}; event Quiescing \"pod debug still uses claim data-web-0; if it stays, the operation fails after 15m30s\"",
			next: "Copying Quiescing, attempt 1, round 1, generation 0, replicas 3, due in 1h0m0s; data-web-0 Pending; data-web-1 Pending",
		},
		"it is over after that": {
			in:   world(after(15*time.Minute+31*time.Second), prepared, user),
			want: "do DeadlineExceeded: patch statefulsets web {+status}",
			next: rolledBack,
		},
		"pods with a grace period of an hour have an hour more": {
			in:   world(after(time.Hour, slow), prepared, user),
			want: "wait Quiescing (pod debug still uses claim data-web-0)",
		},
		"somebody who scales up again and again does not put it off": {
			in:   world(after(time.Hour, build.Replicas(3)), prepared),
			want: "do DeadlineExceeded: patch statefulsets web {+status}",
			next: rolledBack,
		},
		"a set that was just told to stop anew has all the time": {
			in:   world(set(copyOperation(api.ClaimPending, build.Stopped(time.Hour), func(s *api.Resize) { s.Stopping = nil }), build.Replicas(3)), prepared),
			want: "do Quiescing: patch statefulsets web {+status, replicas 3 to 0, +label frozen}",
			next: "Copying Quiescing, attempt 1, round 1, generation 0, replicas 3, due in 1h0m0s; data-web-0 Pending; data-web-1 Pending",
		},
		"the function was away for long, and the set is quiet now: it goes on": {
			in:   world(after(time.Hour), prepared),
			want: begun,
			next: "Copying CopyRunning, attempt 1, round 1, generation 5, replicas 3, due in 1h0m0s; data-web-0 Copying; data-web-1 Copying",
		},
	})
}

func TestI8MessagesSayWhatToDo(t *testing.T) {
	zero := set(copyOperation(api.ClaimCopying, build.Quiet(5)), build.Replicas(0))
	prepared := append(held(), targets(1)...)
	noSpace := world(zero, prepared, objects{build.Job("data-web-0", 1, build.Failed("PodFailurePolicy", "exit code 4"))})
	noSpace.Reports["data-web-0"] = moverreport.Line{Report: moverreport.Report{Result: "failed", Reason: moverreport.ReasonNoSpace, Message: "no space left on the target"}}
	old, killed := build.Job("data-web-0", 1, build.Age(time.Hour)), build.Job("data-web-0", 1, build.Failed("BackoffLimitExceeded", "it has failed too often"))
	pending := func(change func(*corev1.Pod)) Input {
		return world(zero, prepared, objects{old, build.Job("data-web-1", 1), build.Mover(old, build.InPhase(corev1.PodPending), build.Edit(change))})
	}
	for name, row := range map[string]struct {
		in   Input
		want string
	}{
		"what the mover reports": {noSpace, "copying claim data-web-0 failed: NoSpace: no space left on the target"},
		"what the Job says": {
			world(zero, prepared, objects{build.Job("data-web-0", 1, build.Failed("DeadlineExceeded", "was active for too long"))}),
			"copying claim data-web-0 failed: DeadlineExceeded: was active for too long"},
		"the Job says nothing": {
			world(zero, prepared, objects{build.Job("data-web-0", 1, build.Failed("", ""))}), "see kubectl describe job " + job0},
		"it was killed, and could report nothing": {
			world(zero, prepared, objects{killed, build.Mover(killed, build.InPhase(corev1.PodFailed), build.Edit(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "OOMKilled"}}}}
			}))}), "more memory than its limit (OOMKilled); give it more with the annotation drydock.dev/mover="},
		"what the scheduler says": {
			pending(func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available"}}
			}), "its mover could not go on for 11m0s: Unschedulable: 0/3 nodes are available; remove the cause"},
		"what the kubelet says": {
			pending(func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}}}}
			}), "its mover could not go on for 11m0s: ImagePullBackOff: not found; remove the cause"},
		"nobody says anything of the pod": {pending(func(*corev1.Pod) {}), "look at kubectl describe pod " + job0 + "-x"},
	} {
		t.Run(name, func(t *testing.T) {
			status := build.Stored(Decide(row.in))
			if status == nil || !strings.Contains(status.Message, row.want) || !strings.Contains(status.Message, api.RetryAnnotation) {
				t.Errorf("got %+v\nwant %q and what to do", status, row.want)
			}
		})
	}
}

func asRoot() build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Template.Spec.SecurityContext.RunAsUser = ptr.To[int64](0) })
}

func gracePeriod(s *appsv1.StatefulSet) {
	s.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](3600)
}
