package detectresize

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/kube"
	"drydock.dev/shared/owners"
	"drydock.dev/shared/sts"
)

// Input is what Decide decides on.
type Input struct {
	*sts.Observed
	Settings api.Settings
	Registry owners.Registry
	// Rejected is why the API server refused a write of this event for good; empty if it did not.
	Rejected string
	// Retry is what a retry event asks for; nil for any other event.
	Retry *Retry
	// Cluster is read only when a resize is wanted.
	Cluster *Cluster
	// Trace is the traceparent of an operation that begins now; empty when tracing is off.
	Trace string
}

// Cluster is what the preflight needs to know beyond the set.
type Cluster struct {
	Classes map[string]*storagev1.StorageClass
	Quotas  []corev1.ResourceQuota
	Limits  []corev1.LimitRange
	// RootMovers are allowed in the namespace.
	RootMovers bool
	// MoverConfig says how movers run in the namespace; nil if nothing does.
	MoverConfig *corev1.ConfigMap
}

func (f *Function) observe(ctx context.Context, ref events.Ref, asked *Retry) (Input, error) {
	observed, err := f.client.Observe(ctx, ref)
	if err != nil {
		return Input{}, err
	}
	in := Input{Observed: observed, Settings: f.settings, Registry: f.registry, Retry: asked}
	if wanted, _ := want(in); wanted == nil {
		return in, nil
	}
	in.Trace = f.apply.Begin(ctx)
	in.Cluster, err = f.observeCluster(ctx, ref.Namespace)
	return in, err
}

func (f *Function) observeCluster(ctx context.Context, namespace string) (*Cluster, error) {
	cluster := &Cluster{Classes: map[string]*storagev1.StorageClass{}}
	err := kube.Pages(ctx, f.client, kube.StorageClasses, "", "", &storagev1.StorageClassList{}, func(l *storagev1.StorageClassList) {
		for i := range l.Items {
			cluster.Classes[l.Items[i].Name] = &l.Items[i]
		}
	})
	if err != nil {
		return nil, err
	}
	err = kube.Pages(ctx, f.client, kube.Quotas, namespace, "", &corev1.ResourceQuotaList{}, func(l *corev1.ResourceQuotaList) {
		cluster.Quotas = append(cluster.Quotas, l.Items...)
	})
	if err != nil {
		return nil, err
	}
	err = kube.Pages(ctx, f.client, kube.LimitRanges, namespace, "", &corev1.LimitRangeList{}, func(l *corev1.LimitRangeList) {
		cluster.Limits = append(cluster.Limits, l.Items...)
	})
	if err != nil {
		return nil, err
	}
	if cluster.RootMovers, err = f.client.RootMovers(ctx, namespace); err != nil {
		return nil, err
	}
	cluster.MoverConfig, err = f.client.MoverConfig(ctx, namespace)
	return cluster, err
}
