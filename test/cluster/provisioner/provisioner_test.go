package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func claim(requested, has string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-0", Namespace: "default"}}
	c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(requested)}
	if has != "" {
		c.Status.Phase = corev1.ClaimBound
		c.Status.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(has)}
	}
	return c
}

func TestWhichClaimsWantMore(t *testing.T) {
	tests := map[string]struct {
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		"a larger request":                 {claim("128Mi", "64Mi"), true},
		"the same, written in other units": {claim("1024Mi", "1Gi"), false},
		"a smaller request":                {claim("64Mi", "128Mi"), false},
		"not bound yet":                    {claim("64Mi", ""), false},
	}
	for name, test := range tests {
		if got := wantsMore(test.claim); got != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func options(c *corev1.PersistentVolumeClaim, node string) controller.ProvisionOptions {
	policy := corev1.PersistentVolumeReclaimRetain
	return controller.ProvisionOptions{
		PVC: c, PVName: "pvc-1", SelectedNodeName: node,
		StorageClass: &storagev1.StorageClass{ReclaimPolicy: &policy, Parameters: map[string]string{fileSystemParameter: ext4}},
	}
}

func TestAVolumeIsWhatWasAskedFor(t *testing.T) {
	p := &Provisioner{Disk: &Disk{Folder: "/volumes"}, Node: "here"}
	volume := p.volume(options(claim("64Mi", ""), "here"), corev1.PersistentVolumeFilesystem, p.Disk.Data("pvc-1"))
	if volume.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Error("the class's reclaim policy is not kept")
	}
	if size := volume.Spec.Capacity[corev1.ResourceStorage]; size.String() != "64Mi" {
		t.Errorf("capacity %s", size.String())
	}
	if volume.Spec.Local.Path != "/volumes/pvc-1/data" {
		t.Errorf("path %s", volume.Spec.Local.Path)
	}
	if values := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values; values[0] != "here" {
		t.Errorf("node %v", values)
	}
}

func TestWhatIsNotProvided(t *testing.T) {
	withSource := claim("64Mi", "")
	withSource.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "other"}
	tests := map[string]struct {
		options controller.ProvisionOptions
		state   controller.ProvisioningState
	}{
		"a volume on another node": {options(claim("64Mi", ""), "there"), controller.ProvisioningReschedule},
		"a copy of another volume": {options(withSource, "here"), controller.ProvisioningFinished},
	}
	p := &Provisioner{Disk: &Disk{Folder: t.TempDir()}, Node: "here"}
	for name, test := range tests {
		if _, state, err := p.Provision(context.Background(), test.options); err == nil || state != test.state {
			t.Errorf("%s: got %s, %v", name, state, err)
		}
	}
}

func TestForeignVolumesAreNotDeleted(t *testing.T) {
	p := &Provisioner{Disk: &Disk{Folder: t.TempDir()}}
	for mode, path := range map[corev1.PersistentVolumeMode]string{corev1.PersistentVolumeFilesystem: "/etc", corev1.PersistentVolumeBlock: "/dev/sda"} {
		foreign := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pvc-1"}}
		foreign.Spec.Local, foreign.Spec.VolumeMode = &corev1.LocalVolumeSource{Path: path}, &mode
		err := p.Delete(t.Context(), foreign)
		if _, ignored := err.(*controller.IgnoredError); !ignored {
			t.Errorf("%s: got %v", mode, err)
		}
	}
}

func TestADeviceIsAVolumeWithoutFileSystem(t *testing.T) {
	p := &Provisioner{Disk: &Disk{Folder: "/volumes"}, Node: "here"}
	volume := p.volume(options(claim("64Mi", ""), "here"), corev1.PersistentVolumeBlock, "/dev/loop7")
	if *volume.Spec.VolumeMode != corev1.PersistentVolumeBlock || volume.Spec.Local.Path != "/dev/loop7" {
		t.Errorf("got %+v", volume.Spec)
	}
}

func TestAFileIsNeverMadeShorter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image")
	for _, step := range []struct{ set, want int64 }{{100, 100}, {50, 100}, {200, 200}} {
		if err := setSize(path, step.set); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != step.want {
			t.Errorf("set to %d: %d bytes, want %d", step.set, info.Size(), step.want)
		}
	}
}

func TestAnUnknownFileSystemIsRefused(t *testing.T) {
	err := (&Disk{Folder: t.TempDir()}).Make(t.Context(), "pvc-1", "fat", 1<<20)
	if err == nil || !strings.Contains(err.Error(), "ext4 and xfs") {
		t.Errorf("got %v", err)
	}
}
