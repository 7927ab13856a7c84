package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// apt is a fake apt-get. It has one package after an update, and logs its arguments.
const apt = `#!/bin/sh
echo "$*" >> "$0.calls"
case "$*" in
update) touch "$0.lists"; exit;;
esac
[ -e "$0.lists" ] || { echo "E: Unable to locate package sample" >&2; exit 100; }
case "$*" in
*--print-uris) echo "'http://example.com/sample_1%3a2.deb' sample_1%3a2.deb 1 SHA256:0";;
*) cp "$0.deb" sample_1%3a2.deb;;
esac
`

func TestPackagesAreUnpackedOncePerVersion(t *testing.T) {
	debian, parent := t.TempDir(), filepath.Join(t.TempDir(), "bin")
	tool := filepath.Join(debian, "apt-get")
	if err := os.WriteFile(tool, []byte(apt), 0o755); err != nil {
		t.Fatal(err)
	}
	makePackage(t, tool+".deb")
	t.Setenv("PATH", debian+":"+os.Getenv("PATH"))
	first, err := UnpackPackages(t.Context(), parent, "sample")
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(first, "usr", "file")); err != nil || string(content) != "unpacked" {
		t.Errorf("the file is %q: %v", content, err)
	}
	second, err := UnpackPackages(t.Context(), parent, "sample")
	if err != nil || second != first {
		t.Errorf("the second call returned %s, %v; want %s", second, err, first)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) != 1 {
		t.Errorf("the folder has %v, %v; want only the packages", left, err)
	}
	const want = "download sample --print-uris\nupdate\ndownload sample --print-uris\ndownload sample\ndownload sample --print-uris\n"
	if calls, err := os.ReadFile(tool + ".calls"); err != nil || string(calls) != want {
		t.Errorf("calls of apt-get: %v\n%s; want\n%s", err, calls, want)
	}
}

func TestUnknownPackageIsAnError(t *testing.T) {
	debian := t.TempDir()
	if err := os.WriteFile(filepath.Join(debian, "apt-get"), []byte("#!/bin/sh\nexit 100\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", debian+":"+os.Getenv("PATH"))
	if _, err := UnpackPackages(context.Background(), t.TempDir(), "sample"); err == nil {
		t.Error("want an error")
	}
}

// makePackage makes a Debian package with one file.
func makePackage(t *testing.T, target string) {
	t.Helper()
	root := t.TempDir()
	const control = "Package: sample\nVersion: 1:2\nArchitecture: all\nMaintainer: Sample <sample@example.com>\nDescription: a sample\n"
	for name, content := range map[string]string{"DEBIAN/control": control, "usr/file": "unpacked"} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if output, err := exec.Command("dpkg-deb", "--build", root, target).CombinedOutput(); err != nil {
		t.Fatalf("making a package: %v: %s", err, output)
	}
}
