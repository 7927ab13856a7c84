package sift

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

// setWithCleanup returns a set of two replicas with a cleanup pod template and its ledger. The cleanup record must be the last option.
func setWithCleanup(options ...build.Option) *appsv1.StatefulSet {
	set := build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", "64Mi", "fixed"),
		build.Annotation(api.CleanupTemplateAnnotation, `{"spec":{"containers":[{"name":"drain"}]}}`)}, options...)...)
	if members.Keeps(set) {
		build.Annotation(api.LedgerAnnotation, members.Next(set, members.Facts{}).Encode())(set)
	}
	return set
}

// countsBefore writes the ledger of web from before the latest change of its spec.
func countsBefore(count int) build.Option {
	return build.Annotation(api.LedgerAnnotation, (&api.Ledger{Set: api.SetRef{Name: "web", UID: "uid-web"}, Count: count, Complete: true,
		Generation: build.Set("web").Generation - 1}).Encode())
}

// TestFunctionsWokenByLedger: scale keeps the ledger, and cleanup-pod carries its orders out.
func TestFunctionsWokenByLedger(t *testing.T) {
	asks := build.Annotation(api.CleanupTemplateAnnotation, podTemplate)
	order := func(done int) []build.Option {
		ordered := &api.Ledger{Set: api.SetRef{Name: "web", UID: "uid-web"}, Count: 3, Complete: true, Generation: build.Set("web").Generation,
			Orders: 2, Removing: &api.Removal{Span: api.Span{Start: 1, End: 3}, Order: 2}}
		return opts(asks, build.Annotation(api.LedgerAnnotation, ordered.Encode()),
			withCleanupRecord(api.Succeeded, func(c *api.Cleanup) { c.Order = done }))
	}
	for name, row := range map[string]struct {
		options []build.Option
		want    string
	}{
		"no ledger":                      {opts(asks, withCleanupRecord(api.Succeeded)), "scale"},
		"no ledger, and no template":     {nil, ""},
		"a ledger without a template":    {opts(countsBefore(1)), "scale"},
		"the spec has changed":           {opts(asks, countsBefore(1), withCleanupRecord(api.Succeeded)), "scale"},
		"an order waits":                 {order(1), "cleanup-pod"},
		"the order has been carried out": {order(2), "scale"},
		"an order of a user": {opts(asks, build.Annotation(api.CleanupFromAnnotation, "1"), withCleanupRecord(api.Succeeded)),
			"scale"},
	} {
		set := build.Set("web", append([]build.Option{build.Template("data", "64Mi", "fixed")}, row.options...)...)
		if got := functionsWokenBySet(t, updated, set); got != row.want {
			t.Errorf("%s: woken: %q, want %q", name, got, row.want)
		}
	}
}

// withCleanupRecord stores the record of a cleanup on the set, with the set's own digest, UID and count.
func withCleanupRecord(phase api.Phase, options ...func(*api.Cleanup)) build.Option {
	return build.Edit(func(set *appsv1.StatefulSet) {
		record := &api.Cleanup{
			Header: api.Header{Version: api.RecordVersion, Operation: build.ID, Kind: api.KindCleanup, Phase: phase,
				Request: cleanup.Digest(set), Attempt: 1, Set: api.SetRef{Name: set.Name, UID: set.UID}},
			Span: &api.Span{Start: statefulset.Start(set),
				End: statefulset.Span(set).End},
		}
		for _, option := range options {
			option(record)
		}
		build.Annotation(api.CleanupAnnotation, record.Encode())(set)
	})
}

func finishedBefore(ago time.Duration) func(*api.Cleanup) {
	return func(s *api.Cleanup) { s.Finished = operation.Moment(build.Now.Add(-ago)) }
}

// TestFunctionsWokenBySetWithCleanup: an event of a set wakes cleanup-pod only if it has something to do.
// Invariants: I3, I6.
func TestFunctionsWokenBySetWithCleanup(t *testing.T) {
	const wakes = "cleanup-pod"
	ready, active := withCleanupRecord(api.Succeeded), withCleanupRecord(api.Cleaning)
	refused, failed := withCleanupRecord(api.Refused), withCleanupRecord(api.Failed, finishedBefore(time.Minute))
	older := func(s *api.Cleanup) { s.Request = "older" }
	retry, abort, optOut := build.Annotation(api.RetryAnnotation, ""), build.Annotation(api.AbortAnnotation, ""),
		build.Label(api.ManagedLabel, "")
	none := build.Annotation(api.CleanupTemplateAnnotation, "")
	onDelete, held := build.Annotation(api.CleanupOnDeleteAnnotation, "true"), build.Finalizers("a", api.CleanupFinalizer)
	resizing := build.Status(build.Operation(api.Moving, build.Members(api.MemberPending, "data-web-0")))
	zero := build.Replicas(0)
	deleting := opts(onDelete, held, build.Deleting())
	deletingWith := func(options ...build.Option) []build.Option { return append(slices.Clone(deleting), options...) }
	since := func(ago time.Duration) build.Option {
		return func(o metav1.Object) { o.SetDeletionTimestamp(&metav1.Time{Time: build.Now.Add(-ago)}) }
	}
	for name, row := range map[string]struct {
		change  string
		options []build.Option
		want    string
	}{
		"a new template":                                            {updated, nil, wakes},
		"the record accounts for all claims":                        {updated, opts(ready), ""},
		"the record accounts for all claims, and the set was added": {added, opts(ready), ""},
		"the set's generation has changed": {updated,
			opts(ready, build.Edit(func(set *appsv1.StatefulSet) { set.Generation = 7 })), ""},
		"a member was added": {updated,
			opts(withCleanupRecord(api.Succeeded, func(s *api.Cleanup) { s.Span.End = 1 })), wakes},
		"a member will be added": {updated, opts(build.ReplicaCounts(1, 1),
			withCleanupRecord(api.Succeeded, func(s *api.Cleanup) { s.Span.End = 1 })), ""},
		"the set has more members than requested": {updated, opts(build.ReplicaCounts(5, 5), ready), ""},
		"the start ordinal has changed": {updated,
			opts(withCleanupRecord(api.Succeeded, func(s *api.Cleanup) { s.Span.Start = 1 })), wakes},
		"a leftover claim was never used": {updated, opts(withCleanupRecord(api.Succeeded, func(s *api.Cleanup) {
			s.Ordinals = []api.OrdinalStatus{{Ordinal: 4, Reason: api.NeverUsed}}
		})), ""},
		"the record has no span": {updated,
			opts(withCleanupRecord(api.Succeeded, func(s *api.Cleanup) { s.Span = nil })), wakes},
		"another template": {updated,
			opts(withCleanupRecord(api.Succeeded, older)), wakes},
		"no template": {updated, opts(none), ""},
		"the template was removed": {updated,
			opts(none, withCleanupRecord(api.Succeeded, older)), ""},
		"the template was removed while a cleanup runs": {updated, opts(none, active), wakes},
		"no claims": {updated,
			opts(build.Edit(func(s *appsv1.StatefulSet) { s.Spec.VolumeClaimTemplates = nil })), ""},
		"a cleanup is active":                              {updated, opts(active), wakes},
		"a cleanup is active, and a user asks for a retry": {updated, opts(retry, active), wakes},
		"the record belongs to another set": {updated,
			opts(withCleanupRecord(api.Succeeded, func(s *api.Cleanup) { s.Set.UID = "uid-2" })), wakes},
		"the cleanup record cannot be read": {updated,
			opts(build.Annotation(api.CleanupAnnotation, "{")), wakes},
		"the template was refused": {updated, opts(refused), ""},
		"the template was refused, and the set was scaled": {updated,
			opts(withCleanupRecord(api.Refused, func(s *api.Cleanup) { s.Span = nil })), ""},
		"the template was refused, and a user asks for a retry": {updated, opts(retry, refused), wakes},
		"another template was refused": {updated,
			opts(withCleanupRecord(api.Refused, older)), wakes},
		"a cleanup has failed":                              {updated, opts(failed), ""},
		"a cleanup has failed, and a user asks for a retry": {updated, opts(retry, failed), wakes},
		"a retry, and nothing has failed":                   {updated, opts(retry, ready), "detect-resize"},
		"a cleanup has failed, and another is ordered": {updated, opts(build.Annotation(api.LedgerAnnotation, (&api.Ledger{
			Set: api.SetRef{Name: "web", UID: "uid-web"}, Count: 3, Complete: true, Generation: build.Set("web").Generation, Orders: 2,
			Removing: &api.Removal{Span: api.Span{Start: 2, End: 3}, Order: 2}}).Encode()), failed), wakes},
		"an abort without a cleanup":                      {updated, opts(abort, ready), ""},
		"the set has not opted in":                        {updated, opts(optOut), ""},
		"the set has opted out while a cleanup runs":      {updated, opts(optOut, active), wakes},
		"the set has lost its label while a cleanup runs": {deleted, opts(optOut, active), wakes},
		"the set has lost its label without a cleanup":    {deleted, opts(optOut, ready), ""},
		// The metrics show the ordinals of a failed cleanup until cleanup-pod observes that the set is gone.
		"the set is gone after a failed cleanup":            {deleted, opts(failed), wakes},
		"the set is gone after a refused cleanup":           {deleted, opts(refused), wakes},
		"the set has lost its label after a failed cleanup": {deleted, opts(optOut, failed), wakes},
		"a resize is active":                                {updated, opts(resizing, zero), "backup"},
		"a resize is being reverted": {updated,
			opts(build.Status(build.Operation(api.Reverting)), zero), "restore"},
		"the resize record cannot be read": {updated,
			opts(build.Annotation(api.StatusAnnotation, "{")), "detect-resize"},
		"the set sleeps": {updated,
			opts(build.WithSleep(build.Sleep(api.Asleep, build.SleepCause("paused"))), build.Paused(), zero), ""},
		"the sleep record cannot be read": {updated,
			opts(build.Annotation(api.SleepAnnotation, "{")), "idle-timeout"},
		"the finalizer is missing":            {updated, opts(onDelete, ready), wakes},
		"the finalizer is set":                {updated, opts(onDelete, held, ready), ""},
		"the finalizer is set and not needed": {updated, opts(held, ready), wakes},
		"the finalizer is set, and the set has not opted in": {updated,
			opts(onDelete, held, optOut, ready), wakes},
		"the finalizer is missing while the set sleeps": {updated,
			opts(onDelete, build.WithSleep(build.Sleep(api.Asleep, build.SleepCause("paused"))), build.Paused(), zero), wakes},
		"being deleted without the finalizer": {updated, opts(build.Deleting(), ready), ""},
		"being deleted without the finalizer while a cleanup runs": {updated, opts(build.Deleting(), active),
			wakes},
		"being deleted, too late for the finalizer": {updated,
			opts(build.Deleting(), onDelete, ready), ""},
		"the set was deleted":                                               {deleted, opts(ready), ""},
		"the set was deleted during a cleanup":                              {deleted, opts(active), wakes},
		"the set was deleted, and another client had removed the finalizer": {deleted, deletingWith(active), ""},
		"being deleted with the finalizer":                                  {updated, deletingWith(ready), wakes},
		"being deleted with the finalizer, without a record":                {updated, deletingWith(), wakes},
		"being deleted with the finalizer while a cleanup runs":             {updated, deletingWith(active), wakes},
		"being deleted with the finalizer, template refused":                {updated, deletingWith(refused), wakes},
		"being deleted with the finalizer, opted out":                       {updated, deletingWith(optOut, failed), wakes},
		"being deleted with the finalizer, cleanup failed before":           {updated, deletingWith(failed), wakes},
		"being deleted with the finalizer, cleanup failed in the same second": {updated,
			deletingWith(withCleanupRecord(api.Failed, finishedBefore(0))), wakes},
		"being deleted with the finalizer, cleanup failed at an unknown time": {updated,
			deletingWith(withCleanupRecord(api.Failed)), wakes},
		"being deleted with the finalizer, cleanup failed since": {updated,
			deletingWith(since(time.Hour), failed), ""},
		"being deleted with the finalizer, cleanup failed since, retry": {updated,
			deletingWith(since(time.Hour), retry, failed), wakes},
		"being deleted with the finalizer, cleanup failed since, abort": {updated,
			deletingWith(since(time.Hour), abort, failed), wakes},
		"being deleted with the finalizer, cleanup failed since, cleanup-on-delete removed": {updated,
			deletingWith(since(time.Hour), build.Annotation(api.CleanupOnDeleteAnnotation, ""), failed), wakes},
		"being deleted with the finalizer, cleanup failed since, another template": {updated,
			deletingWith(since(time.Hour), withCleanupRecord(api.Failed, finishedBefore(time.Minute), older)), wakes},
	} {
		t.Run(name, func(t *testing.T) {
			got := functionsWokenBySet(t, row.change, setWithCleanup(row.options...))
			if got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

// cleanupPod returns the running cleanup pod of web-2.
func cleanupPod(options ...build.Option) *corev1.Pod {
	link := api.Link{Operation: build.ID, Role: api.RoleCleaner, Namespace: build.Namespace, Set: api.SetRef{Name: "web", UID: "uid-web"}}
	return build.Pod("web-2", []string{"data-web-2"}, append([]build.Option{build.LinkOf(link)}, options...)...)
}

func TestFunctionsWokenByCleanupPod(t *testing.T) {
	container := func(init bool, restarts int32, last *corev1.ContainerStateTerminated) build.Option {
		return build.Edit(func(p *corev1.Pod) {
			all := []corev1.ContainerStatus{{Name: "first"}, {Name: "drain", RestartCount: restarts,
				LastTerminationState: corev1.ContainerState{Terminated: last}}}
			if init {
				p.Status.InitContainerStatuses = all
			} else {
				p.Status.ContainerStatuses = all
			}
		})
	}
	failed, well := &corev1.ContainerStateTerminated{ExitCode: 1}, &corev1.ContainerStateTerminated{}
	for name, row := range map[string]struct {
		change string
		pod    *corev1.Pod
		want   string
	}{
		"it is pending":                        {added, cleanupPod(build.InPhase(corev1.PodPending)), ""},
		"it is running":                        {updated, cleanupPod(), ""},
		"it has succeeded":                     {updated, cleanupPod(build.InPhase(corev1.PodSucceeded)), "cleanup-pod"},
		"it has failed":                        {updated, cleanupPod(build.InPhase(corev1.PodFailed)), "cleanup-pod"},
		"a container was restarted":            {updated, cleanupPod(container(false, 1, failed)), "cleanup-pod"},
		"a container has failed":               {updated, cleanupPod(container(false, 0, failed)), "cleanup-pod"},
		"an init container has failed":         {updated, cleanupPod(container(true, 0, failed)), "cleanup-pod"},
		"a container has succeeded":            {updated, cleanupPod(container(true, 0, well)), ""},
		"it is being deleted":                  {updated, cleanupPod(build.Deleting()), "cleanup-pod"},
		"the set was deleted":                  {deleted, cleanupPod(), "cleanup-pod"},
		"a forged link into another namespace": {deleted, cleanupPod(build.Edit(func(p *corev1.Pod) { p.Namespace = "payroll" })), ""},
		"its label names another operation":    {deleted, cleanupPod(build.Label(api.OperationLabel, "other")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := functionsWoken(t, row.change, "Pod", row.pod); got != row.want {
				t.Errorf("wakes %q, want %q", got, row.want)
			}
		})
	}
}

// TestSweepFindsUnfinishedCleanups: the sweep finds cleanups that no event has reported.
// Invariants: I3, I4, I6.
func TestSweepFindsUnfinishedCleanups(t *testing.T) {
	type list = []metav1.Object
	ready, active := withCleanupRecord(api.Succeeded), withCleanupRecord(api.Cleaning)
	optOut := build.Label(api.ManagedLabel, "")
	held, label := build.Finalizers(api.CleanupFinalizer), build.Label(api.FinalizerLabel, api.FinalizerForCleanup)
	other := build.MemberLink(api.RoleMover, 0)
	for name, row := range map[string]struct {
		in   cluster
		want string
	}{
		"a set whose record is complete": {cluster{"statefulsets": list{setWithCleanup(ready)}}, ""},
		"a set without a record": {cluster{"statefulsets": list{setWithCleanup()}},
			"web: cleanup-pod"},
		"a cleanup is active": {cluster{"statefulsets": list{setWithCleanup(active)},
			"pods": list{cleanupPod()}}, "web: cleanup-pod"},
		"a cleanup pod whose set was deleted": {cluster{"pods": list{cleanupPod()}}, "web: cleanup-pod"},
		"a cleanup pod whose set has lost its record": {cluster{"statefulsets": list{setWithCleanup(ready)},
			"pods": list{cleanupPod()}}, "web: cleanup-pod"},
		"a cleanup pod whose set was " +
			"replaced": {cluster{"statefulsets": list{setWithCleanup(build.UID("uid-2"), ready)}, "pods": list{cleanupPod()}},
			"web: cleanup-pod"},
		"a cleanup pod whose set has lost its label": {cluster{"statefulsets": list{setWithCleanup(optOut,
			active)}, "pods": list{cleanupPod()}}, "web: cleanup-pod"},
		"pods of other owners": {cluster{"pods": list{build.Pod("x", nil),
			cleanupPod(build.Label(api.OperationLabel, "other"))}}, ""},
		"a mover whose operation has ended": {cluster{"pods": list{build.Pod("y", nil, other)}}, "web: restore"},
		"a set with Drydock's finalizer has lost its label": {cluster{"statefulsets": list{setWithCleanup(optOut,
			held, label, ready)}}, "web: cleanup-pod"},
		"a set with Drydock's finalizer and without its label is being deleted": {cluster{"statefulsets": list{setWithCleanup(optOut,
			held, label, build.Deleting(), ready)}}, "web: cleanup-pod"},
		"an opted-in set with Drydock's finalizer": {cluster{"statefulsets": list{setWithCleanup(held,
			label, build.Annotation(api.CleanupOnDeleteAnnotation, "true"), ready)}}, ""},
		"a set without the finalizer has lost its label": {cluster{"statefulsets": list{setWithCleanup(optOut,
			ready)}}, ""},
		"a set whose finalizer was removed has lost its label": {cluster{"statefulsets": list{setWithCleanup(optOut,
			label, ready)}}, ""},
		"the cleanup record cannot be " +
			"read": {cluster{"statefulsets": list{setWithCleanup(build.Annotation(api.CleanupAnnotation, "{"))}}, "web: cleanup-pod"},
	} {
		t.Run(name, func(t *testing.T) {
			to := &sentEvents{}
			if err := sweep(t, row.in, to); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(to.events, ", "); got != row.want {
				t.Errorf("sends %q, want %q", got, row.want)
			}
		})
	}
	lists := build.EmptyLists()
	delete(lists, "pods")
	if err := sweepLists(t, lists, &sentEvents{}); err == nil {
		t.Error("the list of pods fails, and the sweep returns no error")
	}
}
