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

// Ordinal is the place of a replica, and what there is of it.
type Ordinal struct {
	Number int
	// Claims are those with the ordinal's names, whoever made them, in the order of their names.
	Claims []*corev1.PersistentVolumeClaim
	// Pod has the replica's name, whoever's it is; nil if there is none.
	Pod *corev1.Pod
	// Wanted is true when the set asks for the replica.
	Wanted bool
}

// Ordinals are the places of the set of which there is a claim, or a pod, from the highest down.
//
// Those below spec.ordinals.start are left out. A scale-down never leaves them: who moves the start up hands replicas over to
// another set, and their volumes with them.
func Ordinals(set *appsv1.StatefulSet, claims []*corev1.PersistentVolumeClaim, pods []*corev1.Pod) []Ordinal {
	span, places := statefulset.Span(set), map[int]*Ordinal{}
	at := func(n int) *Ordinal {
		if places[n] == nil {
			places[n] = &Ordinal{Number: n, Wanted: n < span.End && set.DeletionTimestamp == nil}
		}
		return places[n]
	}
	for _, c := range statefulset.ClaimsOf(set, claims) {
		if c.Ordinal >= span.Start {
			place := at(c.Ordinal)
			place.Claims = append(place.Claims, c.PersistentVolumeClaim)
		}
	}
	for _, p := range pods {
		if n, ok := statefulset.ParsePodName(set, p.Name); ok && n >= span.Start && p.Namespace == set.Namespace {
			at(n).Pod = p
		}
	}
	ordinals := make([]Ordinal, 0, len(places))
	for _, place := range places {
		slices.SortFunc(place.Claims, func(a, b *corev1.PersistentVolumeClaim) int { return cmp.Compare(a.Name, b.Name) })
		ordinals = append(ordinals, *place)
	}
	slices.SortFunc(ordinals, func(a, b Ordinal) int { return cmp.Compare(b.Number, a.Number) })
	return ordinals
}

// Kept are the claims that nobody has deleted.
func (o Ordinal) Kept() []*corev1.PersistentVolumeClaim {
	return slices.DeleteFunc(slices.Clone(o.Claims), func(c *corev1.PersistentVolumeClaim) bool { return c.DeletionTimestamp != nil })
}

// Missing names a claim template of the set of which the ordinal has no claim; empty if it has all.
func (o Ordinal) Missing(set *appsv1.StatefulSet) string {
	for _, t := range set.Spec.VolumeClaimTemplates {
		name := statefulset.ClaimName(set, t.Name, o.Number)
		if !slices.ContainsFunc(o.Kept(), func(c *corev1.PersistentVolumeClaim) bool { return c.Name == name }) {
			return name
		}
	}
	return ""
}

// Unknown names a kept claim that no replica of the set is known to have used; empty if all are known.
func (o Ordinal) Unknown(set *appsv1.StatefulSet) string {
	for _, c := range o.Kept() {
		if !Known(c, set) {
			return c.Name
		}
	}
	return ""
}

// Known reports whether the claim is bound and was a replica's of this very set: a pod of it was seen that uses the claim, or
// the StatefulSet controller has made it, with the set's labels and after this set, which it does just before it makes the pod. Times
// are whole seconds, and the first claims are made in the second of the set. A claim of that second that an earlier set of the name had
// is less than a second old, too young for a pod to have used it.
func Known(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) bool {
	if claim.Status.Phase != corev1.ClaimBound {
		return false
	}
	if of, told := claim.Annotations[api.ReplicaOfAnnotation]; told {
		return of == string(set.UID)
	}
	labelled := set.Spec.Selector != nil && len(set.Spec.Selector.MatchLabels) > 0 // or the labels would tell nothing
	return labelled && madeByController(claim) && statefulset.Belongs(claim, set) && !claim.CreationTimestamp.Before(&set.CreationTimestamp)
}

// controllerManager is the field manager of Kubernetes' own controllers.
const controllerManager = "kube-controller-manager"

// madeByController reports whether a controller of Kubernetes has created the claim. The one that binds claims writes into
// others' claims too, but never what they request.
func madeByController(claim *corev1.PersistentVolumeClaim) bool {
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

// Seen are the claims that a pod of the set is seen to use and that do not tell so yet.
func Seen(set *appsv1.StatefulSet, ordinals []Ordinal) []*corev1.PersistentVolumeClaim {
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

// Accounted are the ordinals of which a pod was seen, without a gap from the start.
func Accounted(set *appsv1.StatefulSet, ordinals []Ordinal) api.Span {
	span := statefulset.Span(set)
	there := map[int]bool{}
	for _, o := range ordinals {
		there[o.Number] = o.Pod != nil && statefulset.IsPodOf(o.Pod, set)
	}
	end := span.Start
	for end < span.End && there[end] {
		end++
	}
	return api.Span{Start: span.Start, End: end}
}

// LinkOf is the link of a cleanup pod for a set of the name; nil if the pod is none.
func LinkOf(pod *corev1.Pod, set string) *api.Link {
	link, err := api.LoadLink(pod)
	if err != nil || link == nil || link.Role != api.RoleCleaner || link.Set.Name != set || link.Namespace != pod.Namespace {
		return nil
	}
	return link
}

// Tended are the claims that the pod is run on and that are still those which it was made for, deleted or not.
func Tended(link *api.Link, claims []*corev1.PersistentVolumeClaim) []*corev1.PersistentVolumeClaim {
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
