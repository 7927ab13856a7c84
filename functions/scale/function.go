// Package scale is the only writer of a StatefulSet's replicas and of whenScaled: 0 while a sleep or a paused Scaler holds the set,
// else what is requested. A set with a Scaler is scaled in stages: the pre hook, the change of the count, the post hook. It also keeps the
// ledger of the pods of each StatefulSet with a cleanup template.
//
//	in    StatefulSet, Scaler and hook Job changes; owner.paused; sleep, wake and wake.decided; scale.hook.completed and .failed; retry;
//	      the tick
//	get   the StatefulSet, and the HorizontalPodAutoscalers named after its Scalers; list the Scalers and the Jobs of operations in its
//	      namespace; list the Job of the current hook by its name, and the pods of an ended hook Job with the Events about their ends; for
//	      a set that may have a stop, or was scaled down with a cleanup template, list ControllerRevisions; for one that was scaled up
//	      during a cleanup, list cleanup pods
//	do    patch StatefulSet: replicas, whenScaled, stop, scale, members; remove cleanup-from; create and delete the record of a stop and
//	      hook Jobs; patch Scaler: status, replicas; remove retry; create, patch and delete the Scaler's HorizontalPodAutoscaler
//	out   scale.hook.requested, scale.completed, operation.failed
//	never changes the count before the Scaler's pre hook has succeeded; never writes spec.paused of a Scaler
package scale

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/members"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scaling"
	"drydock.dev/shared/statefulset"
)

// Function is the function scale.
type Function struct {
	client   *kube.Client
	settings api.Settings
	apply    *apply.Executor
	log      *slog.Logger
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, settings: settings, apply: apply.New(client, api.ScaleFunction, log), log: log}
}

// Handle takes the next step for the event's set. It is safe to repeat, to reorder and to run twice at once: it decides from the live
// objects, and the event only triggers it. A scaling fails when the API server permanently rejects a write. A failed write of an autoscaler
// is reported in the Scaler's status, and the next event tries it again.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	if e.Type() == events.Wake || e.Type() == events.Sleep { // idle-timeout decides; by then this function has started
		return nil, nil
	}
	hook, err := events.HookAnswerOf(e)
	if err != nil { // anyone can send it: an error would make the Broker and dead-letter report it on the set
		f.log.WarnContext(ctx, "ignored a malformed answer of a hook", "error", err)
		return nil, nil
	}
	h := handling{Function: f, answer: hook, retry: e.Type() == events.Retry}
	return f.apply.HandleFailures(ctx, e, h.nextStep)
}

// mostAutoscalerWrites is the number of plans in a row that may write autoscalers in one event. A conflict makes the same plan necessary
// again.
const mostAutoscalerWrites = 3

// handling is the state of handling one event, which may take several steps.
type handling struct {
	*Function
	answer           *events.HookAnswer // nil if the event answers no hook request
	retry            bool
	handled          int // how many failures have been reported
	autoscalerWrites int // how many plans in a row have written autoscalers
}

// nextStep observes the set and decides on the next step. A rejection counts once: the steps after its report, such as the onFailure hook,
// were not rejected.
func (h *handling) nextStep(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
	in, err := h.observe(ctx, ref)
	if err != nil {
		return plan.Plan{}, err
	}
	in.Retry, in.Answer, in.Key = h.retry, h.answer, rand.Text()
	in.AutoscalerError = fault.Text(failures.OfKind(plan.Autoscalers).Err)
	if rejected := failures[h.handled:].Rejected(); concernsCount(rejected) {
		in.Rejected, in.Forbidden, in.RejectedPlan = fault.Text(rejected.Err), apierrors.IsForbidden(rejected.Err), rejected.Plan
	}
	in.RetryNotRemovable = failures.OfKind(plan.Scalers).Err != nil
	in.RecordsKept = failures.OfKind(plan.ControllerRevisions).Action.Verb == plan.VerbDelete
	if last := failures.Rejected(); last.Err != nil && last.Action.Resource == plan.ScalerStatus {
		in.RefusedStatusOf = last.Action.Name // a second Scaler of the set has no other place where this is reported
		h.log.WarnContext(ctx, "the API server rejects the status of a Scaler", "scaler", ref.Namespace+"/"+in.RefusedStatusOf,
			"error", last.Err.Error())
	}
	if in.mayBeginScaling() {
		in.Trace = h.apply.Begin(ctx)
	}
	decided := h.decide(in)
	if decided.Kind == plan.KindDo && decided.Reason != api.AutoscalerKept {
		h.retry = false // it counts once
		if decided.Reason == api.Rejected {
			h.handled = len(failures)
		}
	}
	return decided, nil
}

// concernsCount reports whether the rejected write is a part of a stop or a scaling. An autoscaler, and a record of a stop that has ended,
// are not: they delay nothing.
func concernsCount(rejected plan.Failure) bool {
	deletesRecord := rejected.Action.Resource == plan.ControllerRevisions && rejected.Action.Verb == plan.VerbDelete
	return rejected.Err != nil && rejected.Action.Resource != plan.Autoscalers && !deletesRecord
}

// decide takes the decision. A mutating webhook may change an autoscaler again right after each write. It would take all steps of each
// event, and no scaling would ever begin.
func (h *handling) decide(in Input) plan.Plan {
	if h.autoscalerWrites <= mostAutoscalerWrites {
		decided := Decide(in)
		if decided.Kind != plan.KindDo || decided.Reason != api.AutoscalerKept {
			h.autoscalerWrites = 0
			return decided
		}
		if h.autoscalerWrites++; h.autoscalerWrites <= mostAutoscalerWrites {
			return decided
		}
	}
	in.AutoscalerError = "its spec differs again right after the write, probably because an admission webhook changes it. Exempt the " +
		"autoscaler from the webhook, or set the mode externallyScaled"
	return Decide(in)
}

func (f *Function) observe(ctx context.Context, ref events.Ref) (Input, error) {
	in := Input{Now: time.Now(), Namespace: ref.Namespace, Name: ref.Name, Settings: f.settings}
	err := kube.Pages(ctx, f.client, plan.Scalers, ref.Namespace, "", &v1alpha1.ScalerList{}, func(l *v1alpha1.ScalerList) {
		for i := range l.Items {
			if l.Items[i].Spec.Target == ref.Name {
				in.Scalers = append(in.Scalers, &l.Items[i])
			}
		}
	})
	if err != nil && !apierrors.IsNotFound(err) { // NotFound: the CustomResourceDefinition of Scalers was removed
		return in, err
	}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil {
		return in, err
	}
	if found {
		in.Set = set
	}
	if err := f.observeMembers(ctx, &in); err != nil {
		return in, err
	}
	if err := f.observeRecords(ctx, &in, ref.Operation); err != nil {
		return in, err
	}
	if err := f.observeAutoscalers(ctx, &in); err != nil {
		return in, err
	}
	if err := f.observeJobs(ctx, &in); err != nil {
		return in, err
	}
	f.observeHookPods(ctx, &in)
	return in, nil
}

// observeHookPods reads the pods of the hook Job that has ended, and the Events about their ends. If that fails, a failed hook is reported
// without exit codes, and another hook is judged by a later look.
func (f *Function) observeHookPods(ctx context.Context, in *Input) {
	job := in.endedHook()
	if job == nil {
		return
	}
	err := kube.Pages(ctx, f.client, plan.Pods, in.Namespace, batchv1.JobNameLabel+"="+job.Name, &corev1.PodList{},
		func(l *corev1.PodList) {
			for i := range l.Items {
				if pod := &l.Items[i]; metav1.IsControlledBy(pod, job) {
					in.HookPods = append(in.HookPods, pod)
				}
			}
		})
	in.Kills = f.client.Kills(ctx, in.HookPods)
	if err != nil {
		in.Kills.Unread = fmt.Sprintf("reading the pods of Job %s: %s", job.Name, fault.Words(err))
	}
}

// observeAutoscalers reads the HorizontalPodAutoscaler named after the Scaler that scales the set, whatever its mode. An interrupted
// function therefore leaves no autoscaler behind: a leftover autoscaler changes its Scaler, and that change causes an event. For the other
// Scalers of the set, the autoscaler is read only if they have the condition Autoscaled.
func (f *Function) observeAutoscalers(ctx context.Context, in *Input) error {
	var record *api.Scale
	if in.Set != nil {
		record, _ = api.LoadScale(in.Set) // Decide reports an unreadable record
	}
	owner := scaling.Owner(in.Scalers, record)
	for _, s := range in.Scalers {
		if s != owner && !scaling.HasAutoscaledCondition(s) {
			continue
		}
		autoscaler := &autoscalingv2.HorizontalPodAutoscaler{}
		found, err := f.client.Get(ctx, plan.Autoscalers, in.Namespace, s.Name, autoscaler)
		if err != nil {
			return err
		}
		if found {
			in.Autoscalers = append(in.Autoscalers, autoscaler)
		}
	}
	return nil
}

// observeJobs reads the hook Jobs of the set. If the current hook has no Job yet, it looks for a Job of another client with that name. Such
// a Job may lack the label of the first list.
func (f *Function) observeJobs(ctx context.Context, in *Input) error {
	err := kube.Pages(ctx, f.client, plan.Jobs, in.Namespace, api.OperationLabel, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			job := &l.Items[i]
			if isHook(job, in.Name) {
				in.Jobs = append(in.Jobs, job)
			}
		}
	})
	missing := in.missingHookJob()
	if err != nil || missing == "" {
		return err
	}
	return kube.Named(ctx, f.client, plan.Jobs, in.Namespace, missing, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			if job := &l.Items[i]; isHook(job, in.Name) { // it was created after the first list
				in.Jobs = append(in.Jobs, job)
			} else {
				in.Namesake = job
			}
		}
	})
}

// isHook reports whether the Job runs a hook for a scaling of the set. Users can create Jobs with such a link, so the name must match, too:
// the policy drydock-fence-jobs refuses the deletion of a Job with another name.
func isHook(job *batchv1.Job, set string) bool {
	link, err := api.LoadLink(job)
	return err == nil && link != nil && link.Role == api.RoleScaleHook && link.Set.Name == set &&
		slices.ContainsFunc([]string{preHook, postHook, failureHook}, func(hook string) bool {
			return job.Name == api.ScaleHookName(link.Operation, hook)
		})
}

// observeMembers reads what the ledger needs. Of a set that was scaled down: whether a record of a stop, a resize or a paused owner says
// that its pods were stopped for a while, or that its claims are incomplete. Such a record is written before any pod is stopped, and the
// set was read before this. Of a set that was scaled up: which ordinals have a cleanup pod.
func (f *Function) observeMembers(ctx context.Context, in *Input) error {
	if in.Set == nil {
		return nil
	}
	if members.WithdrawsOrder(in.Set) {
		return kube.Pages(ctx, f.client, plan.Pods, in.Namespace, api.OperationLabel, &corev1.PodList{}, func(l *corev1.PodList) {
			for i := range l.Items {
				ordinal, named := statefulset.ParsePodName(in.Set, l.Items[i].Name)
				if link := cleanup.LinkOf(&l.Items[i], in.Name); named && link != nil && link.Set.UID == in.Set.UID {
					in.Members.Begun = append(in.Members.Begun, ordinal)
				}
			}
		})
	}
	if !members.GivesOrder(in.Set) {
		return nil
	}
	return f.listRevisions(ctx, in.Namespace, func(revision *appsv1.ControllerRevision, link *api.Link) {
		in.Members.Held = in.Members.Held || link.Set.Name == in.Name
	})
}

// observeRecords reads the records of stops, if the set may have one. Another set has none, or one that the sweep finds: its event names
// the operation.
func (f *Function) observeRecords(ctx context.Context, in *Input, operationID string) error {
	if operationID == "" && in.Set != nil && !mayHaveRecord(in.Set, len(in.Scalers) > 0) {
		return nil
	}
	err := f.listRevisions(ctx, in.Namespace, func(revision *appsv1.ControllerRevision, link *api.Link) {
		if link.Role == api.RoleStop && link.Set.Name == in.Name {
			in.Records = append(in.Records, revision)
		}
	})
	if err != nil || len(in.Records) == 0 || in.Set == nil {
		return err
	}
	// The set must be newer than its records: another process may have begun the next stop since, whose record would look left over.
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, in.Namespace, in.Name, set)
	if in.Set = nil; found {
		in.Set = set
	}
	return err
}

// mayHaveRecord reports whether the record of a stop may exist for the set: it is stopped or about to be, its Stop has not ended, or it was
// replaced by a manifest while its Scaler was paused.
func mayHaveRecord(set *appsv1.StatefulSet, hasScaler bool) bool {
	scaling := operation.Of(set).Scale
	return statefulset.Replicas(set) == 0 || api.LoadStop(set) != nil || members.HoldingSleep(set) != nil ||
		scaling != nil && scaling.Paused || hasScaler && scaling == nil
}

// listRevisions calls use with each ControllerRevision of an operation in the namespace.
func (f *Function) listRevisions(ctx context.Context, namespace string, use func(*appsv1.ControllerRevision, *api.Link)) error {
	return kube.Pages(ctx, f.client, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{},
		func(l *appsv1.ControllerRevisionList) {
			for i := range l.Items {
				if link := api.RevisionLink(&l.Items[i]); link != nil {
					use(&l.Items[i], link)
				}
			}
		})
}
