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

// instead is what people do who cannot have a node here.
const instead = "point KUBECONFIG at a cluster of your own (kind, minikube or a test cluster with a StorageClass) and run the tests against that"

// packages are the Debian packages of a node, each with a file that shows it is installed.
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

// CheckSystem says why no cluster can run here at all.
func CheckSystem() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("a local cluster needs Linux, and this is %s: %s", runtime.GOOS, instead)
	}
	return nil
}

// CheckNode says why no node can run here.
func CheckNode() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf(
			"a node needs root, for containers, mounts and network: run as root, use --size=control-plane for tests without pods, or %s",
			instead,
		)
	}
	return nil
}

// InstallPackages installs what a node needs and this machine lacks.
func InstallPackages(ctx context.Context, say func(string)) error {
	missing := missingPackages(func(file string) bool { _, err := os.Stat(file); return err == nil })
	if len(missing) == 0 {
		return nil
	}
	list := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf(
			"a node needs the programs of these Debian packages, and there is no apt-get to install them: %s; install them yourself, or %s",
			list,
			instead,
		)
	}
	say("installing Debian packages: " + list)
	if _, err := Run(ctx, "apt-get", "update"); err != nil {
		return fmt.Errorf("updating the lists of packages: %w", err)
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
