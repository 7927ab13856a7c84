package detectresize

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resize"
	"drydock.dev/test/kit/build"
)

// ofOperator returns a set that an operator has created with the size. Its pause is left out.
func ofOperator(size, class string, options ...build.Option) objects {
	return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", size, class),
		build.ControlledBy("Database", "main"), build.Annotation(api.OwnerPolicyAnnotation, "ignore")}, options...)...)}
}

// TestRequests: requests that start an operation, and requests that do not.
func TestRequests(t *testing.T) {
	retry, named := build.Annotation(api.RetryAnnotation, ""), build.Annotation(api.RetryAnnotation, build.ID)
	failed := build.Operation(api.Failed, func(r *api.Resize) { r.FailedAt = api.Moving })
	strategy := build.Annotation(api.StrategyAnnotation, "rolling")
	larger := bound(build.Claim("data-web-1", "100Mi"))
	expandableClaims := append(append(expandable("data-web-0", "64Mi", "64Mi"), expandable("data-web-1", "64Mi", "64Mi")...), pods()...)
	expandableTemplate := objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi", expandableClass),
		build.Resize("data=128Mi"))}
	mixed := append(append(expandable("data-web-0", "64Mi", "64Mi"), larger...), pods()...)
	partly := build.Operation(api.Failed, build.Members(api.MemberMoved, "data-web-1"), build.Members(api.MemberKept, "data-web-0"),
		build.ReplacesSet, func(r *api.Resize) { r.FailedAt = api.Moving })
	moved := bound(build.Claim("data-web-1", "128Mi", build.BoundTo("pv-new-data-web-1")))
	rolledBack := build.Operation(api.Succeeded, func(r *api.Resize) {
		r.Kind, r.RollsBack, r.Request = api.KindRollback, "0123456789ac", "data=256Mi"
	})
	ofFormerSet := rolledBack.Clone()
	ofFormerSet.Set.UID = "uid-former"
	twoSizes := append(append(claims("data-web-0"), bound(build.Claim("data-web-1", "128Mi"))...), pods()...)
	check(t,
		row{"claims are copied: pause-owner is next", given(set(), bothMembers())},
		row{"members are moved one after the other", given(set(strategy), bothMembers())},
		row{"claims can grow in place: only the record is written", given(expandableTemplate, expandableClaims)},
		row{"one claim grows, another shrinks", given(objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi", expandableClass),
			build.Resize("data=80Mi"))}, mixed)},
		row{"only the template differs",
			given(set(), bound(build.Claim("data-web-0", "128Mi")), bound(build.Claim("data-web-1", "128Mi")), pods())},
		row{"the start removes the retry annotation", given(set(build.Status(failed), retry), bothMembers())},
		row{"a retry continues with the members that are not moved yet",
			given(objects{build.Set("web", build.Replicas(2), build.Template("data", "128Mi", "fixed"), build.Resize("data=128Mi"),
				build.Status(partly), retry)},
				claims("data-web-0"), moved, pods())},
		row{"the same request failed before: it needs a retry", given(set(build.Status(failed)), bothMembers())},
		row{"another request after a failure starts", given(set(build.Status(failed), build.Resize("data=256Mi")), bothMembers())},
		row{"there is no set", given()},
		row{"the set is being deleted", given(set(build.Deleting()), bothMembers())},
		row{"the set is not opted in", given(set(build.Label(api.ManagedLabel, "")), bothMembers())},
		row{"there is no request", given(objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi", "fixed"))}, bothMembers())},
		row{"an operation runs", given(set(build.Status(build.Operation(api.Moving))), bothMembers())},
		row{"an operation runs, and a retry is requested", given(set(build.Status(build.Operation(api.Reverting)), retry), bothMembers())},
		row{"every claim fulfils the request", given(set(build.Resize("data=64Mi")), bothMembers())},
		row{"every claim fulfils the request: a retry annotation is removed", given(set(build.Resize("data=64Mi"), retry), bothMembers())},
		row{"every claim matches its template", given(set(build.Resize("auto")), bothMembers())},
		row{"an operator has created the set again with larger templates, which are the request",
			given(ofOperator("128Mi", "fixed", build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner)), bothMembers())},
		row{"an operator has created the set again with smaller templates, which are the request",
			given(ofOperator("32Mi", "fixed", build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner)), bothMembers())},
		row{"an operator has created the set again with larger templates, and the claims grow in place",
			given(ofOperator("128Mi", expandableClass,
				build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner)), expandableClaims)},
		row{"an operator has created the set again with other templates, which are no request",
			given(ofOperator("128Mi", "fixed"), bothMembers())},
		row{"the request on the set counts, not the templates of its operator", given(ofOperator("128Mi", "fixed",
			build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner), build.Resize("data=32Mi")), bothMembers())},
		row{"the operator is ignored, and only the template differs: it is left to the operator", given(ofOperator("128Mi", "fixed",
			build.Resize("data=64Mi")), bothMembers())},
		row{"the operator is ignored, and only the template differs: a retry changes it once", given(ofOperator("128Mi", "fixed",
			build.Resize("data=64Mi"), named, build.Status(build.Operation(api.Refused, func(r *api.Resize) { r.Request = "data=64Mi" }))),
			bothMembers())},
		row{"the operator is ignored, and the claims have grown by usage", given(ofOperator("32Mi", "fixed", build.GrowTo("data=64Mi", "")),
			bothMembers())},
		row{"the operator is ignored, only the template differs, and a volume is nearly full: it grows", given(ofOperator("32Mi",
			expandableClass, build.Resize("data=64Mi"), build.GrowTo("data=128Mi", "data=64Mi")), expandable("data-web-0", "64Mi", "64Mi"),
			expandable("data-web-1", "64Mi", "64Mi"), pods())},
		row{"no operator makes the set, and only the template differs", given(objects{build.Set("web", build.Replicas(2),
			build.Template("data", "128Mi", "fixed"), build.Resize("data=64Mi"), build.Annotation(api.OwnerPolicyAnnotation, "ignore"))},
			bothMembers())},
		row{"the request by templates failed before: it needs a retry", given(ofOperator("128Mi", "fixed",
			build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner), build.Status(failed)), bothMembers())},
		row{"the request by templates failed before, and a retry is requested", given(ofOperator("128Mi", "fixed",
			build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner), build.Status(failed), named), bothMembers())},
		row{"a rollback has restored claims of two sizes: the template of the larger one is no request",
			given(ofOperator("128Mi", "fixed", build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner), build.Status(rolledBack)),
				twoSizes)},
		row{"a rollback has restored claims of two sizes, and a retry is requested", given(ofOperator("128Mi", "fixed",
			build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner), build.Status(rolledBack), named), twoSizes)},
		row{"an operator has created the set again after a rollback: the templates are a request again", given(ofOperator("128Mi", "fixed",
			build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner), build.Status(ofFormerSet)), twoSizes)},
		row{"the claims have grown by usage, and the template has not: it is no request", given(ofOperator("64Mi", "fixed",
			build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner),
			build.Status(build.Operation(api.Succeeded, build.Growth("data=100Mi"), func(r *api.Resize) { r.Request = "data=64Mi" }))),
			claims("data-web-0"), larger, pods())},
		row{"the request on the set was withdrawn after it had failed: the templates are no request any more", given(ofOperator("128Mi", "fixed",
			build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner),
			build.Status(build.Operation(api.Failed, func(r *api.Resize) { r.Request = "data=1Gi" }))), bothMembers())},
		row{"a request by templates succeeded, and a user has enlarged a claim since", given(ofOperator("64Mi", "fixed",
			build.Annotation(api.TemplatesAnnotation, api.TemplatesOwner),
			build.Status(build.Operation(api.Succeeded, func(r *api.Resize) { r.Request = "data=64Mi" }))), claims("data-web-0"), larger, pods())},
		row{"an unreadable record is reported", given(set(build.Annotation(api.StatusAnnotation, "{}")), bothMembers())},
		row{"an unreadable request", given(set(build.Resize("much")), bothMembers())},
	)
}

// refusedBecause stores a refusal of the set's present request.
func refusedBecause(reason api.Reason, message string) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) {
		build.Status(build.Operation(api.Refused, func(r *api.Resize) {
			r.Request, r.Reason, r.Message, r.RefusalDigest = s.Annotations[api.ResizeAnnotation], reason, message, operation.RefusalDigest(s)
			r.Finished = operation.Moment(build.Now.Add(-time.Hour))
		}))(s)
	})
}

// TestRefusals: a refusal touches nothing, and the request is judged again each time.
func TestRefusals(t *testing.T) {
	nvme := build.Resize("data=128Mi@nvme")
	unknown := build.Stored(Decide(given(set(nvme), bothMembers()))).Message
	deniedMover := func(in *Input) { in.PodRejected = "pods is forbidden: exceeded quota: team" }
	deniedHook := func(in *Input) { in.HookDenied = "drydock.dev/before-member: pods is forbidden: violates PodSecurity" }
	retry := build.Annotation(api.RetryAnnotation, "now")
	tied := bound(build.Claim("data-web-0", "64Mi", build.Link(api.RoleSource, "data-web-0")))
	pending := objects{build.Claim("data-web-0", "64Mi", build.BoundTo(""))}
	check(t,
		row{"a class that does not exist", given(set(nvme), bothMembers())},
		row{"the cause remains: nothing is written", given(set(nvme, refusedBecause(api.UnknownClass, unknown)), bothMembers())},
		row{"the cause is gone: the resize starts", given(set(refusedBecause(api.QuotaExceeded, "full")), bothMembers())},
		row{"another reason replaces the refusal", given(set(nvme, refusedBecause(api.QuotaExceeded, "full")), bothMembers())},
		row{"the same reason with another message: no Event",
			given(set(nvme, refusedBecause(api.UnknownClass, "storage class ssd does not exist")), bothMembers())},
		row{"a retry is answered with the refusal again", given(set(nvme, refusedBecause(api.UnknownClass, unknown), retry), bothMembers())},
		row{"the API server would reject the movers' pods", with(given(set(), bothMembers()), deniedMover)},
		row{"the API server would reject a hook's pod", with(given(set(), bothMembers()), deniedHook)},
		row{"claims still belong to another operation: the resize waits", given(set(), tied, claims("data-web-1"), pods())},
		row{"a claim is not bound yet", given(set(), pending, claims("data-web-1"), pods())},
		row{"a retry by an event has to wait: it is stored as an annotation",
			with(given(set(build.Status(build.Operation(api.Failed, func(r *api.Resize) { r.FailedAt = api.Moving }))), tied,
				claims("data-web-1"), pods()),
				func(in *Input) { in.Retry = &resize.Retry{} })},
	)
}

// oldVolume returns the old volume that the operation retained for the claim.
func oldVolume(claim string) objects {
	return objects{build.Volume("pv-old-"+claim, build.Claim(claim, "32Mi"), build.Released(), build.Retained(api.RoleOldVolume, claim),
		build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(time.Hour).Format(time.RFC3339)))}
}

// TestRollbackRequests: a rollback starts if all old volumes are available.
func TestRollbackRequests(t *testing.T) {
	requested := build.Annotation(api.RollbackAnnotation, build.ID)
	ordered := build.Edit(func(s *appsv1.StatefulSet) { // as kubectl drydock rollback orders it under an operator
		build.Annotation(api.RollbackAnnotation, build.ID+"@"+string(s.UID)+"/1")(s)
	})
	answered := func(record *api.Resize) *api.Resize {
		record.AnsweredRollback = build.ID + "@" + string(build.Set("web").UID) + "/1"
		return record
	}
	old := func(r *api.Resize) {
		for _, m := range r.Moves() {
			m.OldVolume = "pv-old-" + m.Claim
		}
	}
	done := build.Operation(api.Succeeded, build.Members(api.MemberMoved, "data-web-0", "data-web-1"), old)
	partly := build.Operation(api.Failed, build.Members(api.MemberMoved, "data-web-1"), build.Members(api.MemberKept, "data-web-0"), old,
		func(r *api.Resize) { r.FailedAt = api.Moving })
	kept := append(oldVolume("data-web-0"), oldVolume("data-web-1")...)
	again := func(phase api.Phase) *api.Resize {
		return build.Operation(phase, build.RollbackOf(build.ID), func(r *api.Resize) { r.Operation = "ba9876543210" })
	}
	tied := bound(build.Claim("data-web-0", "64Mi", build.Link(api.RoleNewClaim, "data-web-0")))
	check(t,
		row{"the rollback starts, and its annotation is removed", given(set(requested, build.Status(done)), bothMembers(), kept)},
		row{"the set was created again, and its pods belong to the former set",
			given(set(requested, build.Status(done), build.UID("uid-2")), bothMembers(), kept)},
		row{"another operation runs", given(set(requested, build.Status(build.Operation(api.Moving))), bothMembers(), kept)},
		row{"the set is not opted in", given(set(requested, build.Label(api.ManagedLabel, "")), bothMembers(), kept)},
		row{"the record is unreadable", given(set(requested, build.Annotation(api.StatusAnnotation, "{}")), bothMembers(), kept)},
		row{"claims still belong to another operation: the rollback waits",
			given(set(requested, build.Status(done)), tied, claims("data-web-1"), pods(), kept)},
		row{"no old volume is retained", given(set(requested, build.Status(build.Operation(api.Succeeded))), bothMembers())},
		row{"one of two old volumes is gone", given(set(requested, build.Status(done)), bothMembers(), oldVolume("data-web-0"))},
		row{"only some members were moved: these members go back",
			given(set(requested, build.Status(partly)), bothMembers(), oldVolume("data-web-1"))},
		row{"under an operator, the rollback starts", given(ofOperator("64Mi", "fixed", ordered, build.Status(done)), bothMembers(), kept)},
		row{"under an operator, no old volume is retained: the annotation may be copied again, so it stays",
			given(ofOperator("64Mi", "fixed", ordered, build.Status(build.Operation(api.Succeeded))), bothMembers())},
		row{"under an operator, no old volume is retained, and the record is lost",
			given(ofOperator("64Mi", "fixed", ordered), bothMembers())},
		row{"under an operator, the refused annotation is copied again",
			given(ofOperator("64Mi", "fixed", ordered, build.Status(answered(build.Operation(api.Succeeded)))), bothMembers())},
		row{"under an operator, the annotation is refused, and a resize is requested", given(ofOperator("64Mi", "fixed", ordered,
			build.Resize("data=32Mi"), build.Status(build.Operation(api.Succeeded))), bothMembers())},
		row{"under an operator, the annotation names no set",
			given(ofOperator("64Mi", "fixed", requested, build.Status(done)), bothMembers(), kept)},
		row{"a retry event comes while the rollback waits", with(given(set(requested), tied, claims("data-web-1"), pods(), kept),
			func(in *Input) { in.Retry = &resize.Retry{} })},
		row{"under an operator, the rollback has begun, and its annotation is copied again",
			given(ofOperator("64Mi", "fixed", ordered, build.Status(answered(again(api.Moving)))), bothMembers(), kept)},
		row{"under an operator, the rollback failed, and its annotation is copied again",
			given(ofOperator("64Mi", "fixed", ordered, build.Status(answered(again(api.Failed)))), bothMembers(), kept)},
		row{"under an operator, the rollback failed, and a user repeats it", given(ofOperator("64Mi", "fixed",
			build.Annotation(api.RollbackAnnotation, build.ID+"@"+string(build.Set("web").UID)+"/2"),
			build.Status(answered(again(api.Failed)))), bothMembers(), kept)},
		row{"under an operator, the order of another user is answered, and the first one is copied again", given(ofOperator("64Mi", "fixed",
			ordered, build.Status(build.Operation(api.Succeeded, func(r *api.Resize) {
				r.AnsweredRollback = "ba9876543210@" + string(build.Set("web").UID) + "/2"
			}))), bothMembers(), kept)},
		row{"under an operator, an old rollback is copied again after a resize",
			given(ofOperator("64Mi", "fixed", ordered, build.Status(answered(done))), bothMembers(), kept)},
	)
}

// TestExpansions: claims grow in place while the set runs.
func TestExpansions(t *testing.T) {
	const long = time.Hour
	first, still := expandable("data-web-0", "128Mi", "128Mi"), expandable("data-web-1", "128Mi", "64Mi")
	one := expanding(done(0), keepsTemplates)
	ready := objects{member(0, long), member(1, long)}
	waits := func(name string) objects { return expandable(name, "128Mi", "64Mi", fileSystemPending(6*time.Minute)) }
	waiting := append(waits("data-web-0"), waits("data-web-1")...)
	unready := build.Edit(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	mixed := func() *api.Resize {
		r := expanding(done(0))
		r.Expansions = r.Expansions[:1]
		build.Members(api.MemberPending, "data-web-1")(r)
		return r
	}()
	check(t,
		row{"the claims request their new sizes",
			given(expandableSet(expanding()), expandable("data-web-0", "64Mi", "64Mi"), expandable("data-web-1", "64Mi", "64Mi"), ready)},
		row{"one claim requested its size before a crash", given(expandableSet(expanding()), still[:0], expandable("data-web-0", "128Mi", "64Mi"),
			expandable("data-web-1", "64Mi", "64Mi"), ready)},
		row{"one claim has grown: this is stored", given(expandableSet(expanding()), first, still, ready)},
		row{"nothing is stored twice", given(expandableSet(one), first, still, ready)},
		row{"another process requests more", given(expandableSet(one), first, expandable("data-web-1", "256Mi", "64Mi"), ready)},
		row{"the storage gave more than requested", given(expandableSet(one), first, expandable("data-web-1", "128Mi", "1Gi"), ready)},
		row{"all claims have grown: the set gets its new templates",
			given(expandableSet(expanding(done(0))), first, expandable("data-web-1", "128Mi", "128Mi"), ready)},
		row{"all claims have grown, and the set has its templates: the operation is done",
			given(expandableSet(one, build.Annotation(api.DeadLettersAnnotation, "[]")), first, expandable("data-web-1", "128Mi", "128Mi"), ready)},
		row{"all claims have grown, and other claims have to be copied",
			given(expandableSet(mixed), first, expandable("data-web-1", "64Mi", "64Mi"), ready)},
		row{"file systems grow only when mounted: the highest ordinal is evicted", given(expandableSet(expanding()), waiting, ready)},
		row{"file systems grow only when mounted, growth by usage: no pod is evicted",
			given(expandableSet(expanding(build.Growth("data=128Mi"))), waiting, ready)},
		row{"file systems grow only when mounted, growth by usage, past the deadline",
			given(expandableSet(expanding(build.Due(-time.Second), build.Growth("data=128Mi"))), waiting, ready)},
		row{"another claim of the highest ordinal is being deleted: its pod is not evicted",
			given(expandableSet(expanding(), build.Template("logs", "1Gi", "roomy")), waiting, ready,
				objects{build.Claim("logs-web-1", "1Gi", build.Deleting())})},
		row{"a budget does not allow the eviction", with(given(expandableSet(expanding()), waiting, ready),
			func(in *Input) { in.Budget = "it would violate the pod's disruption budget" })},
		row{"the highest ordinal was restarted since: the next one is evicted",
			given(expandableSet(expanding()), waiting, objects{member(0, long), member(1, time.Minute)})},
		row{"the restart waits for an approval",
			given(expandableSet(expanding(), build.Annotation(api.CutoverAnnotation, api.CutoverApprove)), waiting, ready)},
		row{"the restart was approved", given(expandableSet(expanding(), build.Annotation(api.CutoverAnnotation, api.CutoverApprove),
			build.Annotation(api.ApproveAnnotation, build.ID)), waiting, ready)},
		row{"the restart waits for a window",
			given(expandableSet(expanding(), build.Annotation(api.CutoverAnnotation, "Mon 02:00-03:00")), waiting, ready)},
		row{"the restart waited for a window until the deadline",
			given(expandableSet(expanding(build.Due(-time.Second)), build.Annotation(api.CutoverAnnotation, "Mon 02:00-03:00")), waiting, ready)},
		row{"the primary comes last", given(expandableSet(expanding(), build.Annotation(api.PrimaryAnnotation, "role=primary")), waiting,
			objects{member(0, long), member(1, long, build.Label("role", "primary"))})},
		row{"the replacement would have another revision", given(expandableSet(expanding(), build.Edit(func(s *appsv1.StatefulSet) {
			s.Status.UpdateRevision = "web-2"
			s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		})), waiting, objects{member(0, long), member(1, long, build.Label(appsv1.ControllerRevisionHashLabelKey, "web-1"))})},
		row{"both were restarted since: another restart would not help",
			given(expandableSet(expanding()), waiting, objects{member(0, time.Minute), member(1, time.Minute)})},
		row{"a member is not ready, and the other was restarted since: the unready one is evicted",
			given(expandableSet(expanding()), waiting, objects{member(0, long, unready), member(1, time.Minute)})},
		row{"the highest ordinal has no pod: its file system grows with the next pod",
			given(expandableSet(expanding()), waiting, objects{member(0, long)})},
		row{"the other member is terminating",
			given(expandableSet(expanding()), waiting, objects{member(0, long), member(1, long, build.Deleting())})},
		row{"the file system has a moment to grow",
			given(expandableSet(one), first, expandable("data-web-1", "128Mi", "64Mi", fileSystemPending(4*time.Minute)), ready)},
		row{"no pod has the volume mounted: its file system grows with the next mount",
			given(expandableSet(one), first, waits("data-web-1"), ready[:1])},
		row{"a foreign pod uses the claim", given(expandableSet(one), first, waits("data-web-1"), ready[:1],
			objects{build.Pod("debug", []string{"data-web-1"}, build.Age(long))})},
		row{"the deadline has passed, but all claims have grown: the operation continues",
			given(expandableSet(expanding(done(0), build.Due(-time.Second))), first,
				expandable("data-web-1", "128Mi", "128Mi"), ready)},
		row{"the deadline has passed, and one claim has not grown",
			given(expandableSet(expanding(done(0), build.Due(-time.Second))), first, still, ready)},
	)
}

// TestFailedExpansions: a claim stops requesting a size only if the storage has refused it.
func TestFailedExpansions(t *testing.T) {
	aborts := build.Annotation(api.AbortAnnotation, "")
	first, still := expandable("data-web-0", "128Mi", "128Mi"), expandable("data-web-1", "128Mi", "64Mi")
	grows := expandable("data-web-1", "128Mi", "64Mi", attempted("128Mi", corev1.PersistentVolumeClaimControllerResizeInProgress))
	cannot := expandable("data-web-1", "128Mi", "64Mi", infeasible("128Mi", "the pool has 80Mi left"))
	on := func(reason api.Reason, groups ...objects) Input {
		return given(append([]objects{expandableSet(expanding(failedBecause(reason)))}, groups...)...)
	}
	refuses := func(in *Input) { in.Rejected = "field can not be less than previous value" }
	check(t,
		row{"the user aborts", given(expandableSet(expanding(), aborts), first, grows)},
		row{"the user aborts, and no volume is growing", given(expandableSet(expanding(), aborts), first, cannot)},
		row{"the user aborts, and two volumes are growing",
			given(expandableSet(expanding(), aborts), expandable("data-web-0", "128Mi", "64Mi"), grows)},
		row{"the user opts out", given(expandableSet(expanding(), build.Label(api.ManagedLabel, "")), first, still)},
		row{"the API server rejects the write", with(given(expandableSet(expanding()), first, still),
			func(in *Input) { in.Rejected = "exceeded quota" })},
		row{"the storage reports infeasible", given(expandableSet(expanding()), first, cannot)},
		row{"a claim is gone", given(expandableSet(expanding()), first)},
		row{"a claim was replaced", given(expandableSet(expanding()), first, expandable("data-web-1", "64Mi", "64Mi", build.UID("uid-2")))},
		row{"aborted while the storage grows the volume: the claim keeps its request", on(api.Aborted, first, grows)},
		row{"aborted, and the storage does not say what it does: the claim keeps its request", on(api.Aborted, first, still)},
		row{"aborted after the storage refused: the claim requests less", on(api.Aborted, first, cannot)},
		row{"aborted, and the storage refused more than the volume has got since: the claim requests what the volume has",
			on(api.Aborted, first, expandable("data-web-1", "128Mi", "80Mi", infeasible("128Mi", "the pool is full")))},
		row{"infeasible: the claim requests less", on(api.ExpandInfeasible, first, cannot)},
		row{"infeasible, after the volume grew more than its file system: the claim requests what the volume has",
			given(expandableSet(expanding(failedBecause(api.ExpandInfeasible), grewFrom("100Mi"))), first, cannot)},
		row{"the claim requests less: the operation ends", on(api.ExpandInfeasible, first, expandable("data-web-1", "67108865", "64Mi",
			infeasible("128Mi", "the pool has 80Mi left")))},
		row{"the claim never requested more: the operation ends", on(api.Aborted, first, expandable("data-web-1", "64Mi", "64Mi"))},
		row{"the volume has grown, and its file system will follow",
			on(api.Aborted, first, expandable("data-web-1", "128Mi", "64Mi", fileSystemPending(time.Minute)))},
		row{"after a missed deadline, the claim keeps its request", on(api.DeadlineExceeded, first, grows)},
		row{"the API server rejects the smaller request: the message says so", with(on(api.ExpandInfeasible, first, cannot), refuses)},
	)
}

// bothClaims returns the two claims, alike.
func bothClaims(requested, present string, options ...build.Option) objects {
	return append(expandable("data-web-0", requested, present, options...), expandable("data-web-1", requested, present, options...)...)
}

// TestSmallerRequests: an expansion to 1Ti did not end in time, and now the user requests 128Mi.
func TestSmallerRequests(t *testing.T) {
	late := func(r *api.Resize) { r.Request, r.Reason, r.FailedAt = "data=1Ti", api.DeadlineExceeded, api.Expanding }
	after := func(options ...build.Option) objects {
		return expandableSet(build.Operation(api.Failed, late), options...)
	}
	grows := attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress)
	cannot := infeasible("1Ti", "the pool has 200Mi left")
	mount := []build.Option{fileSystemPending(24 * time.Hour), attempted("1Ti", corev1.PersistentVolumeClaimNodeResizePending)}
	refused := build.Stored(Decide(given(after(), bothClaims("1Ti", "64Mi", grows), pods())))
	lowering := build.Stored(Decide(given(after(), bothClaims("1Ti", "64Mi", cannot), pods())))
	lowering.Deadline = nil
	offline := build.Annotation(api.ResizeMethodAnnotation, string(api.MethodExpandOffline))
	copies := build.Annotation(api.ResizeMethodAnnotation, string(api.MethodCopy))
	check(t,
		row{"the storage is growing the volumes: refused", given(after(), bothClaims("1Ti", "64Mi", grows), pods())},
		row{"the storage is growing one volume: refused",
			given(after(), expandable("data-web-0", "128Mi", "128Mi"), expandable("data-web-1", "1Ti", "64Mi", grows), pods())},
		row{"the driver does not say what it does: refused", given(after(), bothClaims("1Ti", "64Mi"), pods())},
		row{"the method expand-offline: refused, and no pod stops", given(after(offline), bothClaims("1Ti", "64Mi", grows), pods())},
		row{"a retry: refused again", given(expandableSet(refused, build.Annotation(api.RetryAnnotation, "now")),
			bothClaims("1Ti", "64Mi", grows), pods())},
		row{"the storage still grows the volumes: nothing is written", given(expandableSet(refused), bothClaims("1Ti", "64Mi", grows), pods())},
		row{"the growth has ended: the volumes are copied", given(expandableSet(refused), bothClaims("1Ti", "1Ti"), pods())},
		row{"the volumes have grown, and their file systems wait for a mount: the volumes are copied",
			given(expandableSet(refused), bothClaims("1Ti", "64Mi", mount...), pods())},
		row{"a requested copy does not wait for the storage", given(after(copies), bothClaims("1Ti", "64Mi", grows), pods())},
		row{"at least 128Mi: the claims keep their requests",
			given(after(build.Resize("data=128Mi+")), bothClaims("1Ti", "64Mi", grows), pods())},
		row{"the storage has refused the larger size: taken", given(expandableSet(refused), bothClaims("1Ti", "64Mi", cannot), pods())},
		row{"taken: the claims request less", given(expandableSet(lowering), bothClaims("1Ti", "64Mi", cannot), pods())},
		row{"taken: the storage grows the volumes to the smaller size",
			given(expandableSet(lowering), bothClaims("128Mi", "64Mi", cannot), pods())},
		row{"taken: the volumes have the smaller size", given(expandableSet(lowering), bothClaims("128Mi", "128Mi"), pods())},
		row{"taken, but no write succeeds until the deadline", given(expandableSet(expanding(keepsTemplates, build.Due(-time.Second))),
			bothClaims("1Ti", "64Mi", cannot), pods())},
		row{"taken, the former size, but no write succeeds until the deadline",
			given(expandableSet(expanding(keepsTemplates, growsTo("64Mi"), build.Due(-time.Second))), bothClaims("1Ti", "64Mi", cannot), pods())},
		row{"the storage has refused the larger size, the former size: taken, and no pod stops",
			given(after(build.Resize("data=64Mi")), bothClaims("1Ti", "64Mi", cannot), pods())},
		row{"the storage has refused the larger size, with expand-offline: the claims request less before a pod stops",
			given(after(offline), bothClaims("1Ti", "64Mi", cannot), pods())},
		row{"the claims request one byte more than they have: there is nothing to do",
			given(after(build.Resize("data=64Mi")), bothClaims("67108865", "64Mi", cannot), pods())},
	)
}

// TestSmallerRequestDuringExpansionChangesNothing: while volumes grow to 1Ti, the user lowers his request to 128Mi, or removes it. The
// operation continues, and its end tells what the user has. Then 128Mi is judged.
func TestSmallerRequestDuringExpansionChangesNothing(t *testing.T) {
	grows := attempted("1Ti", corev1.PersistentVolumeClaimControllerResizeInProgress)
	running := expanding(keepsTemplates, growsTo("1Ti"), func(r *api.Resize) { r.Request = "data=1Ti" })
	removed := build.Edit(func(s *appsv1.StatefulSet) { delete(s.Annotations, api.ResizeAnnotation) })
	decide := func(record *api.Resize, claims objects, options ...build.Option) (*api.Resize, plan.Plan) {
		t.Helper()
		p := Decide(given(expandableSet(record, options...), claims, pods()))
		if slices.ContainsFunc(p.Actions, func(a plan.Action) bool { return a.Resource != plan.StatefulSets && a.Resource != plan.Events }) {
			t.Fatalf("claims or pods are changed: %s", p)
		}
		return build.Stored(p), p
	}
	for name, option := range map[string]build.Option{"lowered": build.Resize("data=128Mi"), "removed": removed} {
		t.Run(name, func(t *testing.T) {
			if _, p := decide(running, bothClaims("1Ti", "64Mi", grows), option); p.Kind != plan.KindWait || p.Reason != api.ExpansionRunning {
				t.Errorf("the operation does not wait for the storage: %s", p)
			}
			if record, p := decide(running, bothClaims("1Ti", "1Ti"), option); record == nil || record.Phase != api.Succeeded {
				t.Errorf("the operation does not succeed: %s", p)
			}
		})
	}
	failing, p := decide(running, bothClaims("1Ti", "64Mi", grows), build.Annotation(api.AbortAnnotation, "now"))
	if failing == nil || !strings.Contains(failing.Message, "still grows claim data-web-0 (and 1 other claim) to 1Ti") {
		t.Fatalf("the abort does not say what continues: %s", p)
	}
	aborted, p := decide(failing, bothClaims("1Ti", "64Mi", grows))
	if aborted == nil || aborted.Phase != api.Failed || aborted.Reason != api.Aborted {
		t.Fatalf("the abort does not end the operation: %s", p)
	}
	refused, p := decide(aborted, bothClaims("1Ti", "64Mi", grows))
	if refused == nil || refused.Phase != api.Refused || refused.Reason != api.ClaimBusy {
		t.Fatalf("a smaller request is not refused: %s", p)
	}
	if shrinking, p := decide(refused, bothClaims("1Ti", "1Ti")); shrinking == nil || shrinking.Phase != api.Planned ||
		len(shrinking.Members) != 2 || shrinking.Members[0].Claims[0].InPlace {
		t.Errorf("the volumes are not copied after the growth: %s", p)
	}
}

// TestGrowth: detect-resize makes claims grow to the floors of growth by usage, once the user's request is fulfilled. It refuses a growth
// whose claims can no longer grow in place; the same request of a user starts.
func TestGrowth(t *testing.T) {
	floor := build.GrowTo("data=128Mi", "")
	over := build.GrowTo("data=128Mi", "data=64Mi")
	expandableClaims := append(expandable("data-web-0", "64Mi", "64Mi"), expandable("data-web-1", "64Mi", "64Mi")...)
	grownClaims := append(expandable("data-web-0", "128Mi", "128Mi"), expandable("data-web-1", "128Mi", "128Mi")...)
	of := func(size string, options ...build.Option) objects {
		return objects{build.Set("web", append([]build.Option{build.Replicas(2), build.Template("data", size, expandableClass)}, options...)...)}
	}
	grown := func(phase api.Phase, request string) build.Option {
		return build.Status(build.Operation(phase, build.Growth("data=128Mi"), func(r *api.Resize) { r.Request = request }))
	}
	copies := build.Annotation(api.ResizeMethodAnnotation, string(api.MethodCopy))
	withoutFloor := build.Edit(func(s *appsv1.StatefulSet) { delete(s.Annotations, api.GrowToAnnotation) })
	check(t,
		row{"every claim can grow", given(of("64Mi", floor), expandableClaims, pods())},
		row{"a class without expansion", given(of("64Mi", floor), bothMembers())},
		row{"a class without expansion, and a request of the user", given(of("64Mi", build.Resize("data=128Mi+")), bothMembers())},
		row{"the growth was refused, and the cause is gone", given(of("64Mi", floor, grown(api.Refused, "")), expandableClaims, pods())},
		row{"a claim of a removed member was never bound: the others do not wait for it",
			given(of("64Mi", floor), expandableClaims, pods(), objects{build.Claim("data-web-2", "64Mi", build.BoundTo(""))})},
		row{"the set requests copies", given(of("64Mi", floor, copies), expandableClaims, pods())},
		row{"a floor without a stored growth", given(of("64Mi", build.Annotation(api.GrowToAnnotation, "data=128Mi")), expandableClaims, pods())},

		row{"the user's request is fulfilled", given(of("64Mi", over, build.Resize("data=64Mi")), expandableClaims, pods())},
		row{"the user's request is not fulfilled: it comes first", given(of("64Mi", floor, build.Template("logs", "1Gi", expandableClass),
			build.Resize("logs=2Gi")), expandableClaims, pods())},
		row{"the user's request is auto", given(of("64Mi", floor, build.Resize("auto")), expandableClaims, pods())},
		row{"the user's request has failed", given(of("64Mi", over, build.Resize("data=64Mi"),
			build.Status(build.Operation(api.Failed, func(r *api.Resize) { r.Request = "data=64Mi" }))), expandableClaims, pods())},
		row{"the growth has failed", given(of("64Mi", floor, grown(api.Failed, "")), expandableClaims, pods())},
		row{"the growth has failed, and the user retries it",
			given(of("64Mi", floor, grown(api.Failed, ""), build.Annotation(api.RetryAnnotation, "now")), expandableClaims, pods())},
		row{"the growth has failed, and grow-volumes raises the floor again", given(of("64Mi", grown(api.Failed, ""),
			build.GrowTo("data=128Mi", "", func(g *api.Growth) { g.After = build.ID })), expandableClaims, pods())},

		row{"a tool applies the user's request again: nothing shrinks",
			given(of("128Mi", over, grown(api.Succeeded, "data=64Mi"), build.Resize("data=64Mi")), grownClaims, pods())},
		row{"growth is turned off: nothing shrinks",
			given(of("128Mi", over, grown(api.Succeeded, "data=64Mi"), build.Resize("data=64Mi"), withoutFloor), grownClaims, pods())},
		row{"growth is turned off after a failure: nothing shrinks",
			given(of("64Mi", over, grown(api.Failed, "data=64Mi"), build.Resize("data=64Mi"), withoutFloor),
				expandable("data-web-0", "128Mi", "128Mi"), expandable("data-web-1", "64Mi", "64Mi"), pods())},
		row{"the user requests a smaller size: it replaces the floor",
			given(of("128Mi", over, grown(api.Succeeded, "data=64Mi"), build.Resize("data=96Mi")), grownClaims, pods())},
		row{"the user has shrunk the volumes, and grow-volumes has not looked since: they do not grow back",
			given(of("96Mi", over, build.Resize("data=96Mi"),
				build.Status(build.Operation(api.Succeeded, func(r *api.Resize) {
					r.Request, r.Templates[0].Size = "data=96Mi", resource.MustParse("96Mi")
				}))), expandable("data-web-0", "96Mi", "96Mi"), expandable("data-web-1", "96Mi", "96Mi"), pods())},
	)
}

// TestLongNamesOfOwnersFitTheRecord: a tenant chooses the owner of its set.
func TestLongNamesOfOwnersFitTheRecord(t *testing.T) {
	in := given(ofOperator("128Mi", "fixed", build.Resize("data=64Mi")), bothMembers())
	in.Set.OwnerReferences[0].Kind, in.Set.OwnerReferences[0].Name = strings.Repeat("K", 200_000), strings.Repeat("n", 100_000)
	record := build.Stored(Decide(in))
	if record.Reason != api.LeftToOwner || len(record.Message) > 2000 {
		t.Errorf("%s with a message of %d bytes", record.Reason, len(record.Message))
	}
}

// TestRetryOfCleanupIsLeftToCleanupPod: cleanup-pod has to see the retry of its cleanup, so detect-resize must not remove the annotation.
func TestRetryOfCleanupIsLeftToCleanupPod(t *testing.T) {
	failed := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Kind: api.KindCleanup, Operation: "c0ffee012345",
		Phase: api.Failed,
		Set:   api.SetRef{Name: "web", UID: "uid-web"}}}
	retry, template := build.Annotation(api.RetryAnnotation, ""), build.Annotation(api.CleanupTemplateAnnotation, "{}")
	cleaned := build.Annotation(api.CleanupAnnotation, failed.Encode())
	upToDate := build.Resize("data=64Mi")
	check(t,
		row{"the retry is for a resize", given(set(upToDate, retry))},
		row{"the retry is for a cleanup", given(set(upToDate, retry, template, cleaned))},
	)
	for name, row := range map[string]struct {
		options []build.Option
		removed bool
	}{
		"a resize starts": {[]build.Option{retry}, true},
		"a resize starts, and a cleanup has failed":     {[]build.Option{retry, template, cleaned}, false},
		"a resize is refused":                           {[]build.Option{retry, build.Resize("much")}, true},
		"a resize is refused, and a cleanup has failed": {[]build.Option{retry, template, cleaned, build.Resize("much")}, false},
	} {
		removed := false
		for _, a := range Decide(given(set(row.options...), bothMembers())).Actions {
			for _, op := range a.Ops {
				removed = removed || op.Op == "remove" && op.Path == "/metadata/annotations/drydock.dev~1retry"
			}
		}
		if removed != row.removed {
			t.Errorf("%s: the retry annotation is removed: %v", name, removed)
		}
	}
}

// TestRetryThatRepeatsNothing is removed, and an Event says where it belongs. A retry that another function takes up stays.
func TestRetryThatRepeatsNothing(t *testing.T) {
	retry, named := build.Annotation(api.RetryAnnotation, "now"), build.Annotation(api.RetryAnnotation, build.ID)
	web := func(options ...build.Option) Input {
		options = append([]build.Option{build.Template("data", "64Mi", "fixed"), retry}, options...)
		return given(objects{build.Set("web", options...)}, bothMembers())
	}
	scaling := func(scaler string) build.Option {
		failed := &api.Scale{Header: api.Header{Version: api.RecordVersion, Kind: api.KindScale, Operation: "5ca1e0123456", Phase: api.Failed,
			Set: api.SetRef{Name: "web", UID: "uid-web"}}, Scaler: api.ScalerRef{Name: scaler}}
		return build.Annotation(api.ScaleAnnotation, failed.Encode())
	}
	rolledBack := build.Operation(api.Succeeded, build.RollbackOf(build.ID), func(r *api.Resize) { r.Operation = "ba9876543210" })
	rollback, ofSleep := build.Annotation(api.RetryAnnotation, "ba9876543210"), build.Annotation(api.RetryAnnotation, build.SleepID)
	refusedSleep := build.WithSleep(build.Sleep(api.Refused))
	sleep := func(phase api.Phase) build.Option { return build.WithSleep(build.Sleep(phase)) }
	cleanup := &api.Cleanup{Header: api.Header{Version: api.RecordVersion, Kind: api.KindCleanup, Operation: "c0ffee012345", Phase: api.Failed,
		Set: api.SetRef{Name: "web", UID: "uid-web"}}}
	check(t,
		row{"nothing has ever begun", web()},
		row{"the resize failed, and its request was withdrawn", web(build.Status(build.Operation(api.Failed)))},
		row{"a scaling failed", web(scaling("pilot"))},
		row{"a scaling failed, and a user wrote the record", web(scaling("$(id)"))},
		row{"every claim fulfils the request, and a sleep was refused", given(set(build.Resize("data=64Mi"), retry, sleep(api.Refused)))},
		row{"a sleep was refused: idle-timeout takes the retry up", web(sleep(api.Refused))},
		row{"a sleep failed: idle-timeout takes the retry up", web(sleep(api.Failed))},
		row{"a sleep runs", web(sleep(api.Waking))},
		row{"a sleep has ended", web(sleep(api.Succeeded))},
		row{"a cleanup failed: cleanup-pod takes the retry up", web(build.Annotation(api.CleanupAnnotation, cleanup.Encode()),
			build.Annotation(api.CleanupTemplateAnnotation, "{}"))},
		row{"the set is not opted in", web(build.Label(api.ManagedLabel, ""))},
		row{"an operator copies it: it stays, and an Event explains it", web(build.ControlledBy("Database", "main"))},
		row{"an operator makes the set, and nothing is left to do: it stays", given(set(build.Resize("data=64Mi"), named,
			build.ControlledBy("Database", "main"), build.Status(build.Operation(api.Failed))))},
		row{"an operator makes the set, and kubectl drydock resize repeats what was rolled back", given(ofOperator("64Mi", "fixed",
			build.Resize("data=128Mi"), build.Status(rolledBack), rollback), bothMembers())},
		row{"an operator makes the set, and the retry is for its sleep", given(ofOperator("64Mi", "fixed", build.Resize("data=128Mi"),
			build.Status(build.Operation(api.Failed)), refusedSleep, ofSleep), bothMembers())},
		row{"an operator makes the set, which fulfils its request, and the retry is for its sleep", given(ofOperator("64Mi", "fixed",
			build.Resize("data=64Mi"), refusedSleep, ofSleep), bothMembers())},
		row{"an operator copies a retry of the past: it stays", web(build.ControlledBy("Database", "main"),
			build.Annotation(api.RetryAnnotation, "ba9876543210"), build.Status(build.Operation(api.Failed)))},
	)
}

// TestFieldRequests: requests for other fields create the set again around its pods.
func TestFieldRequests(t *testing.T) {
	setAsking := func(request string, options ...build.Option) objects {
		return set(append(options, build.Resize(request))...)
	}
	mounts := build.Edit(func(s *appsv1.StatefulSet) {
		s.Spec.Template.Spec.Containers = append(s.Spec.Template.Spec.Containers, corev1.Container{Name: "shipper",
			VolumeMounts: []corev1.VolumeMount{{Name: "logs", MountPath: "/logs"}}})
	})
	serves := build.Edit(func(s *appsv1.StatefulSet) { s.Spec.ServiceName = "db" })
	logs := build.Template("logs", "1Gi", "fixed")
	done := build.Operation(api.Succeeded, func(r *api.Resize) { r.Request = "serviceName=db" })
	check(t,
		row{"another service name: the set is created again", given(setAsking("serviceName=db"), bothMembers())},
		row{"the set already has the service name", given(setAsking("serviceName=db", serves), bothMembers())},
		row{"another process has restored the old service name: the resize starts again",
			given(setAsking("serviceName=db", build.Status(done)), bothMembers())},
		row{"labels and a size change in one operation", given(setAsking("data=128Mi,data/labels/tier=gold"), bothMembers())},
		row{"a label of a template that the set does not have", given(setAsking("tmp/labels/tier=gold"), bothMembers())},
		row{"a removed template: its claims stay", given(setAsking("-logs", logs), bothMembers())},
		row{"a removed template that the pods mount", given(setAsking("-logs", logs, mounts), bothMembers())},
		row{"a removed template that the set does not have", given(setAsking("-logs"), bothMembers())},
		row{"an added template while the set has pods", given(setAsking("+logs=1Gi@fast:RWO"), bothMembers())},
		row{"an added template without pods", given(setAsking("+logs=1Gi@fast:RWO", build.Replicas(0)), claims("data-web-0"))},
		row{"an added template with a class that does not exist", given(setAsking("+logs=1Gi@nvme:RWO", build.Replicas(0)))},
		row{"a partition keeps pods of an older revision",
			given(setAsking("podManagementPolicy=Parallel", build.Edit(partitioned)), bothMembers())},
	)
}

func partitioned(s *appsv1.StatefulSet) {
	partition := int32(1)
	s.Status.CurrentRevision, s.Status.UpdateRevision = "r1", "r2"
	s.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition}}
}
