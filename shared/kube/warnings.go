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
// user who may write Events can have written it, so it is only shown, and decides nothing.
func (c *Client) LastWarning(ctx context.Context, namespace string, uid types.UID, reasons ...string) (*corev1.Event, error) {
	selector := fields.Set{"involvedObject.uid": string(uid), "type": corev1.EventTypeWarning}.String()
	options := metav1.ListOptions{FieldSelector: selector, Limit: pageSize}
	list := &corev1.EventList{}
	if _, err := c.listPage(ctx, plan.Events, namespace, &options, list); err != nil {
		return nil, fmt.Errorf("reading Events of %s: %w", uid, err)
	}
	var last *corev1.Event
	for i := range list.Items {
		e := &list.Items[i]
		if len(reasons) > 0 && !slices.Contains(reasons, e.Reason) {
			continue
		}
		if last == nil || HappenedAt(e).After(HappenedAt(last)) {
			last = e
		}
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
