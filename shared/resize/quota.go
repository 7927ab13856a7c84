package resize

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/sts"
)

// Room is what a ResourceQuota allows of something that a resize needs for as long as old and new claims are there at once.
type Room struct {
	Quota    string              `json:"quota"`
	Resource corev1.ResourceName `json:"resource"`
	Hard     resource.Quantity   `json:"hard"`
	Used     resource.Quantity   `json:"used"`
	// Needs is how much more it will be.
	Needs resource.Quantity `json:"needs"`
}

// Enough reports whether the quota has room for it.
func (r Room) Enough() bool {
	sum := r.Used.DeepCopy()
	sum.Add(r.Needs)
	return sum.Cmp(r.Hard) <= 0
}

// Rooms are what the namespace's quotas say about the claims of the resize.
func Rooms(in Input, w *Wish) []Room {
	need := w.need()
	var rooms []Room
	for i := range in.Cluster.Quotas {
		quota := &in.Cluster.Quotas[i]
		for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
			if more, counted := need[name]; counted {
				rooms = append(rooms, Room{quota.Name, name, quota.Status.Hard[name], quota.Status.Used[name], more})
			}
		}
	}
	return rooms
}

// checkQuotas makes sure that all new claims fit beside the old ones.
func checkQuotas(in Input, w *Wish) []Problem {
	var found []Problem
	for _, r := range Rooms(in, w) {
		if !r.Enough() {
			found = append(found, problem(api.QuotaExceeded, "ResourceQuota %s allows %s of %s, %s are used and the resize needs %s more; "+
				"raise the quota for the time of the resize, then ask again with %s", r.Quota, &r.Hard, r.Resource, &r.Used, &r.Needs, api.RetryAnnotation))
		}
	}
	return found
}

// need is what the new claims count for, under every name that a quota may give it
// (kubernetes pkg/quota/v1/evaluator/core/persistent_volume_claims.go).
func (w *Wish) need() corev1.ResourceList {
	need := corev1.ResourceList{}
	add := func(name string, quantity resource.Quantity) {
		sum := need[corev1.ResourceName(name)]
		sum.Add(quantity)
		need[corev1.ResourceName(name)] = sum
	}
	one := resource.MustParse("1")
	for _, c := range w.Claims {
		size := w.size(c).DeepCopy()
		if !c.Copied() {
			size.Sub(sts.Requested(c.PersistentVolumeClaim))
		}
		ofClass := w.class(c) + ".storageclass.storage.k8s.io/"
		add(string(corev1.ResourceRequestsStorage), size)
		add(ofClass+string(corev1.ResourceRequestsStorage), size)
		if !c.Copied() {
			continue
		}
		for _, count := range []string{string(corev1.ResourcePersistentVolumeClaims), "count/persistentvolumeclaims", ofClass + string(corev1.ResourcePersistentVolumeClaims)} {
			add(count, one)
		}
	}
	return need
}
