package scalehooks

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit/build"
)

var pausing = edited(func(s *v1alpha1.Scaler) { s.Spec.Paused = true })

// away is the record of a set that is at zero because its Scaler is paused.
func away(s *api.Scale) { s.Previous, s.Target, s.Paused = 3, 0, true }

var deletesClaims = build.WhenScaled(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)

func TestPause(t *testing.T) {
	check(t, map[string]row{
		"it begins": {in: on(web(3, quiet(3)), pilot(pausing)),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 3 to 0"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 3 to 0 for uid-pilot, attempt 2, paused, new, due 10m0s",
			status: "preScaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"the Scaler has no count yet": {in: on(web(3, quiet(3)), pilot(pausing, wishless)),
			want: "do CountAdopted: patch scalers.v1alpha1.drydock.dev pilot {replicas = 3}"},
		"the hook has run": {in: on(web(3, records(api.PreScaling, away)), pilot(pausing, hooked), hook("pre", complete)),
			want:   `do CountChanged: patch statefulsets web {+scale, replicas = 0}; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "Scaling CountChanged, 3 to 0 for uid-pilot, attempt 1, paused, due 30m0s",
			status: "scaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True CountChanged"},
		"it rests": {in: on(web(0, records(api.Succeeded, away)), pilot(pausing)),
			want:   `do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			status: "idle 0, Healthy True ScalerReady, Failed False ScalerReady, Progressing False Paused, Succeeded 3 to 0"},
		"another client starts a member": {in: on(web(1, records(api.Succeeded, away)), pilot(pausing)),
			want: `do CountReverted: patch statefulsets web {+scale, replicas = 0}; event CountReverted "another client has scaled the StatefulSet to 1; Scaler pilot has put 0 back. Scale the Scaler instead: kubectl scale -n shop scaler pilot --replicas=N"`,
			next: "Succeeded ScalingCompleted, 3 to 0 for uid-pilot, attempt 1, paused, finished -30s"},
		"another client starts one, and its counts are taken over": {in: on(web(1, records(api.Succeeded, away)), pilot(pausing, adopting)),
			want: `do CountReverted: patch statefulsets web {+scale, replicas = 0}; event CountReverted "another client has scaled the StatefulSet to 1; Scaler pilot has put 0 back. Scale the Scaler instead: kubectl scale -n shop scaler pilot --replicas=N"`,
			next: "Succeeded ScalingCompleted, 3 to 0 for uid-pilot, attempt 1, paused, finished -30s"},
		"it ends": {in: on(web(0, records(api.Succeeded, away)), pilot()),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 0 to 3"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 0 to 3 for uid-pilot, attempt 2, paused, new, due 10m0s",
			status: "preScaling 0, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
		"the Scaler goes while it is paused": {in: on(web(0, records(api.Succeeded, away))),
			want: "do ScalerGone: patch statefulsets web {+scale}", next: "Succeeded ScalingCompleted, 3 to 0 for uid-pilot, attempt 1, paused, finished -30s"},
		"the Scaler has gone while it is paused": {in: on(web(0, records(api.Succeeded, away, func(s *api.Scale) { s.Adopts = true }))),
			want: "noop Paused"},
		"the Scaler has gone, and members are back": {in: on(web(2, records(api.Succeeded, away))),
			want: "do ScalerGone: patch statefulsets web {-scale}"},
		"another Scaler takes the set over": {in: on(web(0, records(api.Succeeded, away, of("uid-before"))), pilot(wishless)),
			want:   "do ScalerReady: patch statefulsets web {+scale}; patch scalers.v1alpha1.drydock.dev/status pilot {status}",
			next:   "Succeeded ScalerReady, 0 to 0 for uid-pilot, attempt 2, paused, new, finished 0s",
			status: "idle 0, Healthy True ScalerReady, Failed False ScalerReady, Progressing False Paused"},
	})
}

// TestPauseTakesNoClaimsAlong: where a scale-down deletes claims, a pause is refused, whenever the policy was changed.
func TestPauseTakesNoClaimsAlong(t *testing.T) {
	lost := "Healthy False PauseDeletesClaims, Failed False PauseDeletesClaims, Progressing False PauseDeletesClaims"
	check(t, map[string]row{
		"it would begin": {in: on(web(3, deletesClaims, quiet(3)), pilot(pausing)),
			want: "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}", status: "idle 3, " + lost},
		"the hook has run": {in: on(web(3, deletesClaims, records(api.PreScaling, away)), pilot(pausing)),
			want: `do PauseDeletesClaims: patch statefulsets web {+scale}; event PauseDeletesClaims "persistentVolumeClaimRetentionPolicy.whenScaled of StatefulSet web is Delete, so a pause would delete the claims; set it to Retain. Mend that, then: kubectl annotate -n shop scaler pilot drydock.dev/retry="; patch scalers.v1alpha1.drydock.dev/status pilot {status} -> operation.failed`,
			next: "Failed PauseDeletesClaims at PreScaling, 3 to 0 for uid-pilot, attempt 1, paused, finished 0s",
			status: "failed 3, failed at preScaling PauseDeletesClaims, Healthy False PauseDeletesClaims, Failed True PauseDeletesClaims, " +
				"Progressing False UpToDate, Failed 3 to 0"},
		"another client starts a member": {in: on(web(1, deletesClaims, records(api.Succeeded, away)), pilot(pausing)),
			want: "do StatusUpdated: patch scalers.v1alpha1.drydock.dev/status pilot {status}", status: "idle 1, " + lost + ", Succeeded 3 to 0"},
		"people want none": {in: on(web(3, deletesClaims, quiet(3)), pilot(wants(0))),
			want:   `do ScalingStarted: patch statefulsets web {+scale}; event ScalingStarted "scaling from 3 to 0"; patch scalers.v1alpha1.drydock.dev/status pilot {status}`,
			next:   "PreScaling ScalingStarted, 3 to 0 for uid-pilot, attempt 2, new, due 10m0s",
			status: "preScaling 3, Healthy True ScalerReady, Failed False ScalerReady, Progressing True ScalingStarted"},
	})
}
