package host

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// alternative is the advice for machines that cannot run a node.
const alternative = "set KUBECONFIG to another cluster (kind, minikube or a test cluster with a StorageClass) and run the tests there"

// packages lists the Debian packages of a node. The file shows whether a package is installed.
var packages = []struct{ name, file string }{
	{"containerd", "/usr/bin/containerd"},
	{"runc", "/usr/sbin/runc"},
	{"containernetworking-plugins", "/usr/lib/cni/ptp"},
	{"nftables", "/usr/sbin/nft"},
	{"iproute2", "/usr/sbin/ip"},
	{"busybox-static", "/usr/bin/busybox"},
	{"e2fsprogs", "/usr/sbin/mkfs.ext4"},
	{"btrfs-progs", "/usr/bin/btrfs"},
	{"rsync", "/usr/bin/rsync"},
	{"xfsprogs", "/usr/sbin/mkfs.xfs"},
	{"acl", "/usr/bin/getfacl"},
	{"attr", "/usr/bin/getfattr"},
}

// CheckSystem returns an error if the machine cannot run any cluster.
func CheckSystem() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a local cluster needs Linux, but this is %s. Instead, %s", runtime.GOOS, alternative)
	}
	return nil
}

// CheckNode returns an error if the machine cannot run a node.
func CheckNode() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("a node needs root for containers, mounts and the network. "+
			"Run as root, use --size=control-plane for tests without pods, or %s", alternative)
	}
	return nil
}

// InstallPackages installs the missing Debian packages of a node.
func InstallPackages(ctx context.Context, say func(string)) error {
	missing := missingPackages(func(file string) bool { _, err := os.Stat(file); return err == nil })
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("a node needs the programs of these Debian packages, but apt-get is not available: %s. "+
			"Install them manually, or %s", list, alternative)
	}
	say("installing Debian packages: " + list)
	if _, err := Run(ctx, "apt-get", "update"); err != nil {
		return fmt.Errorf("updating the package lists: %w", err)
	}
	args := append([]string{"DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "--yes", "--no-install-recommends"}, missing...)
	if _, err := Run(ctx, "env", args...); err != nil {
		return fmt.Errorf("installing %s: %w", list, err)
	}
	return nil
}

func missingPackages(exists func(file string) bool) []string {
	var missing []string
	for _, p := range packages {
		if !exists(p.file) {
			missing = append(missing, p.name)
		}
	}
	return missing
}

// UnpackPackages returns a folder below parent with the files of these Debian packages, in the versions that apt would install. It installs
// nothing. It reuses an existing folder of the same versions.
func UnpackPackages(ctx context.Context, parent string, packages ...string) (string, error) {
	folder, err := unpackPackages(ctx, parent, packages)
	if err == nil {
		return folder, nil
	}
	if _, failed := Run(ctx, "apt-get", "update"); failed != nil { // the package lists may be missing or outdated
		return "", errors.Join(err, fmt.Errorf("updating the package lists: %w", failed))
	}
	return unpackPackages(ctx, parent, packages)
}

func unpackPackages(ctx context.Context, parent string, packages []string) (string, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of packages: %w", err)
	}
	scratch, err := os.MkdirTemp(parent, "packages-")
	if err != nil {
		return "", fmt.Errorf("making a temporary folder: %w", err)
	}
	defer os.RemoveAll(scratch)
	download := append([]string{"--chdir=" + scratch, "apt-get", "download"}, packages...)
	printed, err := Run(ctx, "env", append(download, "--print-uris")...)
	if err != nil {
		return "", fmt.Errorf("finding %s: %w", strings.Join(packages, " "), err)
	}
	files := packageFiles(printed)
	folder := filepath.Join(parent, fmt.Sprintf("%s-%.6x", packages[0], sha256.Sum256([]byte(strings.Join(files, " ")))))
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if _, err := Run(ctx, "env", download...); err != nil {
		return "", fmt.Errorf("downloading %s: %w", strings.Join(files, " "), err)
	}
	unpacked := filepath.Join(scratch, "unpacked")
	for _, file := range files {
		if _, err := Run(ctx, "dpkg-deb", "--extract", filepath.Join(scratch, file), unpacked); err != nil {
			return "", fmt.Errorf("unpacking %s: %w", file, err)
		}
	}
	if err := os.Rename(unpacked, folder); err != nil {
		return "", fmt.Errorf("storing the unpacked packages: %w", err)
	}
	return folder, nil
}

// packageFiles parses the output of `apt-get download --print-uris`. A line has a URI, a file name, a size and a checksum.
func packageFiles(printed string) []string {
	var files []string
	for line := range strings.Lines(printed) {
		if words := strings.Fields(line); len(words) > 1 && strings.HasSuffix(words[1], ".deb") {
			files = append(files, words[1])
		}
	}
	return files
}
