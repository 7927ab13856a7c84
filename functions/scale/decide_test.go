package scale

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/plan"
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
