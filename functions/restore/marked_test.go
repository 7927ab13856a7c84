package restore

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// second is the temporary claim of the second round, with its copy; nobody is deleting it.
func second(options ...build.Option) objects {
	claim := build.Target(api.CopyName(id, web0, 2), web0, "128Mi", 2, options...)
	return objects{claim, build.Volume(new0, claim)}
}

// TestI8FrozenClaimDoesNotWaitForWhatNobodyDeletes: a temporary claim of an earlier round stays until the end, and one does not matter at all
// where a claim goes back on its old volume.
func TestI8FrozenClaimDoesNotWaitForWhatNobodyDeletes(t *testing.T) {
	const reserved = "patch persistentvolumes pv-data-web-0 {+claim, reserved for data-web-0}"
	other := objects{build.Set("web", build.UID("uid-2"), build.Replicas(3), build.Template("data", "64Mi", "fixed"))}
	journal := journalOf(web0)
	rolling := build.Operation(api.RollingBack, build.Parts(api.ClaimPending, web0), build.Stopped(time.Minute), build.Round(2), build.Due(time.Minute),
		func(s *api.Resize) {
			s.FailedAt, s.Reason, s.Message = api.Copying, api.ClaimLost, "somebody deleted it"
		})
	check(t, map[string]row{
		// Round 1 became stale while it was copied (its target stays until the end), round 2 was switched as far as the frozen claim,
		// then somebody deletes the set. undo reads the journal, in which the round is 1, and for it nothing has a deadline.
		"undo, the set is gone": {
			in:   world(journal, doomed(web0), target(web0)),
			want: "do SetReplaced: " + reserved,
		},
		"undo, the set was applied again and its pods wait for the claim": {
			in:   world(other, journal, doomed(web0), target(web0)),
			want: "do SetReplaced: " + reserved,
		},
		// Round 1 was found stale when the claim was marked; in round 2 somebody deletes the claim: ClaimLost.
		"bringBack": {
			in:   world(fitting(rolling), journal, doomed(web0), second()),
			want: "do RollingBack: " + reserved,
		},
		// The set was scaled up after the claim was deleted; somebody (a snapshot) holds the temporary claim since we looked.
		"the copy is stale, a snapshot holds the temporary claim": {
			in: world(fitting(switchingOf(web0), build.Generation(7)), journal, doomed(web0),
				target(web0, build.Deleting(), build.Finalizers("snapshot.storage.kubernetes.io/pvc-as-source-protection"))[:1], copied(web0)),
			want: "do SwitchRunning: " + reserved,
		},
	})
}

// TestI8MarkedClaimThatSomebodyDeletes: the finalizer stays on the claim from a first round, somebody deletes the claim at the end of the
// second one. It is frozen then without us, and what comes before that is still to be done.
func TestI8MarkedClaimThatSomebodyDeletes(t *testing.T) {
	at, journal := set(with(switchingOf(web0), build.Round(2))), journalOf(web0)
	foreign := build.Volume(new0, build.Claim("data-db-0", "128Mi"), build.Edit(func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	}))
	again := api.CopyName(id, web0, 2)
	check(t, map[string]row{
		"the new volume is kept and taken from its temporary claim": {
			in: world(at, journal, doomed(web0), second()),
			want: "do SwitchRunning: patch persistentvolumes pv-new-data-web-0 {+label operation, +operation, +reclaim-policy, reclaim Retain}; " +
				"delete persistentvolumeclaims " + again,
		},
		"which takes a moment": {
			in:   world(at, journal, doomed(web0), second(build.Deleting())[:1], copied(web0)),
			want: "wait SwitchRunning (temporary claim " + again + " is being deleted)",
		},
		"then it is reserved": {
			in:   world(at, journal, doomed(web0), copied(web0)),
			want: "do SwitchRunning: patch persistentvolumes pv-new-data-web-0 {+claim, reserved for data-web-0}",
		},
		"I3: a volume that was not made for the operation is not given: the claim goes back to its old volume, with its old template": {
			in:   world(at, journal, doomed(web0), oldVolume(web0), objects{foreign}),
			want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate, +set-metadata}",
		},
	})
}
