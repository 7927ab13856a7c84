package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
)

// provisionedBy is the annotation by which a volume names its provisioner.
const provisionedBy = "pv.kubernetes.io/provisioned-by"

// Resizer grows the volumes of claims that ask for more than they have. Whether a claim may ask for more is decided
// by the API server, from its StorageClass.
type Resizer struct {
	Client      kubernetes.Interface
	Disk        *Disk
	Provisioner string
}

// Run watches claims until the context ends.
func (r *Resizer) Run(ctx context.Context) {
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](time.Second, time.Minute))
	factory := informers.NewSharedInformerFactory(r.Client, time.Minute)
	look := func(object any) {
		if claim, ok := object.(*corev1.PersistentVolumeClaim); ok && wantsMore(claim) {
			queue.Add(cache.MetaObjectToName(claim))
		}
	}
	_, err := factory.Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    look,
		UpdateFunc: func(_, object any) { look(object) },
	})
	if err != nil {
		klog.ErrorS(err, "Volumes will not grow")
		return
	}
	factory.Start(ctx.Done())
	context.AfterFunc(ctx, queue.ShutDown)
	for {
		name, ended := queue.Get()
		if ended {
			return
		}
		if err := r.resize(ctx, name); err != nil {
			klog.ErrorS(err, "A volume did not grow", "claim", name)
			queue.AddRateLimited(name)
		} else {
			queue.Forget(name)
		}
		queue.Done(name)
	}
}

// wantsMore says whether a bound claim asks for more than it has.
func wantsMore(claim *corev1.PersistentVolumeClaim) bool {
	requested, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Status.Phase == corev1.ClaimBound && requested.Cmp(has) > 0
}

// resize grows the volume first and says so last: in the volume, then in the claim.
func (r *Resizer) resize(ctx context.Context, name cache.ObjectName) error {
	claim, err := r.Client.CoreV1().PersistentVolumeClaims(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading the claim: %w", err)
	}
	if err != nil || !wantsMore(claim) {
		return nil
	}
	volume, err := r.Client.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("reading the volume: %w", err)
	}
	if volume.Annotations[provisionedBy] != r.Provisioner {
		return nil // another's
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if err := r.Disk.Grow(ctx, volume.Name, size.Value()); err != nil {
		return err
	}
	if err := r.setVolumeCapacity(ctx, volume, size); err != nil {
		return err
	}
	return r.setClaimCapacity(ctx, claim, size)
}

func (r *Resizer) setVolumeCapacity(ctx context.Context, volume *corev1.PersistentVolume, size resource.Quantity) error {
	volume = volume.DeepCopy()
	volume.Spec.Capacity[corev1.ResourceStorage] = size
	if _, err := r.Client.CoreV1().PersistentVolumes().Update(ctx, volume, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the capacity of volume %s: %w", volume.Name, err)
	}
	return nil
}

// setClaimCapacity ends the resize, with all the marks that others may have made of it.
func (r *Resizer) setClaimCapacity(ctx context.Context, claim *corev1.PersistentVolumeClaim, size resource.Quantity) error {
	claim = claim.DeepCopy()
	claim.Status.Capacity[corev1.ResourceStorage] = size
	claim.Status.Conditions = slices.DeleteFunc(claim.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Type == corev1.PersistentVolumeClaimResizing || c.Type == corev1.PersistentVolumeClaimFileSystemResizePending
	})
	delete(claim.Status.AllocatedResources, corev1.ResourceStorage)
	delete(claim.Status.AllocatedResourceStatuses, corev1.ResourceStorage)
	if _, err := r.Client.CoreV1().PersistentVolumeClaims(claim.Namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("writing the capacity of the claim: %w", err)
	}
	return nil
}
