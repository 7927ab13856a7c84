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
)

// LastWarning returns the latest Warning Event for the object with the UID, or nil. Reasons restrict it to Events with one of them. Any
// user who may write Events can have written it. So it is shown, and decides at most whether a copy is made before or after a stop.
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
