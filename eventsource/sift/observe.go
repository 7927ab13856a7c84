package sift

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
)

// growthPlan reads which namespaces have default rules for growth, and returns the schedule by which growth is swept.
func (f *Function) growthPlan(ctx context.Context, namespace string) (grow.Schedule, error) {
	hasRules := map[string]bool{}
	err := kube.Named(ctx, f.client, plan.ConfigMaps, namespace, api.GrowConfigMap, &corev1.ConfigMapList{}, func(l *corev1.ConfigMapList) {
		for i := range l.Items {
			hasRules[l.Items[i].Namespace] = true
		}
	})
	if apierrors.IsForbidden(err) { // the ClusterRoles may be older than this Drydock; the rest of the sweep continues
		f.log.Warn("cannot read the namespaces' default rules for growth; apply the current ClusterRoles", "error", err.Error())
		err = nil
	}
	return grow.Schedule{
		Period:  f.settings.GrowPeriod,
		Default: func(namespace string) bool { return hasRules[namespace] },
	}, err
}
