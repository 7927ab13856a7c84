package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
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
