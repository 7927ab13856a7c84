package detectresize

import (
	"testing"
	"time"

	"drydock.dev/shared/api"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/test/kit/build"
)

// behind is what operation build.ID has left behind of a claim.
func behind(claim string) objects {
	return objects{build.Volume("pv-old-"+claim, build.Claim(claim, "32Mi"), build.Released(), build.Held(api.RoleRetired, claim),
		build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(time.Hour).Format(time.RFC3339)))}
}

func TestRollback(t *testing.T) {
	regret := build.Annotation(api.RollbackAnnotation, build.ID)
	done := build.Operation(api.Succeeded, build.Parts(api.ClaimSwitched, "data-web-0", "data-web-1"), func(s *api.Resize) {
		for i := range s.Claims {
			s.Claims[i].OldVolume = "pv-old-" + s.Claims[i].Name
		}
	})
	held := build.Operation(api.Failed, func(s *api.Resize) { s.FailedAt = api.Switching })
	kept := append(behind("data-web-0"), behind("data-web-1")...)
	const begun = `do ResizeDetected: patch statefulsets web {-rollback, +status}; event ResizeDetected "2 claims will get the volumes back that operation 0123456789ab has left behind" -> resize.detected`
	const next = "Planned ResizeDetected, attempt 2, round 1, generation 0, replicas 2, due in 10m0s; data-web-0 Pending on pv-old-data-web-0; data-web-1 Pending on pv-old-data-web-1"
	linked := bound(build.Claim("data-web-0", "64Mi", build.Link(api.RoleSuccessor, "data-web-0", 0)))
	check(t, map[string]row{
		"it begins, and is asked for no more": {in: world(set(regret, build.Status(done)), both(), kept), want: begun, next: next},
		"I4: claims are kept while the set is at zero": {in: world(set(regret, build.Status(done), build.WhenScaled("Delete")), both(), kept),
			want: `do ResizeDetected: patch statefulsets web {-rollback, whenScaled Retain, +status}; event ResizeDetected "2 claims will get the volumes back that operation 0123456789ab has left behind" -> resize.detected`,
			next: "Planned ResizeDetected, attempt 2, round 1, generation 0, replicas 2, whenScaled Delete, due in 10m0s; data-web-0 Pending on pv-old-data-web-0; data-web-1 Pending on pv-old-data-web-1"},
		"a document of the set before says nothing": {in: world(set(regret, build.Status(done), build.UID("uid-2")), both(), kept), want: begun,
			next: "Planned ResizeDetected, attempt 1, round 1, generation 0, replicas 2, due in 10m0s; data-web-0 Pending on pv-old-data-web-0; data-web-1 Pending on pv-old-data-web-1"},
		"I3: it waits for the end of another operation": {in: world(set(regret, build.Status(build.Operation(api.Copying))), both(), kept), want: "noop InProgress"},
		"I3: it waits for the set to wake":              {in: world(set(regret, build.WithSleep(build.Sleep(api.Asleep))), both(), kept), want: "noop InProgress"},
		"the set is not opted in":                       {in: world(set(regret, build.Label(api.ManagedLabel, "")), both(), kept), want: "noop NotManaged"},
		"a document that cannot be read": {in: world(set(regret, build.Annotation(api.StatusAnnotation, "{}")), both(), kept),
			want: `do StatusInvalid: event StatusInvalid "annotation drydock.dev/status of StatefulSet shop/web: version is 0, this Drydock reads version 2; remove the annotation if no operation runs"`},
		"it waits while the claims are still cleaned up": {in: world(set(regret, build.Status(done)), linked, claims("data-web-1"), kept),
			want: `do CleaningUp: event CleaningUp "the resize waits: claim data-web-0 is still part of operation 0123456789ab"`},
		"I8: nothing is kept: it is said, and the document stays": {in: world(set(regret, build.Status(build.Operation(api.Succeeded))), both()),
			want: `do RollbackImpossible: patch statefulsets web {-rollback}; event RollbackImpossible "no rollback: operation \"0123456789ab\" has left no volume behind that is still kept ` +
				`for StatefulSet web; kubectl get pv -l drydock.dev/operation,drydock.dev/namespace=shop lists what there is"`},
		"I1: one of two is not kept": {in: world(set(regret, build.Status(done)), both(), behind("data-web-0")),
			want: `do RollbackImpossible: patch statefulsets web {-rollback}; event RollbackImpossible "no rollback: volume pv-old-data-web-1, which operation 0123456789ab has left behind of claim ` +
				`data-web-1, is not kept any more, or is in use; without it the replicas would have data of different times. Ask for the earlier size with the annotation drydock.dev/resize instead"`},
		"I3: an operation that is held comes first, and the rollback does not begin by surprise after it": {in: world(set(regret, build.Status(held), build.Annotation(api.RetryAnnotation, "")), both(), kept),
			want: `do RollbackImpossible: patch statefulsets web {-rollback}; event RollbackImpossible "no rollback: operation 0123456789ab was given up in the middle of the switch; ` +
				`mend the cause and go on with the annotation drydock.dev/retry first"`},
	})
	status := build.Stored(Decide(world(set(regret, build.Status(done)), both(), kept)))
	if !status.IsRollback() || !status.Claims[0].Returns() || status.Operation == build.ID || status.Request != "data=128Mi" {
		t.Errorf("%+v", status)
	}
}

// TestI1RetryIsNoRollback: somebody has aborted a rollback, since they want to keep what was written. A retry, whatever it is about, does
// not take that away.
func TestI1RetryIsNoRollback(t *testing.T) {
	status := func(phase api.ClaimPhase, at api.Phase) build.Option {
		return build.Status(build.Operation(api.Failed, build.Parts(phase, "data-web-0", "data-web-1"), build.Round(4), func(s *api.Resize) {
			s.Operation, s.Kind, s.RollsBack, s.FailedAt = "ba9876543210", api.KindRollback, build.ID, at
			for i := range s.Claims {
				s.Claims[i].Method, s.Claims[i].NewVolume = api.MethodRollback, "pv-old-"+s.Claims[i].Name
			}
		}))
	}
	aborted, retry := status(api.ClaimPending, api.Copying), build.Annotation(api.RetryAnnotation, "")
	kept := append(behind("data-web-0"), behind("data-web-1")...)
	byEvent := world(set(aborted), both(), kept)
	byEvent.Retry = &resize.Retry{Of: "ba9876543210"}
	for name, in := range map[string]Input{
		"by the annotation":                   world(set(aborted, retry), both(), kept),
		"by an event":                         byEvent,
		"of a sleep that failed":              world(set(aborted, retry, build.WithSleep(build.Sleep(api.Failed))), both(), kept),
		"of a request that is another by now": world(set(aborted, retry, build.Resize("data=256Mi")), both(), kept),
	} {
		if next := build.Stored(Decide(in)); next != nil && next.IsRollback() {
			t.Errorf("%s: %s", name, build.Summary(next))
		}
	}
	check(t, map[string]row{"one of which half was given up goes on, as often as people like": {
		in:   world(set(status(api.ClaimVerified, api.Switching), retry), both(), kept),
		want: "do Retrying: patch statefulsets web {-retry, +status} -> backup.completed",
		next: "Switching Retrying, attempt 1, round 1, generation 0, replicas 3, due in 12m0s; data-web-0 Verified on pv-old-data-web-0; data-web-1 Verified on pv-old-data-web-1",
	}})
}

// TestI7RequestIsNotBegunAgain: what was rolled back is not asked for by an annotation that stands.
func TestI7RequestIsNotBegunAgain(t *testing.T) {
	back := build.Status(build.Operation(api.Succeeded, func(s *api.Resize) { s.Kind = api.KindRollback }))
	check(t, map[string]row{"the request stands": {in: world(set(back), both()), want: "noop AlreadyRefused"}})
	for name, options := range map[string][]build.Option{
		"another request": {back, build.Resize("data=256Mi")},
		"a retry":         {back, build.Annotation(api.RetryAnnotation, "")},
	} {
		if p := Decide(world(set(options...), both())); p.Kind != plan.KindDo || p.Reason != api.ResizeDetected {
			t.Errorf("%s: %s", name, p)
		}
	}
}
