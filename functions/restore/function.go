// Package restore moves the members of a set to their new volumes. It stops a member and holds its pod. Then it swaps the member's claims
// onto the verified copies, and releases the pod. If an operation is given up, restore releases every held pod.
//
//	in    backup.completed; StatefulSets, claims, Jobs, Pods of an operation; the tick
//	get   StatefulSet, claims, volumes, pods, Jobs, journals, nodes; asks members by their check
//	do    hold, evict and release pods; replace claims; delete and create the StatefulSet around its pods; patch volumes; create and delete
//	      lock pods; create the Jobs of hooks; delete Jobs, temporary claims, journals
//	out   member.changed, restore.completed, operation.failed
//	never deletes a claim until its copy is verified, both volumes are retained, and no pod can start on the claim;
//	never releases a pod until each of its claims is bound to a complete volume; never writes the set's replicas
package restore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/api"
	"drydock.dev/shared/apply"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/moving"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podprobe"
	"drydock.dev/shared/probe"
)

// Function is the CloudEvent function restore.
type Function struct {
	client   *kube.Client
	apply    *apply.Executor
	settings api.Settings
}

// New returns the function restore.
func New(client *kube.Client, settings api.Settings, log *slog.Logger) *Function {
	return &Function{client: client, apply: apply.New(client, api.Restore, log), settings: settings}
}

// Handle does the next steps of the operation on the event's set. Events may be repeated or reordered, and two processes may handle them at
// once. If the API server permanently refuses a write, restore reports that to the user, and the next event tries again. If the API server
// fails to carry out a write, restore gives up the operation only after its deadline.
func (f *Function) Handle(ctx context.Context, e event.Event) (*event.Event, error) {
	var waitingSince time.Time // the first of the latest consecutive waits; zero if the latest plan was not a wait
	return f.apply.HandleFailures(ctx, e, func(ctx context.Context, ref events.Ref, failures plan.Failures) (plan.Plan, error) {
		failure := failures.Last()
		observed, err := f.client.Observe(ctx, ref)
		if err != nil {
			return plan.Plan{}, err
		}
		in := Input{Input: moving.Input{Observed: observed, Settings: f.settings}, Namespace: ref.Namespace}
		in.Kills = f.client.Kills(ctx, in.endedHookPods())
		in.recordFailure(failure)
		if err := f.confirmNamespaceDeletion(ctx, &in, failure); err != nil {
			return plan.Plan{}, err
		}
		if !waitingSince.IsZero() {
			in.Waited = observed.Now.Sub(waitingSince)
		}
		p, podsToAsk := decide(in)
		if len(podsToAsk) > 0 {
			in.Checks = askMembers(ctx, in.Set, podsToAsk, f.settings.ProbeTimeout)
			p, _ = decide(in)
		}
		if p.Kind != plan.KindWait {
			waitingSince = time.Time{}
		} else if waitingSince.IsZero() {
			waitingSince = observed.Now
		}
		return p, nil
	})
}

// confirmNamespaceDeletion reads the namespace and checks that it is being deleted, because restore would then release pods that lack a
// claim. The refused write is no proof: a webhook may have written to another, terminating namespace and returned the error for that one.
// If the namespace is not being deleted, the error counts as an ordinary refusal.
func (f *Function) confirmNamespaceDeletion(ctx context.Context, in *Input, failure error) error {
	if !in.NamespaceTerminating {
		return nil
	}
	leaves, err := f.client.NamespaceTerminating(ctx, in.Namespace)
	if err == nil && !leaves {
		in.NamespaceTerminating, in.Rejected = false, fault.Text(failure)
	}
	return err
}

// triesClaim reports whether the failed write was the dry run of a claim. It rejects a step, not the set's creation: a rollback then ends.
func triesClaim(failure error) bool {
	failed := apply.FailedAction(failure)
	return failed != nil && failed.Resource == plan.Claims
}

// recordFailure classifies the error of a failed write of this event, and stores it in the field of the input for its class.
func (in *Input) recordFailure(failure error) {
	switch {
	case failure == nil:
	case !fault.IsPermanent(failure):
		in.WriteFailed = fault.Words(failure)
	case fault.IsNamespaceTerminating(failure):
		in.NamespaceTerminating = true
	case fault.IsBudget(failure):
		in.BudgetRefusal = strings.TrimSuffix(fault.Words(failure), ".")
	case fault.IsDryRun(failure) && !triesClaim(failure):
		in.CreationRefused = fault.Words(failure)
	default:
		in.Rejected = fault.Text(failure)
	}
}

// timeForWrites is how much of the event's time the member check leaves for the writes that follow from its answers.
const timeForWrites = 5 * time.Second

// askMembers asks the pods by the member check of the set, all within the limit. It returns for each pod why it has not caught up, or
// empty. It quotes only the status code of an answer. If the event's time is too short to wait for all answers, it asks no pod.
func askMembers(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, limit time.Duration) map[types.UID]string {
	check, err := probe.ParseMemberCheck(set)
	if deadline, ok := ctx.Deadline(); err != nil || check == nil || ok && time.Until(deadline) < limit+timeForWrites {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answers := make([]string, len(pods))
	for i, err := range podprobe.ForEach(len(pods), func(i int) error {
		answers[i] = askMember(ctx, pods[i], *check, limit)
		return nil
	}) {
		if err != nil {
			answers[i] = fmt.Sprintf("the member check of pod %s failed: %v", pods[i].Name, err)
		}
	}
	found := map[types.UID]string{}
	for i, pod := range pods {
		found[pod.UID] = answers[i]
	}
	return found
}

// askMember asks one pod. The same answer gives the same words, so that the record is written only once.
func askMember(ctx context.Context, pod *corev1.Pod, check probe.Probe, limit time.Duration) string {
	code, err := http.StatusOK, error(nil)
	if check.Kind == probe.TCP {
		err = podprobe.Dial(ctx, pod, check.Port)
	} else {
		code, err = podprobe.Get(ctx, pod, check)
	}
	var number syscall.Errno
	switch {
	case err == nil && code >= 200 && code < 300:
		return ""
	case err == nil:
		return fmt.Sprintf("pod %s answers %d to its member check; 200 to 299 mean that it has caught up", pod.Name, code)
	case pod.Status.PodIP == "":
		return fmt.Sprintf("pod %s has no address to ask its member check", pod.Name)
	case ctx.Err() != nil || os.IsTimeout(err):
		return fmt.Sprintf("pod %s does not answer its member check within %s", pod.Name, limit)
	case errors.As(err, &number):
		return fmt.Sprintf("the member check cannot reach pod %s: %v", pod.Name, number)
	}
	return fmt.Sprintf("the answer of pod %s to its member check %s cannot be read", pod.Name, check.Kind)
}
