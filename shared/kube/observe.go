package kube

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/sts"
)

// Observe reads a StatefulSet with everything that an operation on its volumes concerns.
func (c *Client) Observe(ctx context.Context, ref events.Ref) (*sts.Observed, error) {
	o := &look{left: mostKept, Observed: &sts.Observed{Now: time.Now(), Name: ref.Name, Volumes: map[string]*corev1.PersistentVolume{}}}
	if err := c.observeSet(ctx, ref, o.Observed); err != nil {
		return nil, err
	}
	for _, read := range []func(context.Context, string, *look) error{
		c.observeLinked, c.observeClaims, c.observePods, c.observeVolumes, c.observeAttachments, c.observeManifests,
	} {
		if err := cmp.Or(read(ctx, ref.Namespace, o), o.tooMuch()); err != nil {
			return nil, fmt.Errorf("observing StatefulSet %s: %w", ref, err)
		}
	}
	followJournals(ctx, o.Observed)
	return o.Observed, nil
}

// mostKept bounds the claims, pods, Jobs and journals that one look keeps, in bytes as the API server sends them; decoded they take
// twice that. A thousand ordinary replicas are within it. Whoever may create claims decides how much there is to read, and the
// function serves other tenants at the same time.
const mostKept = 16 << 20

// look is an observation that is being made.
type look struct {
	*sts.Observed
	left int // of mostKept
}

// fits counts an object of that size, and reports whether it may be kept. Keep a copy: the object is a part of its page.
func (l *look) fits(size int) bool {
	l.left -= size
	return l.left >= 0
}

func (l *look) tooMuch() error {
	if l.left >= 0 {
		return nil
	}
	return fault.Permanent(fmt.Errorf("its claims, their pods, and Jobs and ControllerRevisions of operations have more than %d MiB; "+
		"remove large labels and annotations from those with names of its claims", mostKept>>20))
}

func (c *Client) observeClaims(ctx context.Context, namespace string, o *look) error {
	return Pages(ctx, c, plan.Claims, namespace, "", &corev1.PersistentVolumeClaimList{}, func(l *corev1.PersistentVolumeClaimList) {
		for i := range l.Items {
			if claim := &l.Items[i]; (o.Names(claim.Name) || linkedTo(claim, o.Name)) && o.fits(claim.Size()) {
				o.Claims = append(o.Claims, claim.DeepCopy())
			}
		}
	})
}

func (c *Client) observeLinked(ctx context.Context, namespace string, o *look) error {
	err := Pages(ctx, c, plan.Jobs, namespace, api.OperationLabel, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			if job := &l.Items[i]; linkedTo(job, o.Name) && o.fits(job.Size()) {
				o.Jobs = append(o.Jobs, job.DeepCopy())
			}
		}
	})
	if err != nil {
		return err
	}
	return Pages(ctx, c, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{}, func(l *appsv1.ControllerRevisionList) {
		for i := range l.Items {
			revision := &l.Items[i]
			if link := api.LoadRecord(revision); link != nil && link.Set.Name == o.Name && link.Role == api.RoleJournal && o.fits(revision.Size()) {
				o.Journals = append(o.Journals, revision.DeepCopy())
			}
		}
	})
}

func linkedTo(obj metav1.Object, set string) bool {
	link, err := api.LoadLink(obj)
	return err == nil && link != nil && link.Set.Name == set
}

func (c *Client) observePods(ctx context.Context, namespace string, o *look) error {
	if len(o.Claims) == 0 {
		return nil
	}
	return Pages(ctx, c, plan.Pods, namespace, "", &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			pod := &l.Items[i]
			mounts := func(claim *corev1.PersistentVolumeClaim) bool { return sts.Mounts(pod, claim.Name) }
			if slices.ContainsFunc(o.Claims, mounts) && o.fits(pod.Size()) {
				o.Pods = append(o.Pods, pod.DeepCopy())
			}
		}
	})
}

// observeVolumes reads the volumes of operations on the set by label, and the others that a claim or a document names
// one by one: volumes are not namespaced, and a cluster may have very many.
func (c *Client) observeVolumes(ctx context.Context, namespace string, o *look) error {
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
func (c *Client) observeAttachments(ctx context.Context, _ string, o *look) error {
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
