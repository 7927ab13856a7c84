package swarm

import (
	"net/http"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/test/kit/apiserver"
)

const autoscalers = "horizontalpodautoscalers"

var autoscaler = apiserver.Client{User: "system:serviceaccount:kube-system:horizontal-pod-autoscaler", Manager: controllerManager}

// createAutoscaler creates a user's autoscaler of a set.
func (w *World) createAutoscaler(set string, lowest int) {
	if w.server.Get(in(autoscalers, set)) == nil {
		w.create(person, autoscalers, map[string]any{"metadata": map[string]any{"name": set, "namespace": namespace}, "spec": map[string]any{
			"minReplicas": lowest, "maxReplicas": 3,
			"scaleTargetRef": map[string]any{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": set}}})
	}
}

func (w *World) removeAutoscaler(set string) {
	if k := in(autoscalers, set); w.server.Get(k) != nil {
		w.remove(person, k, metav1.DeleteOptions{})
	}
}

// autoscale lets each autoscaler want another count. It leaves a target at zero as it is, unless its minimum is zero (kubernetes
// pkg/controller/podautoscaler, reconcileAutoscaler).
func (w *World) autoscale(n int) {
	for _, o := range w.server.List(autoscalers) {
		lowest, most := numberOf(o, "spec", "minReplicas"), numberOf(o, "spec", "maxReplicas")
		count, name := lowest+n%(most-lowest+1), textOf(o, "spec", "scaleTargetRef", "name")
		k := in("statefulsets", name)
		if textOf(o, "spec", "scaleTargetRef", "kind") == "Scaler" {
			k = in("scalers", name)
		}
		target := w.server.Get(k)
		has := numberOf(target, "spec", "replicas")
		if target == nil || has == count || has == 0 && lowest > 0 || target.GetDeletionTimestamp() != nil {
			continue
		}
		w.tell("  an autoscaler scales %s from %d to %d", k, has, count)
		if !w.change(autoscaler, k, "", func(o *apiserver.Object) { put(o, int64(count), "spec", "replicas") }) {
			continue
		}
		if k.Resource == "scalers" {
			set := strings.TrimPrefix(name, scalerName(""))
			w.wishes.scalers[set] = count
			w.note(set)
			continue
		}
		w.autoscaled(name, count)
	}
}

// autoscaled notes that an autoscaler has scaled a set. It is the wish of the users, unless a Scaler or an operator has the set, which
// undoes it. The user's own policy may remove claims in any case.
func (w *World) autoscaled(set string, n int) {
	if _, scaled := w.wishes.scalers[set]; !scaled && !w.isOwned(set) {
		delete(w.wishes.also, set)
		w.wishes.counts[set] = n
	} else if w.wishes.policies[set] != "Delete" {
		return
	}
	for ordinal := n; ordinal < maxMembers; ordinal++ {
		w.wishes.free[claimName(set, ordinal)] = true
	}
}

// setMode lets a user choose the mode of a Scaler.
func (w *World) setMode(set string, b int) {
	k, n := in("scalers", scalerName(set)), 1+b%3
	mode := []any{nil, map[string]any{"auto": map[string]any{"min": int64(1), "max": int64(3)}},
		map[string]any{"fixed": int64(n)}}[b%3]
	if w.server.Get(k) == nil || !w.change(person, k, "", func(o *apiserver.Object) { put(o, mode, "spec", "mode") }) {
		return
	}
	if w.fixedCount(set) == 0 {
		n = numberOf(w.server.Get(k), "spec", "replicas") // the Scaler may not have taken over a fixed count yet
	}
	w.wishes.scalers[set] = n
	w.note(set)
}

// fixedCount returns the count of a Scaler whose mode is fixed, or 0.
func (w *World) fixedCount(set string) int {
	return numberOf(w.server.Get(in("scalers", scalerName(set))), "spec", "mode", "fixed")
}

// budget is how many pods of a set may be unavailable.
type budget int

const noBudget budget = maxMembers

// breaksBudget reports whether the eviction of the pod would break the budget of its set (kubernetes pkg/registry/core/pod/storage,
// EvictionREST).
func (w *World) breaksBudget(pod string) bool {
	set := pod[:max(strings.LastIndexByte(pod, '-'), 0)]
	allowed, limited := w.budgets[set]
	if !limited || w.set(set) == nil {
		return false
	}
	return numberOf(w.set(set), "status", "readyReplicas")-1 < numberOf(w.set(set), "spec", "replicas")-int(allowed)
}

// tooMany is the answer to an eviction that would break a budget.
func tooMany(r *apiserver.Request) *http.Response {
	refusal := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	refusal.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause,
		Message: "The disruption budget needs more healthy pods"}}
	return apiserver.Refuse(r, refusal)
}
