// Package statefulset is what Drydock knows about StatefulSets, as pure functions of live objects: whose claim is it, who uses
// it, what do the templates ask for.
package statefulset

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// Claim is a PersistentVolumeClaim that a StatefulSet's replica uses.
type Claim struct {
	*corev1.PersistentVolumeClaim
	Template string
	Ordinal  int
}

// ParseClaimName splits TEMPLATE-SET-ORDINAL, the name that the StatefulSet controller gives a claim. Only canonical
// decimals are ordinals: "data-web-007" is no claim of a member, and "ab-test-0" is none of template "a".
func ParseClaimName(set *appsv1.StatefulSet, claim string) (template string, ordinal int, ok bool) {
	for _, t := range set.Spec.VolumeClaimTemplates {
		if n, ok := ordinalOf(claim, t.Name+"-"+set.Name+"-"); ok {
			return t.Name, n, true
		}
	}
	return "", 0, false
}

// ParsePodName splits SET-ORDINAL, the name of a replica's pod.
func ParsePodName(set *appsv1.StatefulSet, pod string) (ordinal int, ok bool) {
	return ordinalOf(pod, set.Name+"-")
}

// IsMemberName reports whether the pod has the name of a member of the set.
func IsMemberName(set, pod string) bool {
	_, ok := ordinalOf(pod, set+"-")
	return ok
}

// PodName is the name of the replica's pod.
func PodName(set *appsv1.StatefulSet, ordinal int) string {
	return fmt.Sprintf("%s-%d", set.Name, ordinal)
}

// ClaimName is the name that the StatefulSet controller gives the replica's claim.
func ClaimName(set *appsv1.StatefulSet, template string, ordinal int) string {
	return template + "-" + PodName(set, ordinal)
}

func ordinalOf(name, prefix string) (int, bool) {
	digits, found := strings.CutPrefix(name, prefix)
	n, err := strconv.Atoi(digits)
	return n, found && err == nil && n >= 0 && strconv.Itoa(n) == digits
}

// Start is the set's first ordinal.
func Start(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// Span are the ordinals that the set asks for.
func Span(set *appsv1.StatefulSet) api.Span {
	return api.Span{Start: Start(set), End: Start(set) + int(Replicas(set))}
}

// ClaimsOf returns the claims that have the name of one of the set's, for every ordinal, also those beyond the
// replicas, in the order given.
func ClaimsOf(set *appsv1.StatefulSet, claims []*corev1.PersistentVolumeClaim) []Claim {
	var own []Claim
	for _, c := range claims {
		if template, ordinal, ok := ParseClaimName(set, c.Name); ok && c.Namespace == set.Namespace {
			own = append(own, Claim{c, template, ordinal})
		}
	}
	return own
}

// Belongs reports whether a claim with the right name is really the set's: it carries the labels of the set's
// selector, which the StatefulSet controller puts on every claim it makes
// (kubernetes pkg/controller/statefulset/stateful_set_utils.go, getPersistentVolumeClaims), and no other StatefulSet
// controls it.
func Belongs(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet) bool {
	if set.Spec.Selector == nil {
		return false
	}
	for key, value := range set.Spec.Selector.MatchLabels {
		if claim.Labels[key] != value {
			return false
		}
	}
	for _, owner := range claim.OwnerReferences {
		if owner.Kind == "StatefulSet" && owner.Name != set.Name {
			return false
		}
	}
	return true
}

// Template returns the set's volumeClaimTemplate of the name, or nil.
func Template(set *appsv1.StatefulSet, name string) *corev1.PersistentVolumeClaim {
	for i := range set.Spec.VolumeClaimTemplates {
		if set.Spec.VolumeClaimTemplates[i].Name == name {
			return &set.Spec.VolumeClaimTemplates[i]
		}
	}
	return nil
}

// Requested is the size that a claim or a template asks for.
func Requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// ClassOf is the claim's StorageClass, empty if it names none.
func ClassOf(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// TargetOf returns the target in the set's own template.
func TargetOf(template *corev1.PersistentVolumeClaim) api.Target {
	return api.Target{Size: Requested(template), Class: ClassOf(template), Modes: template.Spec.AccessModes,
		Attributes: template.Spec.VolumeAttributesClassName}
}

// Lags reports whether the claim differs from the target: smaller, or larger where that counts, of another class, or with
// other access modes or attributes.
func Lags(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	return Grows(claim, target) || Shrinks(claim, target) || ChangesKind(claim, target) || ChangesAttributes(claim, target)
}

// Growing reports whether the claim asks for more than its volume has.
func Growing(claim *corev1.PersistentVolumeClaim) bool {
	is, has := Requested(claim), claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Status.Phase == corev1.ClaimBound && !has.IsZero() && is.Cmp(has) > 0
}

// Owns returns the size that the claim asks for, or its volume's capacity if that is less.
func Owns(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	if Growing(claim) {
		return claim.Status.Capacity[corev1.ResourceStorage]
	}
	return Requested(claim)
}

// Infeasible reports whether the storage has refused to give the volume this size, and not only an earlier one
// (kubernetes KEP-1790; the external resizer and the kubelet write it).
func Infeasible(claim *corev1.PersistentVolumeClaim, size resource.Quantity) bool {
	if tried, known := claim.Status.AllocatedResources[corev1.ResourceStorage]; known && tried.Cmp(size) != 0 {
		return false
	}
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return true
	}
	return false
}

// FileSystemPending returns when the claim's volume had grown to the size while its file system had not; nil if none is pending.
func FileSystemPending(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *metav1.Time {
	if tried, known := claim.Status.AllocatedResources[corev1.ResourceStorage]; known && tried.Cmp(size) < 0 {
		return nil // of an earlier size
	}
	for i, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue {
			return &claim.Status.Conditions[i].LastTransitionTime
		}
	}
	return nil
}

// Smallest returns the least size that a claim may ask for, but not less than want: Kubernetes takes no size at or below the volume's
// capacity (kubernetes pkg/apis/core/validation, ValidatePersistentVolumeClaimUpdate).
func Smallest(claim *corev1.PersistentVolumeClaim, want resource.Quantity) resource.Quantity {
	has := claim.Status.Capacity[corev1.ResourceStorage]
	if want.Cmp(has) > 0 {
		return want
	}
	least := has.DeepCopy()
	least.Add(*resource.NewQuantity(1, resource.BinarySI))
	return least
}

// IsBlock reports whether the claim is a raw device, without a file system.
func IsBlock(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// Grows reports whether the claim asks for less than the target.
func Grows(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	is := Requested(claim)
	return is.Cmp(target.Size) < 0
}

// Shrinks reports whether the claim asks for more than the target, and its volume has more. After an expansion was taken back, a claim asks
// for a little more than its volume has (kubernetes pkg/apis/core/validation, ValidatePersistentVolumeClaimUpdate).
func Shrinks(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	is, has := Requested(claim), claim.Status.Capacity[corev1.ResourceStorage]
	return target.Exact && is.Cmp(target.Size) > 0 && (has.IsZero() || has.Cmp(target.Size) > 0)
}

// ChangesKind reports whether the target needs another volume: another class, or other access modes.
func ChangesKind(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	return target.Class != "" && target.Class != ClassOf(claim) || len(target.Modes) > 0 && !sameModes(target.Modes, claim.Spec.AccessModes)
}

// sameModes compares access modes, whose order means nothing.
func sameModes(a, b []corev1.PersistentVolumeAccessMode) bool {
	in := func(all []corev1.PersistentVolumeAccessMode) func(corev1.PersistentVolumeAccessMode) bool {
		return func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(all, m) }
	}
	return !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}

// Differs reports whether the set's template has to change to ask for the target.
func Differs(set *appsv1.StatefulSet, template string, target api.Target) bool {
	t := Template(set, template)
	if t == nil {
		return false
	}
	size := TargetOf(t).Size
	is := size.Cmp(target.Size)
	return is < 0 || target.Exact && is > 0 || ChangesKind(t, target) || ChangesAttributes(t, target)
}

// TemplateFor returns what the set's template is to ask for so that it meets the target. It has to exist. A template that is larger stays so,
// unless the target is exact.
func TemplateFor(set *appsv1.StatefulSet, template string, target api.Target) api.TemplateTarget {
	size := TargetOf(Template(set, template)).Size
	if target.Exact || size.Cmp(target.Size) < 0 {
		size = target.Size
	}
	return api.TemplateTarget{Name: template, Size: size, Class: target.Class, Modes: target.Modes, Attributes: target.Attributes}
}

// Replicas is the count the set asks for; an absent one means 1 (apps/v1 defaulting).
func Replicas(set *appsv1.StatefulSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// Ready reports whether the controller has seen the latest spec and every replica is ready.
func Ready(set *appsv1.StatefulSet) bool {
	want := Replicas(set)
	return set.Status.ObservedGeneration >= set.Generation && set.Status.ReadyReplicas == want && set.Status.Replicas == want
}

// AtZero reports whether the controller has seen that no replica is wanted and counts none.
func AtZero(set *appsv1.StatefulSet) bool {
	return Replicas(set) == 0 && set.Status.ObservedGeneration >= set.Generation && set.Status.Replicas == 0
}

// RollingOut says why a rollout is not finished; empty if none runs: the controller has seen the set's spec, and every replica that the
// update strategy renews is of the newest revision. With OnDelete the user decides when.
func RollingOut(set *appsv1.StatefulSet) string {
	switch strategy := set.Spec.UpdateStrategy; {
	case set.Status.ObservedGeneration < set.Generation:
		return "the StatefulSet controller has not seen the newest spec yet"
	case set.Status.Replicas != Replicas(set):
		return fmt.Sprintf("there are %d of %d replicas", set.Status.Replicas, Replicas(set))
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType || set.Status.UpdateRevision == set.Status.CurrentRevision:
		return ""
	default:
		wanted := Replicas(set)
		if strategy.RollingUpdate != nil && strategy.RollingUpdate.Partition != nil {
			wanted = max(0, wanted-*strategy.RollingUpdate.Partition)
		}
		if set.Status.UpdatedReplicas < wanted {
			return fmt.Sprintf("%d of %d replicas are updated", set.Status.UpdatedReplicas, wanted)
		}
		return ""
	}
}

// TwoRevisions reports whether replicas below the partition of the set's update strategy are of an older revision than the newest.
// Only the set's status has the older revision: a set that is created again would start them with the newest.
func TwoRevisions(set *appsv1.StatefulSet) bool {
	rolling, status := set.Spec.UpdateStrategy.RollingUpdate, set.Status
	return rolling != nil && rolling.Partition != nil && *rolling.Partition > 0 &&
		status.CurrentRevision != "" && status.UpdateRevision != "" && status.CurrentRevision != status.UpdateRevision
}

// GracePeriod is how long the set's pods may take to end; 30 s when the template does not say (core/v1 defaulting).
func GracePeriod(set *appsv1.StatefulSet) time.Duration {
	if seconds := set.Spec.Template.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return 30 * time.Second
}

// WhenScaled is what happens to the claims of ordinals that a scale-down removes; Retain when not said.
func WhenScaled(set *appsv1.StatefulSet) appsv1.PersistentVolumeClaimRetentionPolicyType {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil || policy.WhenScaled == "" {
		return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	return policy.WhenScaled
}

// WhenDeleted is what happens to the claims when the set is deleted; Retain when not said.
func WhenDeleted(set *appsv1.StatefulSet) appsv1.PersistentVolumeClaimRetentionPolicyType {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil || policy.WhenDeleted == "" {
		return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	return policy.WhenDeleted
}

// Managed reports whether the set is opted in.
func Managed(set *appsv1.StatefulSet) bool { return set.Labels[api.ManagedLabel] == "true" }

// Controller returns the owner that controls the set, or nil.
func Controller(set *appsv1.StatefulSet) *metav1.OwnerReference { return metav1.GetControllerOf(set) }

// Retain keeps the claims of ordinals that a scale-down removes.
const Retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType

// WhenScaledPath is where the retention policy stands in a StatefulSet.
const WhenScaledPath = "/spec/persistentVolumeClaimRetentionPolicy/whenScaled"

// RequestPath is where a claim says how much it asks for.
const RequestPath = "/spec/resources/requests/storage"
