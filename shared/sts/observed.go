package sts

import (
	"encoding/json"
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
)

// Observed is a StatefulSet with everything that an operation on its volumes concerns, read from the API server just
// now. Every Decide of such an operation is a function of it.
type Observed struct {
	Now  time.Time
	Set  *appsv1.StatefulSet // nil: it does not exist
	Name string              // the set's name, also when it does not exist
	// Manifest is the set with all its fields, also those that this build does not know; nil if it does not exist.
	Manifest *unstructured.Unstructured
	// Claims of the namespace: those with a name of the set's, and the operation's own.
	Claims []*corev1.PersistentVolumeClaim
	// ClaimManifests are claims with all their fields, by name: those that are about to be replaced.
	ClaimManifests map[string]*unstructured.Unstructured
	// Volumes by name: those that the claims are bound to and those that the operation or its journals name.
	Volumes map[string]*corev1.PersistentVolume
	// OthersRetained are the old volumes that the namespace's other sets have left behind, and that are kept.
	OthersRetained []*corev1.PersistentVolume
	// Pods of the namespace that name one of the claims.
	Pods []*corev1.Pod
	// Jobs of operations on this set.
	Jobs []*batchv1.Job
	// Journals of operations on this set.
	Journals []*appsv1.ControllerRevision
	// Attachments of volumes to nodes.
	Attachments []*storagev1.VolumeAttachment
}

// Status returns the record of the set's latest resize or rollback, if it is this very set's; nil if the set does not exist.
func (o *Observed) Status() (*api.Resize, error) {
	if o.Set == nil {
		return nil, nil
	}
	return api.LoadResize(o.Set)
}

// CleanupAsked reports whether the set has a cleanup pod template, and claims for it to be run on.
func CleanupAsked(set *appsv1.StatefulSet) bool {
	asked := set.Annotations[api.CleanupTemplateAnnotation] != "" || set.Annotations[api.OlderCleanupTemplateAnnotation] != ""
	return asked && len(set.Spec.VolumeClaimTemplates) > 0
}

// ReplicasManager is who last wrote the set's replicas, as managedFields tell: "kubectl" or an operator's name; empty if
// they do not.
func ReplicasManager(set *appsv1.StatefulSet) string {
	manager, _ := ReplicasWriter(set)
	return manager
}

// ReplicasWriter returns who last wrote the set's replicas, and when, as managedFields tell; empty and zero if they do not.
func ReplicasWriter(set *appsv1.StatefulSet) (manager string, at time.Time) {
	for _, entry := range set.ManagedFields {
		var fields struct {
			Spec struct {
				Replicas *struct{} `json:"f:replicas"`
			} `json:"f:spec"`
		}
		if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.Raw, &fields) != nil || fields.Spec.Replicas == nil {
			continue
		}
		if entry.Time == nil || !entry.Time.Time.Before(at) {
			manager = entry.Manager
			if entry.Time != nil {
				at = entry.Time.Time
			}
		}
	}
	return manager, at
}

// Seen reports whether the StatefulSet controller has seen the set's latest spec.
func Seen(set *appsv1.StatefulSet) bool { return set.Status.ObservedGeneration >= set.Generation }

// Names reports whether the claim's name is one of the set's, or one that a journal names: of a set that is gone nothing
// else tells which claims it had.
func (o *Observed) Names(claim string) bool {
	if o.Set != nil {
		if _, _, ok := ParseClaimName(o.Set, claim); ok {
			return true
		}
	}
	return slices.ContainsFunc(o.Journals, func(r *appsv1.ControllerRevision) bool {
		journal, err := api.LoadJournal(r)
		return err == nil && journal.Status.Claim(claim) != nil
	})
}

// Claim returns the claim of the name, or nil.
func (o *Observed) Claim(name string) *corev1.PersistentVolumeClaim {
	i := slices.IndexFunc(o.Claims, func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return o.Claims[i]
}

// ClaimManifest returns the claim with all its fields; nil if it was not read, or has changed since.
func (o *Observed) ClaimManifest(claim *corev1.PersistentVolumeClaim) *unstructured.Unstructured {
	manifest := o.ClaimManifests[claim.Name]
	if manifest == nil || manifest.GetUID() != claim.UID || manifest.GetResourceVersion() != claim.ResourceVersion {
		return nil
	}
	return manifest
}

// Volume returns the volume of the name, or nil.
func (o *Observed) Volume(name string) *corev1.PersistentVolume {
	if name == "" {
		return nil
	}
	return o.Volumes[name]
}

// Retained returns the old volumes that resizes of the namespace's sets have left behind, and that are kept, by name.
func (o *Observed) Retained() []*corev1.PersistentVolume {
	kept := slices.Clone(o.OthersRetained)
	for _, name := range slices.Sorted(maps.Keys(o.Volumes)) {
		if link, err := api.LoadLink(o.Volumes[name]); err == nil && link != nil && link.Role == api.RoleRetired {
			kept = append(kept, o.Volumes[name])
		}
	}
	return kept
}

// TargetClaim returns the operation's temporary claim for the set's claim in the round, or nil.
func (o *Observed) TargetClaim(operation, claim string, round int) *corev1.PersistentVolumeClaim {
	for _, c := range o.TargetClaims(operation) {
		if c.Name == api.CopyName(operation, claim, round) {
			return c
		}
	}
	return nil
}

// TargetClaims returns the operation's temporary claims of all rounds.
func (o *Observed) TargetClaims(operation string) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for _, c := range o.Claims {
		if isCopy(c, c.Name, operation, api.RoleTarget) {
			claims = append(claims, c)
		}
	}
	return claims
}

// isCopy reports whether the object belongs to the operation in the role and the name is one of those that the operation gives to what
// it creates for the claim. The link alone proves nothing: anyone who may write the object can write one.
func isCopy(object metav1.Object, name, operation string, role api.Role) bool {
	link, err := api.LoadLink(object)
	return err == nil && link != nil && link.Operation == operation && link.Role == role && api.IsCopyName(operation, link.Claim, name)
}

// Job returns the operation's copy Job for the claim in the round, or nil.
func (o *Observed) Job(operation, claim string, round int) *batchv1.Job {
	for _, j := range o.JobsOf(operation) {
		if j.Name == api.CopyName(operation, claim, round) {
			return j
		}
	}
	return nil
}

// JobsOf returns the operation's Jobs.
func (o *Observed) JobsOf(operation string) []*batchv1.Job {
	var jobs []*batchv1.Job
	for _, j := range o.Jobs {
		if isCopy(j, j.Name, operation, api.RoleMover) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// Movers returns the pods of the operation's Jobs that exist still, done or not: also a pod that is done holds its
// claims (kubernetes pkg/controller/volume/pvcprotection).
func (o *Observed) Movers(operation string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, p := range o.Pods {
		if isMover(p) && p.Labels[api.OperationLabel] == operation {
			pods = append(pods, p)
		}
	}
	return pods
}

// Users returns the pods, not yet done, that use the claim and are not Drydock's own.
func (o *Observed) Users(claim string) []*corev1.Pod {
	var users []*corev1.Pod
	for _, p := range Consumers(o.Pods, claim) {
		if !isMover(p) {
			users = append(users, p)
		}
	}
	return users
}

// isMover reports whether a copy Job of Drydock controls the pod.
func isMover(pod *corev1.Pod) bool {
	job := metav1.GetControllerOf(pod)
	return job != nil && job.Kind == "Job" && isCopy(pod, job.Name, pod.Labels[api.OperationLabel], api.RoleMover)
}

// OnePodOnly reports whether no second pod may use the claim.
func OnePodOnly(claim *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Spec.AccessModes, corev1.ReadWriteOncePod)
}

// Cold says why the claim cannot be copied beside a pod that uses it, or nothing. One that nobody uses is copied later: a pod that
// starts meanwhile would have to wait for the mover's node to let go of the volume.
func (o *Observed) Cold(claim *corev1.PersistentVolumeClaim) string {
	users := o.Users(claim.Name)
	switch {
	case OnePodOnly(claim):
		return "ReadWriteOncePod: no second pod may use it"
	case len(users) == 0:
		return "no pod uses it"
	case users[0].Spec.NodeName == "":
		return "pod " + users[0].Name + " is on no node"
	case users[0].DeletionTimestamp != nil:
		return "pod " + users[0].Name + " is about to end"
	}
	return ""
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
		if link := api.LoadRecord(r); link != nil && link.Operation == operation && link.Role == api.RoleJournal {
			return r
		}
	}
	return nil
}

// Recorded returns what the operation's journal says, or nil if there is no journal that can be read.
func (o *Observed) Recorded(operation string) *api.Resize {
	revision := o.Journal(operation)
	if revision == nil {
		return nil
	}
	journal, err := api.LoadJournal(revision)
	if err != nil || journal.Status.Operation != operation || journal.Status.Set.Name != o.Name {
		return nil
	}
	return &journal.Status
}

// Bound reports whether claim and volume are bound to each other, and not only one of them to the other's name.
func Bound(claim *corev1.PersistentVolumeClaim, volume *corev1.PersistentVolume) bool {
	ref := volume.Spec.ClaimRef
	return claim.Spec.VolumeName == volume.Name && ref != nil && ref.Namespace == claim.Namespace && ref.Name == claim.Name && ref.UID == claim.UID
}

// Quiet says what still runs on the claims of the operation, or is empty when nothing can write to their volumes: the
// set is at zero as its controller has seen it, no pod names a claim, and no node has a volume attached.
func (o *Observed) Quiet(status *api.Resize) string {
	if !AtZero(o.Set) {
		return fmt.Sprintf("StatefulSet %s still counts %d replicas", o.Set.Name, o.Set.Status.Replicas)
	}
	if user := o.user(status); user != "" {
		return user
	}
	for _, c := range status.Claims {
		if !c.Settled() && o.Attached(c.OldVolume) {
			return fmt.Sprintf("volume %s is still attached to a node", c.OldVolume)
		}
	}
	return ""
}

// Current reports whether the copies are still whole copies: nothing ran when they were begun, and the set's spec was
// not written since, so no replica was ever wanted; and no other pod uses a claim.
func (o *Observed) Current(status *api.Resize) bool {
	return status.Generation != 0 && o.Set != nil && o.Set.Generation == status.Generation &&
		Replicas(o.Set) == 0 && o.user(status) == ""
}

// user names a pod that uses a claim which is not switched yet, or is empty.
func (o *Observed) user(status *api.Resize) string {
	for _, c := range status.Claims {
		if c.Settled() {
			continue
		}
		if users := o.Users(c.Name); len(users) > 0 {
			return fmt.Sprintf("pod %s still uses claim %s", users[0].Name, c.Name)
		}
	}
	return ""
}

// VolumeNames returns the names of the volumes that the claims, the status and the journals name.
func (o *Observed) VolumeNames() []string {
	var names []string
	for _, c := range o.Claims {
		names = append(names, c.Spec.VolumeName)
	}
	var documents []*api.Resize
	if status, err := o.Status(); err == nil && status != nil {
		documents = append(documents, status)
	}
	for _, revision := range o.Journals {
		if journal, err := api.LoadJournal(revision); err == nil {
			documents = append(documents, &journal.Status)
		}
	}
	for _, d := range documents {
		for _, c := range d.Claims {
			names = append(names, c.OldVolume, c.NewVolume)
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}
