package backup

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// before is the operation that has left the volumes behind.
const before = "ba9876543210"

// regretted is operation on one claim that gets volume pv-old back.
func regretted(phase api.ClaimPhase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(api.Copying, append([]func(*api.Resize){build.Parts(phase, "data-web-0"), build.Due(time.Hour), func(s *api.Resize) {
		s.Reason, s.Kind, s.Claims[0].Method, s.Claims[0].NewVolume = api.CopyRunning, api.KindRollback, api.MethodRollback, "pv-old"
		s.RollsBack = before
	}}, options...)...)
}

// behind is that volume, in its window.
func behind(change func(*api.Link), options ...build.Option) objects {
	link := api.Link{Operation: before, Role: api.RoleRetired, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-before"}, Claim: "data-web-0"}
	if change != nil {
		change(&link)
	}
	return objects{build.Volume("pv-old", build.Claim("data-web-0", "64Mi"), append([]build.Option{build.Released(), build.Held(api.RoleRetired, "data-web-0"),
		build.LinkOf(link), build.Annotation(api.RetainedUntilAnnotation, "2026-03-01T13:00:00Z")}, options...)...)}
}

// returning is it once it is held.
func returning(options ...build.Option) objects {
	return objects{build.Volume("pv-old", build.Claim("data-web-0", "64Mi"), append([]build.Option{build.Released(), build.Held(api.RoleReturning, "data-web-0")}, options...)...)}
}

func one(options ...build.Option) objects {
	claim := build.Claim("data-web-0", "64Mi", options...)
	return objects{claim, build.VolumeOf(claim)}
}

func heldOne() objects {
	claim := build.Claim("data-web-0", "64Mi", build.Link(api.RoleSource, "data-web-0", 0))
	return objects{build.Journal(regretted(api.ClaimPending)), claim, build.VolumeOf(claim, build.Held(api.RoleSource, "data-web-0"))}
}

const handedBack = `do CopyVerified: patch statefulsets web {+status}; event CopyVerified "the set is stopped, its claims get their old volumes back" -> backup.completed`

func TestI1RollbackCopiesNothing(t *testing.T) {
	genuine := regretted(api.ClaimPending, build.Genuine)
	pending := set(regretted(api.ClaimPending), build.Replicas(3))
	stopped := set(regretted(api.ClaimPending, build.Stopped(time.Minute)), build.Replicas(0))
	quiet := set(regretted(api.ClaimPending, build.Quiet(5)), build.Replicas(0))
	const handed = "Switching CopyVerified, attempt 1, round 1, generation 5, replicas 3, due in 12m0s; data-web-0 Verified on pv-old"
	touched := set(regretted(api.ClaimVerified, build.Quiet(4)), build.Replicas(0))
	check(t, map[string]row{
		"I2: the journal comes first": {in: world(set(genuine, build.Replicas(3)), one(), behind(nil)), want: "do Preparing: create controllerrevisions " + api.JournalName(genuine.Operation)},
		"I1: both volumes are held, and the window of the old one does not end now": {in: world(pending, one(), behind(nil), journalOfOne()),
			want: "do Preparing: patch persistentvolumes pv-data-web-0 {+label operation, +operation, +reclaim-policy, reclaim Retain}; " +
				"patch persistentvolumeclaims data-web-0 {+label operation, +operation}; patch persistentvolumes pv-old {+label operation, +operation, -retained-until}"},
		"no temporary claim and no first copy: the set is stopped": {in: world(pending, heldOne(), returning()),
			want: "do Quiescing: patch statefulsets web {+status, replicas 3 to 0, +label frozen}",
			next: "Copying Quiescing, attempt 1, round 1, generation 0, replicas 3, due in 1h0m0s; data-web-0 Pending on pv-old"},
		"I1: nothing counts before the set is quiet": {in: world(stopped, heldOne(), returning(), objects{build.PodOf("web", 0, "data")}),
			want: "wait Quiescing (pod web-0 still uses claim data-web-0)"},
		"it is quiet":                            {in: world(stopped, heldOne(), returning()), want: handedBack, next: handed},
		"no mover: the volume is as it was left": {in: world(quiet, heldOne(), returning()), want: handedBack, next: handed},
		"then the claims are switched": {in: world(set(regretted(api.ClaimVerified, build.Quiet(5)), build.Replicas(0)), heldOne(), returning()),
			want: handedBack, next: handed},
		"I4: somebody wrote to the set: it is stopped again, and the volume stays the same": {in: world(touched, heldOne(), returning()),
			want: `do StartedByOthers: patch statefulsets web {+status, +label frozen}; event StartedByOthers "the set was changed while it was stopped for the rollback; it is stopped again"`,
			next: "Copying StartedByOthers, attempt 1, round 2, generation 0, replicas 3, due in 1h0m0s; data-web-0 Pending on pv-old"},
	})
}

// TestI1OldVolumeKnowsWhoseItWas: a rollback that does not take place leaves all of them as they were, also those that it never held.
func TestI1OldVolumeKnowsWhoseItWas(t *testing.T) {
	status := regretted(api.ClaimPending)
	volume := behind(nil)[0].(*corev1.PersistentVolume)
	for _, tries := range []string{"held", "held again"} {
		link := returningLink(world(set(status), objects{volume}), status, status.Claims[0])
		if link.Operation != build.ID || link.Role != api.RoleReturning || link.Before != before || link.Claim != "data-web-0" {
			t.Errorf("%s: %+v", tries, link)
		}
		volume = build.With(volume, build.LinkOf(link))
	}
	own := world(set(status), behind(func(l *api.Link) { l.Operation = build.ID }))
	if link := returningLink(own, status, status.Claims[0]); link.Role != api.RoleReturning || link.Before != "" {
		t.Errorf("one that this very rollback has kept meanwhile: %+v", link)
	}
}

// TestI1HalfARollbackIsNotGivenUp: one claim has its old data already, so giving the set back would mix data of different times.
func TestI1HalfARollbackIsNotGivenUp(t *testing.T) {
	half := build.Operation(api.Copying, build.Parts(api.ClaimSwitched, "data-web-1"), build.Parts(api.ClaimPending, "data-web-0"), build.Round(2),
		build.Stopped(time.Minute), build.Due(time.Hour), func(s *api.Resize) {
			s.Reason, s.Kind = api.StartedByOthers, api.KindRollback
			for i := range s.Claims {
				s.Claims[i].Method, s.Claims[i].NewVolume = api.MethodRollback, "pv-old"
			}
		})
	const lost = `event ClaimLost "volume pv-old, which claim data-web-0 is to get back, is gone, or is not kept for it any more; look at kubectl get pv pv-old. ` +
		`Some claims have their old volumes back and others not, so the set stays at zero; every volume is kept, and the annotation drydock.dev/retry goes on" -> operation.failed`
	const held = "Failed ClaimLost at Switching, attempt 1, round 2, generation 0, replicas 3; data-web-1 Switched on pv-old; data-web-0 Pending on pv-old"
	taken := returning(build.TakenBy("debug", "uid-debug"))
	check(t, map[string]row{
		"nobody can abort it": {in: world(set(half, build.Replicas(0), build.Annotation(api.AbortAnnotation, "")), heldOne(), returning()),
			want: handedBack, next: "Switching CopyVerified, attempt 1, round 2, generation 5, replicas 3, due in 12m0s; data-web-1 Switched on pv-old; data-web-0 Verified on pv-old"},
		"one of the volumes is in use: the set is held at zero": {in: world(set(half, build.Replicas(0)), heldOne(), taken),
			want: "do ClaimLost: patch statefulsets web {+status, +label frozen}; " + lost, next: held},
		"I4: also if somebody scales it up": {in: world(set(half, build.Replicas(2)), heldOne(), taken),
			want: "do ClaimLost: patch statefulsets web {+status, replicas 2 to 0, +label frozen}; " + lost, next: held},
	})
}

func journalOfOne() objects { return objects{build.Journal(regretted(api.ClaimPending))} }

// TestI3OnlyTheClaimsOwnOldVolumeComesBack: whoever may edit the set can write its document.
func TestI3OnlyTheClaimsOwnOldVolumeComesBack(t *testing.T) {
	const lost = "do ClaimLost: patch statefulsets web {+status}"
	const ended = "RollingBack ClaimLost at Copying, attempt 1, round 1, generation 0, replicas 3, due in 12m0s; data-web-0 Pending on "
	pending := set(regretted(api.ClaimPending), build.Replicas(3))
	forged := set(regretted(api.ClaimPending, func(s *api.Resize) { s.Claims[0].NewVolume = "pv-data-web-0" }, build.Genuine), build.Replicas(3))
	fresh := set(regretted(api.ClaimPending, build.Genuine), build.Replicas(3))
	none := set(regretted(api.ClaimPending, func(s *api.Resize) { s.Claims[0].NewVolume = "" }, build.Genuine), build.Replicas(3))
	rows := map[string]row{
		"the volume in use is no old one":         {in: world(forged, one()), want: lost, next: ended + "pv-data-web-0"},
		"it names none":                           {in: world(none, one()), want: lost, next: ended[:len(ended)-4]},
		"somebody has bound it while it was held": {in: world(pending, heldOne(), returning(build.TakenBy("debug", "uid-debug"))), want: lost, next: ended + "pv-old"},
		"it is held for another operation":        {in: world(pending, heldOne(), behind(func(l *api.Link) { l.Role = api.RoleReturning })), want: lost, next: ended + "pv-old"},
	}
	for name, volume := range map[string]objects{
		"it is gone":                      nil,
		"its window has ended":            {build.Volume("pv-old", build.Claim("data-web-0", "64Mi"), build.Released())},
		"its link cannot be read":         behind(nil, build.Annotation(api.OperationAnnotation, "{")),
		"of another set":                  behind(func(l *api.Link) { l.Set.Name = "db" }),
		"of another claim":                behind(func(l *api.Link) { l.Claim = "data-web-1" }),
		"of another namespace":            behind(func(l *api.Link) { l.Namespace = "payroll" }),
		"a copy":                          behind(func(l *api.Link) { l.Role = api.RoleTarget }),
		"the source of another operation": behind(func(l *api.Link) { l.Role = api.RoleSource }),
		"of another operation":            behind(func(l *api.Link) { l.Operation = "ba9876543211" }),
		"somebody has bound it":           behind(nil, build.TakenBy("debug", "uid-debug")),
	} {
		rows[name] = row{in: world(fresh, one(), volume), want: lost, next: ended + "pv-old"}
	}
	check(t, rows)
}
