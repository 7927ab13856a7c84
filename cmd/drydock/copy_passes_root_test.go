//go:build linux && root

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"drydock.dev/shared/moverreport"
)

// TestCopyDevices copies a raw device in a first and a final pass. The final pass writes nothing, because the source has not changed. A
// copy to a smaller device fails.
func TestCopyDevices(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("this test makes loop devices: run it as root")
	}
	var devices []string
	for i, contents := range []string{strings.Repeat("source", 100_000), ""} {
		image := filepath.Join(t.TempDir(), "image")
		if err := os.WriteFile(image, []byte(contents), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(image, int64(1+i)<<20); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command("losetup", "--find", "--show", image).CombinedOutput()
		if err != nil {
			t.Fatalf("no loop device: %v %s", err, out)
		}
		device := strings.TrimSpace(string(out))
		t.Cleanup(func() { _ = exec.Command("losetup", "-d", device).Run() })
		devices = append(devices, device)
	}
	code, r := copyOnce(t, "--device", "--first-pass", devices[0], devices[1])
	if code != moverreport.CodeOK || r.Result != "first-pass" || r.Bytes == 0 {
		t.Fatalf("%d %+v", code, r)
	}
	code, r = copyOnce(t, "--device", "--after-first-pass", devices[0], devices[1])
	if code != moverreport.CodeOK || r.Result != "copied" || r.Bytes != 0 || !r.Verified {
		t.Fatalf("%d %+v", code, r)
	}
	if code, r := copyOnce(t, "--device", devices[1], devices[0]); code != moverreport.CodeNoSpace {
		t.Errorf("%d %+v", code, r)
	}
}
