//go:build cluster

package soak

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// unstageForgotten unmounts the volumes that a killed kubelet has forgotten, so that the provisioner can delete them.
func (s *soak) unstageForgotten() {
	s.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		s.Fatal(err)
	}
	volumes := s.Objects().Volumes
	for _, m := range StagedWithoutPods(string(mounts)) {
		handle := s.volumeHandle(m)
		waits := slices.ContainsFunc(volumes, func(v corev1.PersistentVolume) bool {
			return v.Spec.CSI != nil && v.Spec.CSI.VolumeHandle == handle && WaitsForDeletion(&v)
		})
		if !waits {
			continue
		}
		s.Logf("the kubelet has forgotten volume %s: it is unmounted from %s", handle, m.Folder)
		for _, command := range [][]string{{"umount", m.Folder}, {"losetup", "--detach", m.Device}} {
			if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
				s.Errorf("%q: %v: %s", command, err, out)
			}
		}
	}
}

// volumeHandle returns the driver's name of a staged volume, or "" if the kubelet has unstaged it since.
func (s *soak) volumeHandle(m Mount) string {
	s.Helper()
	content, err := os.ReadFile(filepath.Join(filepath.Dir(m.Folder), "vol_data.json"))
	if os.IsNotExist(err) {
		return ""
	}
	var data struct {
		Handle string `json:"volumeHandle"`
	}
	if err == nil {
		err = json.Unmarshal(content, &data)
	}
	if err != nil {
		s.Fatalf("the volume mounted at %s: %v", m.Folder, err)
	}
	return data.Handle
}
