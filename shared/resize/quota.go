package resize

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"drydock.dev/shared/api"
	"drydock.dev/shared/resources"
	"drydock.dev/shared/statefulset"
)

// QuotaRoom compares a limit of a ResourceQuota with the needs of a resize, during which old and new claims exist side by side.
type QuotaRoom struct {
	Quota    string              `json:"quota"`
	Resource corev1.ResourceName `json:"resource"`
	Hard     resource.Quantity   `json:"hard"`
	Used     resource.Quantity   `json:"used"`
	// Needs is how much more the resize uses.
	Needs resource.Quantity `json:"needs"`
	// Retained is how much the namespace's old volumes use. The quota does not count them.
	Retained resource.Quantity `json:"retained,omitzero"`
}

// Fits reports whether the quota has room for the resize.
func (r QuotaRoom) Fits() bool {
	sum := r.sum()
	return sum.Cmp(r.Hard) <= 0
}

// sum returns how much is in use during the resize, with the old volumes.
func (r QuotaRoom) sum() resource.Quantity {
	sum := r.Used.DeepCopy()
	sum.Add(r.Needs)
	sum.Add(r.Retained)
	return sum
}

// QuotaRooms compares the limits of the namespace's quotas with the needs of the resize's claims and movers. It skips quotas with scopes:
// only the API server knows whether they count these objects.
func QuotaRooms(in Input, w *Changes) []QuotaRoom {
	needs, retained := w.quotaNeeds(in), retainedStorage(in, w)
	var rooms []QuotaRoom
	for i := range in.Cluster.Quotas {
		quota := &in.Cluster.Quotas[i]
		if len(quota.Spec.Scopes) > 0 || quota.Spec.ScopeSelector != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
			// An update that needs no more passes even an exceeded quota. A rollback creates claims.
			if more, counted := needs[name]; counted && (more.Sign() > 0 || w.rollsBack != "") {
				rooms = append(rooms, QuotaRoom{quota.Name, name, quota.Status.Hard[name], quota.Status.Used[name], more, retained[name]})
			}
		}
	}
	return rooms
}

// checkQuotas finds quotas without room for all new claims beside the old claims, and for the movers beside the set's pods.
func checkQuotas(in Input, w *Changes) []Problem {
	var found []Problem
	for _, r := range QuotaRooms(in, w) {
		if !r.Fits() {
			sum := r.sum()
			found = append(found, problem(api.QuotaExceeded, "ResourceQuota %s allows %s of %s, and %s are needed: %s", r.Quota, &r.Hard,
				r.Resource, &sum, r.advice(w.moverRemedy(in), w.rollsBack != "")))
		}
	}
	return found
}

// moverRemedy returns how the resize needs fewer movers at once, or empty if it needs only one.
func (w *Changes) moverRemedy(in Input) string {
	wanted := func(c Claim) bool { return c.ChangesVolume() && in.Wants(c.Ordinal) }
	switch {
	case w.strategy(in) == api.StrategyRolling:
		return ""
	case slices.ContainsFunc(w.Claims, wanted):
		return fmt.Sprintf(", or move one member at a time with the annotation %s=%s", api.StrategyAnnotation, api.StrategyRolling)
	}
	return fmt.Sprintf(", or copy fewer members at once with the annotation %s", api.ResizeParallelismAnnotation)
}

// advice returns what adds up to the sum, and the remedy for a quota without room. fewerMovers is the result of moverRemedy.
func (r QuotaRoom) advice(fewerMovers string, rollback bool) string {
	const raise = "Raise the quota for the time of the resize"
	parts := fmt.Sprintf("%s are used, and the resize adds %s", &r.Used, &r.Needs)
	switch {
	case rollback:
		return fmt.Sprintf("%s are used, and the rollback adds %s. Raise the quota", &r.Used, &r.Needs)
	case !r.Retained.IsZero():
		return fmt.Sprintf("%s, besides %s in retained old volumes, which the quota does not count. %s, or wait until the old volumes "+
			"expire: kubectl get pv -l %s", parts, &r.Retained, raise, api.NamespaceLabel)
	case slices.Contains(moverResources, r.Resource):
		return parts + ". " + raise + fewerMovers
	}
	return parts + ". " + raise
}

// quotaNeeds returns the additional consumption of claims and movers, under every name that a quota may use for it
// (kubernetes pkg/quota/v1/evaluator/core).
func (w *Changes) quotaNeeds(in Input) corev1.ResourceList {
	need := corev1.ResourceList{}
	copied := map[int]bool{} // by ordinal
	for _, c := range w.Claims {
		switch size := w.futureSize(c).DeepCopy(); c.Method {
		case api.MethodCopy:
			copied[c.Ordinal] = true
			addClaim(need, w.futureClass(c), size)
		case api.MethodRollback: // see rollbackNeeds
		default:
			size.Sub(statefulset.Requested(c.PersistentVolumeClaim))
			addStorage(need, w.futureClass(c), size)
		}
	}
	if pod := MoverPod(in, w); pod != nil {
		addMovers(need, pod, int64(len(copied)), int64(w.moversAtOnce(in, copied)))
	}
	for name, more := range w.rollbackNeeds(in) {
		addTo(need, string(name), more)
	}
	return need
}

// rollbackNeeds returns the additional consumption of the claims of a rollback. Where all members stop together, the sum counts. In a
// rolling rollback, each member's claims must fit while the others still have their present ones, in any order.
func (w *Changes) rollbackNeeds(in Input) corev1.ResourceList {
	members := map[int]corev1.ResourceList{}
	for _, c := range w.Claims {
		if c.Method != api.MethodRollback {
			continue
		}
		turn := 0
		if w.strategy(in) == api.StrategyRolling {
			turn = c.Ordinal
		}
		if members[turn] == nil {
			members[turn] = corev1.ResourceList{}
		}
		w.addSuccessor(members[turn], c)
	}
	need := corev1.ResourceList{}
	for _, member := range members {
		for name, more := range member {
			most, known := need[name]
			switch {
			case more.Sign() > 0 && most.Sign() > 0:
				addTo(need, string(name), more)
			case !known || most.Cmp(more) < 0:
				need[name] = more
			}
		}
	}
	return need
}

// addSuccessor adds the needs of a claim that is deleted before its successor is created on its old volume, of the same class or another
// one.
func (w *Changes) addSuccessor(need corev1.ResourceList, c Claim) {
	back, class := w.restores[c.Name], statefulset.ClassOf(c.PersistentVolumeClaim)
	for _, name := range claimNames(back.Class) {
		addTo(need, name, resource.Quantity{}) // it adds none, but a creation is refused if the quota is exceeded already
	}
	size := back.Size.DeepCopy()
	if back.Class == class {
		size.Sub(statefulset.Requested(c.PersistentVolumeClaim))
		addStorage(need, class, size)
		return
	}
	addTo(need, storageOfClass(back.Class), size)
	addTo(need, claimsOfClass(back.Class), *resource.NewQuantity(1, resource.DecimalSI))
	size.Sub(statefulset.Requested(c.PersistentVolumeClaim))
	addTo(need, string(corev1.ResourceRequestsStorage), size)
}

// addClaim adds the needs of another claim.
func addClaim(need corev1.ResourceList, class string, size resource.Quantity) {
	addStorage(need, class, size)
	one := *resource.NewQuantity(1, resource.DecimalSI)
	for _, name := range claimNames(class) {
		addTo(need, name, one)
	}
}

// claimNames returns the names under which a quota may limit the number of the class's claims.
func claimNames(class string) []string {
	all := string(corev1.ResourcePersistentVolumeClaims)
	return []string{all, "count/" + all, claimsOfClass(class)}
}

// addStorage adds storage of the class.
func addStorage(need corev1.ResourceList, class string, size resource.Quantity) {
	for _, name := range storageNames(class) {
		addTo(need, name, size)
	}
}

// moversAtOnce returns how many movers of the copied members have running pods at the same time. Where all members stop together, each
// mover waits after its first pass until the last one has converged.
func (w *Changes) moversAtOnce(in Input, copied map[int]bool) int {
	if w.strategy(in) == api.StrategyRolling {
		return min(len(copied), 1)
	}
	together, alone := 0, 0
	for ordinal := range copied {
		if in.Wants(ordinal) {
			together++
		} else {
			alone++
		}
	}
	return together + min(alone, resources.Parallelism(in.Set, in.Settings))
}

// moverResources are the resources that only running movers need, as a quota names them.
var moverResources = []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceRequestsCPU,
	corev1.ResourceRequestsMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory}

// addMovers adds the Jobs and pods of all copies, which remain when they are done, and the resources of the movers that run at once.
func addMovers(need corev1.ResourceList, pod *corev1.Pod, copies, atOnce int64) {
	for _, name := range []string{"count/jobs.batch", "count/pods"} {
		addTo(need, name, *resource.NewQuantity(copies, resource.DecimalSI))
	}
	addTo(need, string(corev1.ResourcePods), *resource.NewQuantity(atOnce, resource.DecimalSI))
	resources := pod.Spec.Containers[0].Resources
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, limited := resources.Limits[name]
		request, requested := resources.Requests[name]
		if !requested {
			request, requested = limit, limited // core/v1 defaulting
		}
		for range atOnce {
			if limited {
				addTo(need, "limits."+string(name), limit)
			}
			if requested {
				addTo(need, "requests."+string(name), request)
				addTo(need, string(name), request)
			}
		}
	}
}

// checkRetained limits how many old volumes of one claim are retained at once, because no quota counts them.
func checkRetained(in Input, w *Changes) []Problem {
	if in.Settings.RetainedVolumes <= 0 {
		return nil
	}
	var found []Problem
	for _, c := range w.Claims {
		if c.Method != api.MethodCopy {
			continue
		}
		if old := oldVolumesOf(in, c.Name); len(old) >= in.Settings.RetainedVolumes {
			found = append(found, problem(api.TooManyRetained, "%d old volumes of claim %s are retained, and DRYDOCK_RETAINED_VOLUMES allows %d. "+
				"Wait until volume %s expires at %s, or let an administrator delete an old volume: kubectl get pv -l %s=%s",
				len(old), c.Name, in.Settings.RetainedVolumes, old[0].Name, old[0].Annotations[api.RetainedUntilAnnotation],
				api.NamespaceLabel, in.Set.Namespace))
		}
	}
	return found
}

// oldVolumesOf returns the old volumes of the set's claim, ordered by the end of their retention, earliest first.
func oldVolumesOf(in Input, claim string) []*corev1.PersistentVolume {
	old := slices.DeleteFunc(in.Retained(), func(v *corev1.PersistentVolume) bool {
		link, err := api.LoadLink(v)
		return err != nil || link.Set.Name != in.Set.Name || link.Claim != claim
	})
	slices.SortFunc(old, func(a, b *corev1.PersistentVolume) int {
		return cmp.Or(cmp.Compare(a.Annotations[api.RetainedUntilAnnotation], b.Annotations[api.RetainedUntilAnnotation]),
			cmp.Compare(a.Name, b.Name))
	})
	return old
}

// retainedStorage returns how much storage the namespace's old volumes use, under each name that a quota may use for it. No quota counts a
// volume without a claim. The result is empty for a resize that leaves no old volumes, and for a rollback: it only exchanges the volumes of
// claims with retained ones.
func retainedStorage(in Input, w *Changes) corev1.ResourceList {
	storage := corev1.ResourceList{}
	if !w.replacesVolumes() || w.rollsBack != "" {
		return storage
	}
	for _, volume := range in.Retained() {
		for _, name := range storageNames(volume.Spec.StorageClassName) {
			addTo(storage, name, volume.Spec.Capacity[corev1.ResourceStorage])
		}
	}
	return storage
}

// storageNames returns the names that a quota uses for storage of the class.
func storageNames(class string) []string {
	return []string{string(corev1.ResourceRequestsStorage), storageOfClass(class)}
}

// storageOfClass and claimsOfClass return the names that a quota uses for the storage and for the claims of one class.
func storageOfClass(class string) string {
	return class + ".storageclass.storage.k8s.io/" + string(corev1.ResourceRequestsStorage)
}

func claimsOfClass(class string) string {
	return class + ".storageclass.storage.k8s.io/" + string(corev1.ResourcePersistentVolumeClaims)
}

func addTo(list corev1.ResourceList, name string, quantity resource.Quantity) {
	sum := list[corev1.ResourceName(name)]
	sum.Add(quantity)
	list[corev1.ResourceName(name)] = sum
}
