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
	check(t, map[string]Input{
		"there is no set":                                             on(),
		"there is no set, but a cleanup pod":                          on(on1(1)),
		"there is no set, the pod ends":                               on(on1(1, build.Deleting())),
		"there is no set, the pod has ended":                          on(on1(1, build.Deleting(), build.Finalizers(), succeeded)),
		"there is no set, and pods of others":                         on(build.Pod("web-1", nil)),
		"the document cannot be read":                                 on(web(build.Annotation(api.CleanupAnnotation, "{")), scaledDown, on1(1)),
		"it is not opted in":                                          on(web(optOut, ready(1)), scaledDown),
		"it is not opted in any more":                                 on(web(optOut, cleaning()), scaledDown),
		"it is not any more, a pod is there":                          on(web(optOut, cleaning()), scaledDown, on1(1)),
		"it has no template":                                          on(web(build.Annotation(api.CleanupTemplateAnnotation, "")), scaledDown),
		"it has no claim":                                             on(build.Set("web", build.Annotation(api.CleanupTemplateAnnotation, template))),
		"a resize runs":                                               on(web(resizing, ready(1)), scaledDown),
		"a resize runs, and a cleanup, somehow":                       on(web(resizing, cleaning()), scaledDown, on1(1)),
		"a resize is given up":                                        on(web(reverting, ready(1)), scaledDown),
		"the resize cannot be read":                                   on(web(build.Annotation(api.StatusAnnotation, "{"), ready(1)), scaledDown),
		"a Scaler scales it":                                          on(web(scaling, ready(1)), scaledDown),
		"it sleeps, and the document of that is lost":                 recorded(on(web(build.Replicas(0), ready(1)), left("data-web-0")), api.RoleSleep),
		"it sleeps by its operator, and the document of that is lost": recorded(on(web(build.Replicas(0), ready(1)), left("data-web-0")), api.RoleOwner),
		"it is being resized, and the document of that is lost":       recorded(on(web(build.Replicas(0), ready(1)), left("data-web-0")), api.RoleJournal),
		"it sleeps":                      on(web(asleep, build.Replicas(0), ready(1)), left("data-web-0")),
		"the sleep cannot be read":       on(web(build.Annotation(api.SleepAnnotation, "{"), build.Replicas(0), ready(1)), left("data-web-0")),
		"it has slept":                   on(web(build.WithSleep(build.Sleep(api.Succeeded)), ready(1)), scaledDown),
		"aborted, with nothing to abort": on(web(abort, ready(1)), left("data-web-0"), replica(0)),
		"aborted: the pods go":           on(web(abort, cleaning()), scaledDown, on1(1)),
		"aborted: a pod ends":            on(web(abort, cleaning()), scaledDown, on1(1, build.Deleting(), build.Finalizers())),
		"aborted":                        on(web(abort, cleaning(entry(1, api.CleanupTriedOnce, tries(1), next(time.Second)))), scaledDown),
		"aborted, and it had succeeded":  on(web(abort, cleaning()), scaledDown, on1(1, succeeded)),
	})
}

func TestStrays(t *testing.T) {
	other := relinked(func(l *api.Link) { l.Operation = "other" })
	another := relinked(func(l *api.Link) { l.Set.UID = "uid-2" })
	c := cleaning()
	check(t, map[string]Input{
		"I3: of another operation":       on(web(c), left("data-web-1"), on1(1, other)),
		"I3: it succeeded":               on(web(c), left("data-web-1"), on1(1, other, succeeded)),
		"I3: of another set of the name": on(web(c), left("data-web-1"), on1(1, another, succeeded)),
		"I3: it ends":                    on(web(c), left("data-web-1"), on1(1, another, build.Deleting())),
		"I3: it is about to go, there is nothing to wait for elsewhere": on(web(c), left("data-web-2"), on1(1, another, succeeded, build.Deleting(), build.Finalizers())),
		"I4: the document was lost":                                     on(web(), left("data-web-1"), on1(1, succeeded)),
		"I4: the document tells of the end":                             on(web(ready(1)), left("data-web-1"), on1(1)),
		"of a set that goes":                                            on(goingWeb(c), left("data-web-1"), on1(1, other)),
		"forged: a link into another namespace":                         on(web(c), left("data-web-1"), on1(1, succeeded, relinked(func(l *api.Link) { l.Namespace = "payroll" }))),
		"not even a replica's name":                                     on(web(ready(1)), build.With(on1(1), build.Edit(func(p *corev1.Pod) { p.Name = "x" }))),
	})
}

func TestFinalizer(t *testing.T) {
	label := build.Label(api.FinalizerLabel, api.FinalizerForCleanup)
	check(t, map[string]Input{
		"it is asked for":                   on(web(onDelete, ready(1))),
		"it is asked for, others are there": on(web(onDelete, build.Finalizers("first"), ready(1))),
		"it is there":                       on(web(onDelete, held, label, ready(1)), replica(0)),
		"it is not asked for any more":      on(web(held, label, ready(1))),
		"the opt-in label is lost":          on(web(onDelete, held, label, optOut, ready(1))),
		"a deletion would delete the claims": on(web(onDelete, held, label, build.Edit(func(s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Delete"}
		}), ready(1))),
		"it is asked for while restore replaces the set": on(web(onDelete, build.Status(build.Operation(api.Moving, build.ReplacesSet)), ready(1))),
		"it is asked for while members are moved":        on(web(onDelete, build.Status(build.Operation(api.Moving)), ready(1))),
		"it is asked for while a cleanup runs":           on(web(onDelete, cleaning()), left("data-web-1"), on1(1)),
		"it is asked for, but the set goes":              on(web(onDelete, build.Deleting(), ready(1))),
		"it is asked for while the set sleeps":           on(web(onDelete, build.WithSleep(build.Sleep(api.Asleep)), build.Replicas(0))),
		"it is asked for, the template is wrong":         on(web(onDelete, build.Annotation(api.CleanupTemplateAnnotation, "{}"))),
	})
}

func TestRefusal(t *testing.T) {
	wrong := build.Annotation(api.CleanupTemplateAnnotation, "{}")
	check(t, map[string]Input{
		"the template is wrong":                        on(web(wrong)),
		"the same as before":                           on(web(wrong, refusedOnce()), left("data-web-1")),
		"another one is wrong":                         on(web(wrong, refusedOnce(digest("older")))),
		"it was right before":                          on(web(wrong, ready(3, digest("older"), func(s *api.Cleanup) { s.Attempt = 4 }))),
		"a cleanup has failed before":                  on(web(wrong, gaveUp(digest("older")))),
		"canceled for it a moment ago":                 on(web(wrong, gaveUp())),
		"somebody asks again":                          on(web(wrong, retry, refusedOnce())),
		"somebody asks again by event":                 retried(on(web(wrong, refusedOnce()))),
		"the API server would refuse it":               denied(on(web(), left("data-web-1"))),
		"it said so before":                            on(web(refusedOnce()), left("data-web-1")),
		"it was refused, and now it is right":          retried(on(web(refusedOnce()), left("data-web-0"), replica(0))),
		"the same, and there is something to clean":    retried(on(web(refusedOnce()), left("data-web-1"))),
		"another template is right":                    on(web(refusedOnce(digest("older"))), left("data-web-0"), replica(0)),
		"claims would be deleted":                      on(web(build.WhenScaled("Delete"))),
		"it would be refused now, as by a quota":       doubted(on(web(), replica(0))),
		"the same, and there is something to clean up": doubted(on(web(), left("data-web-1"))),
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
	check(t, map[string]Input{
		"a cleanup that failed rests":           on(web(f), one, replica(0)),
		"by annotation":                         on(web(retry, f), one),
		"by event":                              retried(on(web(f), one)),
		"the set was scaled since":              on(web(gaveUp(counted(2))), one),
		"the template has changed since":        on(web(gaveUp(digest("older"))), one),
		"nothing is left any more":              on(web(f), replica(0)),
		"nothing is left any more, and a retry": on(web(retry, f), replica(0)),
		"nothing has failed":                    on(web(retry, ready(1)), left("data-web-0"), replica(0)),
		"nothing has failed, by event":          retried(on(web(ready(1)), left("data-web-0"), replica(0))),
		"while a cleanup runs":                  retried(on(web(retry, cleaning()), one, on1(1))),
		"a new ordinal is left behind":          on(web(gaveUp(entry(1, api.CleanupFailed, tries(3)))), one, left("data-web-2"), replica(0)),
		"aborted: what is left is told": on(web(tells(api.Failed, func(s *api.Cleanup) {
			s.Reason, s.FailedAt, s.Finished = api.Aborted, api.Cleaning, operation.Moment(build.Now)
		})), one, replica(0)),
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
	check(t, map[string]Input{
		"a new set":                                 on(web(), left("data-web-0"), replica(0)),
		"I7: the same again":                        on(web(ready(1)), left("data-web-0"), replica(0)),
		"a claim in use is marked":                  on(web(ready(1)), build.Claim("data-web-0", "64Mi"), replica(0)),
		"one that another set has used is, too":     on(web(ready(1)), build.Claim("data-web-0", "64Mi", build.Annotation(api.ReplicaOfAnnotation, "uid-2")), replica(0)),
		"two are":                                   on(web(build.Replicas(2), ready(1)), build.Claim("data-web-1", "64Mi"), build.Claim("data-web-0", "64Mi"), replica(0), replica(1)),
		"a replica came":                            on(web(build.Replicas(2), ready(1)), left("data-web-0"), left("data-web-1"), replica(0), replica(1)),
		"a replica is missing":                      on(web(build.Replicas(2), ready(2)), left("data-web-0"), replica(0)),
		"a claim that nobody is known to have used": on(web(ready(1)), unknown, replica(0)),
		"I7: it was told":                           on(web(ready(1, told)), unknown, replica(0)),
		"it is gone":                                on(web(ready(1, told)), replica(0)),
		"somebody knows better":                     on(web(ready(1, told)), build.With(build.Claim("data-web-2", "64Mi"), mark), replica(0)),
		"another template":                          on(web(ready(1, digest("older"), func(s *api.Cleanup) { s.Attempt = 3 })), replica(0)),
		"at zero":                                   on(web(build.Replicas(0), ready(0))),
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
