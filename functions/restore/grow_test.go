package restore

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// growsInPlace makes the members' claims grow on their present volumes.
func growsInPlace(r *api.Resize) {
	for _, move := range r.Moves() {
		move.InPlace, move.NewVolume, move.Verified = true, "", false
	}
}

// growingLastOfThree is a set of three members. The claims of the last one grow while it is stopped.
func growingLastOfThree(phase api.MemberPhase, claim objects, options ...func(*api.Resize)) objects {
	record := build.Operation(api.Moving, append([]func(*api.Resize){build.Rolling, build.Members(phase, web2), growsInPlace},
		options...)...)
	written := build.Journal(build.Operation(api.Moving, build.Members(api.MemberPending, web2), growsInPlace))
	return append(append(setWith(record, build.Replicas(3)), written), claim...)
}

// claimOfSize is a claim with its volume as restore leaves it. It requests one size and has another.
func claimOfSize(name, wants, has string, options ...build.Option) objects {
	claim := build.Claim(name, wants, append([]build.Option{build.Link(api.RoleSource, name), hasCapacity(has)}, options...)...)
	return objects{claim, block(build.VolumeOf(claim, build.Retained(api.RoleSource, name)))}
}

func hasCapacity(size string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	})
}

func pending() build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue,
			LastTransitionTime: metav1.NewTime(build.Now)})
	})
}

// attempted says which size the storage works on, and how far it is.
func attempted(size string, state corev1.ClaimResourceStatus) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{corev1.ResourceStorage: state}
	})
}

func infeasible(size, message string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		attempted(size, corev1.PersistentVolumeClaimControllerResizeInfeasible)(c)
		c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimControllerResizeError, Message: message, LastTransitionTime: metav1.NewTime(build.Now)})
	})
}

// mounted makes the pod a held one whose volumes the kubelet has not unmounted.
func mounted() build.Option {
	return build.Edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](30) })
}

// unmounted makes the pod a held one whose volumes the kubelet has unmounted.
func unmounted() build.Option {
	return build.Edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })
}

// attached keeps the volume of the claim attached to a node.
func attached(claim string) func(*Input) {
	return func(in *Input) {
		in.Attachments = append(in.Attachments, &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv-" + claim)}}})
	}
}

// heldSince gives member 2 a completed stop and a deadline.
func heldSince(in time.Duration) func(*api.Resize) {
	return func(r *api.Resize) {
		m := r.Member(2)
		m.HeldAt, m.Stops = &metav1.Time{Time: build.Now.Add(-10 * time.Second)}, 1
		m.StoppedAt = &metav1.Time{Time: build.Now.Add(-5 * time.Second)}
		build.MemberDue(2, in)(r)
	}
}

// TestVolumesGrowWhileMemberIsHeld shows the growth of a stopped member's claims, step by step.
func TestVolumesGrowWhileMemberIsHeld(t *testing.T) {
	const soon = time.Minute
	before, asked := claimOfSize(web2, "64Mi", "64Mi"), claimOfSize(web2, "128Mi", "64Mi")
	stopped := append(heldPodOf(2, unmounted()), otherMembers()...)
	away := append(heldPodOf(2, unmounted()), append(pod(0), pod(1, notReady())...)...)
	grows := func(claim objects, pods objects, options ...func(*api.Resize)) Input {
		return situation(growingLastOfThree(api.MemberGrowing, claim, append([]func(*api.Resize){heldSince(soon)}, options...)...), pods)
	}
	refuses := func(in *Input) { in.Rejected = "exceeded quota: team" }
	aborts := func(in *Input) { in.Set = build.With(in.Set, build.Annotation(api.AbortAnnotation, "now")) }
	starts := func(claim objects, pods ...objects) Input {
		return situation(append([]objects{growingLastOfThree(api.MemberStarting, claim, heldSince(soon))}, pods...)...)
	}
	replaced := pod(2, build.UID("uid-new"))
	check(t,
		testCase{"nothing is copied: the member is stopped when the gate is open",
			situation(growingLastOfThree(api.MemberWaiting, before), pod(2), otherMembers())},
		testCase{"another pod also uses the claim", situation(growingLastOfThree(api.MemberWaiting, before), pod(2), otherMembers(),
			objects{build.Pod("debug", []string{web2}, onNode)})},
		testCase{"the pod has ended: the claims are next",
			situation(growingLastOfThree(api.MemberStopping, before, heldSince(soon)), heldPodOf(2), otherMembers())},
		testCase{"the node has not unmounted the volume", grows(before, append(heldPodOf(2, mounted()), otherMembers()...))},
		testCase{"the volume is attached: nothing is asked for", with(grows(before, stopped), attached(web2))},
		testCase{"the volume is detached: the claim asks for more", grows(before, stopped)},
		testCase{"the driver is expanding the volume", grows(asked, stopped)},
		testCase{"the volume has grown, its file system grows with the mount: the pod is released",
			grows(claimOfSize(web2, "128Mi", "64Mi", pending()), stopped)},
		testCase{"a raw device has grown", grows(claimOfSize(web2, "128Mi", "128Mi"), stopped)},
		testCase{"the pod runs, and the file system is growing",
			starts(claimOfSize(web2, "128Mi", "64Mi", pending()), replaced, otherMembers())},
		testCase{"the pod runs on the larger file system: the member is done",
			starts(claimOfSize(web2, "128Mi", "128Mi"), replaced, otherMembers())},
		testCase{"another member is lost: the stop is cancelled", grows(asked, away)},
		testCase{"the hold was removed: the member waits for its turn again", grows(asked, append(replaced, otherMembers()...))},
		testCase{"the storage cannot", grows(claimOfSize(web2, "128Mi", "64Mi", infeasible("128Mi", "the pool has 80Mi left")), stopped)},
		testCase{"the claim still requests more, which the storage has refused: it requests less",
			grows(claimOfSize(web2, "1Ti", "64Mi", infeasible("1Ti", "the pool has 200Mi left")), stopped)},
		testCase{"the volume had the size before the claim requested it: the claim requests it first",
			grows(claimOfSize(web2, "64Mi", "1Gi"), stopped)},
		testCase{"the user aborts while the storage grows the volume",
			with(grows(claimOfSize(web2, "128Mi", "64Mi",
				attempted("128Mi", corev1.PersistentVolumeClaimControllerResizeInProgress)), stopped), aborts)},
		testCase{"the API server refuses the request", with(grows(before, stopped), refuses)},
		testCase{"the growth takes too long",
			with(situation(growingLastOfThree(api.MemberGrowing, before, heldSince(-time.Second)), stopped), attached(web2))},
		testCase{"the claim is being deleted",
			grows(claimOfSize(web2, "128Mi", "64Mi", build.Deleting(), build.Finalizers(protection)), stopped)},
	)
}

// TestGivenUpGrowthReleasesMember: the pod is released on its volume. The claim's request is lowered to that volume's size only if the
// storage has refused the larger size.
func TestGivenUpGrowthReleasesMember(t *testing.T) {
	reverts := func(reason api.Reason, claim objects, pods ...objects) Input {
		all := growingLastOfThree(api.MemberGrowing, claim, heldSince(time.Minute), func(r *api.Resize) {
			r.Phase, r.FailedAt, r.Reason, r.Message = api.Reverting, api.Moving, reason, "because"
		})
		return situation(append([]objects{all, otherMembers()}, pods...)...)
	}
	grows := attempted("128Mi", corev1.PersistentVolumeClaimControllerResizeInProgress)
	cannot := infeasible("128Mi", "the pool has 80Mi left")
	stopped, runs := heldPodOf(2, unmounted()), pod(2, build.UID("uid-new"))
	check(t,
		testCase{"aborted while the storage grows the volume: the claim keeps its request, and the pod is released",
			reverts(api.Aborted, claimOfSize(web2, "128Mi", "64Mi", grows), stopped)},
		testCase{"aborted, and the storage does not say what it does: the claim keeps its request",
			reverts(api.Aborted, claimOfSize(web2, "128Mi", "64Mi"), stopped)},
		testCase{"aborted after the storage refused: the claim's request is lowered, and the pod is released",
			reverts(api.Aborted, claimOfSize(web2, "128Mi", "64Mi", cannot), stopped)},
		testCase{"infeasible: the claim's request is lowered, and the pod is released",
			reverts(api.ExpandInfeasible, claimOfSize(web2, "128Mi", "64Mi", cannot), stopped)},
		testCase{"the claim's request was never raised", reverts(api.Aborted, claimOfSize(web2, "64Mi", "64Mi"), stopped)},
		testCase{"the pod runs: the member is as before", reverts(api.Aborted, claimOfSize(web2, "67108865", "64Mi"), runs)},
		testCase{"the volume had grown: the member is done", reverts(api.Aborted, claimOfSize(web2, "128Mi", "64Mi", pending()), runs)},
		testCase{"after a deadline, the claim keeps its request",
			reverts(api.DeadlineExceeded, claimOfSize(web2, "128Mi", "64Mi", grows), stopped)},
		testCase{"the API server refuses the lower request",
			with(reverts(api.ExpandInfeasible, claimOfSize(web2, "128Mi", "64Mi", cannot), stopped),
				func(in *Input) { in.Rejected = "field can not be less than previous value" })},
	)
}
