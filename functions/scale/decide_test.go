package scale

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
	"drydock.dev/test/kit/build"
)

func TestSetThatCannotBeScaled(t *testing.T) {
	check(t,
		row{"the set and the Scaler do not exist", observed()},
		row{"the set does not exist", observed(pilot())},
		row{"the set does not exist, already reported", withReportedStatus(observed(pilot()))},
		row{"the set does not exist, and a hook Job is running", observed(pilot(), hookJob("pre"))},
		row{"the set does not exist, and a hook Job is being deleted",
			withReportedStatus(observed(pilot(), hookJob("pre", build.Deleting())))},
		row{"the set does not exist, and the Scaler is being deleted", observed(pilot(build.Deleting()))},
		row{"the set is being deleted", observed(web(2, build.Deleting()), pilot())},
		row{"the set is deleted during a scaling", observed(web(2, build.Deleting(), withRecord(api.PreScaling)), pilot(withHooks),
			hookJob("pre"))},
		row{"the record cannot be read", observed(web(2, build.Annotation(api.ScaleAnnotation, "{")), pilot())},
		row{"the record cannot be read, already " +
			"reported", withReportedStatus(observed(web(2, build.Annotation(api.ScaleAnnotation, "{")), pilot()))},
		row{"the record cannot be read, no Scaler", observed(web(2, build.Annotation(api.ScaleAnnotation, "{")))},
		row{"the record belongs to another set", observed(web(2, build.UID("uid-other"), withRecord(api.PreScaling)), pilot())},
		row{"the set has no Scaler", observed(web(2))},
		row{"the Scaler was deleted", observed(web(2, withEndedScaling(2)))},
		row{"the Scaler is being deleted", observed(web(2, withEndedScaling(2)), pilot(build.Deleting()))},
		row{"the Scaler was deleted while the pre hook runs", observed(web(2, withRecord(api.PreScaling)), hookJob("pre"))},
		row{"the Scaler was deleted while members started", observed(web(3, withRecord(api.Scaling)))},
		row{"the Scaler was deleted after a failed scaling", observed(web(2, withRecord(api.Failed, failedAt(api.PreScaling))))},
		row{"the set has not opted in", observed(web(2, notOptedIn), pilot())},
		row{"the set has not opted in, already reported", withReportedStatus(observed(web(2, notOptedIn), pilot()))},
		row{"the set has opted out without a scaling", observed(web(2, notOptedIn, withEndedScaling(2)), pilot())},
		row{"the set opts out while the pre hook runs", observed(web(2, notOptedIn, withRecord(api.PreScaling)), pilot(withHooks),
			hookJob("pre"))},
		row{"the set opts out while members start", observed(web(3, notOptedIn, withRecord(api.Scaling)), pilot())},
		row{"the set opts out while the failure hook " +
			"runs", observed(web(2, notOptedIn, withRecord(api.Failing, failedAt(api.PreScaling))), pilot(withHooks),
			hookJob("onFailure"))},
		row{"the set opted out, and a hook Job remains", observed(web(2, notOptedIn, withRecord(api.Failed, failedAt(api.PreScaling))),
			pilot(withHooks), hookJob("pre"))},
		row{"a resize is active", observed(web(2, build.Status(build.Operation(api.Moving)), withEndedScaling(2)), pilot())},
		row{"a resize is active, and the set has no scale record", observed(web(2, build.Status(build.Operation(api.Moving))), pilot())},
		row{"a resize is active, already " +
			"reported", withReportedStatus(observed(web(2, build.Status(build.Operation(api.Moving)), withEndedScaling(2)), pilot()))},
		row{"the record of a resize cannot be read", observed(web(2, build.Annotation(api.StatusAnnotation, "{"), withEndedScaling(2)),
			pilot())},
		row{"a cleanup is running", observed(web(2, withRunningCleanup, withEndedScaling(2)), pilot())},
		row{"a resize has ended", observed(web(2, build.Status(build.Operation(api.Succeeded)), withEndedScaling(2)), pilot())},
		row{"a resize is active, and a user asks for a " +
			"retry", observed(web(2, build.Status(build.Operation(api.Moving)), withRecord(api.Failed, failedAt(api.PreScaling))),
			pilot(withRetry))},
	)
}

// withRunningCleanup adds the record of an active cleanup.
var withRunningCleanup = build.Annotation(api.CleanupAnnotation,
	(&api.Cleanup{Header: api.Header{Version: api.RecordVersion, Operation: "c0ffee012345",
		Kind: api.KindCleanup, Phase: api.Cleaning, Request: "x", Attempt: 1, Set: api.SetRef{Name: "web", UID: "uid-web"},
		Started: metav1.NewTime(build.Now)}}).Encode())

func TestScalerTakesOverSet(t *testing.T) {
	known := editScaler(func(s *v1alpha1.Scaler) { s.Status.Target = &v1alpha1.TargetReference{Name: "web", UID: "uid-before"} })
	same := editScaler(func(s *v1alpha1.Scaler) { s.Status.Target = &v1alpha1.TargetReference{Name: "web", UID: "uid-web"} })
	check(t,
		row{"the set has another count", observed(web(2), pilot())},
		row{"the set already has the requested count", observed(web(3), pilot())},
		row{"the Scaler has no count", observed(web(2), pilot(withoutCount))},
		row{"the set was replaced", observed(web(2), pilot(known))},
		row{"the record was removed", observed(web(2), pilot(same))},
		row{"a previous Scaler scaled the set", observed(web(2, withRecord(api.Succeeded, ofScaler("uid-gone"))), pilot())},
		row{"the scaling of a previous Scaler has " +
			"failed", observed(web(2, withRecord(api.Failed, failedAt(api.PreScaling), ofScaler("uid-gone"))), pilot())},
		row{"a previous Scaler's scaling is active", observed(web(2, withRecord(api.PreScaling, ofScaler("uid-gone"))), pilot(),
			hookJob("pre"))},
		row{"a previous Scaler's failure hook is " +
			"running", observed(web(2, withRecord(api.Failing, failedAt(api.PreScaling), ofScaler("uid-gone"))), pilot())},
		row{"the new Scaler has a retry annotation", observed(web(2), pilot(withRetry))},
	)
}

func TestSetWithoutActiveScaling(t *testing.T) {
	check(t,
		row{"the set has the requested count", observed(web(3, withEndedScaling(3)), pilot())},
		row{"already reported", withReportedStatus(observed(web(3, withEndedScaling(3)), pilot()))},
		row{"a scaling has ended", observed(web(3, withRecord(api.Succeeded)), pilot())},
		row{"a scaling has ended, and historyLimit is 0", observed(web(3, withRecord(api.Succeeded)), pilot(editScaler(noHistory)))},
		row{"a scaling has ended, already reported", withReportedStatus(observed(web(3, withRecord(api.Succeeded)), pilot()))},
		row{"members fail without a change of the count", observed(web(3, build.ReplicaCounts(1, 1), withEndedScaling(3)), pilot())},
		row{"the Scaler has no spec.replicas", observed(web(2, withEndedScaling(2)), pilot(withoutCount))},
		row{"the Scaler has no spec.replicas, and the set is at zero", observed(web(0, withEndedScaling(0)), pilot(withoutCount))},
		row{"another client has scaled", observed(web(5, withEndedScaling(3)), pilot())},
		row{"another client has scaled to zero", observed(web(0, withEndedScaling(3)), pilot())},
		row{"another client has scaled, policy adopt", observed(web(5, withEndedScaling(3)), pilot(withAdoptPolicy))},
		row{"another client has scaled to the requested count", observed(web(3, withEndedScaling(2)), pilot())},
		row{"another client has scaled to the requested count, policy adopt", observed(web(3, withEndedScaling(2)),
			pilot(withAdoptPolicy))},
		row{"another client has scaled, and the request has changed", observed(web(5, withEndedScaling(2)), pilot())},
		row{"a scaling begins", observed(web(2, withEndedScaling(2)), pilot())},
		row{"a scaling with hooks begins", observed(web(2, withEndedScaling(2)), pilot(withHooks))},
		row{"a scale-down begins", observed(web(3, withEndedScaling(3)), pilot(wants(1)))},
		row{"a scale-down to zero begins", observed(web(3, withEndedScaling(3)), pilot(wants(0)))},
		row{"a hook template is invalid", observed(web(2, withEndedScaling(2)), pilot(withInvalidHooks))},
		row{"a hook template is invalid, already " +
			"reported", withReportedStatus(observed(web(2, withEndedScaling(2)), pilot(withInvalidHooks)))},
		row{"a hook template is invalid, and no scaling is needed", observed(web(3, withEndedScaling(3)), pilot(withInvalidHooks))},
		row{"retry by annotation, nothing has failed", observed(web(3, withEndedScaling(3)), pilot(withRetry))},
		row{"retry by annotation on a Scaler that does not scale the set", observed(web(3, withEndedScaling(3)), pilot(),
			scaler("second", 3, withRetry))},
		row{"retry by event, nothing has failed", withRetryEvent(withReportedStatus(observed(web(3, withEndedScaling(3)), pilot())))},
		row{"a hook Job of the finished scaling still exists", observed(web(3, withRecord(api.Succeeded)), pilot(withHooks),
			hookJob("post", completed))},
		row{"a hook Job of the finished scaling is being " +
			"deleted", withReportedStatus(observed(web(3, withRecord(api.Succeeded)), pilot(withHooks),
			hookJob("post", build.Deleting())))},
		row{"a write was rejected", withRejection(observed(web(2, withEndedScaling(2)), pilot()))},
	)
}

func noHistory(s *v1alpha1.Scaler) {
	none := int32(0)
	s.Spec.HistoryLimit = &none
}

func TestPreScaling(t *testing.T) {
	started := withRecord(api.PreScaling)
	late := withRecord(api.PreScaling, overdue)
	check(t,
		row{"the Scaler has no hook", observed(web(2, started), pilot())},
		row{"the Scaler has no hook, after the deadline", observed(web(2, late), pilot())},
		row{"the hook Job is missing", observed(web(2, started), pilot(withHooks))},
		row{"the hook Job is missing after the deadline", observed(web(2, late), pilot(withHooks))},
		row{"the hook is running", observed(web(2, started), pilot(withHooks), hookJob("pre"))},
		row{"the hook is running, already reported", withReportedStatus(observed(web(2, started), pilot(withHooks), hookJob("pre")))},
		row{"the hook is complete", observed(web(2, started), pilot(withHooks), hookJob("pre", completed))},
		row{"the hook's pod was drained and exited with 0", withDrainedPod(observed(web(2, started), pilot(withHooks),
			hookJob("pre", completed)))},
		row{"the hook's pod was evicted and exited with 0", withKill(observed(web(2, started), pilot(withHooks), hookJob("pre", completed)))},
		row{"the hook's pod is gone", withoutPods(observed(web(2, started), pilot(withHooks), hookJob("pre", completed)))},
		row{"the hook's pod has just ended", withReportedStatus(
			withEnd(observed(web(2, started), pilot(withHooks), hookJob("pre", completed)), 0))},
		row{"the hook's pod ended an hour ago", withEnd(observed(web(2, started), pilot(withHooks), hookJob("pre", completed)), time.Hour)},
		row{"the hook's pods cannot be read", withReportedStatus(
			withUnread(observed(web(2, started), pilot(withHooks), hookJob("pre", completed))))},
		row{"the hook has failed, and its pods cannot be read", withUnread(observed(web(2, started), pilot(withHooks), hookJob("pre", failed)))},
		row{"the hook is complete after the deadline", observed(web(2, late), pilot(withHooks), hookJob("pre", completed))},
		row{"the hook has failed", observed(web(2, started), pilot(withHooks), hookJob("pre", failed))},
		row{"the hook runs after the deadline", observed(web(2, late), pilot(withHooks), hookJob("pre"))},
		row{"the hook is being deleted", withReportedStatus(observed(web(2, started), pilot(withHooks), hookJob("pre", build.Deleting())))},
		row{"the hook was complete and is being " +
			"deleted", withReportedStatus(observed(web(2, started), pilot(withHooks), hookJob("pre", completed, build.Deleting())))},
		row{"the hook is being deleted after the deadline", observed(web(2, late), pilot(withHooks), hookJob("pre", build.Deleting()))},
		row{"the template is invalid", observed(web(2, started), pilot(withInvalidHooks))},
		row{"the template is invalid, and the hook is complete", observed(web(2, started), pilot(withInvalidHooks),
			hookJob("pre", completed))},
		row{"the hook was removed from the Scaler while it runs", withReportedStatus(observed(web(2, started), pilot(), hookJob("pre")))},
		row{"another client has the hook's name", observed(web(2, started), pilot(withHooks), hookJob("pre", ofAnotherOperation))},
		row{"another client has the hook's name, already reported", withReportedStatus(observed(web(2, started), pilot(withHooks),
			hookJob("pre", ofAnotherOperation)))},
		row{"another client has the hook's name until the deadline", observed(web(2, late), pilot(withHooks),
			hookJob("pre", ofAnotherOperation))},
		row{"the post hook Job already exists", observed(web(2, started), pilot(withHooks), hookJob("post"))},
		row{"another client scales", observed(web(5, started), pilot(withHooks), hookJob("pre"))},
		row{"another client scales to the target", observed(web(3, started), pilot(withHooks), hookJob("pre"))},
		row{"another client scales, policy adopt", observed(web(5, started), pilot(withHooks, withAdoptPolicy), hookJob("pre"))},
		row{"retry by annotation", observed(web(2, started), pilot(withHooks, withRetry), hookJob("pre"))},
		row{"a write is rejected", withRejection(observed(web(2, started), pilot(withHooks)))},
		row{"the set has a resize annotation", withReportedStatus(observed(web(2, build.Resize("data=1Gi"), started), pilot(withHooks),
			hookJob("pre")))},
	)
}

var ofAnotherOperation = build.LinkOf(api.Link{Operation: "ffffffffffff", Role: api.RoleScaleHook, Namespace: build.Namespace,
	Set: api.SetRef{Name: "web", UID: "uid-web"}})

func TestScaling(t *testing.T) {
	changed := withRecord(api.Scaling)
	late := withRecord(api.Scaling, overdue)
	check(t,
		row{"the StatefulSet controller has not observed the count", observed(web(3, build.NotObserved(), changed), pilot())},
		row{"the StatefulSet controller has not observed the count, already reported",
			withReportedStatus(observed(web(3, build.NotObserved(), changed), pilot()))},
		row{"too many members exist", withReportedStatus(observed(web(3, build.ReplicaCounts(4, 3), changed), pilot()))},
		row{"too few members exist", withReportedStatus(observed(web(3, build.ReplicaCounts(2, 2), changed), pilot()))},
		row{"not all members are ready", withReportedStatus(observed(web(3, build.ReplicaCounts(3, 2), changed), pilot()))},
		row{"all members are ready", observed(web(3, changed), pilot())},
		row{"all members are ready after the deadline", observed(web(3, late), pilot())},
		row{"not all members are ready after the deadline", observed(web(3, build.ReplicaCounts(3, 2), late), pilot(withHooks))},
		row{"not all members are ready after the deadline, without a failure hook", observed(web(3, build.ReplicaCounts(3, 2), late), pilot())},
		row{"the StatefulSet controller has not observed the count before the deadline", observed(web(3, build.NotObserved(), late),
			pilot(withHooks))},
		row{"the set has reached zero", observed(web(0, withRecord(api.Scaling, func(s *api.Scale) { s.Target = 0 })), pilot(wants(0)))},
		row{"the pre hook Job still exists", observed(web(3, changed), pilot(withHooks), hookJob("pre", completed))},
		row{"the pre hook Job is being deleted", withReportedStatus(observed(web(3, build.ReplicaCounts(2, 2), changed), pilot(withHooks),
			hookJob("pre", build.Deleting())))},
		row{"another client scales", observed(web(2, changed), pilot())},
		row{"another client scales, policy adopt", observed(web(5, changed), pilot(withHooks, withAdoptPolicy))},
		row{"a write is rejected", withRejection(observed(web(3, changed), pilot(withHooks)))},
		row{"retry by annotation", observed(web(3, changed), pilot(withRetry))},
		row{"the template has become invalid", observed(web(3, changed), pilot(withInvalidHooks))},
	)
}

func TestPostScaling(t *testing.T) {
	ready := withRecord(api.PostScaling)
	late := withRecord(api.PostScaling, overdue)
	check(t,
		row{"the Scaler has no hook", observed(web(3, ready), pilot())},
		row{"the hook Job is missing", observed(web(3, ready), pilot(withHooks))},
		row{"the hook is running, already reported", withReportedStatus(observed(web(3, ready), pilot(withHooks), hookJob("post")))},
		row{"the hook is complete", observed(web(3, ready), pilot(withHooks), hookJob("post", completed))},
		row{"the hook is complete, and the request has changed", observed(web(3, ready), pilot(withHooks, wants(7)),
			hookJob("post", completed))},
		row{"the hook has failed", observed(web(3, ready), pilot(withHooks), hookJob("post", failed))},
		row{"the hook runs after the deadline", observed(web(3, late), pilot(withHooks), hookJob("post"))},
		row{"the hook is being deleted", withReportedStatus(observed(web(3, ready), pilot(withHooks), hookJob("post", build.Deleting())))},
		row{"the template is invalid", observed(web(3, ready), pilot(withInvalidHooks))},
		row{"a member is no longer ready", withReportedStatus(observed(web(3, build.ReplicaCounts(3, 2), ready), pilot(withHooks),
			hookJob("post")))},
		row{"another client scales", observed(web(5, ready), pilot(withHooks), hookJob("post"))},
		row{"another client scales, policy adopt", observed(web(5, ready), pilot(withHooks, withAdoptPolicy), hookJob("post"))},
		row{"a write is rejected", withRejection(observed(web(3, ready), pilot(withHooks)))},
		row{"the pre hook Job still exists", observed(web(3, ready), pilot(withHooks), hookJob("pre", completed))},
		row{"the history is full", observed(web(3, ready), pilot(editScaler(fullHistory)))},
		row{"the post hook Job is deleted after the end", observed(web(3, withRecord(api.Succeeded)), pilot(withHooks),
			hookJob("post", completed))},
	)
}

func fullHistory(s *v1alpha1.Scaler) {
	two := int32(2)
	s.Spec.HistoryLimit = &two
	for _, operation := range []string{"222222222222", "111111111111"} {
		s.Status.History = append(s.Status.History, v1alpha1.ScalingResult{Operation: operation, From: 1, To: 2, Result: "Succeeded",
			Finished: metav1.NewTime(build.Now)})
	}
}

func TestFailureHook(t *testing.T) {
	failing := withRecord(api.Failing, failedAt(api.PreScaling))
	made := withRecord(api.Failing, failedAt(api.PreScaling), withHookMade)
	late := withRecord(api.Failing, failedAt(api.PreScaling), overdue)
	check(t,
		row{"the Scaler has no hook", observed(web(2, failing), pilot())},
		row{"the hook Job is missing", observed(web(2, failing), pilot(withHooks))},
		row{"the hook is running, already reported", withReportedStatus(observed(web(2, made), pilot(withHooks), hookJob("onFailure")))},
		row{"the hook Job exists, and the record does not show " +
			"it", withReportedStatus(observed(web(2, failing), pilot(withHooks), hookJob("onFailure")))},
		row{"its Job was deleted", observed(web(2, made), pilot(withHooks))},
		row{"the hook is complete", observed(web(2, failing), pilot(withHooks), hookJob("onFailure", completed))},
		row{"the hook's pod was evicted", withKill(observed(web(2, failing), pilot(withHooks), hookJob("onFailure", completed)))},
		row{"the hook fails", observed(web(2, failing), pilot(withHooks), hookJob("onFailure", failed))},
		row{"the hook runs after the deadline", observed(web(2, late), pilot(withHooks), hookJob("onFailure"))},
		row{"the hook Job is missing after the deadline", observed(web(2, late), pilot(withHooks))},
		row{"the hook is being deleted", withReportedStatus(observed(web(2, made), pilot(withHooks),
			hookJob("onFailure", build.Deleting())))},
		row{"the template is invalid", observed(web(2, failing), pilot(withInvalidHooks))},
		row{"a write is rejected", withRejection(observed(web(2, failing), pilot(withHooks)))},
		row{"the Job of the failed hook still exists", observed(web(2, failing), pilot(withHooks), hookJob("pre", failed))},
		row{"another client scales", withReportedStatus(observed(web(5, made), pilot(withHooks), hookJob("onFailure")))},
		row{"retry during the failure hook " +
			"waits", withReportedStatus(observed(web(2, made), pilot(withHooks, withRetry), hookJob("onFailure")))},
		row{"the scaling failed while members started", observed(web(3, withRecord(api.Failing, failedAt(api.Scaling))), pilot())},
		row{"the scaling failed after the count had changed", observed(web(3, withRecord(api.Failing, failedAt(api.PostScaling))),
			pilot())},
		row{"another client has the hook's name", observed(web(2, failing), pilot(withHooks),
			hookJob("onFailure", ofAnotherOperation))},
	)
}

func withHookMade(s *api.Scale) { s.HookMade = true }

func TestFailedScaling(t *testing.T) {
	at := func(phase api.Phase) build.Option { return withRecord(api.Failed, failedAt(phase)) }
	check(t,
		row{"failed, not yet reported", observed(web(2, at(api.PreScaling)), pilot())},
		row{"already reported", withReportedStatus(observed(web(2, at(api.PreScaling)), pilot()))},
		row{"the request has changed, without a retry", withReportedStatus(observed(web(2, at(api.PreScaling)), pilot(wants(7))))},
		row{"another client scales", withReportedStatus(observed(web(5, at(api.PreScaling)), pilot()))},
		row{"another client scales, policy adopt", withReportedStatus(observed(web(5, at(api.PreScaling)), pilot(withAdoptPolicy)))},
		row{"the failure hook Job still exists", observed(web(2, at(api.PreScaling)), pilot(withHooks), hookJob("onFailure", completed))},
		row{"retry before the change", observed(web(2, at(api.PreScaling)), pilot(withRetry, withHooks))},
		row{"retry by event", withRetryEvent(observed(web(2, at(api.PreScaling)), pilot(withHooks)))},
		row{"retry while members start", observed(web(3, at(api.Scaling)), pilot(withRetry))},
		row{"retry after the change", observed(web(3, at(api.PostScaling)), pilot(withRetry, withHooks))},
		row{"retry without a count", observed(web(2, at(api.PreScaling)), pilot(withRetry, withoutCount))},
		row{"retry with another request", observed(web(2, at(api.PreScaling)), pilot(withRetry, wants(7)))},
		row{"retry after the change, with another request", observed(web(3, at(api.PostScaling)), pilot(withRetry, wants(1)))},
		row{"retry when the set has the requested count", observed(web(2, at(api.PreScaling)), pilot(withRetry, wants(2)))},
		row{"retry with an invalid template", observed(web(2, at(api.PreScaling)), pilot(withRetry, withInvalidHooks))},
		row{"retry after another client has scaled", observed(web(5, at(api.PreScaling)), pilot(withRetry))},
		row{"retry after a failed opt-out", observed(web(2, withRecord(api.Failed, failedAt(api.PreScaling), notManaged)),
			pilot(withRetry))},
		row{"retry while the failure hook Job still exists", observed(web(2, at(api.PreScaling)), pilot(withRetry, withHooks),
			hookJob("onFailure", completed))},
	)
}

func notManaged(s *api.Scale) { s.Reason = api.NotManaged }

func TestSecondScalerOfSameSet(t *testing.T) {
	older := scaler("older", 5, build.Age(time.Hour))
	check(t,
		row{"the Scaler in the record scales", observed(web(3, withEndedScaling(3)), pilot(), older)},
		row{"both Scalers, already reported", withReportedStatus(observed(web(3, withEndedScaling(3)), pilot(), older))},
		row{"the older Scaler takes over a new set", observed(web(2), pilot(), older)},
		row{"two Scalers of the same age: the UID decides", observed(web(2), pilot(), scaler("another", 9))},
		row{"the first Scaler is deleted: the other takes over", observed(web(3, withEndedScaling(3)), pilot(build.Deleting()), older)},
		row{"the first Scaler is deleted during a scaling", observed(web(3, withRecord(api.Scaling)), pilot(build.Deleting()), older)},
		row{"a scaling is active, and the other Scaler has a retry annotation", observed(web(3, withRecord(api.Scaling)), pilot(),
			scaler("older", 5, withRetry))},
		row{"the set does not exist", observed(pilot(), older)},
		row{"the second Scaler had failed before", observed(web(3, withEndedScaling(3)), pilot(),
			scaler("older", 5, editScaler(withFailedStatus)))},
	)
}

func withFailedStatus(s *v1alpha1.Scaler) {
	s.Status.Stage, s.Status.Failed = v1alpha1.StageFailed, &v1alpha1.ScalerFailure{FailedAt: v1alpha1.StageScaling, Reason: "x"}
	s.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionHealthy, Status: metav1.ConditionFalse, Reason: "x",
		LastTransitionTime: metav1.NewTime(build.Now)},
		{Type: v1alpha1.ConditionFailed, Status: metav1.ConditionTrue, Reason: "x", LastTransitionTime: metav1.NewTime(build.Now)}}
}

// TestNewRequestDuringScalingChangesNothing: the target of a scaling does not change before it ends.
func TestNewRequestDuringScalingChangesNothing(t *testing.T) {
	const ended = "the post hook is complete"
	stages := map[string]func(options ...build.Option) Input{
		"the pre hook starts": func(o ...build.Option) Input { return observed(web(2, withRecord(api.PreScaling)), pilot(o...)) },
		"the pre hook is running": func(o ...build.Option) Input {
			return observed(web(2, withRecord(api.PreScaling)), pilot(o...), hookJob("pre"))
		},
		"the pre hook is complete": func(o ...build.Option) Input {
			return observed(web(2, withRecord(api.PreScaling)), pilot(o...), hookJob("pre", completed))
		},
		"the pre hook has failed": func(o ...build.Option) Input {
			return observed(web(2, withRecord(api.PreScaling)), pilot(o...), hookJob("pre", failed))
		},
		"members start": func(o ...build.Option) Input {
			return observed(web(3, build.ReplicaCounts(3, 2), withRecord(api.Scaling)), pilot(o...))
		},
		"members are ready": func(o ...build.Option) Input { return observed(web(3, withRecord(api.Scaling)), pilot(o...)) },
		"the post hook is running": func(o ...build.Option) Input {
			return observed(web(3, withRecord(api.PostScaling)), pilot(o...), hookJob("post"))
		},
		ended: func(o ...build.Option) Input {
			return observed(web(3, withRecord(api.PostScaling)), pilot(o...), hookJob("post", completed))
		},
		"the scaling fails": func(o ...build.Option) Input {
			return observed(web(2, withRecord(api.Failing, failedAt(api.PreScaling))), pilot(o...))
		},
	}
	decide := func(name string, in Input) string {
		p := Decide(in)
		if name == ended { // the final status shows the new request
			p.Actions = slices.DeleteFunc(p.Actions, func(a plan.Action) bool { return a.Resource == plan.ScalerStatus })
		}
		return toJSON(p)
	}
	for name, in := range stages {
		want := decide(name, in(withHooks))
		for _, request := range []build.Option{wants(0), wants(2), wants(7), withoutCount} {
			if got := decide(name, in(withHooks, request)); got != want {
				t.Errorf("%s: a new request\ngot  %s\nwant %s", name, got, want)
			}
		}
	}
}

// TestCountAndRecordChangeInOneWrite: a crash cannot separate the change of the count from its record.
func TestCountAndRecordChangeInOneWrite(t *testing.T) {
	p := Decide(observed(web(2, withRecord(api.PreScaling)), pilot(withHooks), hookJob("pre", completed)))
	patch := p.Actions[0]
	paths := ""
	for _, op := range patch.Ops {
		paths += op.Path + " "
	}
	if want := "/metadata/resourceVersion /metadata/annotations/drydock.dev~1scale /spec/replicas " +
		""; patch.Resource != plan.StatefulSets || paths != want {
		t.Errorf("%s %s", patch.Resource, paths)
	}
	if got := patch.Ops[2].Value; got != int32(3) {
		t.Errorf("replicas = %v", got)
	}
	for _, a := range p.Actions[1:] {
		if a.Resource == plan.StatefulSets {
			t.Errorf("another write: %s", a)
		}
	}
}

// TestStageDeadlinesComeFromScaler: without a valid deadline in the spec, the defaults of the schema apply.
func TestStageDeadlinesComeFromScaler(t *testing.T) {
	own := editScaler(func(s *v1alpha1.Scaler) {
		s.Spec.Deadlines = v1alpha1.ScalerDeadlines{Pre: "1m", Scaling: "2m", Post: "3m", OnFailure: "4m"}
	})
	none := editScaler(func(s *v1alpha1.Scaler) { s.Spec.Deadlines = v1alpha1.ScalerDeadlines{Pre: "x", Scaling: "0s"} })
	for name, row := range map[string]struct {
		in        func(build.Option) Input
		own, none time.Duration
	}{
		"before": {func(o build.Option) Input { return observed(web(2, withEndedScaling(2)), pilot(o)) }, time.Minute,
			10 * time.Minute},
		"the change": {func(o build.Option) Input { return observed(web(2, withRecord(api.PreScaling)), pilot(o)) }, 2 * time.Minute,
			30 * time.Minute},
		"after": {func(o build.Option) Input { return observed(web(3, withRecord(api.Scaling)), pilot(o)) }, 3 * time.Minute,
			10 * time.Minute},
		"a failure": {func(o build.Option) Input {
			return observed(web(3, build.ReplicaCounts(3, 1), withRecord(api.Scaling, overdue)), pilot(withHooks, o))
		},
			4 * time.Minute, 10 * time.Minute},
	} {
		for option, want := range map[*build.Option]time.Duration{&own: row.own, &none: row.none} {
			if got := build.StoredScale(Decide(row.in(*option))).Deadline.Sub(build.Now); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
}

// TestSumOfHugeDeadlinesDoesNotOverflow: idle-timeout adds two deadlines.
func TestSumOfHugeDeadlinesDoesNotOverflow(t *testing.T) {
	huge := v1alpha1.Deadline("2562047h").Or(time.Minute)
	if sum := huge + huge; sum <= 0 {
		t.Errorf("two deadlines are %s", sum)
	}
}

// TestEachRetryHasItsOwnOperation: a retry would otherwise take a hook Job of an earlier attempt for its own.
func TestEachRetryHasItsOwnOperation(t *testing.T) {
	seen := map[string]string{build.ID: "the first"}
	for _, phase := range []api.Phase{api.PreScaling, api.Scaling, api.PostScaling} {
		count := int32(3)
		if phase == api.PreScaling {
			count = 2
		}
		for attempt := range 3 {
			next := build.StoredScale(Decide(observed(web(count, withRecord(api.Failed, failedAt(phase),
				func(s *api.Scale) { s.Attempt = attempt })), pilot(withRetry))))
			if next.Phase != phase || next.FailedAt != "" {
				t.Errorf("%s: %s", phase, build.Words(next))
			}
			if other, known := seen[next.Operation]; known && !strings.Contains(other, "attempt") {
				t.Errorf("%s attempt %d has the operation of %s", phase, attempt, other)
			}
			seen[next.Operation] = string(phase) + " attempt"
		}
	}
}

// TestRetryAfterOptOutDuringFailureHookResumesFailedStage: the retry begins in the stage that failed, not with the failure hook.
func TestRetryAfterOptOutDuringFailureHookResumesFailedStage(t *testing.T) {
	in := observed(web(3, notOptedIn, withRecord(api.Failing, failedAt(api.PostScaling))), pilot(withHooks))
	for _, a := range Decide(in).Actions {
		in = in.afterAction(a)
	}
	in.Set = build.With(in.Set, build.Label(api.ManagedLabel, "true"))
	if next := build.StoredScale(Decide(withRetryEvent(in))); next == nil || next.Phase != api.PostScaling || next.FailedAt != "" {
		t.Errorf("the retry stores %s", build.Words(next))
	}
}

// TestTakeOverByPausedScalerRemembersCount: a paused Scaler wants three members. Its set has lost its record.
func TestTakeOverByPausedScalerRemembersCount(t *testing.T) {
	for live, want := range map[int32]int32{1: 1, 0: 3} { // the Stop has the count of the pods that it has stopped
		end, _ := playToEnd(t, observed(web(live, build.Template("data", "1Gi", "fixed")), pilot(pausedScaler)))
		stop := api.LoadStop(end.Set)
		if record := recordIn(end); !record.Paused || !stop.Pending() || stop.Replicas != want || *end.Set.Spec.Replicas != 0 {
			t.Errorf("from %d: %s, stop %s", live, build.Words(record), build.Words(stop))
		}
		end.Scalers[0] = build.With(end.Scalers[0].DeepCopy(), resumed)
		if end, _ = playToEnd(t, end); *end.Set.Spec.Replicas != 3 {
			t.Errorf("from %d: %d members come back, want 3", live, *end.Set.Spec.Replicas)
		}
	}
}

// oneToTen is an autoscaler.
var oneToTen = editScaler(func(s *v1alpha1.Scaler) {
	s.Spec.Mode = &v1alpha1.ScalerMode{HPA: &v1alpha1.Autoscaler{MinReplicas: ptr.To[int32](1), MaxReplicas: 10}}
})

func completedJob(job *batchv1.Job) *batchv1.Job { return build.With(job.DeepCopy(), build.Complete()) }

// TestNewScalerDoesNotStartItsMaximum: a user has scaled a set to zero, and creates a Scaler without a count: it takes over
// the count of the set. It must not start the maximum of the autoscaler.
func TestNewScalerDoesNotStartItsMaximum(t *testing.T) {
	in := observed(web(0), pilot(withoutCount, oneToTen))
	end, _ := playToEnd(t, in)
	if n := statefulset.Replicas(end.Set); n > 1 {
		t.Errorf("the set was at zero and has %d replicas, spec.replicas %d", n, ptr.Deref(end.Scalers[0].Spec.Replicas, -1))
	}
}

// TestPauseDoesNotRememberTheMaximum: a set has 3 members. Its Scaler is created paused, with an autoscaler from 1 to 10, a pre hook and
// no count. After the pause the set gets its 3 members, not 10.
func TestPauseDoesNotRememberTheMaximum(t *testing.T) {
	in := observed(web(3), pilot(withoutCount, withHooks, oneToTen, pausedScaler))
	end, _ := playToEnd(t, in)
	if n := statefulset.Replicas(end.Set); n != 0 {
		t.Fatalf("paused with %d", n)
	}
	end.Scalers[0] = end.Scalers[0].DeepCopy()
	end.Scalers[0].Spec.Paused = false
	most := int32(0)
	for range 100 {
		p := Decide(end)
		for _, a := range p.Actions {
			end = end.afterAction(a)
		}
		most = max(most, statefulset.Replicas(end.Set))
		if len(p.Actions) == 0 {
			before := statefulset.Replicas(end.Set)
			for i, job := range end.Jobs {
				end.Jobs[i] = completedJob(job)
			}
			end = withHookPods(end)
			end.Set = end.Set.DeepCopy()
			end.Set.Status.Replicas, end.Set.Status.ReadyReplicas, end.Set.Status.ObservedGeneration = before, before, end.Set.Generation
		}
	}
	if most > 3 {
		t.Errorf("a set of 3 members got %d after its first pause, and now has %d", most, statefulset.Replicas(end.Set))
	}
}

// TestPauseEndsBeforeItsScaling: a user pauses the Scaler while its set is taken over, and ends the pause before the scaling begins. The
// record must not stay paused: no later scale-down would become an order.
func TestPauseEndsBeforeItsScaling(t *testing.T) {
	in := observed(web(1), pilot(wants(1), pausedScaler))
	for _, a := range Decide(in).Actions {
		in = in.afterAction(a)
	}
	if r := recordIn(in); r == nil || !r.Paused || *in.Set.Spec.Replicas != 1 {
		t.Fatalf("the set was not taken over with its member: %s", build.Words(r))
	}
	in.Scalers[0] = build.With(in.Scalers[0].DeepCopy(), resumed)
	end, _ := playToEnd(t, in)
	if r := recordIn(end); r.Paused || *end.Set.Spec.Replicas != 1 {
		t.Errorf("the set has its member, and no scale-down becomes an order: %s", build.Words(r))
	}
}

// TestReplacedScalerKeepsTheCountBeforeThePause: a Scaler was paused with 3 members, and a manifest without a count replaces it.
func TestReplacedScalerKeepsTheCountBeforeThePause(t *testing.T) {
	end, _ := playToEnd(t, observed(pausedSet(0, api.Succeeded, ofScaler("uid-before"), pausedAtZero), pilot(withoutCount, oneToTen)))
	if n := statefulset.Replicas(end.Set); n != 3 {
		t.Errorf("the set had 3 members before the pause, now %d: %s", n, build.Words(recordIn(end)))
	}
}

// TestScalerAtZeroIsNotPaused: the user requests zero members, which disables the autoscaler. Nothing is paused. The user then
// requests one member.
func TestScalerAtZeroIsNotPaused(t *testing.T) {
	end, _ := playToEnd(t, observed(web(0), pilot(wants(0), withHooks, byHPA)))
	if r := recordIn(end); r.Paused || api.LoadStop(end.Set) != nil {
		t.Errorf("no scale-down becomes an order: %s, stop %s", build.Words(r), build.Words(api.LoadStop(end.Set)))
	}
	end.Scalers[0] = pilot(wants(1), withHooks, byHPA)
	for range 10 {
		for _, a := range Decide(end).Actions {
			end = end.afterAction(a)
		}
	}
	if r := recordIn(end); r.Target > 1 {
		t.Errorf("the user requests 1 member, and %d start: %s", r.Target, build.Words(r))
	}
}

// TestReplacedManifestsKeepTheCountBeforeThePause: manifests without counts have replaced a paused Scaler, its set and all records on it.
// The set has the one replica that Kubernetes gives it then. The record of the stop has the count.
func TestReplacedManifestsKeepTheCountBeforeThePause(t *testing.T) {
	for name, row := range map[string]struct {
		live int32
		copy *appsv1.ControllerRevision
		want int32
	}{
		"it has one replica":             {1, resources.MakeStopRecord(web(0), stopOfPause()), 3},
		"it is at zero":                  {0, resources.MakeStopRecord(web(0), stopOfPause()), 3},
		"the record belongs to a former": {1, resources.MakeStopRecord(web(0), stopOfPause(ofFormerSet)), 1},
	} {
		t.Run(name, func(t *testing.T) {
			end, _ := playToEnd(t, observed(web(row.live), pilot(pausedScaler, withoutCount), row.copy))
			if n := *end.Set.Spec.Replicas; n != 0 || !recordIn(end).Paused {
				t.Errorf("paused with %d replicas: %s", n, build.Words(recordIn(end)))
			}
			end.Scalers[0] = build.With(end.Scalers[0].DeepCopy(), resumed)
			if end, _ = playToEnd(t, end); *end.Set.Spec.Replicas != row.want {
				t.Errorf("%d members come back, want %d", *end.Set.Spec.Replicas, row.want)
			}
		})
	}
}

// ofFormerSet is for the Stop of a deleted set with the same name.
func ofFormerSet(s *api.Stop) { s.Set.UID = "uid-before" }

// TestMembersAreDrainedAfterLostRecord: a manifest has removed all annotations of a paused set, and its Scaler takes it over again.
func TestMembersAreDrainedAfterLostRecord(t *testing.T) {
	in := observed(web(0), pilot(withPreHook, pausedScaler)) // requests 3
	for _, a := range Decide(in).Actions {
		in = in.afterAction(a)
	}
	in.Scalers = []*v1alpha1.Scaler{build.With(in.Scalers[0].DeepCopy(), wants(1), resumed)}
	end, hooks := playToEnd(t, in)
	if n := statefulset.Replicas(end.Set); n != 1 || !slices.ContainsFunc(hooks, drained("1,2")) {
		t.Errorf("%d replicas, hooks %v", n, hooks)
	}
}

// TestForbiddenWriteIsRetriedUntilDeadline: a quota may allow the write later. Until the deadline, the Scaler reports the rejection.
func TestForbiddenWriteIsRetriedUntilDeadline(t *testing.T) {
	in := drainingScaler(api.PreScaling, 3)
	in.Rejected, in.Forbidden = "exceeded quota", true
	p := Decide(in)
	if record, _ := storedBy(t, p); record != nil {
		t.Errorf("%s", p)
	}
	checkHealthMessage(t, p, "exceeded quota")
	in.Now = in.Now.Add(time.Hour)
	checkLeadsTo(t, Decide(in), api.Failed, 3, 1)
	in.Now, in.Forbidden = build.Now, false
	checkLeadsTo(t, Decide(in), api.Failed, 3, 1)
}

// checkHealthMessage checks that the condition Healthy becomes False with the words, in a message of acceptable length.
func checkHealthMessage(t *testing.T, p plan.Plan, words string) {
	t.Helper()
	for _, a := range p.Actions {
		if a.Resource != plan.ScalerStatus {
			continue
		}
		for _, op := range a.Ops {
			status, is := op.Value.(*v1alpha1.ScalerStatus)
			if !is {
				continue
			}
			c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionHealthy)
			if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, words) || len(c.Message) > 32768 {
				t.Errorf("%.300v", c)
			}
			return
		}
	}
	t.Errorf("%.300s: no status was reported", p)
}

// TestRejectedWriteIsReportedWithoutScaling: a rejection is reported without an active scaling, and when only the deletion of a Job is
// rejected.
func TestRejectedWriteIsReportedWithoutScaling(t *testing.T) {
	idle := drainingScaler(api.Succeeded, 3, func(r *api.Scale) { r.Previous, r.Target = 3, 3 })
	idle.Rejected = "a webhook denies it"
	checkHealthMessage(t, Decide(idle), idle.Rejected)
	none := drainingScaler(api.Succeeded, 3)
	none.Set.Annotations, none.Rejected = nil, "a webhook denies it"
	checkHealthMessage(t, Decide(none), none.Rejected)

	tidies := drainingScaler(api.PreScaling, 3)
	record, _ := api.LoadScale(tidies.Set)
	old := record.Clone()
	old.Operation = "ffffffffffff"
	tidies.Jobs = []*batchv1.Job{resources.MakeScaleHook(tidies.Set, old, preHook, &corev1.PodTemplateSpec{}, time.Minute)}
	tidies.Rejected, tidies.Forbidden = "a webhook keeps the Job", true
	checkHealthMessage(t, Decide(tidies), tidies.Rejected)
}

// TestLongErrorsAreTruncated: a condition's message may have 32 KiB, and the annotations of an object 256 KiB.
func TestLongErrorsAreTruncated(t *testing.T) {
	in := drainingScaler(api.PreScaling, 3)
	in.Rejected = strings.Repeat("no ", 100_000)
	p := Decide(in)
	checkHealthMessage(t, p, api.RetryAnnotation)
	if record, _ := storedBy(t, p); record == nil || len(record.Message) > 4096 {
		t.Errorf("%.300v", record)
	}
	idle := drainingScaler(api.Succeeded, 3, func(r *api.Scale) { r.Previous, r.Target = 3, 3 })
	idle.Rejected = in.Rejected
	checkHealthMessage(t, Decide(idle), "no no")
}

// TestScaleDownByTooManyMembersDoesNotBegin: the pre hook must receive the ordinal of each removed member.
func TestScaleDownByTooManyMembersDoesNotBegin(t *testing.T) {
	in := drainingScaler(api.Succeeded, 20_002, func(r *api.Scale) { r.Previous, r.Target = 20_002, 20_002 })
	p := Decide(in)
	if record, _ := storedBy(t, p); record != nil {
		t.Errorf("%s", p)
	}
	checkHealthMessage(t, p, "smaller steps")
	*in.Scalers[0].Spec.Replicas = 10_002
	checkLeadsTo(t, Decide(in), api.PreScaling, 20_002, 10_002)
}

// TestEventHookNeedsUserFunctions: without events to functions of users, a scaling with such a hook does not begin.
func TestEventHookNeedsUserFunctions(t *testing.T) {
	in := withReportedStatus(observed(web(2, withRecord(api.Succeeded, func(s *api.Scale) { s.Previous, s.Target = 2, 2 })),
		pilot(withEventHooks)))
	checkLeadsTo(t, Decide(in), api.PreScaling, 2, 3)
	in.Settings.OwnFunctionsOnly = true
	p := Decide(in)
	if record, _ := storedBy(t, p); record != nil {
		t.Errorf("%s", p)
	}
	checkHealthMessage(t, p, "hooks.pre.event of Scaler")
}

// TestRunningHookJobSurvivesChangeOfHookKind: the running Job still counts for the scaling.
func TestRunningHookJobSurvivesChangeOfHookKind(t *testing.T) {
	in := drainingScaler(api.PreScaling, 3)
	record, _ := api.LoadScale(in.Set)
	in.Jobs = []*batchv1.Job{resources.MakeScaleHook(in.Set, record, preHook, &corev1.PodTemplateSpec{}, time.Minute)}
	for _, other := range []v1alpha1.Hook{{Event: &v1alpha1.HookEvent{}}, {Cleanup: &v1alpha1.HookCleanup{}}, {}} {
		in.Scalers[0].Spec.Hooks.Pre = &other
		p := Decide(in)
		if record, _ := storedBy(t, p); record != nil || p.Reason != api.StatusUpdated {
			t.Errorf("%s", p)
		}
	}
}

// TestRetryOfRecordWithUnknownFailedPhaseStartsOver: only a forged record has such a phase.
func TestRetryOfRecordWithUnknownFailedPhaseStartsOver(t *testing.T) {
	for _, at := range []api.Phase{"", api.Failing, api.Failed, "x"} {
		in := drainingScaler(api.Failed, 3, func(s *api.Scale) { s.FailedAt = at })
		in.Retry = true
		checkLeadsTo(t, Decide(in), api.PreScaling, 3, 1)
	}
}

var (
	pausedScaler    = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Paused = true })
	resumed         = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Paused = false })
	withCleanupHook = editScaler(func(s *v1alpha1.Scaler) { s.Spec.Hooks.Post = &v1alpha1.Hook{Cleanup: &v1alpha1.HookCleanup{}} })
	// withPreHook has a pre hook, and no failure hook.
	withPreHook = editScaler(func(s *v1alpha1.Scaler) {
		s.Spec.Hooks.Pre = &v1alpha1.Hook{Job: &v1alpha1.HookJob{Template: runtime.RawExtension{Raw: []byte(template)}}}
	})
)

// pausedAtZero changes the record to a pause: a scaling from 3 to 0.
func pausedAtZero(s *api.Scale) { s.Previous, s.Target, s.Paused = 3, 0, true }

// startingAfterPause changes the record to a scale-up from zero after a pause.
func startingAfterPause(s *api.Scale) { s.Previous, s.Target, s.Paused = 0, 3, true }

// stopOfPause is the Stop of the scaling build.ID, which has stopped 3 pods.
func stopOfPause(options ...func(*api.Stop)) *api.Stop {
	return build.Stop(append([]func(*api.Stop){build.StoppedByScaler(build.ID)}, options...)...)
}

// pausedSet returns the set whose 3 pods a paused Scaler has stopped. It has so many replicas now, and a record with these options.
func pausedSet(count int32, phase api.Phase, options ...func(*api.Scale)) *appsv1.StatefulSet {
	return web(count, build.WithStop(stopOfPause()), withRecord(phase, options...))
}

// setAside gives the set the Stop of a pause that keeps the user's retention policy Delete.
func setAside(options ...func(*api.Stop)) build.Option {
	return func(o metav1.Object) {
		build.WhenScaled(retains)(o)
		build.WithStop(stopOfPause(append(options, build.FormerWhenScaled(deletes))...))(o)
	}
}

const (
	deletes = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	retains = statefulset.Retain
)

func TestPause(t *testing.T) {
	ended, withPods := withEndedScaling(3), build.ReplicaCounts(3, 3)
	record := withRecord(api.Succeeded, pausedAtZero)
	started := build.WithStop(stopOfPause(build.StartedFor(time.Minute)))
	check(t,
		row{"it begins", observed(web(3, ended), pilot(pausedScaler))},
		row{"the Scaler has no count yet", observed(web(3, ended), pilot(pausedScaler, withoutCount))},
		row{"the hook has run", observed(web(3, withRecord(api.PreScaling, pausedAtZero)), pilot(pausedScaler, withHooks),
			hookJob("pre", completed))},
		row{"the hook has run, and a scale-down deletes claims", observed(web(3, build.WhenScaled(deletes),
			withRecord(api.PreScaling, pausedAtZero)), pilot(pausedScaler, withHooks), hookJob("pre", completed))},
		row{"the set is paused", observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(pausedScaler))},
		row{"the set is paused, and its retention policy is set aside", observed(web(0, setAside(), record), pilot(pausedScaler))},
		row{"the Scaler loses its count", observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(pausedScaler, withoutCount))},
		row{"another client starts a member", observed(pausedSet(1, api.Succeeded, pausedAtZero), pilot(pausedScaler))},
		row{"another client starts a member, policy adopt", observed(pausedSet(1, api.Succeeded, pausedAtZero),
			pilot(pausedScaler, withAdoptPolicy))},
		row{"another client starts members while the pods end", observed(pausedSet(3, api.Scaling, pausedAtZero), pilot(pausedScaler))},
		row{"another client starts members, and a scale-down deletes claims", observed(web(3, build.WhenScaled(deletes),
			build.WithStop(stopOfPause()), record), pilot(pausedScaler))},
		row{"another client starts members while the pods end, and a scale-down deletes claims", observed(web(3, build.WhenScaled(deletes),
			build.WithStop(stopOfPause()), withRecord(api.Scaling, pausedAtZero)), pilot(pausedScaler))},
		row{"a user writes another retention policy", observed(web(0, setAside(), build.WhenScaled(deletes), record), pilot(pausedScaler))},
		row{"it ends", observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot())},
		row{"it ends, and the scale-up has no hook left to run", observed(pausedSet(0, api.PreScaling, startingAfterPause), pilot())},
		row{"it has ended, and the scale-up goes on", observed(web(3, started, withRecord(api.Scaling)), pilot())},
		row{"it has ended, and the pods run", observed(web(3, started, ended), pilot())},
		row{"it has ended, the pods run, and the retention policy is set aside", observed(web(3,
			setAside(build.StartedFor(time.Minute)), ended), pilot())},
		row{"it ends, and the Scaler requests no members", observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(wants(0)))},
		row{"it has ended without members, and the pods end", observed(web(0, withPods,
			setAside(build.StartedFor(time.Minute)), record), pilot(wants(0)))},
		row{"it has ended without members", observed(web(0, setAside(build.StartedFor(time.Minute)), record), pilot(wants(0)))},
		row{"it ends, and the Scaler with a pre hook requests no members", observed(pausedSet(0, api.Succeeded, pausedAtZero),
			resources.MakeStopRecord(web(0), stopOfPause()), pilot(wants(0), withPreHook))},
		row{"the Scaler is deleted during the pause", observed(pausedSet(0, api.Succeeded, pausedAtZero))},
		row{"the Scaler was deleted during the pause", observed(web(0, build.WithStop(stopOfPause())))},
		row{"the Scaler was deleted, and the set has members again", observed(web(2, build.WithStop(stopOfPause())))},
		row{"another Scaler takes over the set", observed(pausedSet(0, api.Succeeded, pausedAtZero, ofScaler("uid-before")),
			pilot(withoutCount))},
	)
}

// TestRecordStaysPausedUntilCountRises: while the record is paused, the pods are expected back.
func TestRecordStaysPausedUntilCountRises(t *testing.T) {
	for name, c := range map[string]struct {
		in   Input
		want bool
	}{
		"the pause ends": {observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(withHooks)), true},
		"the pre hook has failed": {observed(pausedSet(0, api.PreScaling, startingAfterPause), pilot(withPreHook),
			hookJob("pre", failed)), true},
		"the pre hook is retried": {observed(pausedSet(0, api.Failed, failedAt(api.PreScaling), startingAfterPause),
			pilot(withRetry)), true},
		"other clients have started members": {observed(pausedSet(1, api.Failed, failedAt(api.PreScaling), startingAfterPause),
			pilot(withRetry)), true},
		"the count rises": {observed(pausedSet(0, api.PreScaling, startingAfterPause), pilot()), false},
		"another client scales a set to zero that should be paused": {observed(web(0, withEndedScaling(3)), pilot(pausedScaler)), true},
		"the members run again":                              {observed(web(3, withRecord(api.Succeeded, pausedAtZero)), pilot()), false},
		"the record is lost while members start again":       {observed(web(0), pilot()), true},
		"the record is lost, and zero members are requested": {observed(web(0), pilot(wants(0))), false},
	} {
		t.Run(name, func(t *testing.T) {
			p := Decide(c.in)
			if record := build.StoredScale(p); record == nil || record.Paused != c.want {
				t.Errorf("%s\nstores %s, want a record with paused = %t", p, build.Words(record), c.want)
			}
		})
	}
}

// TestScalerDeletedDuringPauseLeavesZero: an active record would block all other operations of the set forever. A Stop would start the pods
// with the next visit, although the set keeps its count.
func TestScalerDeletedDuringPauseLeavesZero(t *testing.T) {
	for _, phase := range []api.Phase{api.Scaling, api.Succeeded, api.Failed} {
		in := observed(pausedSet(0, phase, pausedAtZero))
		checkConverges(t, in)
		end, _ := playToEnd(t, in)
		_, recorded := end.Set.Annotations[api.ScaleAnnotation]
		_, stopped := end.Set.Annotations[api.StopAnnotation]
		if recorded || stopped || len(end.Records) > 0 || *end.Set.Spec.Replicas != 0 {
			t.Errorf("%s: %s", phase, toJSON(end.Set))
		}
	}
}

// TestFormerCountIsSaidBeforeStopEnds: only the Event says why the set stays at zero and how many pods it had. If the process dies after
// the Stop has ended, nothing writes the Event any more.
func TestFormerCountIsSaidBeforeStopEnds(t *testing.T) {
	p := Decide(observed(web(0, build.WithStop(stopOfPause()))))
	said := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbEvent })
	ends := slices.IndexFunc(p.Actions, func(a plan.Action) bool { return a.Verb == plan.VerbPatch })
	if said < 0 || ends < said {
		t.Error(p)
	}
}

// TestStopAtZeroStaysWithItsRecord: a webhook rejects the deletion of a stop's record, and a set at zero gets its Stop back from that
// record. If the Stop went before its record, scale would write both for ever.
func TestStopAtZeroStaysWithItsRecord(t *testing.T) {
	for name, in := range map[string]Input{
		"its Scaler was deleted":   observed(pausedSet(0, api.Succeeded, pausedAtZero)),
		"its Scaler wants no pods": observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(wants(0))),
	} {
		in.Set = build.With(in.Set, build.IdleTimeout("1h"))
		in.Records = []*appsv1.ControllerRevision{stored(resources.MakeStopRecord(in.Set, api.LoadStop(in.Set)))}
		for _, kept := range []bool{true, false} {
			in.RecordsKept = kept
			checkConverges(t, in)
			end, _ := playToEnd(t, in)
			if api.LoadStop(end.Set).Pending() != kept || len(end.Records) > 0 != kept {
				t.Errorf("%s, the record is kept: %t: %d records, %s", name, kept, len(end.Records), toJSON(end.Set))
			}
		}
	}
}

// TestEndOfFailedPauseStartsMembersAgain: nobody can request a retry for a visit.
func TestEndOfFailedPauseStartsMembersAgain(t *testing.T) {
	for _, at := range []api.Phase{api.PreScaling, api.Scaling, api.PostScaling} {
		live := map[api.Phase]int32{api.PreScaling: 2}[at]
		p := Decide(observed(web(live, withRecord(api.Failed, failedAt(at), pausedAtZero)), pilot()))
		if record := build.StoredScale(p); record == nil || record.Phase != api.PreScaling || record.Target != 3 {
			t.Errorf("failed at %s: %s, want a scaling to 3", at, p)
		}
		if p := Decide(withReportedStatus(observed(web(live, withRecord(api.Failed, failedAt(at), pausedAtZero)),
			pilot(pausedScaler)))); p.Kind == plan.KindDo {
			t.Errorf("failed at %s and still paused: %s, want nothing without a retry", at, p)
		}
	}
}

// TestRetryOfFailedPauseKeepsClaims: after a pause has failed, kubectl replace with the original manifest removes spec.paused and
// spec.replicas of the Scaler. A retry then must not become a scale-down to zero, after which cleanup-pod deletes all claims.
func TestRetryOfFailedPauseKeepsClaims(t *testing.T) {
	for _, at := range []api.Phase{api.PreScaling, api.Scaling, api.PostScaling} {
		for name, options := range map[string][]build.Option{"without a retry": {withoutCount}, "with a retry": {withoutCount, withRetry}} {
			live := map[api.Phase]int32{api.PreScaling: 3}[at]
			in, _ := playToEnd(t, observed(web(live, withRecord(api.Failed, failedAt(at), pausedAtZero)), pilot(options...)))
			if n := statefulset.Replicas(in.Set); n != 3 {
				t.Errorf("failed at %s, %s: the set has %d replicas, want 3", at, name, n)
			}
		}
	}
}

// TestMembersRemovedDuringPauseAreDrained: the pre hook of a pause is told that the members come back, so it does not drain them.
func TestMembersRemovedDuringPauseAreDrained(t *testing.T) {
	for name, set := range map[string]*appsv1.StatefulSet{
		"the count is lowered during the pause":          pausedSet(0, api.Succeeded, pausedAtZero),
		"another client has started a member":            pausedSet(1, api.Succeeded, pausedAtZero),
		"the pause failed after the members had ended":   pausedSet(0, api.Failed, failedAt(api.PostScaling), pausedAtZero),
		"the members could not be started":               pausedSet(0, api.Failed, failedAt(api.PreScaling), startingAfterPause),
		"another client has started a member after that": pausedSet(1, api.Failed, failedAt(api.PreScaling), startingAfterPause),
	} {
		t.Run(name, func(t *testing.T) {
			in, hooks := playToEnd(t, observed(set, pilot(withPreHook, wants(1), withRetry)))
			if n := statefulset.Replicas(in.Set); n != 1 {
				t.Errorf("the set has %d replicas, want 1", n)
			}
			if !slices.ContainsFunc(hooks, drained("1,2")) {
				t.Errorf("no hook was told that members 1 and 2 are removed: %v", hooks)
			}
		})
	}
}

// drained reports whether a hook was told that these members are removed for good.
func drained(members string) func(env map[string]string) bool {
	return func(env map[string]string) bool {
		return env["DRYDOCK_REMOVED"] == members && env["DRYDOCK_PAUSED"] == "false"
	}
}

// TestAllMembersAreDrainedIfPauseEndsAtZero: either all members are drained, or the record stays paused. Otherwise the ledger might order
// the removal of all members. The user ends the pause and requests no members: after another client has started one member of three, or as
// a retry of a pause that failed when the members had ended.
func TestAllMembersAreDrainedIfPauseEndsAtZero(t *testing.T) {
	for name, set := range map[string]*appsv1.StatefulSet{
		"one member was started":         pausedSet(1, api.Succeeded, pausedAtZero),
		"the members ended too late":     pausedSet(0, api.Failed, failedAt(api.Scaling), pausedAtZero),
		"the hook post of a pause fails": pausedSet(0, api.Failed, failedAt(api.PostScaling), pausedAtZero),
	} {
		end, hooks := playToEnd(t, observed(set, pilot(withPreHook, wants(0), withRetry)))
		if record, err := api.LoadScale(end.Set); err != nil || !record.Paused && !slices.ContainsFunc(hooks, drained("0,1,2")) {
			t.Errorf("%s: %s, hooks %v, %v", name, build.Words(record), hooks, err)
		}
	}
}

// TestPauseDoesNotWaitForCleanupHook: the claims of a paused set are kept, so the wait would never end.
func TestPauseDoesNotWaitForCleanupHook(t *testing.T) {
	in := observed(pausedSet(0, api.PostScaling, pausedAtZero), pilot(pausedScaler, withCleanupHook))
	if p := Decide(in); p.Reason != api.ScalingCompleted {
		t.Errorf("%s, want that the scaling is completed", p)
	}
}

// TestPauseKeepsClaims: whatever a user writes during a pause, no write to zero replicas leaves a retention policy that deletes claims. The
// user's policy counts again when the pods are back.
// Invariants: I1.
func TestPauseKeepsClaims(t *testing.T) {
	deleting := build.WhenScaled(deletes)
	for name, in := range map[string]Input{
		"the policy was Delete before the pause": observed(web(3, deleting, withEndedScaling(3)), pilot(pausedScaler)),
		"a manifest starts the pods and writes Delete": observed(web(3, deleting, build.WithStop(stopOfPause()),
			withRecord(api.Succeeded, pausedAtZero)), pilot(pausedScaler)),
		"a manifest does so while the pods end": observed(web(3, deleting, build.WithStop(stopOfPause()),
			withRecord(api.Scaling, pausedAtZero)), pilot(pausedScaler)),
		"a manifest does so, and the policy was set aside": observed(web(3, setAside(), deleting,
			withRecord(api.Succeeded, pausedAtZero)), pilot(pausedScaler)),
	} {
		t.Run(name, func(t *testing.T) {
			end, _ := playToEnd(t, in)
			if n, policy := statefulset.Replicas(end.Set), statefulset.WhenScaled(end.Set); n != 0 || policy != retains {
				t.Errorf("paused with %d replicas and the policy %s", n, policy)
			}
			end.Scalers[0] = build.With(end.Scalers[0].DeepCopy(), resumed)
			end, _ = playToEnd(t, end)
			if n, policy := statefulset.Replicas(end.Set), statefulset.WhenScaled(end.Set); n != 3 || policy != deletes {
				t.Errorf("after the pause, it has %d replicas and the policy %s", n, policy)
			}
		})
	}
}

// TestPauseSaysSoInItsCondition: Progressing says what the members wait for.
func TestPauseSaysSoInItsCondition(t *testing.T) {
	asleep := build.WithSleep(build.Sleep(api.Asleep))
	for name, row := range map[string]struct {
		in   Input
		want api.Reason
	}{
		"paused": {observed(pausedSet(0, api.Succeeded, pausedAtZero), pilot(pausedScaler)), api.SetPaused},
		"asleep": {observed(web(0, asleep, build.WithStop(build.Stop()), withRecord(api.Succeeded, pausedAtZero)), pilot()),
			api.StaysAsleep},
		"paused and asleep": {observed(web(0, asleep, build.WithStop(build.Stop()), withRecord(api.Succeeded, pausedAtZero)),
			pilot(pausedScaler)), api.StaysAsleep},
		"neither": {observed(web(3, withEndedScaling(3)), pilot()), api.UpToDate},
	} {
		status := reportedStatus(Decide(row.in), "pilot")
		if status == nil {
			t.Fatalf("%s: no status", name)
		}
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionProgressing); c == nil || c.Reason != string(row.want) ||
			c.Status != "False" {
			t.Errorf("%s: %+v", name, c)
		}
	}
}
