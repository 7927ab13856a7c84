package scalehooks

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/test/kit/build"
)

var pausedScaler = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Paused = true })

// pausedAtZero changes the record to a pause: a scaling from 3 to 0.
func pausedAtZero(s *api.Scale) { s.Previous, s.Target, s.Paused, s.PausedCount = 3, 0, true, 3 }

var deletesClaims = build.WhenScaled(appsv1.DeletePersistentVolumeClaimRetentionPolicyType)

func TestPause(t *testing.T) {
	check(t,
		row{"it begins", observed(web(3, withEndedScaling(3)), pilot(pausedScaler))},
		row{"the Scaler has no count yet", observed(web(3, withEndedScaling(3)), pilot(pausedScaler, withoutCount))},
		row{"the hook has run", observed(web(3, withRecord(api.PreScaling, pausedAtZero)), pilot(pausedScaler, withHooks),
			hookJob("pre", completed))},
		row{"the set is paused", observed(web(0, withRecord(api.Succeeded, pausedAtZero)), pilot(pausedScaler))},
		row{"another client starts a member", observed(web(1, withRecord(api.Succeeded, pausedAtZero)), pilot(pausedScaler))},
		row{"another client starts a member, policy adopt", observed(web(1, withRecord(api.Succeeded, pausedAtZero)),
			pilot(pausedScaler, withAdoptPolicy))},
		row{"it ends", observed(web(0, withRecord(api.Succeeded, pausedAtZero)), pilot())},
		row{"the Scaler is deleted during the pause", observed(web(0, withRecord(api.Succeeded, pausedAtZero)))},
		row{"the Scaler was deleted during the " +
			"pause", observed(web(0, withRecord(api.Succeeded, pausedAtZero, func(s *api.Scale) { s.Adopts = true })))},
		row{"the record says that the Scaler was deleted", observed(web(0, withRecord(api.Succeeded, pausedAtZero, ofScaler(""),
			func(s *api.Scale) { s.Adopts = true })))},
		row{"the Scaler was deleted, and the set has members again", observed(web(2, withRecord(api.Succeeded, pausedAtZero)))},
		row{"another Scaler takes over the set", observed(web(0, withRecord(api.Succeeded, pausedAtZero, ofScaler("uid-before"))),
			pilot(withoutCount))},
	)
}

// TestPauseIsRefusedWhereScaleDownDeletesClaims: this holds even if the retention policy changes during the pause.
func TestPauseIsRefusedWhereScaleDownDeletesClaims(t *testing.T) {
	check(t,
		row{"the pause has not begun", observed(web(3, deletesClaims, withEndedScaling(3)), pilot(pausedScaler))},
		row{"the hook has run", observed(web(3, deletesClaims, withRecord(api.PreScaling, pausedAtZero)), pilot(pausedScaler))},
		row{"another client starts a member", observed(web(1, deletesClaims, withRecord(api.Succeeded, pausedAtZero)),
			pilot(pausedScaler))},
		row{"a user requests zero members", observed(web(3, deletesClaims, withEndedScaling(3)), pilot(wants(0)))},
	)
}
