package restore

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// undoing is a journal whose undoing has waited since so long.
func undoing(ago time.Duration) objects {
	return objects{build.With(journal(web0)[0], build.Annotation(api.UndoingSinceAnnotation, build.Now.Add(-ago).Format(time.RFC3339)))}
}

// TestSetThatIsGoneOrAnother: only the journal tells of the operation, which is undone.
func TestSetThatIsGoneOrAnother(t *testing.T) {
	another := objects{build.Set("web", build.Template("data", "64Mi", "fixed"), build.UID("uid-2"))}
	reserved := copied(web0, build.Reserved(manifest(web0, new0, "128Mi")))
	back := oldVolume(web0, build.Reserved(manifest(web0, old0, "64Mi")))
	ends := build.Edit(func(s *appsv1.StatefulSet) { build.Deleting()(s) })
	stuck := append(doomed(web0, "example.com/keep"), copied(web0)...)
	late := func(in *Input) { in.Waited = time.Minute }
	check(t,
		row{"the set is gone, a mover is there: it goes", given(journal(web0), source(web0), target(web0), objects{build.Job(0, 1)})},
		row{"the set is gone, the pod is held: it is released", given(journal(web0), held(0), source(web0), target(web0))},
		row{"the set is gone, a lock is there: it goes", given(journal(web0), lock(0), source(web0), target(web0))},
		row{"the set is gone, the claim is on its way to the copy, and its pod was held all the time",
			given(journal(web0), held(0), doomed(web0, protection), reserved)},
		row{"the set is gone, the claim is on its way to the copy, and its pod is gone",
			given(journal(web0), doomed(web0, protection), reserved)},
		row{"the set is gone, the claim's name was given to the copy", given(journal(web0), oldVolume(web0), reserved)},
		row{"the set is gone, the claim's name was given to the old volume", given(journal(web0), back, copied(web0))},
		row{"the set is gone, and its claims with it: their volumes are kept", given(journal(web0), oldVolume(web0), copied(web0))},
		row{"the set is gone, the claim is on the copy", given(journal(web0), switched(web0))},
		row{"another set of the name: the same", given(another, journal(web0), held(0), source(web0), target(web0))},
		row{"another set of the name has made the claim first, and it fits",
			given(another, journal(web0), oldVolume(web0), reserved, objects{build.Claim(web0, "64Mi", build.On(""))})},
		row{"another set of the name has made the claim first, too large for the volume",
			given(another, journal(web0), oldVolume(web0), reserved, objects{build.Claim(web0, "256Mi", build.On(""))})},
		row{"the set has lost its record: the pod is released",
			given(objects{build.Set("web", build.Template("data", "128Mi", "fixed"))}, journal(web0), held(0), source(web0), target(web0))},
		row{"the set is being deleted by another process: the pod is released",
			given(set(moving0(api.MemberFinalPass), ends), journal(web0), held(0), source(web0), target(web0))},
		row{"the journal goes last, and it is told", given(journal(web0), bare(web0))},
		row{"only the journal of an operation that has ended is left: nothing is told",
			given(set(build.Operation(api.Succeeded)), journal(web0), bare(web0))},
		row{"a claim does not go: that is waited for", given(journal(web0), stuck)},
		row{"a claim does not go for long: that is written down", but(given(journal(web0), stuck), late)},
		row{"a claim does not go, and the time is not over", but(given(undoing(time.Minute), stuck), late)},
		row{"a claim does not go in time: people are told", but(given(undoing(time.Hour), stuck), late)},
		row{"the journal cannot be read", given(objects{build.With(journal(web0)[0],
			build.Edit(func(r *appsv1.ControllerRevision) { r.Data.Raw = []byte("{}") }))}, source(web0))},
	)
}

// TestSetIsCreatedAgain: around its running pods, as the journal says.
func TestSetIsCreatedAgain(t *testing.T) {
	record := moving0(api.MemberWaiting, build.ReplacesSet)
	all := append(append(source(web0), target(web0)...), pod(0)...)
	at := oldSet(record)
	order := orderFor(at, record)
	fresh := moving0(api.MemberWaiting, build.ReplacesSet, func(r *api.Resize) { r.Set.UID = "" })
	late := moving0(api.MemberWaiting, build.ReplacesSet, build.Due(-time.Second))
	edited := oldSet(record, build.Annotation("team", "new"))
	lateOrder := orderFor(oldSet(late), late)
	check(t,
		row{"01 what is to be created is written down", given(at, journal(web0), all)},
		row{"02 the API server is asked, then the set is deleted without its pods, and created", given(at, order, all)},
		row{"03 the set was edited meanwhile: the order is made anew", given(edited, order, all)},
		row{"04 the set was scaled meanwhile: the order is made anew",
			given(objects{build.With(at[0].(*appsv1.StatefulSet).DeepCopy(), build.Replicas(2))}, order, all)},
		row{"05 it is being deleted", given(objects{build.With(at[0].(*appsv1.StatefulSet).DeepCopy(), build.Deleting())}, order, all)},
		row{"05a it was scaled since it was deleted: the order follows",
			given(objects{build.With(at[0].(*appsv1.StatefulSet).DeepCopy(), build.Deleting(), build.Replicas(2))}, order, all)},
		row{"06 it is being deleted, and a finalizer keeps it beyond the deadline: people are told",
			but(given(objects{build.With(oldSet(late)[0].(*appsv1.StatefulSet), build.Deleting(), build.Finalizers("example.com/keep"))},
				lateOrder, all), waited)},
		row{"07 it is gone: it is created", given(order, all)},
		row{"08 it is gone, and cannot be created: people are told", but(given(order, all), func(in *Input) { in.Rejected = "no" })},
		row{"09 it is gone, and the API server fails: the event comes again",
			but(given(order, all), func(in *Input) { in.Failing = "webhook does not answer" })},
		row{"10 it is gone, and the API server fails since the end of the operation's time: people are told",
			but(given(lateOrder, all), func(in *Input) { in.Failing = "webhook does not answer" })},
		row{"11 it was created: it is taken over, and the order withdrawn", given(set(fresh, build.UID("uid-2")), order, all)},
		row{"12 another process has created it with its new templates: the operation is undone", given(
			objects{build.Set("web", build.UID("uid-2"), build.Template("data", "128Mi", "fixed"))}, order, all)},
		row{"13 it has its new templates: the order is withdrawn", given(set(record), order, all)},
		row{"14 the gate is shut meanwhile: the order is withdrawn, or a set that a user deletes would come back",
			given(oldSet(record, build.Annotation(api.CutoverAnnotation, "approve")), order, all)},
		row{"15 another controller's finalizer was added meanwhile: the order is withdrawn",
			given(oldSet(record, build.Finalizers("example.com/keep")), order, all)},
	)
}

// TestNamespaceThatIsDeletedIsNotKept: it waits for pods that are held, and nothing can be created in it that they wait for.
func TestNamespaceThatIsDeletedIsNotKept(t *testing.T) {
	leaves := func(groups ...objects) Input {
		return but(given(groups...), func(in *Input) { in.NamespaceLeaves = true })
	}
	swapping := alone(api.MemberSwapping)
	check(t,
		row{"a member waits for a claim that cannot be created", leaves(swapping, held(0), oldVolume(web0),
			copied(web0, build.Reserved(manifest(web0, new0, "128Mi"))))},
		row{"a claim is being deleted, and has our finalizer", leaves(swapping, held(0), doomed(web0), copied(web0))},
		row{"a lock", leaves(swapping, lock(0), doomed(web0), copied(web0))},
		row{"nothing is left", leaves(swapping, oldVolume(web0), copied(web0))},
	)
}
