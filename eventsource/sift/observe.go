package sift

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/shared/api"
	"drydock.dev/shared/grow"
	"drydock.dev/shared/kube"
)

// growth finds the namespaces that have rules for the growth of sets without their own.
func (f *Function) growth(ctx context.Context, namespace string) (grow.Plan, error) {
	ruled := map[string]bool{}
	err := kube.Named(ctx, f.client, kube.ConfigMaps, namespace, api.GrowConfigMap, &corev1.ConfigMapList{}, func(l *corev1.ConfigMapList) {
		for i := range l.Items {
			ruled[l.Items[i].Namespace] = true
		}
	})
	if apierrors.IsForbidden(err) { // the roles may be older than this Drydock; everything else is swept
		f.log.Warn("the defaults of namespaces for growth are not swept", "error", err.Error())
		err = nil
	}
	return grow.Plan{Period: f.growPeriod, Since: f.swept, Default: func(namespace string) bool { return ruled[namespace] }}, err
}
