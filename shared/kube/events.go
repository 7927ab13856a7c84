package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"drydock.dev/shared/plan"
)

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
