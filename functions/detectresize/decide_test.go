package detectresize

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/test/kit/build"
)

// TestRequests: what begins, and what does not.
func TestRequests(t *testing.T) {
	retry := build.Annotation(api.RetryAnnotation, "")
	failed := build.Operation(api.Failed, func(r *api.Resize) { r.FailedAt = api.Moving })
	strategy := build.Annotation(api.StrategyAnnotation, "rolling")
	larger := bound(build.Claim("data-web-1", "100Mi"))
	roomyClaims := append(append(grower("data-web-0", "64Mi", "64Mi"), grower("data-web-1", "64Mi", "64Mi")...), pods()...)
	roomyTemplate := objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi", roomy), build.Resize("data=128Mi"))}
	mixed := append(append(grower("data-web-0", "64Mi", "64Mi"), larger...), pods()...)
	partly := build.Operation(api.Failed, build.Members(api.MemberMoved, "data-web-1"), build.Members(api.MemberKept, "data-web-0"),
		build.ReplacesSet, func(r *api.Resize) { r.FailedAt = api.Moving })
	moved := bound(build.Claim("data-web-1", "128Mi", build.On("pv-new-data-web-1")))
	check(t,
		row{"claims are copied: pause-owner is next", given(set(), both())},
		row{"members are moved one after the other", given(set(strategy), both())},
		row{"claims can grow on their volumes: the intent is written, and nothing else", given(roomyTemplate, roomyClaims)},
		row{"one claim grows, another shrinks", given(objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi", roomy),
			build.Resize("data=80Mi"))}, mixed)},
		row{"only the template is behind", given(set(), bound(build.Claim("data-web-0", "128Mi")),
			bound(build.Claim("data-web-1", "128Mi")), pods())},
		row{"a retry is taken with the beginning", given(set(build.Status(failed), retry), both())},
		row{"a retry goes on with the members that are not moved",
			given(objects{build.Set("web", build.Replicas(2), build.Template("data", "128Mi", "fixed"), build.Resize("data=128Mi"),
				build.Status(partly), retry)},
				claims("data-web-0"), moved, pods())},
		row{"the same request failed before: it waits for a retry", given(set(build.Status(failed)), both())},
		row{"another request after a failure begins", given(set(build.Status(failed), build.Resize("data=256Mi")), both())},
		row{"there is no set", given()},
		row{"the set is being deleted", given(set(build.Deleting()), both())},
		row{"the set is not opted in", given(set(build.Label(api.ManagedLabel, "")), both())},
		row{"nothing is asked for", given(objects{build.Set("web", build.Replicas(2), build.Template("data", "64Mi", "fixed"))}, both())},
		row{"an operation runs", given(set(build.Status(build.Operation(api.Moving))), both())},
		row{"an operation runs, and a retry asks", given(set(build.Status(build.Operation(api.Reverting)), retry), both())},
		row{"every claim is as asked for", given(set(build.Resize("data=64Mi")), both())},
		row{"every claim is as asked for, and a retry is removed", given(set(build.Resize("data=64Mi"), retry), both())},
		row{"claims follow their template, and do", given(set(build.Resize("auto")), both())},
		row{"a record that cannot be read is told", given(set(build.Annotation(api.StatusAnnotation, "{}")), both())},
		row{"a request that cannot be read", given(set(build.Resize("much")), both())},
	)
}

// standing stores that the set's request was refused, as the set is so far.
func standing(reason api.Reason, message string) build.Option {
	return build.Edit(func(s *appsv1.StatefulSet) {
		build.Status(build.Operation(api.Refused, func(r *api.Resize) {
			r.Request, r.Reason, r.Message, r.Judged = s.Annotations[api.ResizeAnnotation], reason, message, resize.JudgedOn(s)
			r.Finished = operation.Moment(build.Now.Add(-time.Hour))
		}))(s)
	})
}

// TestRefusals: nothing was touched, and the request is judged anew each time.
func TestRefusals(t *testing.T) {
	const unknown = "storage class nvme, asked for template data, does not exist; name one of those that kubectl get storageclass lists"
	nvme := build.Resize("data=128Mi@nvme")
	full := func(in *Input) { in.Denied = "pods is forbidden: exceeded quota: team" }
	forbids := func(in *Input) { in.HookDenied = "drydock.dev/before-member: pods is forbidden: violates PodSecurity" }
	retry := build.Annotation(api.RetryAnnotation, "now")
	tied := bound(build.Claim("data-web-0", "64Mi", build.Link(api.RoleSource, "data-web-0")))
	pending := objects{build.Claim("data-web-0", "64Mi", build.On(""))}
	check(t,
		row{"a class that does not exist", given(set(nvme), both())},
		row{"its cause is there still: nothing is written", given(set(nvme, standing(api.UnknownClass, unknown)), both())},
		row{"its cause is gone: the resize begins", given(set(standing(api.QuotaExceeded, "full")), both())},
		row{"another reason is another refusal", given(set(nvme, standing(api.QuotaExceeded, "full")), both())},
		row{"the same reason in other words is no news", given(set(nvme, standing(api.UnknownClass, "storage class ssd does not exist")),
			both())},
		row{"a user who asks again gets an answer", given(set(nvme, standing(api.UnknownClass, unknown), retry), both())},
		row{"the API server would refuse the pods of movers", but(given(set(), both()), full)},
		row{"the API server would refuse the pod of a hook", but(given(set(), both()), forbids)},
		row{"claims that another operation has not let go yet: it waits", given(set(), tied, claims("data-web-1"), pods())},
		row{"a claim is not bound yet", given(set(), pending, claims("data-web-1"), pods())},
		row{"an event asks for a retry, and it has to wait: that is written down",
			but(given(set(build.Status(build.Operation(api.Failed, func(r *api.Resize) { r.FailedAt = api.Moving }))), tied,
				claims("data-web-1"), pods()),
				func(in *Input) { in.Retry = &resize.Retry{} })},
	)
}

// behind is what the operation has left behind of a claim.
func behind(claim string) objects {
	return objects{build.Volume("pv-old-"+claim, build.Claim(claim, "32Mi"), build.Released(), build.Retained(api.RoleRetired, claim),
		build.Annotation(api.RetainedUntilAnnotation, build.Now.Add(time.Hour).Format(time.RFC3339)))}
}

// TestRollbackRequests: old volumes come back, if they are all there.
func TestRollbackRequests(t *testing.T) {
	regret := build.Annotation(api.RollbackAnnotation, build.ID)
	old := func(r *api.Resize) {
		for _, m := range r.Moves() {
			m.OldVolume = "pv-old-" + m.Claim
		}
	}
	done := build.Operation(api.Succeeded, build.Members(api.MemberMoved, "data-web-0", "data-web-1"), old)
	partly := build.Operation(api.Failed, build.Members(api.MemberMoved, "data-web-1"), build.Members(api.MemberKept, "data-web-0"), old,
		func(r *api.Resize) { r.FailedAt = api.Moving })
	kept := append(behind("data-web-0"), behind("data-web-1")...)
	tied := bound(build.Claim("data-web-0", "64Mi", build.Link(api.RoleSuccessor, "data-web-0")))
	check(t,
		row{"it begins, and is asked for no more", given(set(regret, build.Status(done)), both(), kept)},
		row{"the set was created anew, and its pods belong to the one before", given(set(regret, build.Status(done), build.UID("uid-2")), both(),
			kept)},
		row{"another operation runs", given(set(regret, build.Status(build.Operation(api.Moving))), both(), kept)},
		row{"the set is not opted in", given(set(regret, build.Label(api.ManagedLabel, "")), both(), kept)},
		row{"a record that cannot be read", given(set(regret, build.Annotation(api.StatusAnnotation, "{}")), both(), kept)},
		row{"claims are not let go yet: it waits", given(set(regret, build.Status(done)), tied, claims("data-web-1"), pods(), kept)},
		row{"nothing is kept", given(set(regret, build.Status(build.Operation(api.Succeeded))), both())},
		row{"one of two is not kept", given(set(regret, build.Status(done)), both(), behind("data-web-0"))},
		row{"only a part of the members was moved: that part goes back",
			given(set(regret, build.Status(partly)), both(), behind("data-web-1"))},
	)
}

// TestExpansions: claims grow on their volumes while the set runs.
func TestExpansions(t *testing.T) {
	const long = time.Hour
	first, still := grower("data-web-0", "128Mi", "128Mi"), grower("data-web-1", "128Mi", "64Mi")
	one := expanding(settled(0), templatesAreRight)
	ready := objects{member(0, long), member(1, long)}
	waits := func(name string) objects { return grower(name, "128Mi", "64Mi", unfinished(6*time.Minute)) }
	waiting := append(waits("data-web-0"), waits("data-web-1")...)
	unready := build.Edit(func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	mixed := func() *api.Resize {
		r := expanding(settled(0))
		r.Expansions = r.Expansions[:1]
		build.Members(api.MemberPending, "data-web-1")(r)
		return r
	}()
	check(t,
		row{"the claims are told", given(roomySet(expanding()), grower("data-web-0", "64Mi", "64Mi"), grower("data-web-1", "64Mi", "64Mi"),
			ready)},
		row{"one was told before the process died", given(roomySet(expanding()), still[:0], grower("data-web-0", "128Mi", "64Mi"),
			grower("data-web-1", "64Mi", "64Mi"), ready)},
		row{"one has grown: that is written down", given(roomySet(expanding()), first, still, ready)},
		row{"it is not written down twice", given(roomySet(one), first, still, ready)},
		row{"another process asks for more", given(roomySet(one), first, grower("data-web-1", "256Mi", "64Mi"), ready)},
		row{"the storage gave more than was asked for", given(roomySet(one), first, grower("data-web-1", "128Mi", "1Gi"), ready)},
		row{"all have grown: the set gets its new templates",
			given(roomySet(expanding(settled(0))), first, grower("data-web-1", "128Mi", "128Mi"), ready)},
		row{"all have grown, and the set has its templates: it is done",
			given(roomySet(one, build.Annotation(api.DeadLettersAnnotation, "[]")), first, grower("data-web-1", "128Mi", "128Mi"), ready)},
		row{"all have grown, other claims are to be copied", given(roomySet(mixed), first, grower("data-web-1", "64Mi", "64Mi"), ready)},
		row{"a file system grows when it is mounted: the highest ordinal is evicted", given(roomySet(expanding()), waiting, ready)},
		row{"the same for growth by usage: no pod is evicted", given(roomySet(expanding(), byGrowth("data=128Mi")), waiting, ready)},
		row{"the same past the deadline", given(roomySet(expanding(build.Due(-time.Second)), byGrowth("data=128Mi")), waiting, ready)},
		row{"another claim of the highest ordinal is being deleted: its pod is not evicted",
			given(roomySet(expanding(), build.Template("logs", "1Gi", "roomy")), waiting, ready,
				objects{build.Claim("logs-web-1", "1Gi", build.Deleting())})},
		row{"a budget does not allow the eviction", but(given(roomySet(expanding()), waiting, ready),
			func(in *Input) { in.Budget = "it would violate the pod's disruption budget" })},
		row{"the highest one was started since: the one before is evicted",
			given(roomySet(expanding()), waiting, objects{member(0, long), member(1, time.Minute)})},
		row{"an approval is waited for", given(roomySet(expanding(), build.Annotation(api.CutoverAnnotation, api.CutoverApprove)), waiting, ready)},
		row{"it was approved", given(roomySet(expanding(), build.Annotation(api.CutoverAnnotation, api.CutoverApprove),
			build.Annotation(api.ApproveAnnotation, build.ID)), waiting, ready)},
		row{"a window is waited for", given(roomySet(expanding(), build.Annotation(api.CutoverAnnotation, "Mon 02:00-03:00")), waiting, ready)},
		row{"past the deadline a window was waited for", given(roomySet(expanding(build.Due(-time.Second)),
			build.Annotation(api.CutoverAnnotation, "Mon 02:00-03:00")), waiting, ready)},
		row{"the primary comes last", given(roomySet(expanding(), build.Annotation(api.PrimaryAnnotation, "role=primary")), waiting,
			objects{member(0, long), member(1, long, build.Label("role", "primary"))})},
		row{"its replacement would be of another revision", given(roomySet(expanding(), build.Edit(func(s *appsv1.StatefulSet) {
			s.Status.UpdateRevision = "web-2"
			s.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		})), waiting, objects{member(0, long), member(1, long, build.Label(appsv1.ControllerRevisionHashLabelKey, "web-1"))})},
		row{"both were started since: it would not help once more",
			given(roomySet(expanding()), waiting, objects{member(0, time.Minute), member(1, time.Minute)})},
		row{"a member is not ready, and the other was started since: the first is evicted", given(roomySet(expanding()), waiting,
			objects{member(0, long, unready), member(1, time.Minute)})},
		row{"the highest one has no pod: its file system grows with the next one",
			given(roomySet(expanding()), waiting, objects{member(0, long)})},
		row{"the other member is ending", given(roomySet(expanding()), waiting,
			objects{member(0, long), member(1, long, build.Deleting())})},
		row{"the file system has a moment to grow", given(roomySet(one), first,
			grower("data-web-1", "128Mi", "64Mi", unfinished(4*time.Minute)), ready)},
		row{"no pod has it mounted: it grows when one does", given(roomySet(one), first, waits("data-web-1"), ready[:1])},
		row{"a pod of another owner uses it", given(roomySet(one), first, waits("data-web-1"), ready[:1],
			objects{build.Pod("debug", []string{"data-web-1"}, build.Age(long))})},
		row{"past the deadline all have grown: it goes on", given(roomySet(expanding(settled(0), build.Due(-time.Second))), first,
			grower("data-web-1", "128Mi", "128Mi"), ready)},
		row{"past the deadline one has not grown", given(roomySet(expanding(settled(0), build.Due(-time.Second))), first, still, ready)},
	)
}

// TestExpansionsThatAreGivenUp: the claims ask for as little as they may, so that the storage does not go on trying.
func TestExpansionsThatAreGivenUp(t *testing.T) {
	aborts := build.Annotation(api.AbortAnnotation, "")
	first, still := grower("data-web-0", "128Mi", "128Mi"), grower("data-web-1", "128Mi", "64Mi")
	cannot := grower("data-web-1", "128Mi", "64Mi", denied("128Mi", "the pool has 80Mi left"))
	on := func(reason api.Reason, groups ...objects) Input {
		return given(append([]objects{roomySet(expanding(gaveUp(reason)))}, groups...)...)
	}
	refuses := func(in *Input) { in.Rejected = "field can not be less than previous value" }
	check(t,
		row{"it is aborted", given(roomySet(expanding(), aborts), first, still)},
		row{"the API server refuses", but(given(roomySet(expanding()), first, still), func(in *Input) { in.Rejected = "exceeded quota" })},
		row{"the storage cannot", given(roomySet(expanding()), first, cannot)},
		row{"a claim is gone", given(roomySet(expanding()), first)},
		row{"a claim was replaced", given(roomySet(expanding()), first, grower("data-web-1", "64Mi", "64Mi", build.UID("uid-2")))},
		row{"aborted: the claim asks for no more than it may", on(api.Aborted, first, still)},
		row{"infeasible: the claim asks for no more than it may", on(api.ExpandInfeasible, first, cannot)},
		row{"it was taken back: it ends", on(api.Aborted, first, grower("data-web-1", "67108865", "64Mi"))},
		row{"the claim was never told: it ends", on(api.Aborted, first, grower("data-web-1", "64Mi", "64Mi"))},
		row{"the volume has grown, its file system will", on(api.Aborted, first,
			grower("data-web-1", "128Mi", "64Mi", unfinished(time.Minute)))},
		row{"after a deadline the storage may be slow: the claim goes on asking", on(api.DeadlineExceeded, first, still)},
		row{"the API server takes nothing back: that is told", but(on(api.ExpandInfeasible, first, cannot), refuses)},
	)
}

// byGrowth says that grow-volumes has written the request.
func byGrowth(request string) build.Option {
	return build.Annotation(api.GrowthAnnotation, fmt.Sprintf(`{"version":1,"set":"shop/web","request":%q}`, request))
}

// TestGrowthStopsNoMember: a request of grow-volumes whose claims cannot grow in place any more is refused; the same of a user is carried out.
func TestGrowthStopsNoMember(t *testing.T) {
	grown := byGrowth("data=128Mi+")
	asks := func(options ...build.Option) objects { return set(append(options, build.Resize("data=128Mi+"))...) }
	roomyClaims := append(grower("data-web-0", "64Mi", "64Mi"), grower("data-web-1", "64Mi", "64Mi")...)
	copies := build.Annotation(api.ResizeMethodAnnotation, string(api.MethodCopy))
	check(t,
		row{"growth, and a class without expansion", given(asks(grown), both())},
		row{"a user, and a class without expansion", given(asks(), both())},
		row{"a user, after a growth", given(asks(byGrowth("data=96Mi+")), both())},
		row{"growth, and every claim can grow", given(asks(grown), roomyClaims, pods())},
		row{"growth, and a claim of a removed member has never had a volume: the others do not wait for it", given(asks(grown), roomyClaims, pods(),
			objects{build.Claim("data-web-2", "64Mi", build.On(""))})},
		row{"growth, and the set asks for copies", given(asks(grown, copies), roomyClaims, pods())},
	)
}
