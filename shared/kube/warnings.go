package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/podend"
)

// LastWarning returns the latest Warning Event about the object with the UID, or nil. If reasons are given, the Event has one of them. Any
// user with the right to create Events may forge one. A forged Event is shown to users, and can make a stop as long as the whole copy, or
// let a mover's pod mount the source volumes writable. It changes no data: the mover's containers mount them read-only.
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

// Kills reads the Events about each pod whose success depends on them, and keeps one that reports that the pod was killed. Any user with
// the right to create Events may forge one. A forged Event makes the pod's work count as unfinished, so it is repeated. If a read fails,
// the pod is judged at a later look.
func (c *Client) Kills(ctx context.Context, pods []*corev1.Pod) podend.Kills {
	kills := podend.Kills{Events: map[types.UID]podend.Told{}}
	for _, pod := range pods {
		if !podend.NeedsKills(pod) {
			continue
		}
		kills.Events[pod.UID] = podend.Told{}
		selector := fields.Set{"involvedObject.uid": string(pod.UID)}.String()
		err := pages(ctx, c, plan.Events, pod.Namespace, metav1.ListOptions{FieldSelector: selector}, noEnd, &corev1.EventList{},
			func(l *corev1.EventList) {
				for i := range l.Items {
					kills.Note(pod, &l.Items[i])
				}
			})
		if err != nil && kills.Events[pod.UID].Kill == nil {
			delete(kills.Events, pod.UID)
			kills.Unread = fmt.Sprintf("reading the Events about pod %s: %s", pod.Name, fault.Words(err))
		}
	}
	return kills
}

// HappenedAt returns the last time of the Event. Which field has it depends on the API that created the Event.
func HappenedAt(e *corev1.Event) time.Time {
	if at := podend.ToldAt(e); at.After(e.CreationTimestamp.Time) {
		return at
	}
	return e.CreationTimestamp.Time
}

// maxEventPages limits the pages of Events that are read for one object. Any user of a namespace can write Events about it.
const maxEventPages = 10

// EventsOf returns the latest Events about the object with the kind and name, at most limit, the latest first. Any user who may write
// Events can have written them, so they are only shown, and decide nothing.
func (c *Client) EventsOf(ctx context.Context, namespace, kind, name string, limit int) ([]corev1.Event, error) {
	selector := fields.Set{"involvedObject.kind": kind, "involvedObject.name": name}.String()
	var latest []corev1.Event
	err := pages(ctx, c, plan.Events, namespace, metav1.ListOptions{FieldSelector: selector}, maxEventPages, &corev1.EventList{},
		func(l *corev1.EventList) {
			latest = append(latest, l.Items...)
			slices.SortStableFunc(latest, func(a, b corev1.Event) int {
				return cmp.Or(HappenedAt(&b).Compare(HappenedAt(&a)), cmp.Compare(a.Name, b.Name))
			})
			latest = latest[:min(len(latest), limit)]
		})
	if err != nil {
		return nil, fmt.Errorf("reading Events of %s: %w", name, err)
	}
	return latest, nil
}
