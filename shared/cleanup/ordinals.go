package cleanup

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
	"drydock.dev/shared/statefulset"
)

// Ordinal is one ordinal of a set, with its claims and its pod.
type Ordinal struct {
	Number int
	// Claims are the claims with the ordinal's names, from any creator, in the order of their names.
	Claims []*corev1.PersistentVolumeClaim
	// Pod is the pod with the member's name, from any creator, or nil.
	Pod *corev1.Pod
	// Wanted is true if the set requests the member.
	Wanted bool
}

// Ordinals returns the ordinals of the set that have a claim or a pod, from the highest down.
//
// It leaves out ordinals below spec.ordinals.start. A scale-down never leaves them: a user who raises the start hands the members and
// their volumes to another set.
func Ordinals(set *appsv1.StatefulSet, claims []*corev1.PersistentVolumeClaim, pods []*corev1.Pod) []Ordinal {
	span, byNumber := statefulset.Span(set), map[int]*Ordinal{}
	at := func(n int) *Ordinal {
		if byNumber[n] == nil {
			byNumber[n] = &Ordinal{Number: n, Wanted: n < span.End && set.DeletionTimestamp == nil}
		}
		return byNumber[n]
	}
	for _, c := range statefulset.ClaimsOf(set, claims) {
		if c.Ordinal >= span.Start {
			ordinal := at(c.Ordinal)
			ordinal.Claims = append(ordinal.Claims, c.PersistentVolumeClaim)
		}
	}
	for _, p := range pods {
		if n, ok := statefulset.ParsePodName(set, p.Name); ok && n >= span.Start && p.Namespace == set.Namespace {
			at(n).Pod = p
		}
	}
	ordinals := make([]Ordinal, 0, len(byNumber))
	for _, ordinal := range byNumber {
		slices.SortFunc(ordinal.Claims, func(a, b *corev1.PersistentVolumeClaim) int { return cmp.Compare(a.Name, b.Name) })
		ordinals = append(ordinals, *ordinal)
	}
	slices.SortFunc(ordinals, func(a, b Ordinal) int { return cmp.Compare(b.Number, a.Number) })
	return ordinals
}

// Kept returns the claims that are not being deleted.
func (o Ordinal) Kept() []*corev1.PersistentVolumeClaim {
	return slices.DeleteFunc(slices.Clone(o.Claims), func(c *corev1.PersistentVolumeClaim) bool { return c.DeletionTimestamp != nil })
}

// Missing returns the name of a claim that the ordinal lacks, or "".
func (o Ordinal) Missing(set *appsv1.StatefulSet) string {
	for _, t := range set.Spec.VolumeClaimTemplates {
		name := statefulset.ClaimName(set, t.Name, o.Number)
		if !slices.ContainsFunc(o.Kept(), func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name }) {
			return name
		}
	}
	return ""
}

// Unknown returns the name of a kept claim that no member of the set is known to have used, or "".
func (o Ordinal) Unknown(set *appsv1.StatefulSet) string {
	for _, c := range o.Kept() {
		if !UsedByReplica(c, set) {
			return c.Name
		}
	}
	return ""
}

// UsedByReplica reports whether the claim is bound and belonged to a member of this set. Either a pod of the set was seen using the claim,
// or the StatefulSet controller created it, with the set's labels and not before the set; it does so just before it creates the pod. Times
// are whole seconds, and the first claims are created in the second of the set. A claim of an earlier set with the name, created in that
// second, is less than a second old, too young for a pod to have used it.
func UsedByReplica(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) bool {
	if claim.Status.Phase != corev1.ClaimBound {
		return false
	}
	if uid, marked := claim.Annotations[api.ReplicaOfAnnotation]; marked {
		return uid == string(set.UID)
	}
	labelled := set.Spec.Selector != nil && len(set.Spec.Selector.MatchLabels) > 0 // without labels, nothing is proven
	return labelled && createdByController(claim) && statefulset.Belongs(claim, set) && !claim.CreationTimestamp.Before(&set.CreationTimestamp)
}

// controllerManager is the field manager of Kubernetes' controllers.
const controllerManager = "kube-controller-manager"

// createdByController reports whether a controller of Kubernetes created the claim. The controller that binds claims also writes to claims
// of other creators, but never their resources.
func createdByController(claim *corev1.PersistentVolumeClaim) bool {
	return slices.ContainsFunc(claim.ManagedFields, func(entry metav1.ManagedFieldsEntry) bool {
		var fields struct {
			Spec struct {
				Resources *struct{} `json:"f:resources"`
			} `json:"f:spec"`
		}
		return entry.Manager == controllerManager && entry.FieldsV1 != nil &&
			json.Unmarshal(entry.FieldsV1.Raw, &fields) == nil && fields.Spec.Resources != nil
	})
}

// NewlySeen returns the claims that a pod of the set uses and that are not marked with the set's UID yet.
func NewlySeen(set *appsv1.StatefulSet, ordinals []Ordinal) []*corev1.PersistentVolumeClaim {
	var claims []*corev1.PersistentVolumeClaim
	for _, o := range ordinals {
		if o.Pod == nil || !statefulset.IsPodOf(o.Pod, set) {
			continue
		}
		for _, c := range o.Claims {
			if c.DeletionTimestamp == nil && statefulset.Mounts(o.Pod, c.Name) && c.Annotations[api.ReplicaOfAnnotation] != string(set.UID) {
				claims = append(claims, c)
			}
		}
	}
	return claims
}

// Accounted returns the ordinals from the start whose pod exists, up to the first gap.
func Accounted(set *appsv1.StatefulSet, ordinals []Ordinal) api.Span {
	span := statefulset.Span(set)
	exists := map[int]bool{}
	for _, o := range ordinals {
		exists[o.Number] = o.Pod != nil && statefulset.IsPodOf(o.Pod, set)
	}
	end := span.Start
	for end < span.End && exists[end] {
		end++
	}
	return api.Span{Start: span.Start, End: end}
}

// LinkOf returns the link of a cleanup pod for a set with the name, or nil for any other pod.
func LinkOf(pod *corev1.Pod, set string) *api.Link {
	link, err := api.LoadLink(pod)
	if err != nil || link == nil || link.Role != api.RoleCleaner || link.Set.Name != set || link.Namespace != pod.Namespace {
		return nil
	}
	return link
}

// ClaimsOfLink returns the claims that the cleanup pod was created for, deleted or not. It leaves out claims that replaced one of them.
func ClaimsOfLink(link *api.Link, claims []*corev1.PersistentVolumeClaim) []*corev1.PersistentVolumeClaim {
	var tended []*corev1.PersistentVolumeClaim
	for _, name := range slices.Sorted(maps.Keys(link.Claims)) {
		for _, c := range claims {
			if c.Name == name && c.UID == link.Claims[name] {
				tended = append(tended, c)
			}
		}
	}
	return tended
}
