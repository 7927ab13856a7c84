package cleanuppod

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

func denied(in Input) Input {
	return in.with(func(in *Input) { in.Denied = "violates PodSecurity" })
}

func doubted(in Input) Input {
	return in.with(func(in *Input) { in.Doubt = "exceeded quota" })
}

func retried(in Input) Input { return in.with(func(in *Input) { in.Retry = true }) }

// refusedOnce is the document of a template that was refused.
func refusedOnce(options ...func(*api.Cleanup)) build.Option {
	return tells(api.Refused, append([]func(*api.Cleanup){func(s *api.Cleanup) { s.Reason, s.Message = api.TemplateInvalid, "it was wrong" }}, options...)...)
}

func TestWhoIsLookedAfter(t *testing.T) {
	resizing := build.Status(build.Operation(api.Moving))
	reverting := build.Status(build.Operation(api.Reverting))
	asleep := build.WithSleep(build.Sleep(api.Asleep))
	scaling := build.Annotation(api.ScaleAnnotation, (&api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Operation: build.ID,
		Phase: api.PostScaling, Set: api.SetRef{Name: "web", UID: "uid-web"}}}).Encode())
	scaledDown := left("data-web-1")
	check(t, map[string]row{
		"there is no set": {in: on(),
			want: "noop SetGone"},
		"there is no set, but a cleanup pod": {in: on(on1(1)),
			want: "do CleanupCanceled: delete pods web-1"},
		"there is no set, the pod ends": {in: on(on1(1, build.Deleting())),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"there is no set, the pod has ended": {in: on(on1(1, build.Deleting(), build.Finalizers(), succeeded)),
			want: "wait CleaningUp (pod web-1 is about to go)"},
		"there is no set, and pods of others": {in: on(build.Pod("web-1", nil)),
			want: "noop SetGone"},
		"the document cannot be read": {in: on(web(build.Annotation(api.CleanupAnnotation, "{")), scaledDown, on1(1)),
			want: `do StatusInvalid: event StatusInvalid "reading annotation drydock.dev/cleanup of StatefulSet shop/web: unexpected end of JSON input; remove the annotation if no operation runs"`},
		"it is not opted in": {in: on(web(optOut, ready(1)), scaledDown),
			want: "noop NotManaged"},
		"it is not opted in any more": {in: on(web(optOut, cleaning()), scaledDown),
			want: `do NotManaged: patch statefulsets web {+cleanup}; event NotManaged "the StatefulSet is not opted in any more; the claims that are left are kept"`, next: "Failed NotManaged at Cleaning, attempt 1, replicas 1, finished 0s"},
		"it is not any more, a pod is there": {in: on(web(optOut, cleaning()), scaledDown, on1(1)),
			want: `do NotManaged: patch statefulsets web {+cleanup}; event NotManaged "the StatefulSet is not opted in any more; the claims that are left are kept"`, next: "Failed NotManaged at Cleaning, attempt 1, replicas 1, finished 0s"},
		"it has no template": {in: on(web(build.Annotation(api.CleanupTemplateAnnotation, "")), scaledDown),
			want: "noop NoCleanup"},
		"it has no claim": {in: on(build.Set("web", build.Annotation(api.CleanupTemplateAnnotation, template))),
			want: "noop NoCleanup"},
		"a resize runs": {in: on(web(resizing, ready(1)), scaledDown),
			want: "noop InProgress"},
		"a resize runs, and a cleanup, somehow": {in: on(web(resizing, cleaning()), scaledDown, on1(1)),
			want: "noop InProgress"},
		"a resize is given up": {in: on(web(reverting, ready(1)), scaledDown),
			want: "noop InProgress"},
		"the resize cannot be read": {in: on(web(build.Annotation(api.StatusAnnotation, "{"), ready(1)), scaledDown),
			want: "noop InProgress"},
		"a Scaler scales it": {in: on(web(scaling, ready(1)), scaledDown),
			want: "noop InProgress"},
		"it sleeps, and the document of that is lost": {in: recorded(on(web(build.Replicas(0), ready(1)), left("data-web-0")), api.RoleSleep),
			want: "noop InProgress"},
		"it sleeps by its operator, and the document of that is lost": {in: recorded(on(web(build.Replicas(0), ready(1)), left("data-web-0")), api.RoleOwner),
			want: "noop InProgress"},
		"it is being resized, and the document of that is lost": {in: recorded(on(web(build.Replicas(0), ready(1)), left("data-web-0")), api.RoleJournal),
			want: "noop InProgress"},
		"it sleeps": {in: on(web(asleep, build.Replicas(0), ready(1)), left("data-web-0")),
			want: "noop InProgress"},
		"the sleep cannot be read": {in: on(web(build.Annotation(api.SleepAnnotation, "{"), build.Replicas(0), ready(1)), left("data-web-0")),
			want: "noop InProgress"},
		"it has slept": {in: on(web(build.WithSleep(build.Sleep(api.Succeeded)), ready(1)), scaledDown),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"aborted, with nothing to abort": {in: on(web(abort, ready(1)), left("data-web-0"), replica(0)),
			want: "noop CleanupReady"},
		"aborted: the pods go": {in: on(web(abort, cleaning()), scaledDown, on1(1)),
			want: "do CleanupCanceled: delete pods web-1"},
		"aborted: a pod ends": {in: on(web(abort, cleaning()), scaledDown, on1(1, build.Deleting(), build.Finalizers())),
			want: "wait CleaningUp (pod web-1 ends)"},
		"aborted": {in: on(web(abort, cleaning(entry(1, api.CleanupTriedOnce, tries(1), next(time.Second)))), scaledDown),
			want: `do Aborted: patch statefulsets web {+cleanup, -abort}; event Aborted "aborted; the claims that are left are kept" -> operation.failed`, next: "Failed Aborted at Cleaning, attempt 1, replicas 1, finished 0s"},
		"aborted, and it had succeeded": {in: on(web(abort, cleaning()), scaledDown, on1(1, succeeded)),
			want: "do CleanupCanceled: delete pods web-1"},
	})
}

func TestStrays(t *testing.T) {
	other := relinked(func(l *api.Link) { l.Operation = "other" })
	another := relinked(func(l *api.Link) { l.Set.UID = "uid-2" })
	c := cleaning()
	check(t, map[string]row{
		"I3: of another operation": {in: on(web(c), left("data-web-1"), on1(1, other)),
			want: "do CleanupCanceled: delete pods web-1"},
		"I3: it succeeded": {in: on(web(c), left("data-web-1"), on1(1, other, succeeded)),
			want: "do CleanupCanceled: delete pods web-1"},
		"I3: of another set of the name": {in: on(web(c), left("data-web-1"), on1(1, another, succeeded)),
			want: "do CleanupCanceled: delete pods web-1"},
		"I3: it ends": {in: on(web(c), left("data-web-1"), on1(1, another, build.Deleting())),
			want: "do CleaningUp: patch pods web-1 {-finalizer cleanup}"},
		"I3: it is about to go, there is nothing to wait for elsewhere": {in: on(web(c), left("data-web-2"), on1(1, another, succeeded, build.Deleting(), build.Finalizers())),
			want: `do CleanupStarted: create pods web-2; event CleanupStarted "pod web-2 cleans up claim data-web-2"`},
		"I4: the document was lost": {in: on(web(), left("data-web-1"), on1(1, succeeded)),
			want: "do CleanupCanceled: delete pods web-1"},
		"I4: the document tells of the end": {in: on(web(ready(1)), left("data-web-1"), on1(1)),
			want: "do CleanupCanceled: delete pods web-1"},
		"of a set that goes": {in: on(goingWeb(c), left("data-web-1"), on1(1, other)),
			want: "do CleanupCanceled: delete pods web-1"},
		"forged: a link into another namespace": {in: on(web(c), left("data-web-1"), on1(1, succeeded, relinked(func(l *api.Link) { l.Namespace = "payroll" }))),
			want: `do NameTaken: patch statefulsets web {+cleanup}; event NameTaken "pod web-1 has the replica's name and is not the set's; delete it, or let it end"`, next: "Cleaning , attempt 1, replicas 1; 1 NameTaken, due 25h0m0s"},
		"not even a replica's name": {in: on(web(ready(1)), build.With(on1(1), build.Edit(func(p *corev1.Pod) { p.Name = "x" }))),
			want: "do CleanupCanceled: delete pods x"},
	})
}

func TestFinalizer(t *testing.T) {
	label := build.Label(api.FinalizerLabel, api.FinalizerForCleanup)
	check(t, map[string]row{
		"it is asked for": {in: on(web(onDelete, ready(1))),
			want: "do FinalizerAdded: patch statefulsets web {+finalizer cleanup, +label finalizer}"},
		"it is asked for, others are there": {in: on(web(onDelete, build.Finalizers("first"), ready(1))),
			want: "do FinalizerAdded: patch statefulsets web {+finalizer cleanup, +label finalizer}"},
		"it is there": {in: on(web(onDelete, held, label, ready(1)), replica(0)),
			want: "noop CleanupReady"},
		"it is not asked for any more": {in: on(web(held, label, ready(1))),
			want: "do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}"},
		"the opt-in label is lost": {in: on(web(onDelete, held, label, optOut, ready(1))),
			want: "do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}"},
		"a deletion would delete the claims": {in: on(web(onDelete, held, label, build.Edit(func(s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Delete"}
		}), ready(1))),
			want: "do FinalizerRemoved: patch statefulsets web {-finalizer cleanup, -label finalizer}"},
		"it is asked for while restore replaces the set": {in: on(web(onDelete, build.Status(build.Operation(api.Moving, build.ReplacesSet)), ready(1))),
			want: "noop InProgress"},
		"it is asked for while members are moved": {in: on(web(onDelete, build.Status(build.Operation(api.Moving)), ready(1))),
			want: "do FinalizerAdded: patch statefulsets web {+finalizer cleanup, +label finalizer}"},
		"it is asked for while a cleanup runs": {in: on(web(onDelete, cleaning()), left("data-web-1"), on1(1)),
			want: "do FinalizerAdded: patch statefulsets web {+finalizer cleanup, +label finalizer}"},
		"it is asked for, but the set goes": {in: on(web(onDelete, build.Deleting(), ready(1))),
			want: "noop SetGone"},
		"it is asked for while the set sleeps": {in: on(web(onDelete, build.WithSleep(build.Sleep(api.Asleep)), build.Replicas(0))),
			want: "do FinalizerAdded: patch statefulsets web {+finalizer cleanup, +label finalizer}"},
		"it is asked for, the template is wrong": {in: on(web(onDelete, build.Annotation(api.CleanupTemplateAnnotation, "{}"))),
			want: "do FinalizerAdded: patch statefulsets web {+finalizer cleanup, +label finalizer}"},
	})
}

func TestRefusal(t *testing.T) {
	wrong := build.Annotation(api.CleanupTemplateAnnotation, "{}")
	check(t, map[string]row{
		"the template is wrong": {in: on(web(wrong)),
			want: `do TemplateInvalid: patch statefulsets web {+cleanup}; event TemplateInvalid "annotation drydock.dev/cleanup-pod-template: spec.containers is empty; name the container that cleans up" -> operation.failed`, next: "Refused TemplateInvalid, attempt 0, replicas 1, finished 0s"},
		"the same as before": {in: on(web(wrong, refusedOnce()), left("data-web-1")),
			want: "noop AlreadyRefused"},
		"another one is wrong": {in: on(web(wrong, refusedOnce(digest("older")))),
			want: `do TemplateInvalid: patch statefulsets web {+cleanup}; event TemplateInvalid "annotation drydock.dev/cleanup-pod-template: spec.containers is empty; name the container that cleans up" -> operation.failed`, next: "Refused TemplateInvalid, attempt 1, replicas 1, finished 0s"},
		"it was right before": {in: on(web(wrong, ready(3, digest("older"), func(s *api.Cleanup) { s.Attempt = 4 }))),
			want: `do TemplateInvalid: patch statefulsets web {+cleanup}; event TemplateInvalid "annotation drydock.dev/cleanup-pod-template: spec.containers is empty; name the container that cleans up" -> operation.failed`, next: "Refused TemplateInvalid, attempt 4, replicas 1, accounted 0-3, finished 0s"},
		"a cleanup has failed before": {in: on(web(wrong, gaveUp(digest("older")))),
			want: `do TemplateInvalid: patch statefulsets web {+cleanup}; event TemplateInvalid "annotation drydock.dev/cleanup-pod-template: spec.containers is empty; name the container that cleans up" -> operation.failed`, next: "Refused TemplateInvalid, attempt 1, replicas 1, accounted 0-1, finished 0s"},
		"canceled for it a moment ago": {in: on(web(wrong, gaveUp())),
			want: `do TemplateInvalid: patch statefulsets web {+cleanup}; event TemplateInvalid "annotation drydock.dev/cleanup-pod-template: spec.containers is empty; name the container that cleans up" -> operation.failed`, next: "Refused TemplateInvalid, attempt 1, replicas 1, accounted 0-1, finished 0s"},
		"somebody asks again": {in: on(web(wrong, retry, refusedOnce())),
			want: `do TemplateInvalid: patch statefulsets web {+cleanup, -retry}; event TemplateInvalid "annotation drydock.dev/cleanup-pod-template: spec.containers is empty; name the container that cleans up" -> operation.failed`, next: "Refused TemplateInvalid, attempt 1, replicas 1, finished 0s"},
		"somebody asks again by event": {in: retried(on(web(wrong, refusedOnce()))),
			want: `do TemplateInvalid: patch statefulsets web {+cleanup}; event TemplateInvalid "annotation drydock.dev/cleanup-pod-template: spec.containers is empty; name the container that cleans up" -> operation.failed`, next: "Refused TemplateInvalid, attempt 1, replicas 1, finished 0s"},
		"the API server would refuse it": {in: denied(on(web(), left("data-web-1"))),
			want: `do TemplateInvalid: patch statefulsets web {+cleanup}; event TemplateInvalid "the API server would refuse the cleanup pod: violates PodSecurity" -> operation.failed`, next: "Refused TemplateInvalid, attempt 0, replicas 1, finished 0s"},
		"it said so before": {in: on(web(refusedOnce()), left("data-web-1")),
			want: "noop AlreadyRefused"},
		"it was refused, and now it is right": {in: retried(on(web(refusedOnce()), left("data-web-0"), replica(0))),
			want: "do CleanupReady: patch statefulsets web {+cleanup}", next: "Succeeded CleanupReady, attempt 1, replicas 1, accounted 0-1"},
		"the same, and there is something to clean": {in: retried(on(web(refusedOnce()), left("data-web-1"))),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1"},
		"another template is right": {in: on(web(refusedOnce(digest("older"))), left("data-web-0"), replica(0)),
			want: "do CleanupReady: patch statefulsets web {+cleanup}", next: "Succeeded CleanupReady, attempt 1, replicas 1, accounted 0-1"},
		"claims would be deleted": {in: on(web(build.WhenScaled("Delete"))),
			want: `do DeletesClaims: patch statefulsets web {+cleanup}; event DeletesClaims "persistentVolumeClaimRetentionPolicy.whenScaled is Delete, so a scale-down deletes the claims before anything can clean them up; set it to Retain, or remove annotation drydock.dev/cleanup-pod-template" -> operation.failed`, next: "Refused DeletesClaims, attempt 0, replicas 1, finished 0s"},
		"it would be refused now, as by a quota": {in: doubted(on(web(), replica(0))),
			want: `do CleanupReady: patch statefulsets web {+cleanup}; event Rejected "the API server would not let a cleanup pod be made now: exceeded quota"`, next: "Succeeded CleanupReady, attempt 0, replicas 1, accounted 0-1"},
		"the same, and there is something to clean up": {in: doubted(on(web(), left("data-web-1"))),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 1, replicas 1"},
	})
}

// TestLongRefusals: an admission webhook may say anything at any length; an object's annotations may have 256 KiB in all.
func TestLongRefusals(t *testing.T) {
	refused := on(web()).with(func(in *Input) { in.Denied = longText })
	tried := on(web(cleaning()), left("data-web-1")).with(func(in *Input) { in.Rejected = longText })
	for _, in := range []Input{refused, tried} {
		if doc := stored(Decide(in)); doc == nil || len(doc.Encode()) > 4<<10 {
			t.Errorf("%.1000s", Decide(in))
		}
	}
}

func TestRetry(t *testing.T) {
	f := gaveUp(entry(1, api.CleanupFailed, tries(3)))
	one := left("data-web-1")
	check(t, map[string]row{
		"a cleanup that failed rests": {in: on(web(f), one, replica(0)),
			want: "noop CleanupFailed"},
		"by annotation": {in: on(web(retry, f), one),
			want: "do CleanupStarted: patch statefulsets web {+cleanup, -retry}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"by event": {in: retried(on(web(f), one)),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"the set was scaled since": {in: on(web(gaveUp(counted(2))), one),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"the template has changed since": {in: on(web(gaveUp(digest("older"))), one),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"nothing is left any more": {in: on(web(f), replica(0)),
			want: "do CleanupReady: patch statefulsets web {+cleanup}", next: "Succeeded CleanupReady, attempt 1, replicas 1, accounted 0-1"},
		"nothing is left any more, and a retry": {in: on(web(retry, f), replica(0)),
			want: "do CleanupReady: patch statefulsets web {+cleanup, -retry}", next: "Succeeded CleanupReady, attempt 1, replicas 1, accounted 0-1"},
		"nothing has failed": {in: on(web(retry, ready(1)), left("data-web-0"), replica(0)),
			want: "noop CleanupReady"},
		"nothing has failed, by event": {in: retried(on(web(ready(1)), left("data-web-0"), replica(0))),
			want: "noop CleanupReady"},
		"while a cleanup runs": {in: retried(on(web(retry, cleaning()), one, on1(1))),
			want: "wait CleanupRunning (pod web-1 is Running)"},
		"a new ordinal is left behind": {in: on(web(gaveUp(entry(1, api.CleanupFailed, tries(3)))), one, left("data-web-2"), replica(0)),
			want: "noop CleanupFailed"},
		"aborted: what is left is told": {in: on(web(tells(api.Failed, func(s *api.Cleanup) {
			s.Reason, s.FailedAt, s.Finished = api.Aborted, api.Cleaning, operation.Moment(build.Now)
		})), one, replica(0)),
			want: "do Aborted: patch statefulsets web {+cleanup}", next: "Failed Aborted at Cleaning, attempt 1, replicas 1, accounted 0-1, finished 0s"},
	})
}

func TestSettling(t *testing.T) {
	unknown := build.Claim("data-web-2", "64Mi")
	mark := build.Annotation(api.ReplicaOfAnnotation, "uid-web")
	told := func(s *api.Cleanup) {
		in := on(web(), unknown)
		s.Ordinals = in.reports(in.ordinals())
	}
	many := on(web(ready(1)), replica(0))
	for n := range 100 {
		many.Claims = append(many.Claims, build.Claim("data-web-"+string(rune('1'+n%9))+string(rune('0'+n/9%10)), "64Mi"))
	}
	check(t, map[string]row{
		"a new set": {in: on(web(), left("data-web-0"), replica(0)),
			want: "do CleanupReady: patch statefulsets web {+cleanup}", next: "Succeeded CleanupReady, attempt 0, replicas 1, accounted 0-1"},
		"I7: the same again": {in: on(web(ready(1)), left("data-web-0"), replica(0)),
			want: "noop CleanupReady"},
		"a claim in use is marked": {in: on(web(ready(1)), build.Claim("data-web-0", "64Mi"), replica(0)),
			want: "do ReplicasSeen: patch persistentvolumeclaims data-web-0 {+replica-of}"},
		"one that another set has used is, too": {in: on(web(ready(1)), build.Claim("data-web-0", "64Mi", build.Annotation(api.ReplicaOfAnnotation, "uid-2")), replica(0)),
			want: "do ReplicasSeen: patch persistentvolumeclaims data-web-0 {+replica-of}"},
		"two are": {in: on(web(build.Replicas(2), ready(1)), build.Claim("data-web-1", "64Mi"), build.Claim("data-web-0", "64Mi"), replica(0), replica(1)),
			want: "do ReplicasSeen: patch persistentvolumeclaims data-web-1 {+replica-of}; patch persistentvolumeclaims data-web-0 {+replica-of}"},
		"a replica came": {in: on(web(build.Replicas(2), ready(1)), left("data-web-0"), left("data-web-1"), replica(0), replica(1)),
			want: "do CleanupReady: patch statefulsets web {+cleanup}", next: "Succeeded CleanupReady, attempt 1, replicas 2, accounted 0-2"},
		"a replica is missing": {in: on(web(build.Replicas(2), ready(2)), left("data-web-0"), replica(0)),
			want: "noop CleanupReady"},
		"a claim that nobody is known to have used": {in: on(web(ready(1)), unknown, replica(0)),
			want: `do CleanupReady: patch statefulsets web {+cleanup}; event NeverUsed "claim data-web-2 is left alone: no replica of this StatefulSet is known to have used it; if one has: kubectl annotate -n shop pvc data-web-2 drydock.dev/replica-of=uid-web, then kubectl drydock emit object.changed -n shop sts/web --concerns cleanup-pod"`, next: "Succeeded CleanupReady, attempt 1, replicas 1, accounted 0-1; 2 NeverUsed"},
		"I7: it was told": {in: on(web(ready(1, told)), unknown, replica(0)),
			want: "noop CleanupReady"},
		"it is gone": {in: on(web(ready(1, told)), replica(0)),
			want: "do CleanupReady: patch statefulsets web {+cleanup}", next: "Succeeded CleanupReady, attempt 1, replicas 1, accounted 0-1"},
		"somebody knows better": {in: on(web(ready(1, told)), build.With(build.Claim("data-web-2", "64Mi"), mark), replica(0)),
			want: "do CleanupStarted: patch statefulsets web {+cleanup}", next: "Cleaning CleanupStarted, attempt 2, replicas 1, accounted 0-1"},
		"another template": {in: on(web(ready(1, digest("older"), func(s *api.Cleanup) { s.Attempt = 3 })), replica(0)),
			want: "do CleanupReady: patch statefulsets web {+cleanup}", next: "Succeeded CleanupReady, attempt 3, replicas 1, accounted 0-1"},
		"at zero": {in: on(web(build.Replicas(0), ready(0))),
			want: "noop CleanupReady"},
	})
	t.Run("only so many are told", func(t *testing.T) {
		if doc := stored(Decide(many)); len(doc.Ordinals) != mostReports || len(doc.Encode()) > 20<<10 {
			t.Errorf("%d ordinals in %d bytes", len(doc.Ordinals), len(doc.Encode()))
		}
	})
}

func TestTally(t *testing.T) {
	for name, row := range map[string]struct {
		in               Input
		pending, running int
	}{
		"no set":             {on(), 0, 0},
		"nothing":            {on(web(ready(1))), 0, 0},
		"two are left":       {on(web(ready(1)), left("data-web-1"), left("data-web-2")), 2, 0},
		"one runs":           {on(web(cleaning()), left("data-web-1"), left("data-web-2"), on1(2)), 1, 1},
		"a stray is none":    {on(web(ready(1)), left("data-web-1"), on1(1)), 1, 0},
		"it sleeps":          {on(web(build.WithSleep(build.Sleep(api.Asleep)), ready(1)), left("data-web-1")), 0, 0},
		"it is not opted in": {on(web(optOut), left("data-web-1")), 0, 0},
		"unreadable":         {on(web(build.Annotation(api.CleanupAnnotation, "{")), left("data-web-1")), 0, 0},
		"no template":        {on(build.Set("web", build.Template("data", "1Mi", "fixed")), left("data-web-1")), 0, 0},
		"it has failed":      {on(web(gaveUp()), left("data-web-1")), 1, 0},
	} {
		if pending, running := row.in.Tally(); pending != row.pending || running != row.running {
			t.Errorf("%s: %d wait, %d run", name, pending, running)
		}
	}
}

// TestMayBegin: only then is a trace begun; and only of a new template the API server is asked.
func TestMayBegin(t *testing.T) {
	for name, row := range map[string]struct {
		in         Input
		begins, is bool
	}{
		"no set":                     {on(), false, false},
		"no template":                {on(build.Set("web")), false, false},
		"not opted in":               {on(web(optOut), left("data-web-1")), false, false},
		"new":                        {on(web()), false, true},
		"new, and a claim is left":   {on(web(), left("data-web-1")), true, true},
		"known":                      {on(web(ready(1))), false, false},
		"known, and a claim":         {on(web(ready(1)), left("data-web-1")), true, false},
		"it runs":                    {on(web(cleaning()), left("data-web-1")), false, false},
		"another template meanwhile": {on(web(cleaning(digest("older"))), left("data-web-1")), false, true},
		"it failed":                  {on(web(gaveUp()), left("data-web-1")), false, false},
		"refused":                    {on(web(refusedOnce())), false, false},
		"refused, and a retry":       {retried(on(web(refusedOnce()))), false, true},
		"unreadable":                 {on(web(build.Annotation(api.CleanupAnnotation, "{")), left("data-web-1")), false, false},
		"it goes":                    {on(goingWeb(), left("data-web-1")), true, false},
	} {
		template := (*corev1.PodTemplateSpec)(nil)
		if row.in.Set != nil {
			template, _ = row.in.newTemplate()
		}
		if begins, is := row.in.mayBegin(), template != nil; begins != row.begins || is != row.is {
			t.Errorf("%s: begins %t, asks %t", name, begins, is)
		}
	}
}
