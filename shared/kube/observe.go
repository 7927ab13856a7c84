package kube

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/events"
	"drydock.dev/shared/fault"
	"drydock.dev/shared/plan"
	"drydock.dev/shared/statefulset"
	"drydock.dev/shared/world"
)

// mostKept is the limit for the set, claims, pods, Jobs and journals of one observation, in bytes as the API server sends them. Decoded,
// ordinary ones take twice as much, and hostile ones ten times. A thousand ordinary replicas need less. The users who create claims decide
// how much there is to read, and the function serves other tenants at the same time.
const mostKept = 16 << 20

// observation is an Observed that is being read.
type observation struct {
	*world.Observed
	kept atomic.Int64 // bytes
}

// fits counts an object of that size and reports whether it may be kept. Keep a copy, because the object is a part of its page.
func (l *observation) fits(size int) bool {
	return l.kept.Add(int64(size)) <= mostKept
}

// checkSize returns an error if the objects are too large to be kept.
func (l *observation) checkSize() error {
	if l.kept.Load() <= mostKept {
		return nil
	}
	return fault.Permanent(fmt.Errorf("the set, its claims, their pods, and the Jobs and ControllerRevisions of its operations have "+
		"more than %d MiB; remove large labels and annotations from objects with names of its claims", mostKept>>20))
}

// Observe reads a StatefulSet with all objects that concern an operation on its volumes.
func (c *Client) Observe(ctx context.Context, ref events.Ref) (*world.Observed, error) {
	return c.ObserveIf(ctx, ref, func(*world.Observed) bool { return true })
}

// ObserveIf reads only the StatefulSet if matters returns false for it. Otherwise it does the same as Observe.
func (c *Client) ObserveIf(ctx context.Context, ref events.Ref, matters func(*world.Observed) bool) (*world.Observed, error) {
	o := &observation{Observed: &world.Observed{Now: time.Now(), Name: ref.Name, Volumes: map[string]*corev1.PersistentVolume{}}}
	if err := c.observeSet(ctx, ref, o); err != nil {
		return nil, err
	}
	if !matters(o.Observed) {
		return o.Observed, nil
	}
	if err := cmp.Or(c.observeObjects(ctx, ref.Namespace, o), o.checkSize()); err != nil {
		return nil, fmt.Errorf("observing StatefulSet %s: %w", ref, err)
	}
	joinJournalTrace(ctx, o.Observed)
	return o.Observed, nil
}

// observeObjects reads independent objects concurrently, two lists at a time. Journals name the claims of a lost set, and claims name the
// volumes. Pods are read after claims: the observation of a claim that is being deleted must include every pod that was placed on it
// before.
func (c *Client) observeObjects(ctx context.Context, namespace string, o *observation) error {
	for _, together := range [][][]read{
		{{c.observeJobs}, {c.observeJournals, c.observeClaims}},
		{{c.observePods, c.observeStops}, {c.observeVolumes, c.observeManifests}},
	} {
		group, ctx := errgroup.WithContext(ctx)
		for _, reads := range together {
			group.Go(func() error { return inOrder(ctx, namespace, o, reads) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// read reads a part of an observation.
type read = func(context.Context, string, *observation) error

// inOrder calls the reads one after the other. It turns a panic into an error of the event. In a goroutine, a panic would end the process
// and the work on all other events.
func inOrder(ctx context.Context, namespace string, o *observation, reads []read) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	for _, read := range reads {
		if err := read(ctx, namespace, o); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) observeClaims(ctx context.Context, namespace string, o *observation) error {
	named := o.ClaimNameFilter()
	return Pages(ctx, c, plan.Claims, namespace, "", &corev1.PersistentVolumeClaimList{}, func(l *corev1.PersistentVolumeClaimList) {
		for i := range l.Items {
			if claim := &l.Items[i]; (named(claim.Name) || linkedTo(claim, o.Name)) && o.fits(claim.Size()) {
				o.Claims = append(o.Claims, claim.DeepCopy())
			}
		}
	})
}

func (c *Client) observeJobs(ctx context.Context, namespace string, o *observation) error {
	return Pages(ctx, c, plan.Jobs, namespace, api.OperationLabel, &batchv1.JobList{}, func(l *batchv1.JobList) {
		for i := range l.Items {
			if job := &l.Items[i]; linkedTo(job, o.Name) && o.fits(job.Size()) {
				o.Jobs = append(o.Jobs, job.DeepCopy())
			}
		}
	})
}

func (c *Client) observeJournals(ctx context.Context, namespace string, o *observation) error {
	keep := func(l *appsv1.ControllerRevisionList) {
		for i := range l.Items {
			revision := &l.Items[i]
			link := api.RevisionLink(revision)
			if link != nil && link.Namespace == revision.Namespace && link.Set.Name == o.Name && link.Role == api.RoleJournal &&
				o.fits(revision.Size()) {
				o.Journals = append(o.Journals, revision.DeepCopy())
			}
		}
	}
	return Pages(ctx, c, plan.ControllerRevisions, namespace, api.OperationLabel, &appsv1.ControllerRevisionList{}, keep)
}

func linkedTo(obj metav1.Object, set string) bool {
	link, err := api.LoadLink(obj)
	return err == nil && link != nil && link.Set.Name == set
}

func (c *Client) observePods(ctx context.Context, namespace string, o *observation) error {
	return Pages(ctx, c, plan.Pods, namespace, "", &corev1.PodList{}, func(l *corev1.PodList) {
		for i := range l.Items {
			pod := &l.Items[i]
			mounts := func(claim *corev1.PersistentVolumeClaim) bool { return statefulset.Mounts(pod, claim.Name) }
			controls := func(job *batchv1.Job) bool { return metav1.IsControlledBy(pod, job) }
			concerns := slices.ContainsFunc(o.Claims, mounts) || statefulset.IsMemberName(o.Name, pod.Name) ||
				slices.ContainsFunc(o.Jobs, controls)
			if concerns && o.fits(pod.Size()) {
				o.Pods = append(o.Pods, pod.DeepCopy())
			}
		}
	})
}

// observeStops reads the objects that prove the stop of a member: the nodes of pods that are being stopped. It reads VolumeAttachments if a
// locked member has no pod, or if volumes grow while their member is stopped.
func (c *Client) observeStops(ctx context.Context, _ string, o *observation) error {
	record, _ := o.Record() // an unreadable record stops nothing
	grows := record != nil && record.GrowsWhileStopped()
	readAttachments := false
	o.Nodes = map[string]*corev1.Node{}
	for _, pod := range o.Pods {
		readAttachments = readAttachments || grows && statefulset.Held(pod)
		switch {
		case !statefulset.Held(pod):
		case pod.Spec.NodeName == "":
			readAttachments = true
		case pod.DeletionTimestamp != nil && o.Nodes[pod.Spec.NodeName] == nil:
			node := &corev1.Node{}
			found, err := c.Get(ctx, Nodes, "", pod.Spec.NodeName, node)
			if err != nil {
				return err
			}
			if found {
				o.Nodes[node.Name] = node
			}
		}
	}
	if !readAttachments {
		return nil
	}
	return Pages(ctx, c, Attachments, "", "", &storagev1.VolumeAttachmentList{}, func(l *storagev1.VolumeAttachmentList) {
		for i := range l.Items {
			o.Attachments = append(o.Attachments, l.Items[i].DeepCopy())
		}
	})
}

// observeVolumes reads the volumes of the set's operations by label, and all other volumes of its claims and records by name. Volumes have
// no namespace, and a cluster may have very many.
func (c *Client) observeVolumes(ctx context.Context, namespace string, o *observation) error {
	linked := api.OperationLabel + "," + api.NamespaceLabel + "=" + namespace
	err := Pages(ctx, c, plan.Volumes, "", linked, &corev1.PersistentVolumeList{}, func(l *corev1.PersistentVolumeList) {
		for i := range l.Items {
			volume := &l.Items[i]
			link, err := api.LoadLink(volume)
			switch {
			case err != nil || link == nil || link.Namespace != namespace || !ofNamespace(volume, namespace):
			case link.Set.Name == o.Name:
				o.Volumes[volume.Name] = volume
			case link.Role == api.RoleOldVolume:
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

// ofNamespace reports whether the volume's claimRef names the namespace. Names of volumes come from annotations, which every user who may
// edit a StatefulSet can write. Such a user must not reach the volumes of another namespace.
func ofNamespace(volume *corev1.PersistentVolume, namespace string) bool {
	return volume.Spec.ClaimRef != nil && volume.Spec.ClaimRef.Namespace == namespace
}

// UnclaimedVolumes returns the cluster's volumes without a claim, including volumes that are reserved for a claim's name.
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
