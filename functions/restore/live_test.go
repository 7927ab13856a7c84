package restore

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/test/kit/build"
)

// live is an operation whose claims have all grown in place, and whose set is to be created again while it runs.
func live(phase api.Phase, options ...func(*api.Resize)) *api.Resize {
	return build.Operation(phase, append([]func(*api.Resize){build.Parts(api.ClaimExpanded, web0, web1), inPlace, recreating, build.Due(time.Minute),
		func(s *api.Resize) { s.Reason = api.OwnerConsents }}, options...)...)
}

func inPlace(s *api.Resize) {
	s.Method = api.MethodExpand
	for i := range s.Claims {
		s.Claims[i].Method = api.MethodExpand
	}
}

// runs is StatefulSet web with three replicas, whose template asks for 64Mi still.
func runs(status *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(3), build.Template("data", "64Mi", "fixed"), build.Status(status)}, options...)...)}
}

// renewed is the set with its new template.
func renewed(status *api.Resize, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(3), build.Template("data", "128Mi", "fixed"), build.Status(status)}, options...)...)}
}

// own are claims of which nothing but the request was ever written.
func own() objects {
	var all objects
	for _, name := range []string{web0, web1} {
		claim := build.Claim(name, "128Mi")
		all = append(all, claim, build.VolumeOf(claim))
	}
	return append(all, build.PodOf("web", 0, "data"), build.PodOf("web", 1, "data"))
}

// liveJournal is the journal of a live operation, with the order to create the set again as it was found.
func liveJournal(from objects, status *api.Resize) objects {
	next := status.Clone()
	next.Set.UID, next.Generation = "", never
	set := from[0].(*appsv1.StatefulSet)
	return objects{ordered(build.Journal(status), set, resources.MakeSet(build.Raw(set), status.Templates, next))}
}

const wasLive = ", attempt 1, round 1, generation 0, replicas 3"

// TestI1SetIsCreatedAgainWhileItRuns: its pods and claims stay, and at no moment is it at zero or frozen.
func TestI1SetIsCreatedAgainWhileItRuns(t *testing.T) {
	status := live(api.Switching)
	at := runs(status)
	fresh := func(options ...func(*api.Resize)) *api.Resize {
		return live(api.Switching, append([]func(*api.Resize){func(s *api.Resize) { s.Set.UID, s.Generation = "", never }}, options...)...)
	}
	known := fresh(func(s *api.Resize) { s.Set.UID = "uid-2" })
	edited := runs(status, build.Annotation("team", "new"))
	scaled := runs(status, build.Replicas(5), build.Generation(6))
	const starts = "do ClaimsSwitched: patch statefulsets web {+status}; " + `event ClaimsSwitched "every claim has grown, and the set has its new templates"`
	const taken = "; data-web-0 Expanded; data-web-1 Expanded"
	check(t, map[string]row{
		"I2: the journal first": {
			in: world(at, own()), want: "do SwitchRunning: create controllerrevisions drydock-0123456789ab"},
		"I2: then what is to be created": {
			in: world(at, own(), objects{build.Journal(status)}), want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate, +set-metadata}"},
		"only then the set goes, and its pods stay": {
			in: world(at, own(), liveJournal(at, status)), want: "do SwitchRunning: try statefulsets web; delete statefulsets web (orphan)"},
		"somebody has edited it meanwhile: that is not lost": {
			in: world(edited, own(), liveJournal(at, status)), want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate}"},
		"I4: somebody has scaled it meanwhile: that is not lost": {
			in: world(scaled, own(), liveJournal(at, status)), want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate}"},
		"it is going": {
			in: world(runs(status, build.Deleting()), own(), liveJournal(at, status)), want: "wait SwitchRunning (StatefulSet web is being deleted)"},
		"it is gone: it is created": {
			in: world(own(), liveJournal(at, status)), want: "do SwitchRunning: create statefulsets web"},
		"I8: it cannot be: that is said, and tried again": {
			in: rejected(world(own(), liveJournal(at, status)), "no"),
			want: `do Rejected: event Rejected "the StatefulSet cannot be created again: no; its manifest is in the annotation drydock.dev/recreate ` +
				`of ControllerRevision drydock-0123456789ab, it is tried again at each tick"`},
		"I3: the new one is taken over, and the order withdrawn": {
			in:   world(renewed(fresh(), build.UID("uid-2"), build.Generation(1)), own(), liveJournal(at, status)),
			want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {-recreate}; patch statefulsets web {+status}",
			next: "Switching OwnerConsents, attempt 1, round 1, generation -1, replicas 3, due in 1m0s" + taken,
		},
		"I3: also if somebody has written to it since": {
			in:   world(renewed(fresh(), build.UID("uid-2"), build.Generation(3), build.Replicas(4)), own(), liveJournal(at, status)),
			want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {-recreate}; patch statefulsets web {+status}",
			next: "Switching OwnerConsents, attempt 1, round 1, generation -1, replicas 3, due in 1m0s" + taken,
		},
		"claims that have grown are not touched, nor are replicas": {
			in:   world(renewed(known, build.UID("uid-2"), build.Replicas(5)), own(), objects{build.Journal(status)}),
			want: starts,
			next: "Starting ClaimsSwitched, attempt 1, round 1, generation -1, replicas 3, due in 30m0s" + taken,
		},
		"somebody else has created it with the new template": {
			in:   world(renewed(status), own(), objects{build.Journal(status)}),
			want: starts,
			next: "Starting ClaimsSwitched" + wasLive + ", due in 30m0s" + taken,
		},
		"and then the order is withdrawn first": {
			in: world(renewed(status), own(), liveJournal(at, status)), want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {-recreate}"},
		"I4: it was at zero before, and stays there": {
			in:   world(renewed(status, zero), own()[:4], objects{build.Journal(status)}),
			want: starts,
			next: "Starting ClaimsSwitched" + wasLive + ", due in 30m0s" + taken,
		},
		"a claim that has grown is gone: that is not restore's to find": {
			in:   world(renewed(status), own()[2:], objects{build.Journal(status)}),
			want: starts,
			next: "Starting ClaimsSwitched" + wasLive + ", due in 30m0s" + taken,
		},
		"the deadline is over, but nothing is in the way": {
			in: world(runs(live(api.Switching, build.Due(-time.Hour))), own()), want: "do SwitchRunning: create controllerrevisions drydock-0123456789ab"},
	})
}

// TestWhatIsCreatedOfASetThatRuns: everything as it was, but the templates.
func TestWhatIsCreatedOfASetThatRuns(t *testing.T) {
	status := live(api.Switching)
	from := build.Set("web", build.Replicas(7), build.Template("data", "64Mi", "fixed"), build.Template("logs", "32Mi", "fixed"), build.Status(status),
		build.Annotation("team", "data"), build.WhenScaled("Delete"), build.Owned("Database", "main"))
	p := Decide(world(objects{from}, own(), objects{build.Journal(status)}))
	if len(p.Actions) != 1 || !strings.HasSuffix(p.String(), "{+recreate, +set-metadata}") {
		t.Fatal(p)
	}
	order := storedOrder(t, build.Journal(status), p)
	p = Decide(world(own(), objects{order}))
	if len(p.Actions) != 1 || p.Actions[0].Verb != plan.VerbCreate {
		t.Fatal(p)
	}
	made := build.As[appsv1.StatefulSet](p.Actions[0].Object)
	next, err := api.LoadResize(made)
	if err != nil || next.Set.UID != "" || next.Generation != never || !next.Live() {
		t.Errorf("its status is %+v (%v)", next, err)
	}
	if _, frozen := made.Labels[api.FrozenLabel]; frozen || *made.Spec.Replicas != 7 || made.UID != "" || made.ResourceVersion != "" {
		t.Errorf("I4: it is made with %d replicas and %v", *made.Spec.Replicas, made.Labels)
	}
	want := from.DeepCopy()
	want.Annotations[api.StatusAnnotation] = made.Annotations[api.StatusAnnotation]
	want.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = made.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests
	for name, pair := range map[string][2]any{"spec": {want.Spec, made.Spec}, "labels": {want.Labels, made.Labels}, "annotations": {want.Annotations, made.Annotations},
		"owners": {want.OwnerReferences, made.OwnerReferences}, "finalizers": {want.Finalizers, made.Finalizers}} {
		if was, is := text(t, pair[0]), text(t, pair[1]); was != is {
			t.Errorf("%s was %s, is %s", name, was, is)
		}
	}
	if size := made.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests.Storage().String(); size != "128Mi" {
		t.Errorf("its template asks for %s", size)
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestI4ReplicasOfASetThatWasNeverStopped: whoever has scaled it was right to.
func TestI4ReplicasOfASetThatWasNeverStopped(t *testing.T) {
	failed := live(api.RollingBack, func(s *api.Resize) { s.FailedAt, s.Reason, s.Message = api.Planned, api.OwnerNotPausable, "no luck" })
	atFault := func(s *api.Resize) { s.Claims[1].Method, s.Method = "", api.MethodCopy }
	const told = `do OwnerNotPausable: patch statefulsets web {+status}; event OwnerNotPausable "no luck" -> operation.failed`
	const ended = "Failed OwnerNotPausable at Planned" + wasLive + "; data-web-0 Expanded; data-web-1 Expanded"
	check(t, map[string]row{
		"scaled up":   {in: world(runs(failed, build.Replicas(5)), own()), want: told, next: ended},
		"scaled down": {in: world(runs(failed, build.Replicas(1)), own()), want: told, next: ended},
		"put to zero": {in: world(runs(failed, zero), own()[:4]), want: told, next: ended},
		"claims that have grown are nobody's to tidy": {in: world(runs(failed), own()), want: told, next: ended},
		"of one of which a claim was to be copied, the retention policy comes back all the same": {
			in:   world(runs(with(failed, func(s *api.Resize) { s.WhenScaled = "Delete" }, atFault), build.Replicas(5), build.WhenScaled("Retain")), own()),
			want: "do RollingBack: patch statefulsets web {whenScaled Delete}",
		},
	})
}

func TestLiveOperationEnds(t *testing.T) {
	starting := live(api.Starting, func(s *api.Resize) { s.Set.UID, s.Reason, s.Generation = "uid-web", api.ClaimsSwitched, never })
	ready := with(live(api.Starting), func(s *api.Resize) { s.Ready, s.Generation = operation.Moment(build.Now), never })
	const ended = "Succeeded ResizeCompleted" + wasLive + "; data-web-0 Expanded; data-web-1 Expanded"
	check(t, map[string]row{
		"its replicas are waited for": {
			in: world(renewed(starting, build.Counting(3, 2)), own()), want: "wait WaitingForReady (2 of 3 replicas are ready)"},
		"they are ready": {
			in: world(renewed(starting), own()), want: "do WaitingForReady: patch statefulsets web {+status}",
			next: "Starting ClaimsSwitched, attempt 1, round 1, generation -1, replicas 3, due in 1m0s; data-web-0 Expanded; data-web-1 Expanded"},
		"I9: the journal goes": {
			in: world(renewed(ready), own(), objects{build.Journal(ready)}), want: "do CleaningUp: delete controllerrevisions drydock-0123456789ab"},
		"it is said what has happened": {
			in:   world(renewed(ready), own()),
			want: `do ResizeCompleted: patch statefulsets web {+status}; event ResizeCompleted "2 claims have grown" -> restore.completed`,
			next: ended},
		"only the templates have changed": {
			in:   world(renewed(with(live(api.Starting), func(s *api.Resize) { s.Ready, s.Claims = operation.Moment(build.Now), nil }))),
			want: `do ResizeCompleted: patch statefulsets web {+status}; event ResizeCompleted "the set has its new templates" -> restore.completed`,
			next: "Succeeded ResizeCompleted" + wasLive},
	})
}

// TestI8LiveOperationThatIsGivenUp: the set runs on with its old templates, and is held by nobody.
func TestI8LiveOperationThatIsGivenUp(t *testing.T) {
	late := live(api.Switching, build.Due(-time.Second))
	at := runs(late)
	const gaveUp = `patch statefulsets web {+status}; event DeadlineExceeded "creating the set again with its new templates was given up after 12m0s: ` +
		`the API server refuses a step: not today. Its pods run and its claims have grown; mend the cause, then ask again with the annotation drydock.dev/retry" -> operation.failed`
	const ended = "Failed DeadlineExceeded at Switching" + wasLive + "; data-web-0 Expanded; data-web-1 Expanded"
	failed := with(live(api.Failed), func(s *api.Resize) { s.FailedAt, s.Deadline = api.Switching, nil })
	check(t, map[string]row{
		"the order cannot be written": {
			in: rejected(world(at, own(), objects{build.Journal(late)}), "not today"), want: "do DeadlineExceeded: " + gaveUp, next: ended},
		"the set cannot be deleted: the order is withdrawn before that is said": {
			in:   rejected(world(at, own(), liveJournal(at, late)), "not today"),
			want: "do DeadlineExceeded: patch controllerrevisions drydock-0123456789ab {-recreate}; " + gaveUp, next: ended},
		"before the deadline it is tried again": {
			in: rejected(world(runs(live(api.Switching)), own(), objects{build.Journal(late)}), "not today"), want: "do SwitchRunning: patch controllerrevisions drydock-0123456789ab {+recreate, +set-metadata}"},
		"I9: then its journal goes, and nothing is said twice": {
			in: world(runs(failed), own(), objects{build.Journal(failed)}), want: "do CleaningUp: delete controllerrevisions drydock-0123456789ab"},
		"I9: nothing is left": {in: world(runs(failed), own()), want: "noop NotOurPhase"},
		"nobody holds it: a label that says so goes": {
			in: world(runs(failed, build.Label(api.FrozenLabel, "true")), own()), want: "do CleaningUp: patch statefulsets web {-label frozen}"},
	})
	if failed.Held() {
		t.Error("a set that runs is held")
	}
	one := with(failed.Clone(), func(s *api.Resize) { s.Claims[1].Method, s.Method = "", api.MethodCopy })
	if !one.Held() {
		t.Error("I1: a set of which a claim may not be whole is not held")
	}
}

// TestClaimsThatHaveGrownAreNotSwitched: of an operation that copies others.
func TestClaimsThatHaveGrownAreNotSwitched(t *testing.T) {
	both := with(switchingOf(web0), build.Parts(api.ClaimExpanded, web1), func(s *api.Resize) { s.Claims[1].Method = api.MethodExpand })
	grown := own()[2:4]
	check(t, map[string]row{
		"the copied one goes its way": {
			in: world(set(both), objects{build.Journal(both)}, source(web0), copied(web0), grown), want: "do SwitchRunning: patch persistentvolumeclaims data-web-0 {+finalizer switch}"},
		"it is switched: the set is started": {
			in:   world(set(both), objects{build.Journal(both)}, switched(web0), grown),
			want: `do ClaimsSwitched: patch statefulsets web {replicas 0 to 3, +status}; event ClaimsSwitched "every claim is on its new volume, the set is started"`,
			next: "Starting ClaimsSwitched, attempt 1, round 1, generation 5, replicas 3, due in 30m0s; data-web-0 Switched on pv-new-data-web-0; data-web-1 Expanded",
		},
		"somebody started pods meanwhile: the copied one is copied again, the other one has nothing to lose": {
			in:   world(set(both, build.Generation(7)), objects{build.Journal(both)}, source(web0), target(web0), grown),
			want: `do StartedByOthers: patch statefulsets web {+status}; event StartedByOthers "the set was changed before the switch; what is not switched is copied again" -> owner.paused`,
			next: "Copying StartedByOthers, attempt 1, round 2, generation 0, replicas 3, due in 20h0m0s; data-web-0 Pending; data-web-1 Expanded",
		},
		"I4: rolled back, the stopped set gets its replicas back": {
			in:   world(set(with(both.Clone(), func(s *api.Resize) { s.Phase, s.FailedAt = api.RollingBack, api.Copying })), objects{build.Journal(both)}, source(web0), grown),
			want: "do RollingBack: patch statefulsets web {replicas 0 to 3}"},
	})
	if both.Live() {
		t.Error("a claim is copied, but the set is to run all through")
	}
	held := build.Set("web", build.Edit(func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](3) }), build.Template("data", "64Mi", "fixed"))
	if made := build.As[appsv1.StatefulSet](resources.MakeHeldSet(build.Raw(held), both.Templates, both)); *made.Spec.Replicas != 0 {
		t.Errorf("I1: a set of which a claim is copied is made with %d replicas", *made.Spec.Replicas)
	}
}
