package sift

import (
	"fmt"
	"slices"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/sts"
)

// look is who has to look at which StatefulSet, and what was seen that says so.
type look struct {
	ref      events.Ref
	seen     string
	concerns []api.Function
}

// Sift decides on the copy of the object that the event carries, and on nothing else: a wrong hint costs a look, a
// missing one a tick's wait.
func Sift(e cloudevents.Event, now time.Time, retry time.Duration) (look, error) {
	kind, _ := e.Extensions()["kind"].(string)
	switch kind {
	case "StatefulSet":
		set := &appsv1.StatefulSet{}
		return siftAs(e, set, func() look { return lookOf(set, concernsOfAlone(set, e.Type(), now, retry)) })
	case "PersistentVolumeClaim":
		claim := &corev1.PersistentVolumeClaim{}
		return siftAs(e, claim, func() look { return lookOfLinked(claim, concernsOfClaim(claim, e.Type())) })
	case "Job":
		job := &batchv1.Job{}
		return siftAs(e, job, func() look { return lookOfLinked(job, concernsOfJob(job, e.Type())) })
	case "Pod":
		pod := &corev1.Pod{}
		return siftAs(e, pod, func() look { return lookOfLinked(pod, concernsOfPod(pod, e.Type())) })
	}
	return look{}, nil
}

func siftAs(e cloudevents.Event, into any, decide func() look) (look, error) {
	if err := bounded.JSON(e.Data(), into); err != nil {
		return look{}, fmt.Errorf("reading the object in event %q (%s): %w", e.ID(), e.Subject(), err)
	}
	return decide(), nil
}

func lookOf(set *appsv1.StatefulSet, concerns []api.Function) look {
	ref := events.Ref{Namespace: set.Namespace, Name: set.Name, UID: set.UID, ResourceVersion: set.ResourceVersion}
	return look{ref: ref, seen: seen(set), concerns: concerns}
}

// lookOfLinked is for an object that belongs to an operation: the link says to which StatefulSet. A link into another
// namespace is forged.
func lookOfLinked(object metav1.Object, concerns []api.Function) look {
	link, err := api.LoadLink(object)
	if err != nil || link == nil || link.Namespace != object.GetNamespace() {
		return look{}
	}
	ref := events.Ref{Namespace: link.Namespace, Name: link.Set.Name, UID: link.Set.UID, Operation: link.Operation}
	return look{ref: ref, seen: seen(object), concerns: concerns}
}

// seen names a state of an object: unique in the cluster, so a good event id.
func seen(object metav1.Object) string {
	return string(object.GetUID()) + "/" + object.GetResourceVersion()
}

// concernsOfAlone is about a change of a set of whose group nothing is known: what wakes it is seen in it, and that others
// keep it awake is found by who looks.
func concernsOfAlone(set *appsv1.StatefulSet, change string, now time.Time, retry time.Duration) []api.Function {
	m := idle.MemberOf(set)
	concerns := append(concernsOfSet(set, change), concernsOfSleep(m, m.Alone(now), m.Rules.Timeout, change, now, retry)...)
	return append(concerns, concernsOfCleanup(set, change)...)
}

// concernsOfSet is about a change of the set itself, as an operation on its volumes sees it. In a phase that waits for something else, the many status updates
// of a set that stops or starts wake nobody.
func concernsOfSet(set *appsv1.StatefulSet, change string) []api.Function {
	status, err := api.LoadResize(set)
	if err != nil {
		return []api.Function{api.DetectResize}
	}
	if !status.Active() {
		return append(frozenSet(set, status, change), idleSet(set, status, change)...)
	}
	if change != events.SourceUpdate {
		return activeSet(status)
	}
	if _, abort := set.Annotations[api.AbortAnnotation]; abort {
		return activeSet(status)
	}
	touched := status.Generation != set.Generation
	switch status.Phase {
	case api.Expanding:
		return nil // the claims' turn, and the tick's
	case api.Copying:
		if status.Generation == 0 && sts.Replicas(set) == 0 && !sts.AtZero(set) || status.Generation != 0 && !touched {
			return nil // still stopping, or the movers' turn
		}
		if status.Stopping == nil && slices.ContainsFunc(status.Claims, func(c api.ClaimStatus) bool { return c.Phase == api.ClaimWarming }) {
			return nil // the movers' turn, too
		}
	case api.Switching:
		if status.Set.UID != "" && !touched {
			return nil // the claims' turn
		}
	case api.Starting:
		switch {
		case justGivenBack(set, status):
			return []api.Function{api.PauseOwner}
		case !sts.Ready(set):
			return nil
		}
	}
	return activeSet(status)
}

// activeSet is the function whose turn it is.
func activeSet(status *api.Resize) []api.Function {
	switch status.Phase {
	case api.Expanding:
		return []api.Function{api.DetectResize}
	case api.Planned:
		return []api.Function{api.PauseOwner}
	case api.Copying:
		return []api.Function{api.Backup}
	}
	return []api.Function{api.Restore}
}

// frozenSet is about a set that is frozen though no operation holds it: it lost its status, or is made from the manifest of
// one that was held.
func frozenSet(set *appsv1.StatefulSet, status *api.Resize, change string) []api.Function {
	if change == events.SourceDelete || !sts.Frozen(set) || !sts.Managed(set) || set.DeletionTimestamp != nil || status.Held() {
		return nil
	}
	return []api.Function{api.Restore}
}

// idleSet is about a set without operation. Whether claims lag behind unchanged templates cannot be seen in the set; an
// added set is looked at, and the sweep compares the others.
func idleSet(set *appsv1.StatefulSet, status *api.Resize, change string) []api.Function {
	text, asked := set.Annotations[api.ResizeAnnotation]
	retry := operation.Of(set).Retried(set)
	switch {
	case change == events.SourceDelete || !sts.Managed(set) || set.DeletionTimestamp != nil || sleeps(set) || operation.Of(set).CleaningUp():
		return nil
	case retry && (asked || status.Held()):
		return []api.Function{api.DetectResize}
	case set.Annotations[api.RollbackAnnotation] != "":
		return []api.Function{api.DetectResize}
	case status.Held():
		return nil
	case asked && resize.Refuses(status, text) && resize.Outdated(set, status):
		return []api.Function{api.DetectResize}
	case !asked || sts.Answered(status, text):
		return nil
	}
	request, err := api.ParseRequest(text)
	if err != nil || change == events.SourceAdd {
		return []api.Function{api.DetectResize}
	}
	for template, target := range request.Targets {
		if sts.Template(set, template) == nil || sts.Differs(set, template, target) {
			return []api.Function{api.DetectResize}
		}
	}
	return nil
}

// refusedSet is about a set whose request was refused, on a tick: the cause may be gone, and the set does not show it.
func refusedSet(set *appsv1.StatefulSet, status *api.Resize, now time.Time) []api.Function {
	text, asked := set.Annotations[api.ResizeAnnotation]
	if !asked || !resize.Refuses(status, text) || !resize.DueAgain(status, now) || set.DeletionTimestamp != nil || sleeps(set) || operation.Of(set).CleaningUp() {
		return nil
	}
	return []api.Function{api.DetectResize}
}

// sleeps reports whether the set is asleep, or on the way there or back: a resize waits for the end of it.
func sleeps(set *appsv1.StatefulSet) bool {
	return operation.Of(set).Sleeping()
}

// concernsOfClaim is about claims of an operation: the switch waits for old ones to go and for new ones to be bound.
func concernsOfClaim(claim *corev1.PersistentVolumeClaim, change string) []api.Function {
	link, err := api.LoadLink(claim)
	if err != nil || link == nil {
		return nil
	}
	gone := change == events.SourceDelete
	bound := link.Role == api.RoleSuccessor && claim.Status.Phase == corev1.ClaimBound
	if gone || bound || claim.DeletionTimestamp != nil && link.Role != api.RoleTarget {
		return []api.Function{api.Restore}
	}
	return nil
}

// concernsOfJob is about movers: a Job that ended is backup's, one that is gone was in restore's way.
func concernsOfJob(job *batchv1.Job, change string) []api.Function {
	if change == events.SourceDelete {
		return []api.Function{api.Restore}
	}
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue && job.DeletionTimestamp == nil {
			return []api.Function{api.Backup}
		}
	}
	return nil
}

// concernsOfPod is about the movers' pods, and about cleanup pods. A mover that has succeeded is backup's, and its Job's end comes a
// second later; as long as the pod has the Job controller's finalizer it is news. One that is gone was in restore's way.
func concernsOfPod(pod *corev1.Pod, change string) []api.Function {
	link, err := api.LoadLink(pod)
	switch {
	case err == nil && link != nil && link.Role == api.RoleCleaner:
		return concernsOfCleaner(pod, change)
	case change == events.SourceDelete:
		return []api.Function{api.Restore}
	case pod.Status.Phase == corev1.PodSucceeded && pod.DeletionTimestamp == nil && slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer):
		return []api.Function{api.Backup}
	}
	return nil
}
