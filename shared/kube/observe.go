package kube

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// Observe reads a StatefulSet with everything that an operation on its volumes concerns.
func (c *Client) Observe(ctx context.Context, ref events.Ref) (*sts.Observed, error) {
	o := &sts.Observed{Now: time.Now(), Name: ref.Name, Volumes: map[string]*corev1.PersistentVolume{}}
	if err := c.observeSet(ctx, ref, o); err != nil {
		return nil, err
	}
	for _, read := range []func(context.Context, string, *sts.Observed) error{
		c.observeLinked, c.observeClaims, c.observePods, c.observeVolumes, c.observeAttachments, c.observeManifests,
	} {
		if err := read(ctx, ref.Namespace, o); err != nil {
			return nil, fmt.Errorf("observing StatefulSet %s: %w", ref, err)
		}
	}
	followJournals(ctx, o)
	return o, nil
}

func (c *Client) observeClaims(ctx context.Context, namespace string, o *sts.Observed) error {
	return Pages(ctx, c, plan.Claims, namespace, "", &corev1.PersistentVolumeClaimList{}, func(l *corev1.PersistentVolumeClaimList) {
		for i := range l.Items {
			if claim := &l.Items[i]; o.Names(claim.Name) || linkedTo(claim, o.Name) {
				o.Claims = append(o.Claims, claim)
			}
		}
	})
}

func (c *Client) observeLinked(ctx context.Context, namespace string, o *sts.Observed) error {
	err := Pages(ctx, c, plan.Jobs, namespace, api.OperationLabel, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			if linkedTo(&l.Items[i], o.Name) {
				o.Jobs = append(o.Jobs, &l.Items[i])
			}
		}
	})
	if err != nil {
		return err
	}
	return Pages(ctx, c, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{}, func(l *appsv1.ControllerRevisionList) {
		for i := range l.Items {
			if link := api.LoadRecord(&l.Items[i]); link != nil && link.Set.Name == o.Name && link.Role == api.RoleJournal {
				o.Journals = append(o.Journals, &l.Items[i])
			}
		}
	})
}

func linkedTo(obj metav1.Object, set string) bool {
	link, err := api.LoadLink(obj)
	return err == nil && link != nil && link.Set.Name == set
}

func (c *Client) observePods(ctx context.Context, namespace string, o *sts.Observed) error {
	if len(o.Claims) == 0 {
		return nil
	}
	return Pages(ctx, c, plan.Pods, namespace, "", &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			for _, claim := range o.Claims {
				if sts.Mounts(&l.Items[i], claim.Name) {
					o.Pods = append(o.Pods, &l.Items[i])
					break
				}
			}
		}
	})
}

// observeVolumes reads the volumes of operations on the set by label, and the others that a claim or a document names
// one by one: volumes are not namespaced, and a cluster may have very many.
func (c *Client) observeVolumes(ctx context.Context, namespace string, o *sts.Observed) error {
	linked := api.OperationLabel + "," + api.NamespaceLabel + "=" + namespace
	err := Pages(ctx, c, plan.Volumes, "", linked, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			volume := &l.Items[i]
			link, err := api.LoadLink(volume)
			switch {
			case err != nil || link == nil || link.Namespace != namespace || !ofNamespace(volume, namespace):
			case link.Set.Name == o.Name:
				o.Volumes[volume.Name] = volume
			case link.Role == api.RoleRetired:
				o.OthersRetained = append(o.OthersRetained, volume)
			}
		}
	})
	if err != nil {
		return err
	}
	for _, name := range o.VolumeNames() {
		if o.Volumes[name] != nil {
			continue
		}
		volume := &corev1.PersistentVolume{}
		found, err := c.Get(ctx, plan.Volumes, "", name, volume)
		if err != nil {
			return err
		}
		if found && ofNamespace(volume, namespace) {
			o.Volumes[name] = volume
		}
	}
	return nil
}

// ofNamespace reports whether the volume is, or was last, a claim's of the namespace. Names of volumes come from
// annotations that whoever may edit a StatefulSet can write; another namespace's volumes are none of its business.
func ofNamespace(volume *corev1.PersistentVolume, namespace string) bool {
	return volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.Namespace == namespace
}

// observeAttachments reads them only while a set is being stopped: they are the last proof that nothing writes.
func (c *Client) observeAttachments(ctx context.Context, _ string, o *sts.Observed) error {
	status, err := o.Status()
	if err != nil || status == nil || status.Phase != api.Copying || status.Generation != 0 {
		return nil //nolint:nilerr // an unreadable status is Decide's to judge
	}
	return Pages(ctx, c, Attachments, "", "", &storagev1.VolumeAttachmentList{}, func(l *storagev1.VolumeAttachmentList) {
		for i := range l.Items {
			o.Attachments = append(o.Attachments, &l.Items[i])
		}
	})
}

// UnclaimedVolumes returns the volumes of the cluster that no claim has, including those that are reserved for the name of one.
func (c *Client) UnclaimedVolumes(ctx context.Context) ([]*corev1.PersistentVolume, error) {
	var unclaimed []*corev1.PersistentVolume
	err := Pages(ctx, c, plan.Volumes, "", "", &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			if ref := l.Items[i].Spec.ClaimRef; ref == nil || ref.UID == "" {
				unclaimed = append(unclaimed, l.Items[i].DeepCopy()) // a pointer would keep the whole page
			}
		}
	})
	return unclaimed, err
}

// MoverConfig is the namespace's ConfigMap about movers, or nil.
func (c *Client) MoverConfig(ctx context.Context, namespace string) (*corev1.ConfigMap, error) {
	config := &corev1.ConfigMap{}
	found, err := c.Get(ctx, ConfigMaps, namespace, api.MoverConfigMap, config)
	if err != nil || !found {
		return nil, err
	}
	return config, nil
}

// RootMovers reports whether the namespace allows movers that run as root.
func (c *Client) RootMovers(ctx context.Context, namespace string) (bool, error) {
	labels, err := c.namespaceLabels(ctx, namespace)
	return labels[api.RootMoverLabel] == api.AllowValue, err
}

// PauseOwners reports whether the namespace allows that the owners of its StatefulSets are paused.
func (c *Client) PauseOwners(ctx context.Context, namespace string) (bool, error) {
	labels, err := c.namespaceLabels(ctx, namespace)
	return labels[api.PauseOwnersLabel] == api.AllowValue, err
}

// namespaceLabels returns the labels of the namespace, none if it does not exist.
func (c *Client) namespaceLabels(ctx context.Context, namespace string) (map[string]string, error) {
	ns := &corev1.Namespace{}
	if _, err := c.Get(ctx, Namespaces, "", namespace, ns); err != nil {
		return nil, err
	}
	return ns.Labels, nil
}
