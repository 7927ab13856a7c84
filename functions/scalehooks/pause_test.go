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
	check(t,
		row{"it begins", on(web(3, quiet(3)), pilot(pausing))},
		row{"the Scaler has no count yet", on(web(3, quiet(3)), pilot(pausing, wishless))},
		row{"the hook has run", on(web(3, records(api.PreScaling, away)), pilot(pausing, hooked), hook("pre", complete))},
		row{"it rests", on(web(0, records(api.Succeeded, away)), pilot(pausing))},
		row{"another client starts a member", on(web(1, records(api.Succeeded, away)), pilot(pausing))},
		row{"another client starts one, and its counts are taken over", on(web(1, records(api.Succeeded, away)), pilot(pausing, adopting))},
		row{"it ends", on(web(0, records(api.Succeeded, away)), pilot())},
		row{"the Scaler goes while it is paused", on(web(0, records(api.Succeeded, away)))},
		row{"the Scaler has gone while it is paused", on(web(0, records(api.Succeeded, away, func(s *api.Scale) { s.Adopts = true })))},
		row{"the Scaler has gone, and members are back", on(web(2, records(api.Succeeded, away)))},
		row{"another Scaler takes the set over", on(web(0, records(api.Succeeded, away, of("uid-before"))), pilot(wishless))},
	)
}

// TestPauseTakesNoClaimsAlong: where a scale-down deletes claims, a pause is refused, whenever the policy was changed.
func TestPauseTakesNoClaimsAlong(t *testing.T) {
	check(t,
		row{"it would begin", on(web(3, deletesClaims, quiet(3)), pilot(pausing))},
		row{"the hook has run", on(web(3, deletesClaims, records(api.PreScaling, away)), pilot(pausing))},
		row{"another client starts a member", on(web(1, deletesClaims, records(api.Succeeded, away)), pilot(pausing))},
		row{"people want none", on(web(3, deletesClaims, quiet(3)), pilot(wants(0)))},
	)
}
