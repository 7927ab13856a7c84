// Package cleanuppod runs the user's cleanup pod on the claims that a scale-down left behind, and then deletes the claims.
//
//	in    StatefulSet and cleanup pod changes; retry; the tick
//	get   the StatefulSet; list claims and pods; get and list ControllerRevisions if the set is being deleted
//	do    create and delete cleanup pods; delete claims; patch StatefulSet: cleanup, finalizer; patch claims: replica-of;
//	      delete the pods of a set that is deleted with cleanup-on-delete
//	out   cleanup.completed, operation.failed
//	never deletes a claim before a cleanup pod succeeded on it; never deletes a claim that no replica of this set used;
//	never begins without an order in the set's ledger, which scale writes
package cleanuppod

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// Function is cleanup-pod.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
}

// New returns the function.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.CleanupPod, log), settings: settings}
}

// Handle is safe to repeat, to reorder and to run concurrently, because an event only triggers a reconcile. If the API server
// rejects a write permanently, that try of the cleanup failed.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	retry, told := e.Type() == events.Retry, false
	return f.apply.HandleFailures(ctx, e, func(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
		in, err := f.observe(ctx, ref, retry)
		if err != nil {
			return plan.Plan{}, err
		}
		rejected := failures.Rejected().Err
		if !told {
			in.Rejected = fault.Text(rejected)
		}
		in.NamespaceEnds = apierrors.HasStatusCause(rejected, corev1.NamespaceTerminatingCause)
		if in.mayStart() {
			in.Trace = f.apply.Begin(ctx)
		}
		pending, running := in.Tally()
		f.apply.SetCleanupMetrics(ctx, ref, pending, running)
		decided := Decide(in)
		if decided.Kind == plan.KindDo {
			retry, told = false, rejected != nil // the retry and the rejection each count once
		}
		return decided, nil
	})
}

// observe reads the objects that Decide needs.
func (f *Function) observe(ctx context.Context, ref events.Ref, retry bool) (Input, error) {
	in := Input{Now: time.Now(), Name: ref.Name, Settings: f.settings, Retry: retry}
	set := &appsv1.StatefulSet{}
	found, err := f.client.Get(ctx, plan.StatefulSets, ref.Namespace, ref.Name, set)
	if err != nil {
		return in, err
	}
	selector := ""
	if found {
		in.Set = set
		if err := f.observeClaims(ctx, &in); err != nil {
			return in, err
		}
	} else {
		selector = api.OperationLabel // only cleanup pods matter
	}
	err = kube.Pages(ctx, f.client, plan.Pods, ref.Namespace, selector, &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			if pod := &l.Items[i]; in.isRelevant(pod) {
				in.Pods = append(in.Pods, pod)
			}
		}
	})
	if err != nil || !found {
		return in, err
	}
	in.Kills = f.client.Kills(ctx, in.cleanupPods())
	if set.DeletionTimestamp != nil && cleanup.HasFinalizer(set) {
		if err := f.observeJournal(ctx, &in); err != nil {
			return in, err
		}
		return in, f.observeRevision(ctx, &in)
	}
	return in, f.tryTemplate(ctx, &in)
}

// observeJournal finds out whether a resize of the set has a journal, so that claims may be incomplete.
func (f *Function) observeJournal(ctx context.Context, in *Input) error {
	return kube.Pages(ctx, f.client, plan.ControllerRevisions, in.Set.Namespace, api.OperationLabel, &appsv1.ControllerRevisionList{},
		func(l *appsv1.ControllerRevisionList) {
			for i := range l.Items {
				link := api.RevisionLink(&l.Items[i])
				in.Journal = in.Journal || link != nil && link.Role == api.RoleJournal && link.Set.Name == in.Name
			}
		})
}

// observeClaims reads the claims whose names belong to the set.
func (f *Function) observeClaims(ctx context.Context, in *Input) error {
	return kube.Pages(ctx, f.client, plan.Claims, in.Set.Namespace, "", &corev1.PersistentVolumeClaimList{},
		func(l *corev1.PersistentVolumeClaimList) {
			for i := range l.Items {
				if _, _, ok := statefulset.ParseClaimName(in.Set, l.Items[i].Name); ok {
					in.Claims = append(in.Claims, &l.Items[i])
				}
			}
		})
}

// isRelevant reports whether the pod is a cleanup pod of a set of this name, has the name of a replica, or uses a claim.
func (in *Input) isRelevant(pod *corev1.Pod) bool {
	if cleanup.LinkOf(pod, in.Name) != nil {
		return true
	}
	if in.Set == nil {
		return false
	}
	if _, replica := statefulset.ParsePodName(in.Set, pod.Name); replica {
		return true
	}
	for _, c := range in.Claims {
		if statefulset.Mounts(pod, c.Name) {
			return true
		}
	}
	return false
}

// cleanupPods returns the cleanup pods of a set of this name.
func (in *Input) cleanupPods() []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(in.Pods), func(pod *corev1.Pod) bool { return cleanup.LinkOf(pod, in.Name) == nil })
}

// observeRevision reads the ControllerRevision of the set's pods. Its owner reference shows how the set is deleted.
func (f *Function) observeRevision(ctx context.Context, in *Input) error {
	if in.Set.Status.UpdateRevision == "" {
		return nil
	}
	revision := &appsv1.ControllerRevision{}
	found, err := f.client.Get(ctx, plan.ControllerRevisions, in.Set.Namespace, in.Set.Status.UpdateRevision, revision)
	if found {
		in.Revision = revision
	}
	return err
}

// tryTemplate creates a pod of a new template as a dry run, to learn whether the API server accepts it.
func (f *Function) tryTemplate(ctx context.Context, in *Input) error {
	template, problem := in.round().newTemplate()
	if template == nil || problem != nil {
		return nil
	}
	pod := resources.MakeCleanupPod(in.Set, template, api.OperationID(in.Set.UID, string(api.KindCleanup), 0), statefulset.Span(in.Set).End,
		nil)
	pod.Name, pod.OwnerReferences = "", nil
	pod.GenerateName = "drydock-"
	err := fault.FromAPI(f.client.Create(ctx, plan.Pods, in.Set.Namespace, pod, true))
	switch {
	case apierrors.IsForbidden(err): // for example by a quota, which has room after a scale-down
		in.Doubt = err.Error()
	case fault.IsPermanent(err):
		in.PodRejected = err.Error()
	default:
		return err
	}
	return nil
}
