package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// attaching returns a controller for volumes with attachment. The tests use raw devices, which need no root.
func attaching(t *testing.T) controller {
	t.Helper()
	return controller{driver: newDriver(options{name: "test", node: "here", folder: t.TempDir(), attach: true})}
}

// volumeRequest returns a request for a raw device.
func volumeRequest(name string, bytes int64) *csi.CreateVolumeRequest {
	return &csi.CreateVolumeRequest{Name: name, CapacityRange: &csi.CapacityRange{RequiredBytes: bytes},
		VolumeCapabilities: []*csi.VolumeCapability{{
			AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		}}}
}

func create(t *testing.T, c controller, name string, bytes int64) {
	t.Helper()
	if _, err := c.CreateVolume(t.Context(), volumeRequest(name, bytes)); err != nil {
		t.Fatal(err)
	}
}

func publish(ctx context.Context, c controller, volume string) error {
	_, err := c.ControllerPublishVolume(ctx, &csi.ControllerPublishVolumeRequest{VolumeId: volume, NodeId: "here"})
	return err
}

func wantCode(t *testing.T, err error, want codes.Code) {
	t.Helper()
	if status.Code(err) != want {
		t.Errorf("got %v, want code %s", err, want)
	}
}

// TestAttachLimit: volumes of a class with a limit are attached up to the limit. Other volumes do not count.
func TestAttachLimit(t *testing.T) {
	c := attaching(t)
	create(t, c, "other", 1<<20)
	for _, name := range []string{"pvc-1", "pvc-2", "pvc-3"} {
		r := volumeRequest(name, 1<<20)
		r.Parameters = map[string]string{attachLimit: "2"}
		if _, err := c.CreateVolume(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, publish(t.Context(), c, "pvc-1"), codes.OK)
	wantCode(t, publish(t.Context(), c, "pvc-2"), codes.OK)
	wantCode(t, publish(t.Context(), c, "pvc-3"), codes.ResourceExhausted)
	wantCode(t, publish(t.Context(), c, "pvc-2"), codes.OK) // it is attached already
	wantCode(t, publish(t.Context(), c, "other"), codes.OK)
	detach := &csi.ControllerUnpublishVolumeRequest{VolumeId: "pvc-1", NodeId: "here"}
	if _, err := c.ControllerUnpublishVolume(t.Context(), detach); err != nil {
		t.Fatal(err)
	}
	wantCode(t, publish(t.Context(), c, "pvc-3"), codes.OK)
}

func TestRepeatedCreationReturnsTheSameVolume(t *testing.T) {
	c := attaching(t)
	create(t, c, "pvc-1", 1<<20)
	path := c.store.image(volumes, "pvc-1")
	if err := os.WriteFile(path, []byte("data"), 0o600); err != nil {
		t.Fatal(err)
	}
	create(t, c, "pvc-1", 1<<20)
	if text, err := os.ReadFile(path); err != nil || string(text) != "data" {
		t.Errorf("the second call changed the data to %q, %v", text, err)
	}
	_, err := c.CreateVolume(t.Context(), volumeRequest("pvc-1", 2<<20))
	wantCode(t, err, codes.AlreadyExists)
}

func TestInterruptedCreationIsRepeated(t *testing.T) {
	c := attaching(t)
	folder := c.store.place(volumes, "pvc-1")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "image"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	create(t, c, "pvc-1", 1<<20)
	if info, err := os.Stat(c.store.image(volumes, "pvc-1")); err != nil || info.Size() != 1<<20 {
		t.Errorf("the image is %v, %v", info, err)
	}
}

func TestDeletionRemovesIncompleteVolume(t *testing.T) {
	c := attaching(t)
	folder := c.store.place(volumes, "pvc-1")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "pvc-1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder still exists: %v", err)
	}
}

func TestRestartedDriverLoadsItsVolumes(t *testing.T) {
	c := attaching(t)
	create(t, c, "pvc-1", 1<<20)
	if err := publish(t.Context(), c, "pvc-1"); err != nil {
		t.Fatal(err)
	}
	restarted := newDriver(c.options)
	v, err := restarted.store.find("pvc-1")
	if err != nil || !v.Attached || v.Bytes != 1<<20 {
		t.Errorf("the record is %+v, %v", v, err)
	}
}

func TestRefusedVolumes(t *testing.T) {
	tests := map[string]struct {
		change func(*csi.CreateVolumeRequest)
		want   codes.Code
	}{
		"a name that leaves the folder": {func(r *csi.CreateVolumeRequest) { r.Name = "../pvc" }, codes.InvalidArgument},
		"no name":                       {func(r *csi.CreateVolumeRequest) { r.Name = "" }, codes.InvalidArgument},
		"for several nodes": {func(r *csi.CreateVolumeRequest) {
			r.VolumeCapabilities[0].AccessMode.Mode = csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
		}, codes.InvalidArgument},
		"on another node": {func(r *csi.CreateVolumeRequest) {
			r.AccessibilityRequirements = &csi.TopologyRequirement{Requisite: []*csi.Topology{{Segments: map[string]string{topologyKey: "there"}}}}
		}, codes.ResourceExhausted},
		"an unknown way to publish": {func(r *csi.CreateVolumeRequest) {
			r.Parameters = map[string]string{publishing: "twice"}
		}, codes.InvalidArgument},
		"a limit below the required size": {func(r *csi.CreateVolumeRequest) { r.CapacityRange.LimitBytes = 1 }, codes.OutOfRange},
		"an unknown attribute": {func(r *csi.CreateVolumeRequest) {
			r.MutableParameters = map[string]string{"iops": "3000"}
		}, codes.InvalidArgument},
		"a delay that is not a number": {func(r *csi.CreateVolumeRequest) {
			r.Parameters = map[string]string{attachSeconds: "soon"}
		}, codes.InvalidArgument},
		"a copy of nothing": {func(r *csi.CreateVolumeRequest) {
			r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Volume{
				Volume: &csi.VolumeContentSource_VolumeSource{VolumeId: "pvc-0"}}}
		}, codes.NotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			c, r := attaching(t), volumeRequest("pvc-1", 1<<20)
			test.change(r)
			_, err := c.CreateVolume(t.Context(), r)
			wantCode(t, err, test.want)
			if entries, _ := os.ReadDir(c.store.place(volumes, "")); len(entries) > 0 {
				t.Errorf("%s still exists", entries[0].Name())
			}
		})
	}
}

func TestAttachedVolumeIsNotDeleted(t *testing.T) {
	c := attaching(t)
	create(t, c, "pvc-1", 1<<20)
	if err := publish(t.Context(), c, "pvc-1"); err != nil {
		t.Fatal(err)
	}
	remove := func() error {
		_, err := c.DeleteVolume(t.Context(), &csi.DeleteVolumeRequest{VolumeId: "pvc-1"})
		return err
	}
	wantCode(t, remove(), codes.FailedPrecondition)
	for range 2 { // repeated calls succeed
		if _, err := c.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: "pvc-1"}); err != nil {
			t.Fatal(err)
		}
	}
	wantCode(t, remove(), codes.OK)
	wantCode(t, remove(), codes.OK)
}

func TestUnattachedVolumeIsNotStaged(t *testing.T) {
	c := attaching(t)
	create(t, c, "pvc-1", 1<<20)
	_, err := node{driver: c.driver}.NodeStageVolume(t.Context(), &csi.NodeStageVolumeRequest{VolumeId: "pvc-1"})
	wantCode(t, err, codes.FailedPrecondition)
}

// The test also shows that attaching waits for the delay of the class.
func TestInterruptedAttachingLeavesVolumeUnattached(t *testing.T) {
	c := attaching(t)
	r := volumeRequest("pvc-1", 1<<20)
	r.Parameters = map[string]string{attachSeconds: "600"}
	if _, err := c.CreateVolume(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantCode(t, publish(ctx, c, "pvc-1"), codes.DeadlineExceeded)
	if v, err := c.store.find("pvc-1"); err != nil || v.Attached {
		t.Errorf("the record is %+v, %v", v, err)
	}
}

func TestCallOnBusyVolumeIsAborted(t *testing.T) {
	c := attaching(t)
	create(t, c, "pvc-1", 1<<20)
	release, err := c.locks.take(t.Context(), "pvc-1")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantCode(t, publish(ctx, c, "pvc-1"), codes.Aborted)
	release()
	wantCode(t, publish(t.Context(), c, "pvc-1"), codes.OK)
}

func TestOfflineDriverGrowsDetachedVolumesOnly(t *testing.T) {
	c := attaching(t)
	c.offline = true
	create(t, c, "pvc-1", 1<<20)
	grow := func() error {
		_, err := c.ControllerExpandVolume(t.Context(), &csi.ControllerExpandVolumeRequest{VolumeId: "pvc-1",
			CapacityRange: &csi.CapacityRange{RequiredBytes: 2 << 20}})
		return err
	}
	if err := publish(t.Context(), c, "pvc-1"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, grow(), codes.FailedPrecondition)
	if _, err := c.ControllerUnpublishVolume(t.Context(), &csi.ControllerUnpublishVolumeRequest{VolumeId: "pvc-1"}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, grow(), codes.OK)
	if info, err := os.Stat(c.store.image(volumes, "pvc-1")); err != nil || info.Size() != 2<<20 {
		t.Errorf("the image is %v, %v", info, err)
	}
}

func TestSnapshotKeepsOldContent(t *testing.T) {
	c := attaching(t)
	create(t, c, "pvc-1", 1<<20)
	image := c.store.image(volumes, "pvc-1")
	writeAt(t, image, "before")
	request := &csi.CreateSnapshotRequest{Name: "snapshot-1", SourceVolumeId: "pvc-1"}
	if _, err := c.CreateSnapshot(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	writeAt(t, image, "after!")
	if _, err := c.CreateSnapshot(t.Context(), request); err != nil { // a repeated call returns the same snapshot
		t.Fatal(err)
	}
	r := volumeRequest("pvc-2", 2<<20)
	r.VolumeContentSource = &csi.VolumeContentSource{Type: &csi.VolumeContentSource_Snapshot{
		Snapshot: &csi.VolumeContentSource_SnapshotSource{SnapshotId: "snapshot-1"}}}
	if _, err := c.CreateVolume(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.store.image(volumes, "pvc-2"))
	if err != nil || len(text) != 2<<20 || string(text[:6]) != "before" {
		t.Errorf("the restored volume has %d bytes and starts with %q, %v", len(text), text[:6], err)
	}
}

func writeAt(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

func TestSecondMountIsRefusedWhereTheClassAllowsOne(t *testing.T) {
	here := &mount{"/pods/a", ext4, "/dev/loop1"}
	for _, row := range []struct {
		mode  string
		other *mount
		want  codes.Code
	}{
		{publishOnce, here, codes.Internal},
		{publishOnce, nil, codes.OK},
		{publishDirect, here, codes.OK}, // the kernel decides
	} {
		v := &record{ID: "pvc-1", Context: map[string]string{publishing: row.mode}}
		wantCode(t, secondMountProblem(v, "/dev/loop1", row.other), row.want)
	}
}

// TestDirectVolumeIsNotStaged: it is mounted for each pod, so a volume without a device cannot be published.
func TestDirectVolumeIsNotStaged(t *testing.T) {
	c := attaching(t)
	r := volumeRequest("pvc-1", 1<<20)
	r.Parameters = map[string]string{publishing: publishDirect}
	if _, err := c.CreateVolume(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	_, err := node{driver: c.driver}.NodePublishVolume(t.Context(), &csi.NodePublishVolumeRequest{VolumeId: "pvc-1",
		TargetPath: filepath.Join(t.TempDir(), "mount"), VolumeCapability: &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}}}})
	wantCode(t, err, codes.FailedPrecondition)
	if err == nil || !strings.Contains(err.Error(), "has no device") {
		t.Errorf("the volume is treated like a staged one: %v", err)
	}
}

func TestMountinfoIsParsed(t *testing.T) {
	const mountinfo = `36 35 7:1 / /s/globalmount rw,noatime shared:1 - xfs /dev/loop1 rw,nouuid
37 35 7:1 / /s/pod\040a rw - xfs /dev/loop1 rw
garbage
`
	found := parseMounts(mountinfo)
	want := []mount{{"/s/globalmount", "xfs", "/dev/loop1"}, {"/s/pod a", "xfs", "/dev/loop1"}}
	if len(found) != 2 || found[0] != want[0] || found[1] != want[1] {
		t.Errorf("got %v", found)
	}
}

func TestSizeOfFileSystemIsParsed(t *testing.T) {
	const header = "Block count:              16384\nReserved block count:     0\nBlock size:               1024\n"
	if count, size := headerField(header, "Block count"), headerField(header, "Block size"); count != 16384 || size != 1024 {
		t.Errorf("got %d blocks of %d", count, size)
	}
}
