// Package statefulset has pure functions about StatefulSets: the claims and pods that belong to a set, the pods that use a claim, the
// requests of the templates, and the proof that a pod has stopped.
package statefulset

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/shared/api"
)

// Claim is a PersistentVolumeClaim of a StatefulSet's member.
type Claim struct {
	*corev1.PersistentVolumeClaim
	Template string
	Ordinal  int
}

// ParseClaimName splits TEMPLATE-SET-ORDINAL, the name that the StatefulSet controller gives a claim. Only canonical decimals are ordinals:
// "data-web-007" is not the claim of a member. "ab-test-0" does not belong to template "a".
func ParseClaimName(set *appsv1.StatefulSet, claim string) (template string, ordinal int, ok bool) {
	for _, t := range set.Spec.VolumeClaimTemplates {
		if n, ok := ordinalOf(claim, t.Name+"-"+set.Name+"-"); ok {
			return t.Name, n, true
		}
	}
	return "", 0, false
}

// ParsePodName splits SET-ORDINAL, the name of a member's pod.
func ParsePodName(set *appsv1.StatefulSet, pod string) (ordinal int, ok bool) {
	return ordinalOf(pod, set.Name+"-")
}

// IsMemberName reports whether the pod has the name of a member of the set.
func IsMemberName(set, pod string) bool {
	_, ok := ordinalOf(pod, set+"-")
	return ok
}

// PodName returns the name of the member's pod.
func PodName(set *appsv1.StatefulSet, ordinal int) string {
	return fmt.Sprintf("%s-%d", set.Name, ordinal)
}

// ClaimName returns the name that the StatefulSet controller gives the member's claim.
func ClaimName(set *appsv1.StatefulSet, template string, ordinal int) string {
	return template + "-" + PodName(set, ordinal)
}

func ordinalOf(name, prefix string) (int, bool) {
	digits, found := strings.CutPrefix(name, prefix)
	n, err := strconv.Atoi(digits)
	return n, found && err == nil && n >= 0 && strconv.Itoa(n) == digits
}

// Start returns the set's first ordinal.
func Start(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// Span returns the ordinals of the set's replicas.
func Span(set *appsv1.StatefulSet) api.Span {
	return api.Span{Start: Start(set), End: Start(set) + int(Replicas(set))}
}

// ClaimsOf returns the claims that have the name of one of the set's claims, for every ordinal, also beyond the replicas. The order stays.
func ClaimsOf(set *appsv1.StatefulSet, claims []*corev1.PersistentVolumeClaim) []Claim {
	var own []Claim
	for _, c := range claims {
		if template, ordinal, ok := ParseClaimName(set, c.Name); ok && c.Namespace == set.Namespace {
			own = append(own, Claim{c, template, ordinal})
		}
	}
	return own
}

// Belongs reports whether a claim with the right name belongs to the set. It must have the labels of the set's selector, which the
// StatefulSet controller sets on every claim (kubernetes pkg/controller/statefulset/stateful_set_utils.go, getPersistentVolumeClaims), and
// no other StatefulSet may own it.
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

// Template returns the set's volumeClaimTemplate with the name, or nil.
func Template(set *appsv1.StatefulSet, name string) *corev1.PersistentVolumeClaim {
	for i := range set.Spec.VolumeClaimTemplates {
		if set.Spec.VolumeClaimTemplates[i].Name == name {
			return &set.Spec.VolumeClaimTemplates[i]
		}
	}
	return nil
}

// Requested returns the size that a claim or a template requests.
func Requested(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	return claim.Spec.Resources.Requests[corev1.ResourceStorage]
}

// ClassOf returns the claim's StorageClass, or "".
func ClassOf(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.StorageClassName == nil {
		return ""
	}
	return *claim.Spec.StorageClassName
}

// TargetOf returns the values of a template as a target.
func TargetOf(template *corev1.PersistentVolumeClaim) api.Target {
	return api.Target{Size: Requested(template), Class: ClassOf(template), Modes: template.Spec.AccessModes,
		Attributes: template.Spec.VolumeAttributesClassName}
}

// NeedsChange reports whether the claim differs from the target. A larger claim differs only from an exact target.
func NeedsChange(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	return Grows(claim, target) || Shrinks(claim, target) || ChangesKind(claim, target) || ChangesAttributes(claim, target)
}

// WantedSize returns the requested size. It is the capacity if the claim requests one byte more: Kubernetes accepts no smaller request
// after an infeasible expansion (see Smallest).
func WantedSize(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	requested, capacity := Requested(claim), claim.Status.Capacity[corev1.ResourceStorage]
	if smallest := Smallest(claim, capacity); !capacity.IsZero() && requested.Cmp(smallest) == 0 {
		return capacity
	}
	return requested
}

// Growing reports whether the claim requests more than its volume has.
func Growing(claim *corev1.PersistentVolumeClaim) bool {
	wanted, capacity := WantedSize(claim), claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Status.Phase == corev1.ClaimBound && !capacity.IsZero() && wanted.Cmp(capacity) > 0
}

// StorageGrows reports whether the storage is growing the volume to the requested size, or is about to. It finishes what it has begun,
// although the claim requests less since (kubernetes-csi/external-resizer pkg/controller, expandAndRecover).
func StorageGrows(claim *corev1.PersistentVolumeClaim) bool {
	requested := Requested(claim)
	return Growing(claim) && !Infeasible(claim, requested) && FileSystemPending(claim, requested) == nil
}

// GrowthRefused reports whether the storage has refused to give the volume the requested size. Only then Kubernetes and the storage accept
// a smaller request (KEP-1790).
func GrowthRefused(claim *corev1.PersistentVolumeClaim) bool {
	requested := Requested(claim)
	return Growing(claim) && Infeasible(claim, requested) && FileSystemPending(claim, requested) == nil
}

// GuaranteedSize returns the requested size of the claim, or its volume's capacity if that is less.
func GuaranteedSize(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	if Growing(claim) {
		return claim.Status.Capacity[corev1.ResourceStorage]
	}
	return WantedSize(claim)
}

// VolumeSize returns the guaranteed size of the claim's volume, also if its file system still has to grow to that size.
func VolumeSize(claim *corev1.PersistentVolumeClaim) resource.Quantity {
	if requested := Requested(claim); FileSystemPending(claim, requested) != nil {
		return requested
	}
	return GuaranteedSize(claim)
}

// Infeasible reports whether the storage has refused to give the volume this size. A refusal of an earlier size does not count
// (kubernetes KEP-1790; the external resizer and the kubelet write it).
func Infeasible(claim *corev1.PersistentVolumeClaim, size resource.Quantity) bool {
	if attempted, known := claim.Status.AllocatedResources[corev1.ResourceStorage]; known && attempted.Cmp(size) != 0 {
		return false
	}
	switch claim.Status.AllocatedResourceStatuses[corev1.ResourceStorage] {
	case corev1.PersistentVolumeClaimControllerResizeInfeasible, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		return true
	}
	return false
}

// FileSystemPending returns when the claim's volume had grown to the size while its file system had not, or nil. A driver with an older
// external-resizer does not say which size the condition belongs to (KEP-1790). It then counts for sizes up to the requested one.
func FileSystemPending(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *metav1.Time {
	attempted, known := claim.Status.AllocatedResources[corev1.ResourceStorage]
	if !known {
		attempted = Requested(claim)
	}
	if attempted.Cmp(size) < 0 {
		return nil // the condition belongs to an earlier size
	}
	for i, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending && c.Status == corev1.ConditionTrue {
			return &claim.Status.Conditions[i].LastTransitionTime
		}
	}
	return nil
}

// Smallest returns the smallest size that the claim may request, but not less than the wanted size. Kubernetes rejects a size at or below
// the volume's capacity (kubernetes pkg/apis/core/validation, ValidatePersistentVolumeClaimUpdate).
func Smallest(claim *corev1.PersistentVolumeClaim, wanted resource.Quantity) resource.Quantity {
	capacity := claim.Status.Capacity[corev1.ResourceStorage]
	if wanted.Cmp(capacity) > 0 {
		return wanted
	}
	smallest := capacity.DeepCopy()
	smallest.Add(*resource.NewQuantity(1, resource.BinarySI))
	return smallest
}

// IsBlock reports whether the claim is a raw block volume.
func IsBlock(claim *corev1.PersistentVolumeClaim) bool {
	return claim.Spec.VolumeMode != nil && *claim.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

// Grows reports whether the claim requests less than the target.
func Grows(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	wanted := WantedSize(claim)
	return wanted.Cmp(target.Size) < 0
}

// Shrinks reports whether the claim requests more than an exact target.
func Shrinks(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	wanted := WantedSize(claim)
	return target.Exact && wanted.Cmp(target.Size) > 0
}

// ChangesKind reports whether the target needs another volume, because of its class or access modes.
func ChangesKind(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	return target.Class != "" && target.Class != ClassOf(claim) || len(target.Modes) > 0 && !sameModes(target.Modes, claim.Spec.AccessModes)
}

// sameModes compares access modes without regard to order and repetition.
func sameModes(a, b []corev1.PersistentVolumeAccessMode) bool {
	missingIn := func(all []corev1.PersistentVolumeAccessMode) func(corev1.PersistentVolumeAccessMode) bool {
		return func(m corev1.PersistentVolumeAccessMode) bool { return !slices.Contains(all, m) }
	}
	return !slices.ContainsFunc(a, missingIn(b)) && !slices.ContainsFunc(b, missingIn(a))
}

// TemplateNeedsChange reports whether the set's template must change to request the target.
func TemplateNeedsChange(set *appsv1.StatefulSet, template string, target api.Target) bool {
	t := Template(set, template)
	if t == nil {
		return false
	}
	size := TargetOf(t).Size
	order := size.Cmp(target.Size)
	return order < 0 || target.Exact && order > 0 || ChangesKind(t, target) || ChangesAttributes(t, target)
}

// TemplateFor returns the values that the set's template needs to request the target. The template must exist. A larger template stays
// larger, unless the target is exact.
func TemplateFor(set *appsv1.StatefulSet, template string, target api.Target) api.TemplateTarget {
	size := TargetOf(Template(set, template)).Size
	if target.Exact || size.Cmp(target.Size) < 0 {
		size = target.Size
	}
	return api.TemplateTarget{Name: template, Size: size, Class: target.Class, Modes: target.Modes, Attributes: target.Attributes}
}

// Replicas returns the count that the set requests, 1 by default (apps/v1 defaulting).
func Replicas(set *appsv1.StatefulSet) int32 {
	if set.Spec.Replicas == nil {
		return 1
	}
	return *set.Spec.Replicas
}

// Ready reports whether the controller has observed the latest spec and every replica is ready.
func Ready(set *appsv1.StatefulSet) bool {
	wanted := Replicas(set)
	return set.Status.ObservedGeneration >= set.Generation && set.Status.ReadyReplicas == wanted && set.Status.Replicas == wanted
}

// AtZero reports whether the set requests no replicas, and the controller has observed that and counts none.
func AtZero(set *appsv1.StatefulSet) bool {
	return Replicas(set) == 0 && set.Status.ObservedGeneration >= set.Generation && set.Status.Replicas == 0
}

// WhyRollingOut returns why a rollout is not finished, or "" if none runs. A rollout is finished when the controller has observed the set's
// spec and every replica that the update strategy updates has the newest revision. With OnDelete the user decides when.
func WhyRollingOut(set *appsv1.StatefulSet) string {
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

// TwoRevisions reports whether replicas below the partition of the set's update strategy have an older revision than the newest. Only the
// set's status knows the older revision, so a set that is created again would start them with the newest.
func TwoRevisions(set *appsv1.StatefulSet) bool {
	rolling, status := set.Spec.UpdateStrategy.RollingUpdate, set.Status
	return rolling != nil && rolling.Partition != nil && *rolling.Partition > 0 &&
		status.CurrentRevision != "" && status.UpdateRevision != "" && status.CurrentRevision != status.UpdateRevision
}

// LongestGrace limits the grace period and minReadySeconds in deadlines, which are sums of several. The API server accepts any number of
// seconds.
const LongestGrace = 10 * 24 * time.Hour

// GracePeriod returns how long the set's pods may take to end, 30 s by default (core/v1 defaulting).
func GracePeriod(set *appsv1.StatefulSet) time.Duration {
	if seconds := set.Spec.Template.Spec.TerminationGracePeriodSeconds; seconds != nil {
		return min(time.Duration(min(*seconds, int64(LongestGrace/time.Second)))*time.Second, LongestGrace)
	}
	return 30 * time.Second
}

// WhenScaled returns the retention policy for claims of ordinals that a scale-down removes, by default Retain.
func WhenScaled(set *appsv1.StatefulSet) appsv1.PersistentVolumeClaimRetentionPolicyType {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil || policy.WhenScaled == "" {
		return appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	}
	return policy.WhenScaled
}

// WhenDeleted returns the retention policy for claims when the set is deleted, by default Retain.
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

// Retain is the policy that keeps the claims of removed ordinals.
const Retain = appsv1.RetainPersistentVolumeClaimRetentionPolicyType

// WhenScaledPath is the path of the retention policy in a StatefulSet.
const WhenScaledPath = "/spec/persistentVolumeClaimRetentionPolicy/whenScaled"

// RequestPath is the path of the requested size in a claim.
const RequestPath = "/spec/resources/requests/storage"

// AttributesPath is the path of a claim's VolumeAttributesClass.
const AttributesPath = "/spec/volumeAttributesClassName"

// AttributesOf returns the claim's VolumeAttributesClass, or "".
func AttributesOf(claim *corev1.PersistentVolumeClaim) string {
	if claim.Spec.VolumeAttributesClassName == nil {
		return ""
	}
	return *claim.Spec.VolumeAttributesClassName
}

// CurrentAttributes returns the VolumeAttributesClass of the claim's volume according to its status, or "".
func CurrentAttributes(claim *corev1.PersistentVolumeClaim) string {
	if claim.Status.CurrentVolumeAttributesClassName == nil {
		return ""
	}
	return *claim.Status.CurrentVolumeAttributesClassName
}

// ChangesAttributes reports whether the claim requests another VolumeAttributesClass than the target.
func ChangesAttributes(claim *corev1.PersistentVolumeClaim, target api.Target) bool {
	return target.Attributes != nil && *target.Attributes != AttributesOf(claim)
}

// Modifying reports whether the claim requests attributes that its volume does not have yet.
func Modifying(claim *corev1.PersistentVolumeClaim) bool {
	return AttributesOf(claim) != CurrentAttributes(claim) || claim.Status.ModifyVolumeStatus != nil
}

// AttributesInfeasible reports whether the storage has refused to give the volume this VolumeAttributesClass
// (kubernetes KEP-3751; the external resizer writes it).
func AttributesInfeasible(claim *corev1.PersistentVolumeClaim, class string) bool {
	status := claim.Status.ModifyVolumeStatus
	return status != nil && status.Status == corev1.PersistentVolumeClaimModifyVolumeInfeasible &&
		status.TargetVolumeAttributesClassName == class
}

// ModifyWords returns the progress of a change of the claim's VolumeAttributesClass, or "" without one.
func ModifyWords(claim *corev1.PersistentVolumeClaim) string {
	if claim.Status.ModifyVolumeStatus == nil {
		return ""
	}
	return fmt.Sprintf(", and the change to %q is %s", claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName,
		claim.Status.ModifyVolumeStatus.Status)
}

// SameStorage reports whether both volumes are the same storage. A provisioner with a path pattern may create two volumes for one folder.
// The deletion of one of them then deletes the data of both.
func SameStorage(a, b *corev1.PersistentVolume) bool {
	x, y := a.Spec.PersistentVolumeSource, b.Spec.PersistentVolumeSource
	if x == (corev1.PersistentVolumeSource{}) {
		return false
	}
	if equality.Semantic.DeepEqual(x, y) {
		return true
	}
	return x.CSI != nil && y.CSI != nil && x.CSI.Driver == y.CSI.Driver && (x.CSI.VolumeHandle == y.CSI.VolumeHandle ||
		sameFolder(x.CSI, y.CSI))
}

// sameFolder compares the attributes that the drivers for NFS and SMB set. Their handles differ, because these contain the volume's name
// (csi-driver-nfs and csi-driver-smb, pkg/nfs and pkg/smb, controllerserver.go).
func sameFolder(a, b *corev1.CSIPersistentVolumeSource) bool {
	x, y := folderOf(a), folderOf(b)
	return x["subdir"] != "" && equality.Semantic.DeepEqual(x, y)
}

func folderOf(source *corev1.CSIPersistentVolumeSource) map[string]string {
	folder := map[string]string{}
	for key, value := range source.VolumeAttributes {
		switch key := strings.ToLower(key); key {
		case "server", "share", "source", "subdir":
			folder[key] = value
		}
	}
	return folder
}

// LeastSize returns the smallest size, in whole MiB, that leaves the margin in percent of it free beside the used bytes. A volume must be
// larger, because its file system needs some space, too.
func LeastSize(used int64, margin int) *resource.Quantity {
	const mebi = 1 << 20
	share := float64(100-min(margin, 99)) / 100 // the mover accepts a margin up to 99
	return resource.NewQuantity(int64(math.Ceil(float64(used)/share/mebi))*mebi, resource.BinarySI)
}
