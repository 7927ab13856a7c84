package sift

import (
	"fmt"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/bounded"
	"drydock.dev/shared/cleanup"
	"drydock.dev/shared/events"
	"drydock.dev/shared/idle"
	"drydock.dev/shared/operation"
	"drydock.dev/shared/resize"
	"drydock.dev/shared/scale"
)

// look is who has to look at which StatefulSet, and what was seen that says so.
type look struct {
	ref      events.Ref
	seen     string
	concerns []api.Function
}

// features judge a change of a StatefulSet, each for its own functions.
var features = []func(operation.Change) []api.Function{resize.Concerned, idle.Concerned, cleanup.Concerned, scale.Concerned}

// concerned returns the functions that the change concerns.
func concerned(c operation.Change) []api.Function {
	var all []api.Function
	for _, judge := range features {
		all = append(all, judge(c)...)
	}
	return all
}

// Sift decides on the copy of the object that the event carries, and on nothing else: a wrong hint costs a look, a
// missing one a tick's wait.
func Sift(e cloudevents.Event, now time.Time, retry time.Duration) (look, error) {
	gone := e.Type() == events.SourceDelete
	kind, _ := e.Extensions()["kind"].(string)
	switch kind {
	case "StatefulSet":
		set := &appsv1.StatefulSet{}
		return siftAs(e, set, func() look {
			return lookOf(set, concerned(operation.Change{Set: set, Records: operation.Of(set), Now: now, Retry: retry,
				Added: e.Type() == events.SourceAdd, Gone: gone}))
		})
	case "PersistentVolumeClaim":
		claim := &corev1.PersistentVolumeClaim{}
		return siftAs(e, claim, func() look { return lookOfLinked(claim, resize.ConcernedByClaim(claim, gone)) })
	case "Job":
		job := &batchv1.Job{}
		return siftAs(e, job, func() look {
			if link, err := api.LoadLink(job); err == nil && link != nil && link.Role == api.RoleScaleHook {
				return lookOfLinked(job, scale.ConcernedByJob(job, gone))
			}
			return lookOfLinked(job, resize.ConcernedByJob(job, gone))
		})
	case "Scaler":
		scaler := &v1alpha1.Scaler{}
		return siftAs(e, scaler, func() look { return lookOfScaler(scaler, scale.ConcernedByScaler(scaler, gone)) })
	case "Pod":
		pod := &corev1.Pod{}
		return siftAs(e, pod, func() look {
			if link, err := api.LoadLink(pod); err == nil && link != nil && link.Role == api.RoleCleaner {
				return lookOfLinked(pod, cleanup.ConcernedByPod(pod, gone))
			}
			return lookOfLinked(pod, resize.ConcernedByPod(pod, gone))
		})
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

// lookOfScaler is for a Scaler: its target is the StatefulSet to look at.
func lookOfScaler(scaler *v1alpha1.Scaler, concerns []api.Function) look {
	return look{ref: events.Ref{Namespace: scaler.Namespace, Name: scaler.Spec.Target}, seen: seen(scaler), concerns: concerns}
}

// seen names a state of an object: unique in the cluster, so a good event id.
func seen(object metav1.Object) string {
	return string(object.GetUID()) + "/" + object.GetResourceVersion()
}
