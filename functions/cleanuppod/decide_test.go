package cleanuppod

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/operation"
	"drydock.dev/test/kit/build"
)

func denied(in Input) Input {
	return in.with(func(in *Input) { in.PodRejected = "violates PodSecurity" })
}

func doubted(in Input) Input {
	return in.with(func(in *Input) { in.Doubt = "exceeded quota" })
}

func retried(in Input) Input { return in.with(func(in *Input) { in.Retry = true }) }

// refusedOnce stores the record of a refused template on the set.
func refusedOnce(options ...func(*api.Cleanup)) build.Option {
	return withCleanup(api.Refused, append([]func(*api.Cleanup){func(s *api.Cleanup) {
		s.Reason, s.Message = api.TemplateInvalid,
			"it was wrong"
	}}, options...)...)
}

func TestWhetherSetIsCleanedUp(t *testing.T) {
	resizing := build.Status(build.Operation(api.Moving))
	reverting := build.Status(build.Operation(api.Reverting))
	asleep := build.WithSleep(build.Sleep(api.Asleep))
	scaling := build.Annotation(api.ScaleAnnotation, (&api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale,
		Operation: build.ID,
		Phase:     api.PostScaling, Set: api.SetRef{Name: "web", UID: "uid-web"}}}).Encode())
	scaledDown := usedClaim("data-web-1")
	check(t, map[string]Input{
		"there is no set":                                         on(),
		"there is no set, and a cleanup pod runs":                 on(cleanupPod(1)),
		"there is no set, and the cleanup pod is terminating":     on(cleanupPod(1, build.Deleting())),
		"there is no set, and the cleanup pod has succeeded":      on(cleanupPod(1, build.Deleting(), build.Finalizers(), succeeded)),
		"there is no set, and another pod has the replica's name": on(build.Pod("web-1", nil)),
		"the record is unreadable": on(web(build.Annotation(api.CleanupAnnotation, "{")), scaledDown,
			cleanupPod(1)),
		"it is not opted in":                            on(web(optOut, settledRecord(1)), scaledDown),
		"the set is no longer opted in":                 on(web(optOut, cleaning()), scaledDown),
		"the set is no longer opted in, and a pod runs": on(web(optOut, cleaning()), scaledDown, cleanupPod(1)),
		"it has no template":                            on(web(build.Annotation(api.CleanupTemplateAnnotation, "")), scaledDown),
		"the set has no volumeClaimTemplate": on(
			build.Set("web", build.Annotation(api.CleanupTemplateAnnotation, template))),
		"a resize runs":              on(web(resizing, settledRecord(1)), scaledDown),
		"a resize and a cleanup run": on(web(resizing, cleaning()), scaledDown, cleanupPod(1)),
		"a resize is being reverted": on(web(reverting, settledRecord(1)), scaledDown),
		"the record of the resize is unreadable": on(web(build.Annotation(api.StatusAnnotation, "{"), settledRecord(1)),
			scaledDown),
		"a Scaler scales it":   on(web(scaling, settledRecord(1)), scaledDown),
		"there is no ledger":   on(web(build.Annotation(api.LedgerAnnotation, ""), settledRecord(1)), scaledDown),
		"nothing is ordered":   on(web(ledger(nil), settledRecord(1)), scaledDown),
		"another is ordered":   on(web(ledger(&api.Removal{Span: api.Span{Start: 2, End: 3}, Order: 1}), settledRecord(1)), scaledDown),
		"this one is ordered":  on(web(ledger(&api.Removal{Span: api.Span{Start: 1, End: 2}, Order: 1}), settledRecord(1)), scaledDown),
		"a former set ordered": on(web(build.UID("uid-new"), settledRecord(1)), scaledDown),
		"it sleeps":            on(web(asleep, build.Replicas(0), settledRecord(1)), usedClaim("data-web-0")),
		"the record of the sleep is unreadable": on(
			web(build.Annotation(api.SleepAnnotation, "{"), build.Replicas(0), settledRecord(1)), usedClaim("data-web-0")),
		"it has slept":                         on(web(build.WithSleep(build.Sleep(api.Succeeded)), settledRecord(1)), scaledDown),
		"an abort without a cleanup":           on(web(abort, settledRecord(1)), usedClaim("data-web-0"), replica(0)),
		"an abort removes the pods":            on(web(abort, cleaning()), scaledDown, cleanupPod(1)),
		"an abort waits for a terminating pod": on(web(abort, cleaning()), scaledDown, cleanupPod(1, build.Deleting(), build.Finalizers())),
		"an abort without a pod":               on(web(abort, cleaning(entry(1, api.CleanupTried, tries(1), next(time.Second)))), scaledDown),
		"an abort after the pod succeeded":     on(web(abort, cleaning()), scaledDown, cleanupPod(1, succeeded)),
	})
}

// Invariants: I3, I4.
func TestStrayPodsAreRemoved(t *testing.T) {
	other := withLink(func(l *api.Link) { l.Operation = "other" })
	another := withLink(func(l *api.Link) { l.Set.UID = "uid-2" })
	c := cleaning()
	check(t, map[string]Input{
		"the pod belongs to another operation":            on(web(c), usedClaim("data-web-1"), cleanupPod(1, other)),
		"the pod of another operation succeeded":          on(web(c), usedClaim("data-web-1"), cleanupPod(1, other, succeeded)),
		"the pod belongs to another set of the same name": on(web(c), usedClaim("data-web-1"), cleanupPod(1, another, succeeded)),
		"the pod of another set is terminating":           on(web(c), usedClaim("data-web-1"), cleanupPod(1, another, build.Deleting())),
		"a stray pod is about to disappear: other ordinals do not wait": on(web(c), usedClaim("data-web-2"),
			cleanupPod(1, another, succeeded, build.Deleting(), build.Finalizers())),
		"the record was lost":                    on(web(), usedClaim("data-web-1"), cleanupPod(1, succeeded)),
		"the record says that the cleanup ended": on(web(settledRecord(1)), usedClaim("data-web-1"), cleanupPod(1)),
		"of a set that is being deleted":         on(deletedWeb(c), usedClaim("data-web-1"), cleanupPod(1, other)),
		"a forged link names another namespace": on(web(c), usedClaim("data-web-1"),
			cleanupPod(1, succeeded, withLink(func(l *api.Link) { l.Namespace = "payroll" }))),
		"the pod does not have a replica's name": on(
			web(settledRecord(1)), build.With(cleanupPod(1), build.Edit(func(p *corev1.Pod) { p.Name = "x" }))),
	})
}

func TestFinalizerFollowsAnnotations(t *testing.T) {
	label := build.Label(api.FinalizerLabel, api.FinalizerForCleanup)
	check(t, map[string]Input{
		"the finalizer is requested":                    on(web(onDelete, settledRecord(1))),
		"the finalizer is requested beside another one": on(web(onDelete, build.Finalizers("first"), settledRecord(1))),
		"the finalizer is present":                      on(web(onDelete, held, label, settledRecord(1)), replica(0)),
		"the finalizer is no longer requested":          on(web(held, label, settledRecord(1))),
		"an operator makes the set: no finalizer":       on(web(onDelete, build.ControlledBy("Database", "main"), settledRecord(1))),
		"an operator has adopted the set":               on(web(onDelete, held, label, build.ControlledBy("Database", "main"), settledRecord(1))),
		"the opt-in label is lost":                      on(web(onDelete, held, label, optOut, settledRecord(1))),
		"a deletion would delete the claims": on(web(onDelete, held, label, build.Edit(func(s *appsv1.StatefulSet) {
			s.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Delete"}
		}), settledRecord(1))),
		"the finalizer is requested while restore replaces the set": on(
			web(onDelete, build.Status(build.Operation(api.Moving, build.ReplacesSet)), settledRecord(1))),
		"the finalizer is requested while members are moved": on(
			web(onDelete, build.Status(build.Operation(api.Moving)), settledRecord(1))),
		"the finalizer is requested during a cleanup":               on(web(onDelete, cleaning()), usedClaim("data-web-1"), cleanupPod(1)),
		"the finalizer is requested during the deletion of the set": on(web(onDelete, build.Deleting(), settledRecord(1))),
		"the finalizer is requested while the set sleeps": on(
			web(onDelete, build.WithSleep(build.Sleep(api.Asleep)), build.Replicas(0))),
		"the finalizer is requested with an invalid template": on(web(onDelete, build.Annotation(api.CleanupTemplateAnnotation, "{}"))),
	})
}

func TestRefusedTemplates(t *testing.T) {
	wrong := build.Annotation(api.CleanupTemplateAnnotation, "{}")
	check(t, map[string]Input{
		"the template is invalid":                 on(web(wrong)),
		"the invalid template was refused before": on(web(wrong, refusedOnce()), usedClaim("data-web-1")),
		"another template was refused before":     on(web(wrong, refusedOnce(digest("older")))),
		"the previous template was valid": on(
			web(wrong, settledRecord(3, digest("older"), func(s *api.Cleanup) { s.Attempt = 4 }))),
		"a cleanup with another template failed before":                  on(web(wrong, failedCleanup(digest("older")))),
		"a cleanup with this template failed before":                     on(web(wrong, failedCleanup())),
		"the retry annotation is set":                                    on(web(wrong, retry, refusedOnce())),
		"a retry event arrives":                                          retried(on(web(wrong, refusedOnce()))),
		"the API server would refuse the pod":                            denied(on(web(), usedClaim("data-web-1"))),
		"the API server refused the pod before":                          on(web(refusedOnce()), usedClaim("data-web-1")),
		"a refused template is valid after a retry":                      retried(on(web(refusedOnce()), usedClaim("data-web-0"), replica(0))),
		"a refused template is valid after a retry, and a claim is left": retried(on(web(refusedOnce()), usedClaim("data-web-1"))),
		"the new template is valid": on(web(refusedOnce(digest("older"))), usedClaim("data-web-0"),
			replica(0)),
		"a scale-down deletes the claims":                          on(web(build.WhenScaled("Delete"))),
		"the pod would be refused at present":                      doubted(on(web(), replica(0))),
		"the pod would be refused at present, and a claim is left": doubted(on(web(), usedClaim("data-web-1"))),
	})
}

// TestLongRejectionsAreClipped: an admission webhook may answer with a text of any length, and all annotations of an object share 256 KiB.
func TestLongRejectionsAreClipped(t *testing.T) {
	refused := on(web()).with(func(in *Input) { in.PodRejected = longText })
	tried := on(web(cleaning()), usedClaim("data-web-1")).with(func(in *Input) { in.Rejected = longText })
	for _, in := range []Input{refused, tried} {
		if record := build.StoredCleanup(Decide(in)); record == nil || len(record.Encode()) > 4<<10 {
			t.Errorf("%.1000s", Decide(in))
		}
	}
}

func TestRetry(t *testing.T) {
	f := failedCleanup(entry(1, api.CleanupFailed, givenUp, tries(3)))
	one := usedClaim("data-web-1")
	check(t, map[string]Input{
		"a failed cleanup is not repeated":                   on(web(f), one, replica(0)),
		"the retry annotation is set":                        on(web(retry, f), one),
		"a retry event arrives":                              retried(on(web(f), one)),
		"another is ordered since":                           on(web(failedCleanup(ofOrder(7))), one),
		"the template has changed since":                     on(web(failedCleanup(digest("older"))), one),
		"the claim is gone":                                  on(web(f), replica(0)),
		"the claim is gone, and the retry annotation is set": on(web(retry, f), replica(0)),
		"the retry annotation is set without a failure":      on(web(retry, settledRecord(1)), usedClaim("data-web-0"), replica(0)),
		"a retry event arrives without a failure":            retried(on(web(settledRecord(1)), usedClaim("data-web-0"), replica(0))),
		"a retry during a cleanup":                           retried(on(web(retry, cleaning()), one, cleanupPod(1))),
		"a new ordinal is left behind": on(web(failedCleanup(entry(1, api.CleanupFailed, givenUp, tries(3)))), one, usedClaim("data-web-2"),
			replica(0)),
		"an aborted cleanup": on(web(withCleanup(api.Failed, func(s *api.Cleanup) {
			s.Reason, s.FailedAt, s.Finished = api.Aborted, api.Cleaning, operation.Moment(build.Now)
		})), one, replica(0)),
	})
}

// Invariants: I7.
func TestRecordWithoutCleanup(t *testing.T) {
	unknown := build.Claim("data-web-2", "64Mi")
	mark := build.Annotation(api.ReplicaOfAnnotation, "uid-web")
	told := func(s *api.Cleanup) {
		in := on(web(), unknown)
		s.Ordinals = in.accounts().reports(in.ordinals())
	}
	many := on(web(settledRecord(1)), replica(0))
	for n := range 100 {
		many.Claims = append(many.Claims, build.Claim("data-web-"+string(rune('1'+n%9))+string(rune('0'+n/9%10)), "64Mi"))
	}
	check(t, map[string]Input{
		"a new set":                on(web(), usedClaim("data-web-0"), replica(0)),
		"nothing changed":          on(web(settledRecord(1)), usedClaim("data-web-0"), replica(0)),
		"a claim in use is marked": on(web(settledRecord(1)), build.Claim("data-web-0", "64Mi"), replica(0)),
		"a claim in use that another set had used is marked": on(
			web(settledRecord(1)), build.Claim("data-web-0", "64Mi", build.Annotation(api.ReplicaOfAnnotation, "uid-2")), replica(0)),
		"two claims in use are marked": on(web(build.Replicas(2), settledRecord(1)), build.Claim("data-web-1", "64Mi"),
			build.Claim("data-web-0", "64Mi"), replica(0), replica(1)),
		"the set was scaled up": on(web(build.Replicas(2), settledRecord(1)), usedClaim("data-web-0"), usedClaim("data-web-1"),
			replica(0), replica(1)),
		"a replica is missing":                        on(web(build.Replicas(2), settledRecord(2)), usedClaim("data-web-0"), replica(0)),
		"a claim without a known user":                on(web(settledRecord(1)), unknown, replica(0)),
		"the claim without a known user was reported": on(web(settledRecord(1, told)), unknown, replica(0)),
		"the reported claim is gone":                  on(web(settledRecord(1, told)), replica(0)),
		"the user marks the claim as used": on(web(settledRecord(1, told)), build.With(build.Claim("data-web-2", "64Mi"), mark),
			replica(0)),
		"another template": on(web(settledRecord(1, digest("older"), func(s *api.Cleanup) { s.Attempt = 3 })), replica(0)),
		"at zero":          on(web(build.Replicas(0), settledRecord(0))),
	})
	t.Run("only so many are told", func(t *testing.T) {
		if record := build.StoredCleanup(Decide(many)); len(record.Ordinals) != maxReports || len(record.Encode()) > 20<<10 {
			t.Errorf("%d ordinals in %d bytes", len(record.Ordinals), len(record.Encode()))
		}
	})
}

func TestTally(t *testing.T) {
	for name, row := range map[string]struct {
		in               Input
		pending, running int
	}{
		"no set":                     {on(), 0, 0},
		"nothing":                    {on(web(settledRecord(1))), 0, 0},
		"two are left":               {on(web(settledRecord(1)), usedClaim("data-web-1"), usedClaim("data-web-2")), 2, 0},
		"one of two has a pod":       {on(web(cleaning()), usedClaim("data-web-1"), usedClaim("data-web-2"), cleanupPod(2)), 1, 1},
		"a stray pod does not count": {on(web(settledRecord(1)), usedClaim("data-web-1"), cleanupPod(1)), 1, 0},
		"it sleeps":                  {on(web(build.WithSleep(build.Sleep(api.Asleep)), settledRecord(1)), usedClaim("data-web-1")), 0, 0},
		"it is not opted in":         {on(web(optOut), usedClaim("data-web-1")), 0, 0},
		"unreadable":                 {on(web(build.Annotation(api.CleanupAnnotation, "{")), usedClaim("data-web-1")), 0, 0},
		"no template":                {on(build.Set("web", build.Template("data", "1Mi", "fixed")), usedClaim("data-web-1")), 0, 0},
		"it has failed":              {on(web(failedCleanup()), usedClaim("data-web-1")), 1, 0},
	} {
		if pending, running := row.in.Tally(); pending != row.pending || running != row.running {
			t.Errorf("%s: %d wait, %d run", name, pending, running)
		}
	}
}

// TestMayStart: a trace starts only with a cleanup, and the API server is asked only about a new template.
func TestMayStart(t *testing.T) {
	for name, row := range map[string]struct {
		in           Input
		begins, asks bool
	}{
		"no set":                                  {on(), false, false},
		"no template":                             {on(build.Set("web")), false, false},
		"not opted in":                            {on(web(optOut), usedClaim("data-web-1")), false, false},
		"a new template":                          {on(web()), false, true},
		"a new template, and a claim is left":     {on(web(), usedClaim("data-web-1")), true, true},
		"a known template":                        {on(web(settledRecord(1))), false, false},
		"a known template, and a claim is left":   {on(web(settledRecord(1)), usedClaim("data-web-1")), true, false},
		"it runs":                                 {on(web(cleaning()), usedClaim("data-web-1")), false, false},
		"the template changed during the cleanup": {on(web(cleaning(digest("older"))), usedClaim("data-web-1")), false, true},
		"it failed":                               {on(web(failedCleanup()), usedClaim("data-web-1")), false, false},
		"refused":                                 {on(web(refusedOnce())), false, false},
		"refused, and a retry":                    {retried(on(web(refusedOnce()))), false, true},
		"unreadable":                              {on(web(build.Annotation(api.CleanupAnnotation, "{")), usedClaim("data-web-1")), false, false},
		"the set is being deleted":                {on(deletedWeb(), usedClaim("data-web-1")), true, false},
	} {
		template := (*corev1.PodTemplateSpec)(nil)
		if row.in.Set != nil {
			template, _ = row.in.round().newTemplate()
		}
		if begins, asks := row.in.mayStart(), template != nil; begins != row.begins || asks != row.asks {
			t.Errorf("%s: begins %t, asks %t", name, begins, asks)
		}
	}
}

// revision returns the input with the ControllerRevision of the set's pods.
func revision(in Input, options ...build.Option) Input {
	return in.with(func(in *Input) {
		in.Revision = build.With(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: build.Namespace, Name: "web-1"}}, options...)
	})
}

// Invariants: I9.
func TestDeletionOfSet(t *testing.T) {
	owned := build.ControlledBy("StatefulSet", "web")
	zero, one := usedClaim("data-web-0"), usedClaim("data-web-1")
	c := cleaning()
	check(t, map[string]Input{
		"without our finalizer": on(web(build.Deleting(), settledRecord(1)), zero),
		"without our finalizer, a cleanup pod runs: it is removed": on(web(build.Deleting(), c), one, cleanupPod(1)),
		"without our finalizer, a cleanup runs without a pod":      on(web(build.Deleting(), c), one),
		"background deletion: the cleanup starts":                  revision(on(deletedWeb(settledRecord(1)), zero, replica(0)), owned),
		"background deletion without a record: the cleanup starts": on(deletedWeb(), zero, replica(0)),
		"foreground deletion: the cleanup starts":                  on(deletedWeb(settledRecord(1)), zero),
		"the replica is deleted":                                   revision(on(deletedWeb(c), zero, replica(0)), owned),
		"the replica is terminating":                               on(deletedWeb(c), zero, replica(0, build.Deleting())),
		"the replica's claim is not marked yet":                    on(deletedWeb(c), build.Claim("data-web-0", "64Mi"), replica(0)),
		"the pod is made":                                          on(deletedWeb(c), zero),
		"the pod runs":                                             on(deletedWeb(c), zero, cleanupPod(0)),
		"the pod succeeded":                                        on(deletedWeb(c), zero, cleanupPod(0, succeeded)),
		"the highest ordinal is cleaned up first": on(deletedWeb(build.Replicas(3), c), zero, one, usedClaim("data-web-2"), replica(0),
			replica(1)),
		"a parallel set stops all replicas": on(deletedWeb(build.Replicas(3), parallel, c), zero, one, replica(0),
			cleanupPod(1)),
		"all ordinals are cleaned up":                                     on(deletedWeb(c)),
		"nothing is left to clean up":                                     on(deletedWeb(settledRecord(1))),
		"a claim without a known user is reported":                        on(deletedWeb(settledRecord(1)), build.Claim("data-web-0", "64Mi")),
		"a cleanup failed before the deletion: it starts again":           on(deletedWeb(failedCleanup()), zero),
		"a cleanup failed in the second of the deletion: it starts again": on(deletedWeb(failedCleanup(finished(0))), zero),
		"the cleanup failed: the set is kept": on(deletedWeb(endedSince(time.Hour), failedCleanup(entry(0, api.CleanupFailed, givenUp))),
			zero),
		"the cleanup failed, and the retry annotation is set": on(
			deletedWeb(endedSince(time.Hour), retry, failedCleanup(entry(0, api.CleanupFailed, givenUp))), zero),
		"the cleanup failed, and the claim is gone": on(deletedWeb(endedSince(time.Hour), failedCleanup(entry(0, api.CleanupFailed, givenUp)))),
		"the cleanup fails":                         on(deletedWeb(cleaning(entry(0, api.CleanupFailed, givenUp, tries(3)))), zero),
		"an abort releases the set":                 on(deletedWeb(abort, settledRecord(1)), zero),
		"an abort removes the pods first":           on(deletedWeb(abort, c), zero, cleanupPod(0)),
		"an abort waits for the terminating pod":    on(deletedWeb(abort, c), zero, cleanupPod(0, build.Deleting(), build.Finalizers())),
		"an abort during the cleanup":               on(deletedWeb(abort, c), zero),
		"orphan propagation before the garbage collector acted": on(
			deletedWeb(build.Finalizers("orphan", api.CleanupFinalizer), settledRecord(1)), zero, replica(0)),
		"orphan propagation: the revision has no owner": revision(on(deletedWeb(settledRecord(1)), zero, replica(0))),
		"orphan propagation: another set adopted the revision": revision(on(deletedWeb(settledRecord(1)), zero, replica(0)),
			build.ControlledBy("StatefulSet", "other")),
		"the namespace is being deleted": rejected(on(deletedWeb(c), zero)).with(func(in *Input) { in.NamespaceEnds = true }),
		"a pod is rejected":              rejected(on(deletedWeb(c), zero)),
		"a resize was in progress":       on(deletedWeb(build.Status(build.Operation(api.Moving)), settledRecord(1)), zero),
		"the set was asleep":             on(deletedWeb(build.WithSleep(build.Sleep(api.Asleep)), build.Replicas(0), settledRecord(1)), zero),
		"the set no longer requests a cleanup on deletion": on(
			deletedWeb(build.Annotation(api.CleanupOnDeleteAnnotation, ""), settledRecord(1)), zero),
		"an operator makes the set, and may create it again": on(deletedWeb(build.ControlledBy("Database", "main"), settledRecord(1)), zero),
		"an operator has adopted the set during the cleanup": on(deletedWeb(build.ControlledBy("Database", "main"), c), zero),
		"the set is no longer opted in":                      on(deletedWeb(optOut, settledRecord(1)), zero),
		"the template was removed": on(deletedWeb(build.Annotation(api.CleanupTemplateAnnotation, ""), settledRecord(1)),
			zero),
		"the template is invalid": on(deletedWeb(build.Annotation(api.CleanupTemplateAnnotation, "{}"), settledRecord(1)),
			zero),
		"the template was refused":                     on(deletedWeb(refusedOnce()), zero),
		"a claim of an ordinal is missing":             on(deletedWeb(build.Template("logs", "1Mi", "fixed"), c), zero),
		"our finalizer is the only one":                on(deletedWeb(build.Finalizers(api.CleanupFinalizer), c)),
		"the record is unreadable: nothing is changed": on(deletedWeb(build.Annotation(api.CleanupAnnotation, "{")), zero, cleanupPod(0)),
		"a replica without claims":                     on(deletedWeb(settledRecord(1)), replica(0)),
		"another pod has the replica's name":           on(deletedWeb(c), zero, build.Pod("web-0", nil)),
	})
}

// TestCleanupPodOfDeletedSetHasNoOwner: foreground deletion would delete a pod that the set owns.
func TestCleanupPodOfDeletedSetHasNoOwner(t *testing.T) {
	for name, row := range map[string]struct {
		set  *appsv1.StatefulSet
		want int
	}{
		"a set without our finalizer":      {web(cleaning()), 1},
		"a set with our finalizer":         {web(onDelete, held, build.Label(api.FinalizerLabel, api.FinalizerForCleanup), cleaning()), 0},
		"a deleted set with our finalizer": {deletedWeb(cleaning()), 0},
	} {
		p := Decide(on(row.set, usedClaim("data-web-1")))
		var pods []*corev1.Pod
		for _, a := range p.Actions {
			if pod, ok := a.Object.(*corev1.Pod); ok {
				pods = append(pods, pod)
			}
		}
		if len(pods) != 1 || len(pods[0].OwnerReferences) != row.want {
			t.Errorf("%s: want a pod with %d owners: %s, %+v", name, row.want, p, pods)
		}
	}
}

// TestDeletedSetWithoutClaimsIsFound: the cleanup of a deleted set has failed, so the set waits for its user. Then its claims are deleted,
// for example with their namespace. No event names the set, and the namespace cannot go before it.
func TestDeletedSetWithoutClaimsIsFound(t *testing.T) {
	in := on(deletedWeb(endedSince(time.Hour), failedCleanup(entry(0, api.CleanupFailed, givenUp))))
	if p := Decide(in); p.Reason != api.FinalizerRemoved {
		t.Fatalf("%s, want that the set is released", p)
	}
	woken := 0
	for minute := range 60 {
		now := build.Now.Add(time.Duration(minute) * time.Minute)
		woken += len(cleanup.Concerned(operation.Change{Set: in.Set, Records: operation.Of(in.Set), Now: now, Swept: true,
			PreviousSweep: now.Add(-time.Minute)}))
	}
	if woken != 4 {
		t.Errorf("the sweeps of an hour wake cleanup-pod %d times, want 4", woken)
	}
}
