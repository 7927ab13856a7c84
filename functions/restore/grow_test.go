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

// inPlace has the claims of the members grow on their volumes.
func inPlace(r *api.Resize) {
	for _, move := range r.Moves() {
		move.InPlace, move.NewVolume, move.Digest = true, "", ""
	}
}

// growing3 is a set of three members; the claims of the last one grow while it is stopped.
func growing3(phase api.MemberPhase, claim objects, options ...func(*api.Resize)) objects {
	record := build.Operation(api.Moving, append([]func(*api.Resize){build.Rolling, build.Members(phase, web2), inPlace}, options...)...)
	written := build.Journal(build.Operation(api.Moving, build.Members(api.MemberPending, web2), inPlace))
	return append(append(set(record, build.Replicas(3)), written), claim...)
}

// asks is a claim with its volume, as restore leaves it: it asks for so much and has so much.
func asks(name, wants, has string, options ...build.Option) objects {
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
			Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(build.Now)})
	})
}

func infeasible(size, message string) build.Option {
	return build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimControllerResizeInfeasible}
		c.Status.Conditions = append(c.Status.Conditions, corev1.PersistentVolumeClaimCondition{
			Type: corev1.PersistentVolumeClaimControllerResizeError, Message: message, LastTransitionTime: metav1.NewTime(build.Now)})
	})
}

// mounted is a held pod whose kubelet has not unmounted its volumes.
func mounted() build.Option {
	return build.Edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](30) })
}

// unmounted is a held pod whose kubelet has unmounted its volumes.
func unmounted() build.Option {
	return build.Edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = ptr.To[int64](0) })
}

// attached has a node keep the volume of the claim attached.
func attached(claim string) func(*Input) {
	return func(in *Input) {
		in.Attachments = append(in.Attachments, &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv-" + claim)}}})
	}
}

// heldSince makes the member of ordinal 2 one that has stopped.
func heldSince(in time.Duration) func(*api.Resize) {
	return func(r *api.Resize) {
		m := r.Member(2)
		m.Held, m.Stopped, m.Stops = &metav1.Time{Time: build.Now.Add(-10 * time.Second)}, &metav1.Time{Time: build.Now.Add(-5 * time.Second)}, 1
		build.MemberDue(2, in)(r)
	}
}

// TestGrowthWhileHeld is the story of a member whose claims grow while it is stopped.
func TestGrowthWhileHeld(t *testing.T) {
	const soon = time.Minute
	before, asked := asks(web2, "64Mi", "64Mi"), asks(web2, "128Mi", "64Mi")
	stopped := append(held(2, unmounted()), others()...)
	away := append(held(2, unmounted()), append(pod(0), pod(1, notReady())...)...)
	grows := func(claim objects, pods objects, options ...func(*api.Resize)) Input {
		return given(growing3(api.MemberGrowing, claim, append([]func(*api.Resize){heldSince(soon)}, options...)...), pods)
	}
	refuses := func(in *Input) { in.Rejected = "exceeded quota: team" }
	starts := func(claim objects, pods ...objects) Input {
		return given(append([]objects{growing3(api.MemberStarting, claim, heldSince(soon))}, pods...)...)
	}
	replaced := pod(2, build.UID("uid-new"))
	check(t,
		row{"nothing is copied: the member is stopped when the gate is open", given(growing3(api.MemberWaiting, before), pod(2), others())},
		row{"another pod uses the claim, too", given(growing3(api.MemberWaiting, before), pod(2), others(),
			objects{build.Pod("debug", []string{web2}, onNode)})},
		row{"the pod has ended: the claims are next", given(growing3(api.MemberStopping, before, heldSince(soon)), held(2), others())},
		row{"the node has not unmounted the volume", grows(before, append(held(2, mounted()), others()...))},
		row{"the volume is attached: nothing is asked for", but(grows(before, stopped), attached(web2))},
		row{"the volume is detached: the claim asks for more", grows(before, stopped)},
		row{"the driver is at it", grows(asked, stopped)},
		row{"the volume has grown, its file system grows with the mount: the pod is released", grows(asks(web2, "128Mi", "64Mi", pending()), stopped)},
		row{"a raw device has grown", grows(asks(web2, "128Mi", "128Mi"), stopped)},
		row{"the pod runs, and the file system is growing", starts(asks(web2, "128Mi", "64Mi", pending()), replaced, others())},
		row{"the pod runs on the larger file system: the member is done", starts(asks(web2, "128Mi", "128Mi"), replaced, others())},
		row{"another member is lost: it is given back", grows(asked, away)},
		row{"the hold was taken off: it waits for its turn again", grows(asked, append(replaced, others()...))},
		row{"the storage cannot", grows(asks(web2, "128Mi", "64Mi", infeasible("128Mi", "the pool has 80Mi left")), stopped)},
		row{"the API server refuses the request", but(grows(before, stopped), refuses)},
		row{"it takes too long", but(given(growing3(api.MemberGrowing, before, heldSince(-time.Second)), stopped), attached(web2))},
		row{"the claim is being deleted", grows(asks(web2, "128Mi", "64Mi", build.Deleting(), build.Finalizers(protection)), stopped)},
	)
}

// TestGrowthWhileHeldThatIsGivenUp: the pod is released on the volume that it had, and the claim asks for no more than that.
func TestGrowthWhileHeldThatIsGivenUp(t *testing.T) {
	reverts := func(reason api.Reason, claim objects, pods ...objects) Input {
		all := growing3(api.MemberGrowing, claim, heldSince(time.Minute), func(r *api.Resize) {
			r.Phase, r.FailedAt, r.Reason, r.Message = api.Reverting, api.Moving, reason, "because"
		})
		return given(append([]objects{all, others()}, pods...)...)
	}
	stopped, runs := held(2, unmounted()), pod(2, build.UID("uid-new"))
	check(t,
		row{"aborted: the claim asks for less, and the pod is released", reverts(api.Aborted, asks(web2, "128Mi", "64Mi"), stopped)},
		row{"the claim was never told", reverts(api.Aborted, asks(web2, "64Mi", "64Mi"), stopped)},
		row{"the pod runs: the member is as before", reverts(api.Aborted, asks(web2, "67108865", "64Mi"), runs)},
		row{"the volume had grown: the member is done", reverts(api.Aborted, asks(web2, "128Mi", "64Mi", pending()), runs)},
		row{"after a deadline the claim goes on asking", reverts(api.DeadlineExceeded, asks(web2, "128Mi", "64Mi"), stopped)},
		row{"the API server takes nothing back", but(reverts(api.ExpandInfeasible, asks(web2, "128Mi", "64Mi"), stopped),
			func(in *Input) { in.Rejected = "field can not be less than previous value" })},
	)
}
