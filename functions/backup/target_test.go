package backup

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestTargetThatWasNotProvisionedIsNeverWrittenTo covers a volume that was bound before it could be prevented: no mover starts, and
// one that runs is ended with the operation.
func TestTargetThatWasNotProvisionedIsNeverWrittenTo(t *testing.T) {
	status := copyOperation(api.ClaimPending, justBegun)
	for name, row := range map[string]struct {
		volume build.Option
		reason api.Reason // empty: the operation goes on
	}{
		"provisioned with the claim":                          {build.Age(time.Minute), ""},
		"provisioned, stamped by a clock that is 10 s behind": {build.Age(time.Minute + 10*time.Second), ""},
		"created by an administrator":                         {build.Static(), api.NotProvisioned},
		"provisioned for another claim before":                {build.Age(time.Minute + 11*time.Second), api.NotProvisioned},
	} {
		t.Run(name, func(t *testing.T) {
			target := targets(1)[0].(*corev1.PersistentVolumeClaim)
			in := world(running(status), users(), objects{build.VolumeOf(target, row.volume)})
			for _, in := range []Input{in, world(running(copyOperation(api.ClaimWarming)), users(), warming(0), warming(1), objects{build.VolumeOf(target, row.volume)})} {
				next := build.Stored(Decide(in))
				failed := next != nil && next.Phase == api.RollingBack
				if failed != (row.reason != "") || failed && (next.Reason != row.reason || !strings.Contains(next.Message, "pv-new-data-web-0")) {
					t.Errorf("%s", Decide(in))
				}
			}
		})
	}
}

// TestTargetWhoseVolumeIsGoneIsNotCopiedTo: the volume of a bound temporary claim was deleted, so nothing tells what it was.
func TestTargetWhoseVolumeIsGoneIsNotCopiedTo(t *testing.T) {
	in := world(running(copyOperation(api.ClaimPending, justBegun)), users())
	delete(in.Volumes, "pv-new-data-web-0")
	if next := build.Stored(Decide(in)); next == nil || next.Reason != api.ClaimLost {
		t.Errorf("%s", Decide(in))
	}
}

// TestUnclaimedVolumeThatFitsPreventsTheCopy: Kubernetes prefers such a volume to provisioning one, so no temporary claim is created.
func TestUnclaimedVolumeThatFitsPreventsTheCopy(t *testing.T) {
	status := copyOperation(api.ClaimPending, justBegun)
	edit := func(change func(*corev1.PersistentVolume)) build.Option { return build.Edit(change) }
	for name, row := range map[string]struct {
		volume  build.Option
		refused bool
	}{
		"it fits": {edit(func(*corev1.PersistentVolume) {}), true},
		"it is larger": {edit(func(v *corev1.PersistentVolume) {
			v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
		}), true},
		"it offers more access modes": {edit(func(v *corev1.PersistentVolume) {
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany, corev1.ReadWriteOnce}
		}), true},
		"it says its mode": {edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeFilesystem) }), true},
		"it is reserved for the temporary claim": {edit(func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef, v.Spec.StorageClassName = &corev1.ObjectReference{Namespace: build.Namespace, Name: job0}, "other"
		}), true},
		"it is reserved for another claim": {edit(func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: build.Namespace, Name: "archive"}
		}), false},
		"it is too small": {edit(func(v *corev1.PersistentVolume) {
			v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("127Mi")}
		}), false},
		"it is of another class": {edit(func(v *corev1.PersistentVolume) { v.Spec.StorageClassName = "other" }), false},
		"it is a raw device":     {edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }), false},
		"it lacks the access mode": {edit(func(v *corev1.PersistentVolume) {
			v.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany}
		}), false},
		"it is of an attributes class": {edit(func(v *corev1.PersistentVolume) { v.Spec.VolumeAttributesClassName = ptr.To("gold") }), false},
		"it is being deleted":          {build.Deleting(), false},
	} {
		t.Run(name, func(t *testing.T) {
			in := world(set(status, build.Replicas(3)), held(), users())
			in.Unclaimed = []*corev1.PersistentVolume{build.Volume("archive", build.Claim("x", "128Mi"), build.Unclaimed(), build.Static(), row.volume)}
			next, plan := build.Stored(Decide(in)), Decide(in).String()
			refused := next != nil && next.Phase == api.RollingBack && next.Reason == api.NotProvisioned && strings.Contains(next.Message, "volume archive")
			if refused != row.refused || refused == strings.Contains(plan, "create persistentvolumeclaims") {
				t.Error(plan)
			}
		})
	}
}
