//go:build cluster

package e2e

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/stage"
)

// fillDevice writes once to the beginning of the device and near its end, and prints that it has finished.
const fillDevice = `if ! head -c 6 /dev/data | grep -q filled; then
  dd if=/dev/urandom of=/dev/data bs=1M count=20 seek=1 conv=notrunc 2>/dev/null &&
     dd if=/dev/urandom of=/dev/data bs=1M count=3 seek=60 conv=notrunc 2>/dev/null
  echo filled | dd of=/dev/data conv=notrunc,fsync 2>/dev/null
fi; touch /tmp/filled; trap exit TERM; while :; do sleep 1 & wait; done`

// TestBlockVolumeKeepsEveryByte: pods without root rights write to block devices.
// Invariants: I1.
func TestBlockVolumeKeepsEveryByte(t *testing.T) {
	t.Parallel()
	s := stage.New(t)
	set := stage.Workload("64Mi")
	set.Spec.VolumeClaimTemplates[0].Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	db := &set.Spec.Template.Spec.Containers[0]
	db.VolumeMounts, db.VolumeDevices = nil, []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/data"}}
	stage.RunScript(db, "/tmp", fillDevice)
	s.CreateSet(set)
	s.AwaitReady(t)
	sums := func() (both [2]string) {
		for i, pod := range []string{"web-0", "web-1"} {
			both[i] = s.Exec(t, pod, "head -c 67108864 /dev/data | sha256sum")
		}
		return both
	}
	before := sums()
	drydock(t, s)
	s.Annotate("web", map[string]string{api.ResizeAnnotation: "data=96Mi"})
	if status := s.AwaitEnd(t); status.Phase != api.Succeeded {
		t.Fatalf("%s %s: %s", status.Phase, status.Reason, status.Message)
	}
	s.AwaitReady(t)
	if after := sums(); after != before {
		t.Errorf("the data changed: %v, it was %v", after, before)
	}
	if size := s.Exec(t, "web-0", "tail -c +1 /dev/data | wc -c"); size != "100663296\n" && size != "100663296" {
		t.Errorf("the device has %q bytes", size)
	}
	s.ExpectNothingLeft(t)
}
