package restore

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// undoingSince is a journal whose undoing has waited for the time.
func undoingSince(ago time.Duration) objects {
	return objects{build.With(journalOf(web0)[0], build.Annotation(api.UndoingSinceAnnotation, build.Now.Add(-ago).Format(time.RFC3339)))}
}

// TestOperationOfLostSetIsUndone: if only the journal still knows the operation, the operation is undone.
// Invariants: I1.
func TestOperationOfLostSetIsUndone(t *testing.T) {
	another := objects{build.Set("web", build.Template("data", "64Mi", "fixed"), build.UID("uid-2"))}
	reserved := copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	back := oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")))
	ends := build.Edit(func(s *appsv1.StatefulSet) { build.Deleting()(s) })
	stuck := append(frozenClaim(web0, "example.com/keep"), copyVolume(web0)...)
	ofOther := func(options ...build.Option) objects {
		return objects{build.Journal(build.Operation(api.Moving, build.Members(api.MemberPending, web1),
			func(r *api.Resize) { r.Operation = "ba9876543210" }), options...)}
	}
	unreadable := build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") })
	late := func(in *Input) { in.Waited = time.Minute }
	check(t,
		testCase{"the set is gone, a mover is there: it goes",
			situation(journalOf(web0), source(web0), target(web0), objects{build.Job(0, 1)})},
		testCase{"the set is gone, the pod is held: it is released", situation(journalOf(web0), heldPodOf(0), source(web0), target(web0))},
		testCase{"the set is gone, a lock is there: it goes", situation(journalOf(web0), lock(0), source(web0), target(web0))},
		testCase{"the set is gone, the claim is on its way to the copy, and its pod was held all the time",
			situation(journalOf(web0), heldPodOf(0), frozenClaim(web0, protection), reserved)},
		testCase{"the set is gone, the claim is on its way to the copy, and its pod is gone",
			situation(journalOf(web0), frozenClaim(web0, protection), reserved)},
		testCase{"the set is gone, the claim's name was given to the copy", situation(journalOf(web0), oldVolume(web0), reserved)},
		testCase{"the set is gone, the claim's name was given to the old volume", situation(journalOf(web0), back, copyVolume(web0))},
		testCase{"the set is gone, and its claims with it: their volumes are kept",
			situation(journalOf(web0), oldVolume(web0), copyVolume(web0))},
		testCase{"the set is gone, the claim is on the copy", situation(journalOf(web0), swappedClaim(web0))},
		testCase{"another set with the name: the same", situation(another, journalOf(web0), heldPodOf(0), source(web0), target(web0))},
		testCase{"another set with the name has created the claim first, and it fits",
			situation(another, journalOf(web0), oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.BoundTo(""))})},
		testCase{"another set with the name has created the claim first, too large for the volume",
			situation(another, journalOf(web0), oldVolume(web0), reserved, objects{build.Claim(web0, "256Mi", build.BoundTo(""))})},
		testCase{"the set has lost its record: the pod is released",
			situation(objects{build.Set("web", build.Template("data", "128Mi", "fixed"))}, journalOf(web0), heldPodOf(0), source(web0),
				target(web0))},
		testCase{"the set is being deleted by another process: the pod is released",
			situation(setWith(movingOne(api.MemberFinalPass), ends), journalOf(web0), heldPodOf(0), source(web0), target(web0))},
		testCase{"the journal is removed last, with an announcement", situation(journalOf(web0), untouchedClaim(web0))},
		testCase{"only the journal of an ended operation is left: it is removed without a message",
			situation(setWith(build.Operation(api.Succeeded)), journalOf(web0), untouchedClaim(web0))},
		testCase{"a claim stays Terminating: restore waits", situation(journalOf(web0), stuck)},
		testCase{"a claim stays Terminating for long: the start of the wait is stored", with(situation(journalOf(web0), stuck), late)},
		testCase{"a claim stays Terminating before the deadline", with(situation(undoingSince(time.Minute), stuck), late)},
		testCase{"a claim stays Terminating past the deadline: the user gets a warning",
			with(situation(undoingSince(time.Hour), stuck), late)},
		testCase{"two operations are lost, and the first waits for a claim: the second is undone",
			situation(ofOther(), frozenClaim(web1, "example.com/keep"), copyVolume(web1), journalOf(web0), heldPodOf(0), source(web0),
				target(web0))},
		testCase{"two operations are lost, and both wait", with(situation(ofOther(), stuck, journalOf(web0), frozenClaim(web1,
			"example.com/keep"), copyVolume(web1)), late)},
		testCase{"the first journal cannot be read: the second operation is undone",
			situation(ofOther(unreadable), journalOf(web0), heldPodOf(0), source(web0), target(web0))},
		testCase{"the journal cannot be read", situation(objects{build.With(journalOf(web0)[0],
			build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") }))}, source(web0))},
	)
}

// TestSetIsRecreatedFromJournal: the set is created again around its running pods, from the manifest in the journal.
func TestSetIsRecreatedFromJournal(t *testing.T) {
	record := movingOne(api.MemberWaiting, build.ReplacesSet)
	all := append(append(source(web0), target(web0)...), pod(0)...)
	at := setWithOldTemplate(record)
	order := orderInJournal(at, record)
	fresh := movingOne(api.MemberWaiting, build.ReplacesSet, func(r *api.Resize) { r.Set.UID, r.Former = "", "uid-web" })
	late := movingOne(api.MemberWaiting, build.ReplacesSet, build.Due(-time.Second))
	edited := setWithOldTemplate(record, build.Annotation("team", "new"))
	lateOrder := orderInJournal(setWithOldTemplate(late), late)
	check(t,
		testCase{"01 the order to create the set is stored", situation(at, journalOf(web0), all)},
		testCase{"02 after a dry run, the set is deleted without its pods and created", situation(at, order, all)},
		testCase{"03 the set was edited: the order is made again", situation(edited, order, all)},
		testCase{"04 the set was scaled: the order is made again",
			situation(objects{build.With(at[0].(*appsv1.StatefulSet).DeepCopy(), build.Replicas(2))}, order, all)},
		testCase{"05 the set is being deleted",
			situation(objects{build.With(at[0].(*appsv1.StatefulSet).DeepCopy(), build.Deleting())}, order, all)},
		testCase{"05a the set was scaled after its deletion: the order follows",
			situation(objects{build.With(at[0].(*appsv1.StatefulSet).DeepCopy(), build.Deleting(), build.Replicas(2))}, order, all)},
		testCase{"06 a finalizer keeps the terminating set past the deadline: the user gets a warning",
			with(situation(objects{build.With(setWithOldTemplate(late)[0].(*appsv1.StatefulSet), build.Deleting(),
				build.Finalizers("example.com/keep"))},
				lateOrder, all), longWait)},
		testCase{"07 the set is gone: it is created", situation(order, all)},
		testCase{"08 the set is gone and cannot be created: the user gets a warning",
			with(situation(order, all), func(in *Input) { in.Rejected = "no" })},
		testCase{"09 the set is gone and the API server fails: the event is delivered again",
			with(situation(order, all), func(in *Input) { in.WriteFailed = "webhook does not answer" })},
		testCase{"10 the set is gone and the API server fails past the deadline: the user gets a warning",
			with(situation(lateOrder, all), func(in *Input) { in.WriteFailed = "webhook does not answer" })},
		testCase{"11 the set was created: its UID is stored, and the order is withdrawn",
			situation(setWith(fresh, build.UID("uid-2")), order, all)},
		testCase{"12 another process has created the set with the new templates: the operation is undone", situation(
			objects{build.Set("web", build.UID("uid-2"), build.Template("data", "128Mi", "fixed"))}, order, all)},
		testCase{"13 the set has its new templates: the order is withdrawn", situation(setWith(record), order, all)},
		testCase{"14 the gate closes: the order is withdrawn, because a set that a user deletes would be created again",
			situation(setWithOldTemplate(record, build.Annotation(api.CutoverAnnotation, "approve")), order, all)},
		testCase{"15 another controller's finalizer was added: the order is withdrawn",
			situation(setWithOldTemplate(record, build.Finalizers("example.com/keep")), order, all)},
	)
}

// TestTerminatingNamespaceIsNotBlocked: the namespace waits for held pods, and these wait for objects that can no longer be created in
// it.
func TestTerminatingNamespaceIsNotBlocked(t *testing.T) {
	leaves := func(groups ...objects) Input {
		return with(situation(groups...), func(in *Input) { in.NamespaceTerminating = true })
	}
	swapping := onlyMember(api.MemberSwapping)
	check(t,
		testCase{"a member waits for a claim that cannot be created", leaves(swapping, heldPodOf(0), oldVolume(web0),
			copyVolume(web0, build.Reserved(manifest(web0, new0, "128Mi"))))},
		testCase{"a claim with Drydock's finalizer is being deleted", leaves(swapping, heldPodOf(0), frozenClaim(web0), copyVolume(web0))},
		testCase{"a lock", leaves(swapping, lock(0), frozenClaim(web0), copyVolume(web0))},
		testCase{"nothing is left", leaves(swapping, oldVolume(web0), copyVolume(web0))},
	)
}

// TestLinksThatAreLeft: a slow process has linked a claim after the operation has ended.
func TestLinksThatAreLeft(t *testing.T) {
	ended := setWith(build.Operation(api.Failed))
	check(t,
		testCase{"its link is removed", situation(ended, source(web0))},
		testCase{"the operation has a journal, which is undone first", situation(ended, source(web0), journalOf(web0))},
		testCase{"the operation is active, and its owner is about to be paused", situation(setWith(build.Operation(api.Planned)), source(web0))},
		testCase{"the claim is being deleted: it stays as it is", situation(ended, frozenClaim(web0), oldVolume(web0))},
		testCase{"a temporary claim: only the volume says what it holds", situation(ended, target(web0))},
	)
}
