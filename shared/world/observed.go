package world

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// Observed is a StatefulSet with all objects that concern an operation on its volumes, as the API server returned them. Every Decide of
// such an operation is a function of it.
type Observed struct {
	Now  time.Time
	Set  *appsv1.StatefulSet // nil if it does not exist
	Name string              // the set's name, even if the set does not exist
	// SetJSON is the set as the API server sent it. It is nil if the set does not exist.
	SetJSON []byte
	// Claims are the claims in the namespace with a name of the set's claims, and the operation's own claims.
	Claims []*corev1.PersistentVolumeClaim
	// ClaimManifests has the claims to be replaced, with all their fields, by name.
	ClaimManifests map[string]*unstructured.Unstructured
	// Volumes has the volumes of the claims, of the operation and of its journals, by name.
	Volumes map[string]*corev1.PersistentVolume
	// OthersRetained are the old volumes of the namespace's other sets that are still retained.
	OthersRetained []*corev1.PersistentVolume
	// Pods are the pods in the namespace that use one of the claims, have the name of a member, or belong to one of the Jobs.
	Pods []*corev1.Pod
	// Jobs are the Jobs of operations on this set.
	Jobs []*batchv1.Job
	// Journals are the journals of operations on this set.
	Journals []*appsv1.ControllerRevision
	// Attachments are the attachments of volumes to nodes.
	Attachments []*storagev1.VolumeAttachment
	// Nodes has the nodes of pods that are being stopped, by name.
	Nodes map[string]*corev1.Node
}

// Record returns the record of the set's latest resize or rollback, or nil. A record of another set counts as absent.
func (o *Observed) Record() (*api.Resize, error) {
	if o.Set == nil {
		return nil, nil
	}
	return api.LoadResize(o.Set)
}

// ClaimNameFilter returns a function that reports whether the set or a journal has a claim with the name. If the set is gone, only the
// journal knows its claims. A journal is long, so it is decoded only once.
func (o *Observed) ClaimNameFilter() func(claim string) bool {
	journalled := map[string]bool{}
	for _, revision := range o.Journals {
		if journal, err := api.LoadJournal(revision); err == nil {
			for _, move := range journal.Record.Moves() {
				journalled[move.Claim] = true
			}
		}
	}
	return func(claim string) bool {
		if journalled[claim] || o.Set == nil {
			return journalled[claim]
		}
		_, _, ok := statefulset.ParseClaimName(o.Set, claim)
		return ok
	}
}

// Claim returns the claim with the name, or nil.
func (o *Observed) Claim(name string) *corev1.PersistentVolumeClaim {
	i := slices.IndexFunc(o.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return o.Claims[i]
}

// Manifest returns the set with all its fields, also fields that this build does not know. Only the creation of a set needs it. It takes
// several times the memory of Set.
func (o *Observed) Manifest() *unstructured.Unstructured {
	manifest, err := api.ParseManifest(o.SetJSON, "apps/v1", "StatefulSet")
	if err != nil {
		panic(err) // Set was decoded from the same text
	}
	return manifest
}

// ClaimManifest returns the claim with all its fields. It returns nil if these were not read, or if the claim has changed since.
func (o *Observed) ClaimManifest(claim *corev1.PersistentVolumeClaim) *unstructured.Unstructured {
	manifest := o.ClaimManifests[claim.Name]
	if manifest == nil || manifest.GetUID() != claim.UID || manifest.GetResourceVersion() != claim.ResourceVersion {
		return nil
	}
	return manifest
}

// Volume returns the volume with the name, or nil.
func (o *Observed) Volume(name string) *corev1.PersistentVolume {
	if name == "" {
		return nil
	}
	return o.Volumes[name]
}

// Retained returns the old volumes of all sets in the namespace that are still retained, by name.
func (o *Observed) Retained() []*corev1.PersistentVolume {
	kept := slices.Clone(o.OthersRetained)
	for _, name := range slices.Sorted(maps.Keys(o.Volumes)) {
		if link, err := api.LoadLink(o.Volumes[name]); err == nil && link != nil && link.Role == api.RoleOldVolume {
			kept = append(kept, o.Volumes[name])
		}
	}
	return kept
}

// TargetClaim returns the temporary claim of the move, or nil.
func (o *Observed) TargetClaim(operation string, move *api.Move) *corev1.PersistentVolumeClaim {
	claim := o.Claim(api.TargetName(operation, move.Claim, move.Copies))
	if claim == nil || !statefulset.IsTarget(claim, operation) {
		return nil
	}
	return claim
}

// TargetClaims returns the operation's temporary claims. A link alone proves nothing, because any user who may write the object can write
// one. The name must derive from the operation.
func (o *Observed) TargetClaims(operation string) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for _, c := range o.Claims {
		if statefulset.IsTarget(c, operation) {
			claims = append(claims, c)
		}
	}
	return claims
}

// JobsOf returns the operation's Jobs.
func (o *Observed) JobsOf(operation string) []*batchv1.Job {
	var jobs []*batchv1.Job
	for _, j := range o.Jobs {
		if statefulset.IsOfMover(j, j.Name, operation) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// MoversOfMember returns the Jobs of all attempts for the member, and their pods. Finished pods are included, because they still hold their
// claims (kubernetes pkg/controller/volume/pvcprotection). It decodes only the links of objects with such a name, because a large set has
// hundreds of others.
func (o *Observed) MoversOfMember(operation string, ordinal int) (pods []*corev1.Pod, jobs []*batchv1.Job) {
	named := api.MoverNames(operation, ordinal)
	for _, p := range o.Pods {
		if job := metav1.GetControllerOfNoCopy(p); job != nil && named(job.Name) && statefulset.IsMoverOf(p, operation) {
			pods = append(pods, p)
		}
	}
	for _, j := range o.Jobs {
		if named(j.Name) && statefulset.IsOfMover(j, j.Name, operation) {
			jobs = append(jobs, j)
		}
	}
	return pods, jobs
}

// HooksOf returns the Jobs that run before and after members of the operation.
func (o *Observed) HooksOf(operation string) []*batchv1.Job {
	var jobs []*batchv1.Job
	for _, j := range o.Jobs {
		if api.HasLink(j, operation, api.RoleHook) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// HookPod returns the newest pod of a hook's Job, or nil.
func (o *Observed) HookPod(job *batchv1.Job) *corev1.Pod {
	var newest *corev1.Pod
	for _, pod := range o.Pods {
		if metav1.IsControlledBy(pod, job) && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	return newest
}

// Users returns the pods that use the claim, without finished pods and Drydock's movers.
func (o *Observed) Users(claim string) []*corev1.Pod {
	var users []*corev1.Pod
	for _, p := range statefulset.Consumers(o.Pods, claim) {
		if !statefulset.IsMover(p) {
			users = append(users, p)
		}
	}
	return users
}

// Attached reports whether a node has the volume attached.
func (o *Observed) Attached(volume string) bool {
	return slices.ContainsFunc(o.Attachments, func(a *storagev1.VolumeAttachment) bool {
		return a.Spec.Source.PersistentVolumeName != nil && *a.Spec.Source.PersistentVolumeName == volume
	})
}

// Journal returns the operation's journal, or nil.
func (o *Observed) Journal(operation string) *appsv1.ControllerRevision {
	for _, r := range o.Journals {
		if link := api.RevisionLink(r); link != nil && link.Operation == operation && link.Role == api.RoleJournal {
			return r
		}
	}
	return nil
}

// JournalRecord returns the record in the operation's journal, or nil without a readable journal.
func (o *Observed) JournalRecord(operation string) *api.Resize {
	revision := o.Journal(operation)
	if revision == nil {
		return nil
	}
	journal, err := api.LoadJournal(revision)
	if err != nil || journal.Record.Operation != operation || journal.Record.Set.Name != o.Name {
		return nil
	}
	return &journal.Record
}

// VolumeNames returns the names of the volumes of the claims, of the record and of the journals.
func (o *Observed) VolumeNames() []string {
	var names []string
	for _, c := range o.Claims {
		names = append(names, c.Spec.VolumeName)
	}
	var records []*api.Resize
	if record, err := o.Record(); err == nil && record != nil {
		records = append(records, record)
	}
	for _, revision := range o.Journals {
		if journal, err := api.LoadJournal(revision); err == nil {
			records = append(records, &journal.Record)
		}
	}
	for _, r := range records {
		for _, move := range r.Moves() {
			names = append(names, move.OldVolume, move.NewVolume)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// Cluster has the facts outside of a StatefulSet that a preflight needs: the classes of the cluster, and the limits and permissions of the
// namespace.
type Cluster struct {
	Classes map[string]*storagev1.StorageClass
	// Attributes are the VolumeAttributesClasses. They are nil if the request names none.
	Attributes map[string]*storagev1.VolumeAttributesClass
	Quotas     []corev1.ResourceQuota
	Limits     []corev1.LimitRange
	// OwnerConsent is the consent of the namespace to changes of the custom resources that control its StatefulSets.
	OwnerConsent api.OwnerConsent
	// RootMovers is true if the namespace allows movers to run as root.
	RootMovers bool
	// NodeAccess is true if sets with access to their node may be created again in the namespace.
	NodeAccess bool
	// MoverConfig is the ConfigMap with the mover options of the namespace, or nil.
	MoverConfig *corev1.ConfigMap
}

// MayWrite returns why the pod of a held member may still write to its volumes. It returns "" if there is proof that it cannot.
func (o *Observed) MayWrite(member *api.Member, pod *corev1.Pod) string {
	if why := statefulset.WhyNotStopped(pod, o.Nodes[pod.Spec.NodeName]); why != "" {
		return why
	}
	for _, move := range member.Claims {
		volume := o.Volume(move.OldVolume)
		if volume != nil && !statefulset.SharesPages(volume) && !statefulset.Unmounted(pod) {
			return fmt.Sprintf("node %s has not unmounted volume %s of pod %s", pod.Spec.NodeName, volume.Name, pod.Name)
		}
	}
	return ""
}
