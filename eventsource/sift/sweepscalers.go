package sift

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/scaling"
)

// sweepScalers finds Scalers whose status is not up to date, and sets whose Scaler was deleted. Without the CustomResourceDefinition there
// are none.
func (f *Function) sweepScalers(ctx context.Context, namespace string, found *findings) error {
	targets := map[events.Ref]bool{}
	err := kube.Pages(ctx, f.client, plan.Scalers, namespace, "", &v1alpha1.ScalerList{}, func(l *v1alpha1.ScalerList) {
		for i := range l.Items {
			scaler := &l.Items[i]
			target := events.Ref{Namespace: scaler.Namespace, Name: scaler.Spec.Target}
			concerns := scaling.ConcernedByScaler(scaler, found.scaledSets[target].asleep, false)
			if set, known := found.scaledSets[target]; !known || set.members != scaler.Status.Replicas {
				concerns = []api.Function{api.ScaleFunction}
			}
			found.add(noticeOfScaler(scaler, concerns))
			targets[target] = true
		}
	})
	switch {
	case apierrors.IsForbidden(err): // the ClusterRoles may be older than this Drydock; the rest of the sweep continues
		f.log.Warn("cannot list Scalers; apply the current ClusterRoles", "error", err.Error())
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return err
	}
	for ref, set := range found.scaledSets {
		if !targets[ref] && (namespace == metav1.NamespaceAll || ref.Namespace == namespace) {
			found.add(set.notice)
		}
	}
	return nil
}
