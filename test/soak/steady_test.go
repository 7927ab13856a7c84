package soak

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/shared/api"
	"drydock.dev/test/kit/build"
)

// life returns a sample each five seconds. grow changes the i-th sample.
func life(count int, grow func(i int, s *Sample)) []Sample {
	var all []Sample
	for i := range count {
		s := Sample{Age: time.Duration(i) * 5 * time.Second, Goroutines: 300, Heap: 60 << 20, Resident: 120 << 20}
		grow(i, &s)
		all = append(all, s)
	}
	return all
}

func TestGrowthIsReported(t *testing.T) {
	for name, row := range map[string]struct {
		samples []Sample
		want    string
	}{
		"a steady process":                {life(60, func(int, *Sample) {}), ""},
		"noise":                           {life(60, func(i int, s *Sample) { s.Heap += float64(i%7) * (4 << 20) }), ""},
		"one peak":                        {life(60, func(i int, s *Sample) { s.Goroutines += float64(i/59) * 5000 }), ""},
		"caches fill at the start":        {life(60, func(i int, s *Sample) { s.Heap *= min(1, float64(i+1)/12) }), ""},
		"a goroutine of each event leaks": {life(60, func(i int, s *Sample) { s.Goroutines += float64(70 * i) }), "goroutines"},
		"four megabytes leak each":        {life(60, func(i int, s *Sample) { s.Heap += float64(i) * (4 << 20) }), "bytes of Go's memory"},
		"memory outside Go leaks":         {life(60, func(i int, s *Sample) { s.Resident += float64(i) * (6 << 20) }), "resident memory"},
		"too few samples to judge":        {life(20, func(int, *Sample) {}), "only 8 samples"},
		"everything was killed at once":   {nil, "only 0 samples"},
	} {
		got := strings.Join(Growth(row.samples), "; ")
		if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

const staging = "/var/lib/kubelet/plugins/kubernetes.io/csi/local.csi/"

func TestVolumesThatTheKubeletForgotAreFound(t *testing.T) {
	const mounts = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
186 22 7:14 / ` + staging + `a/globalmount rw,relatime shared:18 - ext4 /dev/loop14 rw
187 22 7:15 / ` + staging + `b/globalmount rw,relatime shared:19 master:2 - ext4 /dev/loop15 rw
188 22 7:15 / /var/lib/kubelet/pods/1/volumes/kubernetes.io~csi/b/mount rw,relatime shared:19 - ext4 /dev/loop15 rw
189 22 7:16 / /mnt/globalmount rw,relatime - ext4 /dev/loop16 rw
a line that says nothing - of this kind
`
	want := []Mount{{Device: "/dev/loop14", Folder: staging + "a/globalmount"}}
	if got := StagedWithoutPods(mounts); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestOnlyVolumesWithoutUseWaitForDeletion(t *testing.T) {
	claim := build.Claim("data-web-0", "32Mi")
	deleted := func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	}
	for name, row := range map[string]struct {
		volume *corev1.PersistentVolume
		want   bool
	}{
		"released":               {build.Volume("pv", claim, build.Released()), true},
		"bound":                  {build.Volume("pv", claim), false},
		"of an operation":        {build.Volume("pv", claim, build.Released(), build.Label(api.OperationLabel, build.ID)), false},
		"its policy is not back": {build.Volume("pv", claim, build.Released(), build.Annotation(api.ReclaimPolicyAnnotation, "Delete")), false},
		"retained by Drydock":    {build.Volume("pv", claim, build.Released(), build.Annotation(api.RetainedUntilAnnotation, "later")), false},
	} {
		deleted(row.volume)
		if got := WaitsForDeletion(row.volume); got != row.want {
			t.Errorf("%s: %v", name, got)
		}
		row.volume.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		if WaitsForDeletion(row.volume) {
			t.Errorf("%s: nothing deletes a volume with the policy Retain", name)
		}
	}
}
