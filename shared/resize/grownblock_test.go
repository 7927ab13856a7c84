package resize

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// TestCopyOfGrownBlockVolumeIsAShrink: the raw block volume has already 1Ti (ControllerExpandVolume has succeeded, NodeExpandVolume is
// pending), so its status says 64Mi. A device of 1Ti may have data anywhere. The user requests 128Mi of another class.
func TestCopyOfGrownBlockVolumeIsAShrink(t *testing.T) {
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
		c.Status.AllocatedResources = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
		c.Status.AllocatedResourceStatuses = map[corev1.ResourceName]corev1.ClaimResourceStatus{
			corev1.ResourceStorage: corev1.PersistentVolumeClaimNodeResizePending}
		c.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimFileSystemResizePending,
			Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(build.Now)}}
	})
	in := input(setAsking("data=128Mi@fast", method(api.MethodCopy)), expandable("data-web-0", "64Mi", asks))
	w, _, err := NeededChanges(in)
	if err != nil || w == nil {
		t.Fatal(w, err)
	}
	problems := Preflight(in, w)
	for _, p := range problems {
		if p.Reason == api.ShrinkRefused {
			return
		}
	}
	t.Errorf("a block volume of 1Ti is copied to 128Mi, and no problem says so: %v", problems)
}

// TestRequestedCopyWithAttributesIsACopy: the storage could not grow the volume to 1Ti, and could not modify it. The user requests the
// old size and the other VolumeAttributesClass by a copy.
func TestRequestedCopyWithAttributesIsACopy(t *testing.T) {
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
	})
	in := input(setAsking("data=64Mi%gold", method(api.MethodCopy)), expandable("data-web-0", "64Mi", asks))
	w, reason, err := NeededChanges(in)
	if err != nil || w == nil || len(w.Claims) != 1 {
		t.Fatal(w, reason, err)
	}
	if w.Claims[0].Method != api.MethodCopy {
		t.Errorf("resize-method=copy changes the attributes in place: %s", w.Claims[0].Method)
	}
}

// TestCopyOfBlockVolumeThatNeverGrewIsNoShrink: the storage could not expand a raw block volume of 64Mi to 1Ti. The user follows the
// message: resize-method=copy, and asks for less, 128Mi. The new volume is larger than the present one.
func TestCopyOfBlockVolumeThatNeverGrewIsNoShrink(t *testing.T) {
	asks := build.Edit(func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
		c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}
	})
	in := input(setAsking("data=128Mi", method(api.MethodCopy)), expandable("data-web-0", "64Mi", asks))
	w, _, err := NeededChanges(in)
	if err != nil || w == nil {
		t.Fatal(w, err)
	}
	for _, p := range Preflight(in, w) {
		if p.Reason == api.ShrinkRefused {
			t.Errorf("%s: %s", p.Reason, p.Message)
		}
	}
}
