package soak

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/shared/api/v1alpha1"
)

// Live are the objects of a set.
type Live struct {
	// Set is nil while the set does not exist, for example while a resize creates it again.
	Set *appsv1.StatefulSet
	// Scaler is nil for a set without one.
	Scaler *v1alpha1.Scaler
	// Claims are all claims of the set, also those of removed ordinals.
	Claims []corev1.PersistentVolumeClaim
	Pods   []corev1.Pod
}

// template is the volumeClaimTemplate of every set.
const template = "data"

// ClaimName returns the name of a claim of the set.
func ClaimName(set string, ordinal int) string {
	return fmt.Sprintf("%s-%s-%d", template, set, ordinal)
}

// MemberName returns the name of a member's pod.
func MemberName(set string, ordinal int) string { return fmt.Sprintf("%s-%d", set, ordinal) }

// Records are the records of a set. Each may be nil.
type Records struct {
	Resize  *api.Resize
	Sleep   *api.Sleep
	Cleanup *api.Cleanup
	Ledger  *api.Ledger
	Scale   *api.Scale
}

// LoadRecords reads the records of the set.
func LoadRecords(set *appsv1.StatefulSet) (r Records, err error) {
	if set == nil {
		return r, nil
	}
	if r.Resize, err = api.LoadResize(set); err != nil {
		return r, err
	}
	if r.Sleep, err = api.LoadSleep(set); err != nil {
		return r, err
	}
	r.Ledger = api.LoadLedger(set)
	if r.Cleanup, err = api.LoadCleanup(set); err != nil {
		return r, err
	}
	r.Scale, err = api.LoadScale(set)
	return r, err
}

// Heads returns the headers of the records that exist.
func (r Records) Heads() []*api.Header {
	var all []*api.Header
	if r.Resize != nil {
		all = append(all, r.Resize.Head())
	}
	if r.Sleep != nil {
		all = append(all, r.Sleep.Head())
	}
	if r.Cleanup != nil {
		all = append(all, r.Cleanup.Head())
	}
	if r.Scale != nil {
		all = append(all, r.Scale.Head())
	}
	return all
}

// FirstFailure returns an operation that has failed or was refused, and had not before.
func FirstFailure(before, now Records) *api.Header {
	known := map[string]bool{}
	for _, head := range before.Heads() {
		known[string(head.Kind)+head.Operation+string(head.Phase)] = true
	}
	for _, head := range now.Heads() {
		bad := head.Phase == api.Failed || head.Phase == api.Refused
		if bad && !known[string(head.Kind)+head.Operation+string(head.Phase)] {
			return head
		}
	}
	return nil
}

// Problems returns every difference between the set's expected state and the live objects. It returns none when all operations on the set
// have ended.
func (s Set) Problems(live Live) []string {
	if live.Set == nil || live.Set.DeletionTimestamp != nil {
		return []string{s.Name + " does not exist"}
	}
	records, err := LoadRecords(live.Set)
	if err != nil {
		return []string{err.Error()}
	}
	var problems []string
	for _, part := range [][]string{s.setProblems(live.Set), s.recordProblems(records), s.scalerProblems(live.Scaler),
		s.claimProblems(live.Claims), s.podProblems(live.Pods)} {
		for _, problem := range part {
			problems = append(problems, s.Name+" "+problem)
		}
	}
	return problems
}

func (s Set) setProblems(set *appsv1.StatefulSet) []string {
	var problems []string
	want, status := int32(s.Running()), set.Status
	if is := ptr.Deref(set.Spec.Replicas, 1); is != want {
		problems = append(problems, fmt.Sprintf("has %d replicas, want %d", is, want))
	}
	if status.ObservedGeneration < set.Generation || status.Replicas != want || status.ReadyReplicas != want {
		problems = append(problems, fmt.Sprintf("has %d pods, %d of them ready, want %d", status.Replicas, status.ReadyReplicas, want))
	}
	if len(set.Finalizers) > 0 {
		problems = append(problems, fmt.Sprintf("has the finalizers %v", set.Finalizers))
	}
	for _, annotation := range []string{api.AbortAnnotation, api.RetryAnnotation} {
		if _, found := set.Annotations[annotation]; found {
			problems = append(problems, "has the annotation "+annotation)
		}
	}
	claim := set.Spec.VolumeClaimTemplates[0].Spec
	if is := shape(claim); is != s.shape() && s.Claims > 0 {
		problems = append(problems, fmt.Sprintf("has a template of %s, want %s", is, s.shape()))
	}
	return problems
}

// shape returns size and class of a claim in the form of a request.
func shape(claim corev1.PersistentVolumeClaimSpec) string {
	return claim.Resources.Requests.Storage().String() + "@" + ptr.Deref(claim.StorageClassName, "")
}

func (s Set) shape() string { return fmt.Sprintf("%dMi@%s", s.Size, s.Class) }

// recordProblems checks that no operation runs, except for the sleep of a sleeping set. The members of a set with a cleanup template must
// be accounted for, so that the next scale-down is cleaned up.
func (s Set) recordProblems(r Records) []string {
	var problems []string
	for _, head := range r.Heads() {
		sleeps := s.Asleep && head.Kind == api.KindSleep && head.Phase == api.Asleep
		if !head.Phase.Terminal() && !sleeps {
			problems = append(problems, fmt.Sprintf("has a %s in phase %s: %s %s", head.Kind, head.Phase, head.Reason, head.Message))
		}
	}
	if s.Asleep && (r.Sleep == nil || r.Sleep.Phase != api.Asleep) {
		problems = append(problems, "does not sleep")
	}
	if s.Kind == Cleaned && s.Running() > 0 {
		if r.Cleanup == nil || r.Cleanup.Span == nil || r.Cleanup.Span.End != s.Replicas {
			problems = append(problems, "is not accounted for by cleanup-pod")
		}
		if r.Ledger == nil || r.Ledger.Count != s.Replicas || r.Ledger.Removing != nil {
			problems = append(problems, fmt.Sprintf("has the ledger %+v", r.Ledger))
		}
	}
	return problems
}

func (s Set) scalerProblems(scaler *v1alpha1.Scaler) []string {
	if s.Kind != Scaled {
		return nil
	}
	if scaler == nil {
		return []string{"has no Scaler"}
	}
	status := scaler.Status
	is := fmt.Sprintf("%s at %d of %d, paused %t", status.Stage, status.Replicas, ptr.Deref(scaler.Spec.Replicas, -1), scaler.Spec.Paused)
	want := fmt.Sprintf("%s at %d of %d, paused false", v1alpha1.StageIdle, s.Running(), s.Replicas)
	if is != want || status.ObservedGeneration < scaler.Generation {
		return []string{fmt.Sprintf("has a Scaler in stage %s, want %s", is, want)}
	}
	return nil
}

func (s Set) claimProblems(claims []corev1.PersistentVolumeClaim) []string {
	var problems []string
	byName := map[string]corev1.PersistentVolumeClaim{}
	for _, claim := range claims {
		byName[claim.Name] = claim
	}
	for ordinal := range s.Claims {
		name := ClaimName(s.Name, ordinal)
		claim, found := byName[name]
		delete(byName, name)
		switch {
		case !found:
			problems = append(problems, "has no claim "+name)
		case claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil:
			problems = append(problems, "has claim "+name+", which is not bound")
		case shape(claim.Spec) != s.shape():
			problems = append(problems, fmt.Sprintf("has claim %s of %s, want %s", name, shape(claim.Spec), s.shape()))
		case claim.Status.Capacity.Storage().Cmp(*claim.Spec.Resources.Requests.Storage()) < 0:
			problems = append(problems, fmt.Sprintf("has claim %s with a capacity of %s", name, claim.Status.Capacity.Storage()))
		}
	}
	for name := range byName {
		problems = append(problems, "has claim "+name+", which should be deleted")
	}
	return problems
}

func (s Set) podProblems(pods []corev1.Pod) []string {
	var problems []string
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || len(pod.Finalizers) > 0 {
			problems = append(problems, fmt.Sprintf("has pod %s, which ends, with the finalizers [%s]", pod.Name, strings.Join(pod.Finalizers, " ")))
		}
	}
	if len(pods) != s.Running() {
		problems = append(problems, fmt.Sprintf("has %d pods with its label, want %d", len(pods), s.Running()))
	}
	return problems
}
