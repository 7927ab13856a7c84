package kube

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
)

// LastWarning returns the latest Warning Event for the object with the UID, or nil. Reasons restrict it to Events with one of them. Any
// user who may write Events can have written it. A forged Event is shown, and can make a stop as long as the whole copy, or let a
// mover's pod mount the source volumes writable. It changes no data: the mover's containers mount them read-only.
func (c *Client) LastWarning(ctx context.Context, namespace string, uid types.UID, reasons ...string) (*corev1.Event, error) {
	selector := fields.Set{"involvedObject.uid": string(uid), "type": corev1.EventTypeWarning}.String()
	var last *corev1.Event
	err := pages(ctx, c, plan.Events, namespace, metav1.ListOptions{FieldSelector: selector}, 1, &corev1.EventList{},
		func(l *corev1.EventList) {
			for i := range l.Items {
				e := &l.Items[i]
				if (len(reasons) == 0 || slices.Contains(reasons, e.Reason)) && (last == nil || HappenedAt(e).After(HappenedAt(last))) {
					last = e
				}
			}
		})
	if err != nil {
		return nil, fmt.Errorf("reading Events of %s: %w", uid, err)
	}
	return last, nil
}

// Kills reads the Events that tell of an early end of the pods, for each pod whose success they decide. Any user who may write Events can
// have written them. A false Event makes a pod's work count as unfinished, so it is done again.
func (c *Client) Kills(ctx context.Context, pods []*corev1.Pod) (podend.Kills, error) {
	kills := podend.Kills{}
	for _, pod := range pods {
		if !podend.NeedsKills(pod) {
			continue
		}
		kills[pod.UID] = []corev1.Event{}
		selector := fields.Set{"involvedObject.uid": string(pod.UID)}.String()
		err := pages(ctx, c, plan.Events, pod.Namespace, metav1.ListOptions{FieldSelector: selector}, noEnd, &corev1.EventList{},
			func(l *corev1.EventList) {
				for i := range l.Items {
					if slices.Contains(podend.Reasons, l.Items[i].Reason) && len(kills[pod.UID]) < maxKills {
						kills[pod.UID] = append(kills[pod.UID], *l.Items[i].DeepCopy())
					}
				}
			})
		if err != nil {
			return nil, fmt.Errorf("reading the Events about the end of pod %s: %w", pod.Name, err)
		}
	}
	return kills, nil
}

// maxKills limits the Events that are kept for a pod. Each one may decide, and a few are enough.
const maxKills = 100

// HappenedAt returns when the Event last happened. Its fields depend on the API that wrote it.
func HappenedAt(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	for _, t := range []time.Time{e.EventTime.Time, e.CreationTimestamp.Time} {
		if t.After(at) {
			at = t
		}
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}
